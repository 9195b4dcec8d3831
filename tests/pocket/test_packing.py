"""Trees and rows: every reply is learnt behind exactly the tokens that stand before it, and nothing is lost unseen."""

from collections.abc import Iterator
from itertools import chain, count, cycle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import UserError
from harness.stats.rng import Dice
from harness.training.teacher import ProbeTarget, Transcript
from harness.training.token_rows import Branch, Tree, grow
from pocket.train.packing import IGNORED, fill
from tests.pocket.trees import replies, seen, sequences

# --- trees ------------------------------------------------------------------------------------------------------------


def test_two_questions_about_one_text() -> None:
    """0 1 2 3 is the text; the last shared token, 3, goes into both branches."""
    transcripts = [Transcript([0, 1, 2, 3, 50, 51, 1], [5, 6]), Transcript([0, 1, 2, 3, 60, 1], [5])]
    assert grow(transcripts) == [Tree([0, 1, 2], [], [Branch(3, [3, 50, 51, 1], [2, 3]), Branch(3, [3, 60, 1], [2])])]


def test_a_shared_beginning_ends_before_the_first_target() -> None:
    """Both replies begin with 9: it is predicted, so it is no part of the trunk."""
    transcripts = [Transcript([0, 1, 2, 9, 1], [3, 4]), Transcript([0, 1, 2, 9, 7, 1], [3, 4, 5])]
    assert grow(transcripts) == [
        Tree([0], [], [Branch(1, [1, 2, 9, 1], [2, 3]), Branch(1, [1, 2, 9, 7, 1], [2, 3, 4])])
    ]


def test_one_alone_is_a_trunk() -> None:
    assert grow([Transcript([0, 1, 2], [2])]) == [Tree([0, 1, 2], [2], [])]
    assert grow([]) == []


def test_probes_are_branches_of_one_token_to_predict() -> None:
    transcripts = Transcript([0, 1, 2, 3, 4, 5, 1], [5, 6], [ProbeTarget(2, (8, 9, 70)), ProbeTarget(4, (8, 9, 71))])
    bare = Transcript([0, 1], [], [ProbeTarget(2, (8, 71))])
    assert grow([transcripts, bare]) == [
        Tree(transcripts.ids, [5, 6], [Branch(2, (8, 9, 70), [2]), Branch(4, (8, 9, 71), [2])]),
        Tree([0, 1], [], [Branch(2, (8, 71), [1])]),
    ]


@st.composite
def tolds(draw: st.DrawFn) -> list[Transcript]:
    token = st.integers(0, 5)
    start = [90, 91, *draw(st.lists(token, max_size=6))]
    found = []
    for _ in range(draw(st.integers(1, 4))):
        ids = [*start, *draw(st.lists(token, max_size=5))]
        reply = draw(st.lists(token, min_size=1, max_size=3))
        found.append(Transcript([*ids, *reply], list(range(len(ids), len(ids) + len(reply)))))
    return found


@given(tolds())
@settings(max_examples=300, deadline=None)
def test_a_tree_is_its_sequences(transcripts: list[Transcript]) -> None:
    (tree,) = grow(transcripts)
    assert list(sequences(tree)) == [(t.ids, t.targets) for t in transcripts]
    assert len(tree) == len(tree.trunk) + sum(len(b.ids) for b in tree.branches)
    assert len(tree) <= sum(len(t.ids) for t in transcripts)
    assert all(t > 0 for b in tree.branches for t in b.targets)  # what is before a target is in its own branch


# --- rows -------------------------------------------------------------------------------------------------------------


def some(dice: Dice, fresh: Iterator[int]) -> Tree:
    """A tree of tokens that occur nowhere else; targets on the trunk in half the cases."""
    trunk = [next(fresh) for _ in range(dice.between(3, 20))]
    branches = []
    for _ in range(dice.below(5)):
        ids = [next(fresh) for _ in range(dice.between(2, 7))]
        branches.append(Branch(dice.between(1, len(trunk)), ids, list(range(dice.between(1, len(ids) - 1), len(ids)))))
    on_trunk = dice.chance(0.5) or not branches
    return Tree(trunk, [len(trunk) - 2, len(trunk) - 1] if on_trunk else [], branches)


def forest(seed: int) -> Iterator[Tree]:
    dice, fresh = Dice("forest", seed), count(1)
    while True:
        yield some(dice, fresh)


@pytest.mark.parametrize("seed", range(4))
def test_every_token_sees_what_stands_before_it_and_nothing_else(seed: int) -> None:
    taken: list[Tree] = []

    def taking() -> Iterator[Tree]:
        for tree in forest(seed):
            taken.append(tree)
            yield tree

    batch = fill(taking(), rows=5, size=96, most=400)
    whole = [(ids, targets) for tree in taken for ids, targets in sequences(tree)]
    wanted = {tuple(ids[: t + 1]) for ids, targets in whole for t in targets}
    mask, found = seen(batch), set()
    flat = batch.ids.reshape(-1)
    for places, targets in replies(batch).values():
        for place, target in zip(places, targets, strict=True):
            row, at = divmod(place, 96)
            visible = np.flatnonzero(mask[row, at])
            order = visible[np.argsort(batch.position[row, visible])]
            assert batch.position[row, order].tolist() == list(range(len(order)))
            found.add((*batch.ids[row, order].tolist(), target))
            assert flat[place] == batch.ids[row, order[-1]]
    assert found <= wanted
    assert len(found) > 60


