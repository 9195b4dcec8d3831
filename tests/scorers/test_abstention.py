"""Declining as an answer: rightly, wrongly, and questions that have neither score."""

import pytest

from harness.config.layers import Choices
from harness.config.resolve import resolve_dataset
from harness.scorers import score

NO = "The paper does not say which."


@pytest.mark.parametrize(
    ("reply", "marks", "declines", "answers"),
    [
        (NO, {"types": ["none", "none"]}, 1.0, None),
        ("Unanswerable", {"declined": True}, 1.0, None),
        ("BERT", {"types": ["none"]}, 0.0, None),
        (NO, {"types": ["extractive", "boolean"]}, None, 0.0),
        ("BERT", {"declined": False}, None, 1.0),
        ("No, they state that it is English.", {"declined": False}, None, 1.0),
        ("Unknown.", {"answer_type": "none"}, 1.0, None),
        ("12", {"answer_type": "extractive"}, None, 1.0),
        (" ", {"declined": False}, None, 0.0),
        ("BERT", {"types": ["extractive", "none"]}, None, None),
        (NO, {"gold": ["Unanswerable"]}, 1.0, None),
        ("BERT", {"gold": ["unanswerable."]}, 0.0, None),
        (NO, {}, None, 0.0),
        (NO, {"gold": ["unanswerable", "BERT"]}, None, None),
        ("BERT", {"gold": ["unanswerable"], "declined": False}, None, 1.0),
    ],
)
def test_declining_is_right_where_the_question_has_no_answer(reply, marks, declines, answers):
    gold, marks = (
        marks.get("gold", ["BERT"]),
        {key: value for key, value in marks.items() if key != "gold"},
    )
    found = [score(f"abstention.{name}", reply, gold, **marks) for name in ("declines", "answers")]
    assert found == [declines, answers]


@pytest.mark.parametrize(
    ("reply", "declined"),
    [
        ("I don't have any record of a trip.", True),
        ("The information provided is not enough.", True),
        ("It is never explicitly stated.", True),
        ("It could not be found.", True),
        ("There is no further mention of it.", True),
        ("She had no record label.", False),
        ("They could not get enough of it.", False),
        ("With no curated knowledge 51.7.", False),
        ("He could not find work.", False),
        ("She couldn't tell him.", False),
        ("An insufficient fund.", False),
    ],
)
def test_words_that_decline(reply, declined):
    assert score("abstention.declines", reply, [""], declined=True) == declined


@pytest.mark.parametrize(
    "name",
    ["qasper", "pocket/qasper", "longbench/qasper", "longbench/qasper_e", "musique-full", "longmemeval/s",
     "longmemeval/s-430", "longmemeval/oracle"],
)  # fmt: skip
def test_data_sets_that_mark_such_questions_have_both_scores(name):
    assert {"abstention.declines", "abstention.answers"} <= {
        *resolve_dataset(Choices(dataset=name)).value.scorers
    }
