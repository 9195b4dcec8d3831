"""Rows, batches, trees and settings, worked by hand."""

import pytest
from harness_training.method_skills.longrefiner import task_skills
from harness_training.settings import Settings, profiles, read_settings
from harness_training.tasks import Scene
from harness_training.teacher import ProbeTarget, Teacher, Transcript
from harness_training.token_rows import Branch, Row, Tree, batches, build_trees, rows_of_scenes
from hypothesis import given, settings
from hypothesis import strategies as st
from pocket.card import EMBEDDED

from harness.errors import ConfigError, UserError
from harness.llm.fast_tokenizer import FastTokenizer
from harness.method import Task
from harness.stats.rng import Dice
from harness.types import Question
from methods.longrefiner.config import LongRefinerConfig

TASKS = ("analysis", "structuring", "selection")


def paper(sets, own=None):
    return read_settings(Settings, "longrefiner", "paper", TASKS, sets, own)


def scene(**more):
    return Scene(
        Question("q", "Where was Mira born?", ("d",)),
        task=Task(instruction="x", max_answer_tokens=4),
        **more,
    )


def test_a_reply_and_a_label_are_the_only_targets():
    teacher = Teacher(FastTokenizer(EMBEDDED))
    analysis, _, selection = task_skills(LongRefinerConfig())
    decode = teacher.text.tokenizer.backend_tokenizer.decode
    (row,) = rows_of_scenes(
        selection, [scene(texts=("T", "A", "\nSection1: B"), replies=("['B']",))], teacher, 500
    ).rows
    assert decode([row.ids[i] for i in row.targets], skip_special_tokens=False).startswith("['B']")
    assert "Mira born" in decode(list(row.ids))
    (row,) = rows_of_scenes(analysis, [scene(texts=(), verdicts=(False,))], teacher, 500).rows
    assert row.targets == (len(row.ids) - 1,)
    assert row.ids[-1] == teacher.plain("Global")[0]
    short = rows_of_scenes(analysis, [scene(texts=(), verdicts=(False,))] * 3, teacher, 20)
    assert (short.rows, short.left_out) == ([], 3)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=90), st.integers(1, 8), st.integers(0, 5))
def test_an_epoch_has_every_row_once(lengths, size, seed):
    made = [Row((1,) * n, ()) for n in lengths]
    found = batches(made, size, Dice(seed))
    assert sorted(i for one in found for i in one) == list(range(len(made)))
    assert all(len(one) <= size for one in found)
    assert found == batches(made, size, Dice(seed))


PROBED = Transcript(
    [0, 1, 2, 3, 4, 5, 1], [5, 6], [ProbeTarget(2, (8, 9, 70)), ProbeTarget(4, (8, 9, 71))]
)
TREES = [
    # 0 1 2 3 is the text; the last shared token, 3, goes into both branches.
    (
        [Transcript([0, 1, 2, 3, 50, 51, 1], [5, 6]), Transcript([0, 1, 2, 3, 60, 1], [5])],
        [Tree([0, 1, 2], [], [Branch(3, [3, 50, 51, 1], [2, 3]), Branch(3, [3, 60, 1], [2])])],
    ),
    # Both replies begin with 9: it is predicted, so it is no part of the trunk.
    (
        [Transcript([0, 1, 2, 9, 1], [3, 4]), Transcript([0, 1, 2, 9, 7, 1], [3, 4, 5])],
        [Tree([0], [], [Branch(1, [1, 2, 9, 1], [2, 3]), Branch(1, [1, 2, 9, 7, 1], [2, 3, 4])])],
    ),
    ([Transcript([0, 1, 2], [2])], [Tree([0, 1, 2], [2], [])]),
    ([], []),
    # Probes are branches of one token to predict.
    (
        [PROBED, Transcript([0, 1], [], [ProbeTarget(2, (8, 71))])],
        [
            Tree(PROBED.ids, [5, 6], [Branch(2, (8, 9, 70), [2]), Branch(4, (8, 9, 71), [2])]),
            Tree([0, 1], [], [Branch(2, (8, 71), [1])]),
        ],
    ),
]