def test_unused_places_see_no_tree_and_are_seen_by_none() -> None:
    batch = fill(cycle([Tree(list(range(1, 31)), [29], [])]), rows=3, size=100, most=50)
    unused = batch.own < 0
    assert unused.sum() == 3 * 10
    assert (batch.ids[unused] == 0).all()
    mask = seen(batch)
    assert mask[:, np.arange(100), np.arange(100)].all()  # no row of the mask is empty: softmax needs one
    for row in range(3):
        assert not mask[row][np.ix_(~unused[row], unused[row])].any()
        assert not mask[row][np.ix_(unused[row], ~unused[row])].any()


def test_trees_in_one_row_do_not_see_each_other() -> None:
    batch = fill(cycle([Tree([1, 2, 3], [2], [Branch(2, [4, 5], [1])])]), rows=1, size=20, most=50)
    assert batch.ids[0].tolist() == [1, 2, 3, 4, 5] * 4
    assert batch.position[0].tolist() == [0, 1, 2, 2, 3] * 4
    own = [[1, 0, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]]
    assert (seen(batch)[0] == np.kron(np.eye(4, dtype=int), own)).all()
    assert replies(batch) == {
        n: ([5 * (n // 2) + (1 if n % 2 == 0 else 3)], [3 if n % 2 == 0 else 5]) for n in range(8)
    }


def test_a_reply_is_kept_whole_or_not_at_all() -> None:
    trees = list(zip(range(60), forest(1), strict=False))
    batch = fill(cycle(tree for _, tree in trees), rows=4, size=64, most=25)
    lengths = {tuple(ids[t] for t in targets) for _, tree in trees for ids, targets in sequences(tree)}
    kept = [tuple(targets) for _, targets in replies(batch).values()]
    assert set(kept) <= lengths
    assert 20 < sum(map(len, kept)) <= 25
    assert (batch.targets != IGNORED).sum() == sum(map(len, kept))


def test_a_text_with_no_branch_that_fits_is_counted() -> None:
    bare, short = Tree(list(range(60)), [], [Branch(60, [1] * 9, [8])]), Tree(list(range(20)), [19], [])
    assert fill(cycle([bare, short]), rows=2, size=64, most=50).dropped >= 6


LEFT_OUT = [
    # 50 + 9 of 64 tokens: a row has one of three branches
    ("branches without room", Tree([1] * 50, [], [Branch(50, [2] * 9, [8])] * 3), 50, 2, 4),
    # three trees a row with two targets each; two of the six find a place among five
    ("no place for targets", Tree([1] * 20, [18, 19], []), 5, 2, 4),
    ("room for all", Tree([1] * 20, [18, 19], [Branch(20, [2], [0])]), 50, 12, 0),
    ("too long", Tree([1] * 65, [64], [Branch(60, [2] * 2, [1])] * 2), 50, 2, 6),
]


@pytest.mark.parametrize(("tree", "most", "kept", "dropped"), [c[1:] for c in LEFT_OUT], ids=[c[0] for c in LEFT_OUT])
def test_replies_that_are_left_out_are_counted(tree: Tree, most: int, kept: int, dropped: int) -> None:
    trees = cycle([tree]) if len(tree.trunk) < 64 else chain([tree, tree], cycle([Tree([1] * 60, [59], [])]))
    batch = fill(trees, rows=2, size=64, most=most)
    assert (batch.kept, batch.dropped) == (kept, dropped)
    assert len(replies(batch)) == kept


def test_a_batch_has_a_target_whatever_its_replies_are() -> None:
    """Where every reply is longer than `most`, the shortest is kept: without a target the loss would be NaN."""
    long, short = Tree([1] * 20, list(range(10, 20)), []), Tree([1] * 20, list(range(13, 20)), [])
    batch = fill(cycle([long, short]), rows=1, size=64, most=5)
    assert [len(targets) for _, targets in replies(batch).values()] == [7]
    assert (batch.kept, batch.dropped) == (1, 2)
    assert len(batch.predict) == len(batch.targets) == len(batch.group) == 7
    assert len(fill(cycle([short]), rows=1, size=64, most=9).targets) == 9


def test_nothing_that_fits_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(
        UserError, match="no text of this recipe fits a row of 64 tokens; give the recipe a larger size"
    ):
        fill(cycle([Tree(list(range(65)), [64], [])]), rows=2, size=64, most=50)


def test_a_row_is_filled_before_it_is_left() -> None:
    batch = fill(forest(3), rows=8, size=128, most=2000)
    assert (batch.own >= 0).mean() > 0.8
    assert batch.ids.dtype == np.int32
    assert batch.targets.dtype == np.int64
