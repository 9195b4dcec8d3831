"""Trees: every reply is learnt behind exactly the tokens that stand before it."""

from collections.abc import Iterator

from hypothesis import given, settings
from hypothesis import strategies as st

from harness.training.teacher import ProbeTarget, Transcript
from harness.training.token_rows import Branch, Tree, build_trees


def sequences(tree: Tree) -> Iterator[tuple[list[int], list[int]]]:
    """(ids, indices of targets) of each reply of a tree."""
    if tree.targets:
        yield list(tree.trunk), list(tree.targets)
    for branch in tree.branches:
        yield [*tree.trunk[: branch.at], *branch.ids], [branch.at + t for t in branch.targets]


def test_two_questions_about_one_text() -> None:
    """0 1 2 3 is the text; the last shared token, 3, goes into both branches."""
    transcripts = [Transcript([0, 1, 2, 3, 50, 51, 1], [5, 6]), Transcript([0, 1, 2, 3, 60, 1], [5])]
    assert build_trees(transcripts) == [
        Tree([0, 1, 2], [], [Branch(3, [3, 50, 51, 1], [2, 3]), Branch(3, [3, 60, 1], [2])])
    ]


def test_a_shared_beginning_ends_before_the_first_target() -> None:
    """Both replies begin with 9: it is predicted, so it is no part of the trunk."""
    transcripts = [Transcript([0, 1, 2, 9, 1], [3, 4]), Transcript([0, 1, 2, 9, 7, 1], [3, 4, 5])]
    assert build_trees(transcripts) == [
        Tree([0], [], [Branch(1, [1, 2, 9, 1], [2, 3]), Branch(1, [1, 2, 9, 7, 1], [2, 3, 4])])
    ]


def test_one_alone_is_a_trunk() -> None:
    assert build_trees([Transcript([0, 1, 2], [2])]) == [Tree([0, 1, 2], [2], [])]
    assert build_trees([]) == []


def test_probes_are_branches_of_one_token_to_predict() -> None:
    transcripts = Transcript([0, 1, 2, 3, 4, 5, 1], [5, 6], [ProbeTarget(2, (8, 9, 70)), ProbeTarget(4, (8, 9, 71))])
    bare = Transcript([0, 1], [], [ProbeTarget(2, (8, 71))])
    assert build_trees([transcripts, bare]) == [
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
    (tree,) = build_trees(transcripts)
    assert list(sequences(tree)) == [(t.ids, t.targets) for t in transcripts]
    assert len(tree) == len(tree.trunk) + sum(len(b.ids) for b in tree.branches)
    assert len(tree) <= sum(len(t.ids) for t in transcripts)
    assert all(t > 0 for b in tree.branches for t in b.targets)  # what is before a target is in its own branch
