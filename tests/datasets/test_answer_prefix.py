"""A reply is scored behind the prefix that the data set asks for, kept whole, and counted where it
has none."""

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.config import suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.config.yaml_tree import dataset_of_run
from harness.datasets import answer_prefix
from harness.engine.plan import plan_choices
from harness.engine.scoring import score_reply
from harness.scorers.base import ScoreSheet
from harness.storage.run_folder import read_run
from harness.types import Answer, Example, Gold, Question
from reports import gold_rows as rows
from reports.figures.replay import ReplayedAnswer, score_answers
from tests.engine.fakes import SCORER, Plain, World, go, make_plan

pytestmark = pytest.mark.usefixtures("fake_model")

PREFIX = "So the final answer is:"
REPLIES = [
    ("So the final answer is: Paris.", "Paris."),
    ("Two towns lie there.\nSo the final answer is:\n  Mira \n", "Mira"),
    (
        "So the final answer is: Rome? No. So the final answer is: Paris",
        "Paris",
    ),  # the last one counts
    ("So the final answer is:", ""),  # the room for the reply was used up
    ("Paris", None),
    ("so the final answer is: Paris", None),
    ("So the final answer is Paris", None),
    ("", None),
]


@pytest.mark.parametrize(("reply", "answer"), REPLIES, ids=lambda value: repr(value)[:40])
def test_what_stands_behind_the_last_prefix(reply, answer):
    assert answer_prefix.text_after(reply, PREFIX) == answer


def test_the_prefix_is_asked_for_and_nothing_else_changes_without_one():
    dataset = make_plan().config.dataset
    assert answer_prefix.load_task(dataset) == make_plan().task
    asked = answer_prefix.load_task(dataset.model_copy(update={"answer_prefix": PREFIX}))
    assert asked.instruction == f"Answer. Put '{PREFIX}' before your final answer."
    assert asked.max_answer_tokens == 8


def test_a_demonstration_follows_the_instruction_and_changes_the_run():
    dataset = make_plan().config.dataset
    shown = answer_prefix.load_task(
        dataset.model_copy(update={"demonstration": "Question: Why?\nAnswer: {so}"})
    )
    assert shown.instruction == "Answer.\n\nExample:\nQuestion: Why?\nAnswer: {so}\n"
    plain, asked = (
        plan_choices(
            Choices("bm25", "pocket/retrieved", limit=1, sets={"dataset.tokens": 300, **more})
        )
        for more in ({}, {"dataset.demonstration": "Question: Why?\nAnswer: So."})
    )
    assert (
        asked.task.instruction
        == f"{plain.task.instruction}\n\nExample:\nQuestion: Why?\nAnswer: So.\n"
    )
    assert asked.hash8 != plain.hash8


class Says(Plain):
    """Replies what it is told, one reply a question."""

    replies: Sequence[str] = ()

    def answer(self, question, documents, indexes, tools):
        super().answer(question, documents, indexes, tools)
        return Answer(self.replies[int(question.id[1:])])


def prefixed(replies, words=()):
    method = Says(Says.Config())
    method.replies = replies
    plan = make_plan(World(questions=len(replies), words=words).dataset(), method)
    dataset = plan.config.dataset.model_copy(update={"answer_prefix": PREFIX})
    return replace(plan, config=plan.config.model_copy(update={"dataset": dataset}))


@pytest.fixture
def result(tmp_path):
    """Gold answers are w0, w1, w0, w1; the last question fails."""
    said = [f"Long thoughts. {PREFIX} w0", "w1", f"w0 {PREFIX} nothing", "not asked"]
    return go(prefixed(said, ("", "", "", "bug")), tmp_path)


def test_scorers_see_the_final_answer_and_the_record_keeps_the_reply(result):
    records = read_run(result.folder).records
    assert [r.prediction for r in records] == [
        f"Long thoughts. {PREFIX} w0",
        "w1",
        f"w0 {PREFIX} nothing",
        "",
    ]
    assert [r.scores[SCORER] for r in records] == [1.0, 1.0, 0.0, 0.0]
    stored_notes = [(r.notes.get("answer_prefix"), r.notes.get("scored")) for r in records]
    assert stored_notes == [("found", "w0"), ("missing", None), ("found", "nothing"), (None, None)]


@pytest.mark.parametrize("name", [SCORER, "evidence_recall"])
@pytest.mark.parametrize("value", [None, float("nan")], ids=["as it is", "no number"])
def test_a_stop_is_scored_as_the_run_scores_the_same_reply(name, value, result, monkeypatch):
    run = read_run(result.folder)
    dataset = dataset_of_run(run.config, "run")
    gold = Gold(("Paris", "Mira", "nothing", "w0"))
    if value is not None:
        sheet = ScoreSheet({name: value})
        monkeypatch.setattr("harness.scorers.score_answer", lambda *_: sheet)
    found = rows.QuestionRows({"q0": Example(Question("q0", "?", ("d0",)), gold)}, {})
    monkeypatch.setattr("reports.figures.replay.read_rows", lambda _, **_more: found)
    replies = [reply for reply, _ in REPLIES]
    answers = {("q0", n): ReplayedAnswer(reply, []) for n, reply in enumerate(replies)}
    scored = score_answers(run, answers, name, None)
    wanted = [score_reply(dataset, reply, [], gold).scores.get(name) for reply in replies]
    assert list(scored.values()) == wanted
    if value is not None:
        assert set(wanted) == {0.0}
    elif name == SCORER:
        assert {0.0, 1.0} <= set(wanted)
    else:
        assert set(wanted) == {None}, "there are no supporting marks"


PLAIN = {"method": "bm25", "dataset": "pocket/retrieved"}


def dataset_of(**more):
    return resolve(Choices(**{**PLAIN, **more})).config.dataset


@pytest.mark.parametrize(
    "suite", ["pocket-longrefiner-table2", "longrefiner-table2", "pocket-longrefiner-table5"]
)
def test_the_suites_ask_for_it_where_the_paper_does(suite):
    whole = suites.read_suite(suite)
    for part in whole.parts or (whole,):
        for name in part.datasets:
            prefix = (
                None
                if name in ("asqa", "eli5") or suite.startswith("pocket-longrefiner-table2")
                else PREFIX
            )
            found = dataset_of(dataset=name, suite=part)
            assert found.answer_prefix == prefix
            assert (found.demonstration is None) == (prefix is None)
            # The example does what the instruction asks for, and is not one of the paper's code.
            example = str(found.demonstration)
            assert prefix is None or re.fullmatch(
                f"Question: .+\nAnswer: .+ {prefix} the Danube", example
            )
            resolve(Choices(method="longrefiner", dataset=name, suite=part))


@pytest.mark.parametrize("name", ["asqa", "eli5"])
def test_long_answers_are_asked_for_as_in_the_papers_prompt(name):
    asked = dataset_of(dataset=name).instruction.lower()
    assert [word in asked for word in ("directly", "detail", "short")] == [True, True, False]