@pytest.mark.parametrize(("transcripts", "trees"), TREES)
def test_trees_by_hand(transcripts, trees):
    assert build_trees(transcripts) == trees


def sequences(tree):
    """(ids, indices of targets) of each reply of a tree."""
    if tree.targets:
        yield list(tree.trunk), list(tree.targets)
    for branch in tree.branches:
        yield [*tree.trunk[: branch.at], *branch.ids], [branch.at + t for t in branch.targets]


@st.composite
def replies_to_one_text(draw):
    token = st.integers(0, 5)
    start = [90, 91, *draw(st.lists(token, max_size=6))]
    found = []
    for _ in range(draw(st.integers(1, 4))):
        ids = [*start, *draw(st.lists(token, max_size=5))]
        reply = draw(st.lists(token, min_size=1, max_size=3))
        found.append(Transcript([*ids, *reply], list(range(len(ids), len(ids) + len(reply)))))
    return found


@given(replies_to_one_text())
def test_a_tree_is_its_sequences(transcripts):
    (tree,) = build_trees(transcripts)
    assert list(sequences(tree)) == [(t.ids, t.targets) for t in transcripts]
    assert len(tree) == len(tree.trunk) + sum(len(b.ids) for b in tree.branches)
    assert len(tree) <= sum(len(t.ids) for t in transcripts)
    assert all(
        t > 0 for b in tree.branches for t in b.targets
    )  # what is before a target is in its own branch


def test_the_papers_values():
    found = paper({})
    assert [found.tasks[task].length for task in TASKS] == [2048, 32768, 4096]
    assert {
        (t.rank, t.alpha, t.rate, t.batch, t.accumulation, t.epochs) for t in found.tasks.values()
    } == {(16, 32, 3e-5, 1, 32, 1)}
    assert (found.warmup, found.schedule, found.dtype) == (0.1, "cosine", "bfloat16")
    assert set(profiles("longrefiner")) >= {"paper", "pocket"}


def test_what_is_said_of_one_task_comes_before_what_is_said_of_all():
    found = paper(
        {"selection.rank": 2, "rank": 4, "tasks.analysis.rate": 1e-2},
    )
    assert [found.tasks[task].rank for task in TASKS] == [4, 4, 2]
    assert [found.tasks[task].rate for task in TASKS] == [0.01, 3e-5, 3e-5]


def test_a_file_of_ones_own(tmp_path):
    (tmp_path / "own.yaml").write_text(
        "common: {rank: 3}\ntasks: {selection: {rank: 5}}\nseed_of_all: 1\n"
    )
    with pytest.raises(ConfigError, match="unknown key 'seed_of_all'"):
        paper({}, tmp_path / "own.yaml")
    (tmp_path / "own.yaml").write_text("common: {rank: 3}\ntasks: {selection: {rank: 5}}\n")
    found = paper({"analysis.rank": 7}, tmp_path / "own.yaml")
    assert [found.tasks[task].rank for task in TASKS] == [7, 3, 5]


@pytest.mark.parametrize(
    ("sets", "says"),
    [
        ({"analysis.rnk": 3}, "unknown key 'tasks.analysis.rnk' .--set.. Did you mean 'rank'"),
        ({"held": 0}, "held=0 .--set.: should be greater than 0"),
        ({"rank": 0}, "rank=0 .--set.: should be greater than or equal to 1"),
        ({"rate": "fast"}, "rate='fast'"),
        ({"dtype": "fp8"}, "should be 'float32' or 'bfloat16'"),
    ],
    ids=str,
)
def test_mistakes_in_settings(sets, says):
    with pytest.raises(UserError, match=says):
        read_settings(Settings, "longrefiner", "pocket", TASKS, sets)
