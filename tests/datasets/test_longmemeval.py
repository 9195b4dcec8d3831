"""LongMemEval: official rows as used, evidence by turn and session, the score without a judge,
mistakes."""

import pytest

from harness import scorers
from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset
from harness.datasets import load
from harness.types import Shown
from tests.datasets.support import check_mistake, config, longmemeval, write_lines

TEXT = """### Session 1:
Session Date: 2023/05/17 (Wed) 09:00
Session Content:


user: I bought mill 1 today.

assistant: Good luck!

### Session 2:
Session Date: 2023/05/20 (Sat) 02:21
Session Content:


user: I sold mill 1."""


def loaded(tmp_path, **changes):
    """The question of a row, and its document's text."""
    data = load(
        config(
            "longmemeval", data=str(write_lines(tmp_path / "r.jsonl", [longmemeval(1, **changes)]))
        )
    )
    (example,) = data.examples
    return example, data.documents[example.question.id].text


def test_a_history_stands_by_date_as_the_authors_prompt_has_it(tmp_path):
    example, text = loaded(tmp_path)
    assert text == TEXT
    assert (
        example.question.text
        == "How long did I own the mill? (Current Date: 2023/05/30 (Tue) 23:40)"
    )
    assert example.gold.answers == ("3",)
    turns = [text[s.start : s.end] for s in example.gold.supporting]
    assert turns == ["user: I bought mill 1 today.", "user: I sold mill 1."]
    fields = {
        "type": "temporal-reasoning",
        "question": "How long did I own the mill?",
        "evidence_sessions": [1, 2],
    }
    assert example.gold.extra == {
        **fields,
        "declined": False,
        "judge": "longmemeval/temporal-reasoning",
    }


def test_the_questions_on_which_heads_were_found_are_left_out_and_counted(tmp_path):
    rows = [
        longmemeval(n, question_type=kind)
        for n, kind in enumerate(["multi-session", "single-session-user"])
    ]
    file = str(write_lines(tmp_path / "r.jsonl", rows))
    data = load(resolve_dataset(Choices(dataset="longmemeval/s-430", data=file)).value)
    assert [example.gold.extra["type"] for example in data.examples] == ["multi-session"]
    assert (
        data.left_out,
        len(load(resolve_dataset(Choices(dataset="longmemeval/s", data=file)).value)),
    ) == (
        1,
        2,
    )


def test_a_question_to_be_declined_has_no_evidence(tmp_path):
    example, _ = loaded(tmp_path, question_id="e1_abs_2", answer="You did not mention a car.")
    assert example.gold.supporting == ()
    assert (example.gold.extra["declined"], example.gold.extra["judge"]) == (
        True,
        "longmemeval/abstention",
    )


def test_evidence_recall_by_turn_and_session(tmp_path):
    sessions = [
        [{"role": "user", "content": f"mill {n}", "has_answer": True}] * (3 - n) for n in range(2)
    ]
    example, _ = loaded(
        tmp_path, haystack_sessions=sessions, haystack_dates=["2023/01/01", "2023/01/02"]
    )
    names = ["evidence_recall", "evidence_recall_sessions"]

    def recalls(*turns):
        marks = [example.gold.supporting[n] for n in turns]
        shown = [Shown("span", m.document_id, m.start, m.end) for m in marks]
        return list(scorers.score_answer(names, "", shown, example.gold).scores.values())

    assert example.gold.extra["evidence_sessions"] == [1, 1, 1, 2, 2]
    assert [recalls(0, 1), recalls(1, 3), recalls()] == [[0.4, 0.5], [0.4, 1.0], [0.0, 0.0]]


DECLINES = [
    "You did not mention a car.",
    "There is no information about that.",
    "I can't determine it.",
]
REPLIES = [
    ({}, "So it was 3 days.", 1.0),
    ({}, "Four days.", 0.0),
    ({"answer": "$"}, " $", 1.0),  # nothing is left of it when it is normalised
    ({"answer": "$"}, "Four days.", 0.0),
    *(({"question_id": "e_abs"}, reply, 1.0) for reply in (*DECLINES, "Unanswerable")),
    ({"question_id": "e_abs"}, "It was 3 days, no more.", 0.0),
    ({"question_type": "single-session-preference"}, "3", None),
]


@pytest.mark.parametrize(("changes", "reply", "value"), REPLIES)
def test_the_score_without_a_judge(tmp_path, changes, reply, value):
    example, _ = loaded(tmp_path, **changes)
    groups = ["temporal-reasoning", "multi-session", "abstention"]
    names = ["longmemeval.match", *(f"longmemeval.match.{name}" for name in groups)]
    sheet = scorers.score_answer(names, reply, (), example.gold)
    declined, dated = example.gold.extra["declined"], value is not None
    mine = [names[0]] * dated + [names[1]] * dated + [names[3]] * declined
    assert sheet.scores == dict.fromkeys(mine, value)
    assert set(sheet.flags.values()) == {"not of this group"}


MISTAKES = [
    (
        {"haystack_dates": ["2023/05/20"]},
        "haystack_dates",
        "should be a date for each of 2 sessions, are 1",
    ),
    ({"haystack_dates": ["2023/05/20", " "]}, "haystack_dates[1]", "is empty"),
    ({"question_type": "hop"}, "question_type", "should be one of single-session-user, "),
    ({"answer": None}, "answer", "should be a string or a number, is null"),
    ({"answer": True}, "answer", "should be a string or a number, is true"),
    (
        {"haystack_sessions": [[], [{"role": "user"}]]},
        "haystack_sessions[1][0].content",
        "is missing",
    ),
    ({"question_id": "e1"}, None, "the document 'e1' has another text in an earlier row"),
]


@pytest.mark.parametrize(("changes", "field", "problem"), MISTAKES)
def test_mistake_is_named(tmp_path, changes, field, problem):
    check_mistake(
        tmp_path, [longmemeval(1), longmemeval(2, **changes)], field, problem, config("longmemeval")
    )
