"""BEAM's judge: a request for each item of a rubric, and the order of events. Values are those of
the authors' functions (evaluate_* of compute_metrics.py) for the same replies."""

import json
from dataclasses import replace

import pytest

from harness.judging.model_judge import Case
from harness.judging.published import published_for
from harness.judging.rubric import read_item_rating, rubric_steps
from harness.judging.stepwise import UnreadableReply
from harness.types import Example, Gold, Question

EXAMPLE = Example(Question("q", "When?", ("d",)), Gold(("x",), extra={"judge": "beam/item"}))
CASE = Case("q", "When?", None, ("x",), "It ends on May 9.", "item", ("states May 9", "is short"))
ORDER = replace(CASE, prompt="order", rubric=("plan", "build", "sell"))


def judged(case, ratings, same=()):
    """The outcome where the judge rates items by name and takes these pairs for the same event."""
    asked = []

    def ask(prompt, **values):
        asked.append("".join(prompt.prompt.fill(**values)))
        if prompt.prompt.name == "item":
            return json.dumps({"score": ratings[values["item"][0]], "reason": "So."})
        return "**YES**" if (values["first"][0], values["second"][0]) in same else "NO"

    published = published_for({"q": EXAMPLE})
    return rubric_steps(published)(case, ask), asked


@pytest.mark.parametrize(
    ("ratings", "verdict", "score"),
    [((1.0, 1.0), "2 of 2", 1.0), ((1, 0.5), "1 of 2", 0.5), ((0.5, 0.0), "0 of 2", 0.0)],
)
def test_a_half_counts_0_as_in_the_authors_program(ratings, verdict, score):
    outcome, asked = judged(CASE, dict(zip(CASE.rubric, ratings, strict=True)))
    assert (outcome.verdict, outcome.score) == (verdict, score)
    assert outcome.details == f"{ratings[0]:g}: states May 9\n{ratings[1]:g}: is short"
    assert [text.count("RESPONSE TO EVALUATE: It ends on May 9.\n") for text in asked] == [1, 1]
    assert "- QUESTION (what the user asked): <question>\n" in asked[0]  # theirs sends it so
    assert "(what to check): states May 9\n" in asked[0]


@pytest.mark.parametrize(
    ("lines", "score", "details"),
    [
        ("plan\nbuild\nsell", 1.0, "precision 1, recall 1, F1 1, tau 1, F1 times tau 1"),
        ("sell\nbuild\nplan", 0.0, "precision 1, recall 1, F1 1, tau 0, F1 times tau 0"),
        (
            "build\nplan",
            0.6666666666666667,
            "precision 1, recall 0.6667, F1 0.8, tau 0.6667, F1 times tau 0.5333",
        ),
        (
            "build\n\nplan",
            0.5,
            "precision 0.6667, recall 0.6667, F1 0.6667, tau 0.5, F1 times tau 0.3333",
        ),
        (
            "plan\nplan\nsell",
            0.6666666666666667,
            "precision 1, recall 0.6667, F1 0.8, tau 0.6667, F1 times tau 0.5333",
        ),
    ],
)
def test_an_order_has_kendalls_tau_of_the_authors_program(lines, score, details):
    ratings = {"plan": 1, "build": 0.5, "sell": 0}
    outcome, _ = judged(replace(ORDER, answer=lines), ratings, {(e, e) for e in ORDER.rubric})
    assert outcome.score == pytest.approx(score)
    assert outcome.details.split("\n") == [
        f"{details}, items 0.5",
        "1: plan",
        "0.5: build",
        "0: sell",
    ]


def test_a_line_is_the_first_event_that_no_earlier_line_is():
    case = replace(ORDER, answer="they plan\nthey build")
    same = {("plan", "they plan"), ("plan", "they build"), ("build", "they build")}
    outcome, asked = judged(case, dict.fromkeys(ORDER.rubric, 1), same)
    assert outcome.details.startswith("precision 1, recall 0.6667, ")
    compared = [text.split("Second snippet")[0] for text in asked if "First snippet" in text]
    assert compared == [
        f"First snippet: {event} \n\n                       " for event in ("plan", "build")
    ]


def test_lines_without_an_order_have_0_and_a_flag():
    outcome, _ = judged(replace(ORDER, answer="x\nx\nx\nx\nx"), dict.fromkeys(ORDER.rubric, 0))
    assert (outcome.verdict, outcome.score) == ("no order", 0.0)
    assert "their ranks are equal" in outcome.flag


@pytest.mark.parametrize(
    ("reply", "rating"),
    [
        ('{"score": 0.5, "reason": "x"}', 0.5),
        ('```json\n{\n   "score": 1.0,\n "reason": "x"}\n```', 1.0),
        ('{"reason": "x", "score": "1"}', 1.0),
        ('{"score": 1.0, "reason": "He said "yes"', 1.0),
        ("{score: 0}", 0.0),
        ("Score: 1", None),
        ('{"score": 2}', None),
        ("", None),
    ],
)
def test_how_the_rating_of_an_item_is_read(reply, rating):
    if rating is None:
        with pytest.raises(UnreadableReply):
            read_item_rating(reply)
    else:
        assert read_item_rating(reply) == rating
