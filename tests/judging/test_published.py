"""Published judges whose reply names a verdict and a confidence (BrowseComp-Plus). Values are those
of the authors' functions (parse_judge_response, calculate_calibration_error of evaluate_run.py)."""

import hashlib

import pytest

from harness.judging.calibration import ConfidentAnswer, calibration_error
from harness.judging.published import published_for
from harness.types import Example, Gold, Question


def published(name):
    gold = Gold(("x",), extra={"judge": name})
    return published_for({"q": Example(Question("q", "?", ("d",)), gold)})


@pytest.mark.parametrize(
    ("reply", "verdict", "confidence"),
    [
        ("correct: yes\n\nconfidence: 85%", "yes", 85.0),
        ("**correct:** No\n**confidence:** 12.5", "no", 12.5),
        ("correct: no\n**correct**: YES", "yes", None),
        ("incorrect: no", "no", None),
        ("correct: maybe\nconfidence: 250%", "unclear", 100.0),
        ("Correct:\nyes", "yes", None),
        ("", "unclear", None),
        ("confidence: none", "unclear", None),
    ],
)
def test_a_reply_with_labels_is_read_as_its_authors_do(reply, verdict, confidence):
    prompts = published("browsecomp-plus/answer")
    assert (prompts.verdict(reply), prompts.confidence(reply)) == (verdict, confidence)


def test_the_calibration_error_leaves_out_the_last_bin_as_its_authors_do():
    answers = [ConfidentAnswer(number / 3, float(number % 3 == 0)) for number in range(300)]
    assert calibration_error(answers) == pytest.approx(0.14019166773993277)
    assert calibration_error(reversed(answers[:250])) == pytest.approx(0.11067971810589329)
    assert calibration_error(answers[:199]) is None  # theirs prints 0


@pytest.mark.parametrize(
    ("name", "kind", "digest"),
    [
        ("beam/item", "item", "1455a646"),
        ("beam/item", "same_event", "9c96ef71"),
        ("browsecomp-plus/answer", "answer", "9cc8d644"),
    ],
)
def test_the_prompts_are_letter_for_letter(name, kind, digest):
    prompt = published(name).prompts[kind]
    text = prompt.system + prompt.text
    assert hashlib.sha256(text.encode()).hexdigest()[:8] == digest
