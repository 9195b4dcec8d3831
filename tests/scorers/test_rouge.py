"""ROUGE-L of the rouge package: its value, and the recursion limit that must not depend on the
caller."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.scorers import ScoreError, score
from harness.scorers.rouge import MAX_RECURSION_FRAMES, count_recursion_frames, rouge_l

package = pytest.importorskip("rouge")
inner = pytest.importorskip("rouge.rouge_score")

SAME = 0.999999995
# What LongBench's eval.py does with one pair: three frames from the module down to the package.
PUBLISHED = """
import json, sys
from rouge import Rouge
def rouge_score(prediction, reference):
    try:
        return Rouge().get_scores([prediction], [reference], avg=True)["rouge-l"]["f"]
    except Exception:
        return 0.0
def scorer(prediction, reference):
    return rouge_score(prediction, reference)
values = []
for prediction, reference in json.load(sys.stdin):  # no comprehension: on Python 3.11 that is a frame more
    values.append(scorer(prediction, reference))
print(json.dumps(values))
"""
words = st.lists(st.sampled_from(["a", "b", "c", "B"]), min_size=1, max_size=9)
texts = st.text(alphabet="ab .\n\té", max_size=40)


def numbered(n, letter="w"):
    return " ".join(f"{letter}{i}" for i in range(n))


COMMON = 50


def pair(frames):
    """Prediction and reference whose recursion takes `frames`: the reference's own words, then the
    common."""
    return numbered(COMMON), f"{numbered(COMMON)} {numbered(frames - 1 - COMMON, 'v')}"


def value(frames):
    """The score of `pair(frames)`: P = 1, R = common / reference words; 0 beyond the limit."""
    recall = COMMON / (frames - 1)
    return 2 * recall / (1 + recall) if frames <= MAX_RECURSION_FRAMES else 0.0


@pytest.fixture
def recursion_limit():
    before = sys.getrecursionlimit()
    yield
    sys.setrecursionlimit(before)


@settings(max_examples=60, deadline=None)
@given(texts, texts)
def test_the_value_is_the_packages(prediction, reference):
    try:
        expected = package.Rouge().get_scores([prediction], [reference], avg=True)["rouge-l"]["f"]
    except ValueError:  # the package's word for a text without a sentence; LongBench makes it 0.0
        expected = 0.0
    assert rouge_l(prediction, reference) == pytest.approx(expected, abs=1e-12)


@settings(max_examples=150, deadline=None)
@given(words, words)
def test_frames_are_those_the_package_takes(x, y):
    calls = 0

    def count(frame, event, _):
        nonlocal calls
        calls += event == "call" and frame.f_code.co_name == "_recon"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        inner._recon_lcs(x, y)
    finally:
        sys.setprofile(before)
    assert count_recursion_frames(x, y) == calls


def test_the_limit_is_that_of_the_published_script():
    pairs = [
        pair(MAX_RECURSION_FRAMES - 1),
        pair(MAX_RECURSION_FRAMES),
        pair(MAX_RECURSION_FRAMES + 1),
    ]
    done = subprocess.run(
        [sys.executable, "-c", PUBLISHED],
        input=json.dumps(pairs),
        capture_output=True,
        text=True,
        check=True,
    )
    published = json.loads(done.stdout)
    assert [rouge_l(*one) for one in pairs] == pytest.approx(published)
    assert published == pytest.approx(
        [value(MAX_RECURSION_FRAMES - 1), value(MAX_RECURSION_FRAMES), 0.0]
    )


def deep(n, prediction, reference):
    return (
        deep(n - 1, prediction, reference)
        if n
        else score("longbench.rouge_score", prediction, [reference])
    )


@pytest.mark.parametrize("frames", [60, MAX_RECURSION_FRAMES, MAX_RECURSION_FRAMES + 1, 5000])
@pytest.mark.parametrize("depth", [0, 700])
def test_the_callers_depth_does_not_matter(frames, depth):
    assert deep(depth, *pair(frames)) == pytest.approx(value(frames))


def test_a_long_text_is_known_to_fail_without_a_table():
    text = numbered(20_000)  # a table of 400 million cells if it were built
    assert rouge_l(text, text) == 0.0


@pytest.mark.parametrize("frames", [MAX_RECURSION_FRAMES, MAX_RECURSION_FRAMES + 1])
def test_a_raised_recursion_limit_does_not_matter(frames, recursion_limit):
    sys.setrecursionlimit(5000)
    assert rouge_l(*pair(frames)) == pytest.approx(value(frames))


def test_a_lowered_recursion_limit_is_said(recursion_limit):
    sys.setrecursionlimit(400)
    assert rouge_l("one two", "one two") == pytest.approx(SAME)
    with pytest.raises(ScoreError, match="recursion limit is 400"):
        rouge_l(*pair(600))


@pytest.mark.parametrize(
    ("prediction", "reference"), [("", "a"), ("a", ""), ("...", "a"), ("a", "."), ("", "")]
)
def test_no_sentence_scores_zero(prediction, reference):
    assert rouge_l(prediction, reference) == 0.0


def test_sentences_reset_the_recursion():
    text = ". ".join(numbered(100) for _ in range(3))
    assert rouge_l(text, text) == pytest.approx(SAME)
