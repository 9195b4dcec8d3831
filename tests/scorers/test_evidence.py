"""Evidence recall: half of the characters, spans united, generated text hits nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.scorers import ScoreError, score
from harness.scorers.evidence import evidence_recall
from harness.types import Shown, Support


def span(start, end, document="d"):
    return Shown("span", document, start, end)


def mark(start, end, document="d"):
    return Support(document, start, end)


TEN = (mark(100, 110),)


@pytest.mark.parametrize(
    ("shown", "supporting", "value"),
    [
        ((), TEN, 0.0),
        ((span(100, 105),), TEN, 1.0),
        ((span(100, 104),), TEN, 0.0),
        ((span(105, 500),), TEN, 1.0),
        ((span(100, 103), span(107, 109)), TEN, 1.0),
        ((span(100, 104), span(101, 104), span(100, 104)), TEN, 0.0),
        ((span(100, 103), span(102, 105)), TEN, 1.0),
        ((span(100, 110), span(101, 102)), TEN, 1.0),
        ((span(100, 110, "other"),), TEN, 0.0),
        ((span(100, 110), span(100, 110, "other")), (*TEN, mark(100, 110, "other")), 1.0),
        ((span(100, 110),), (*TEN, mark(200, 210)), 0.5),
        ((span(100, 102),), (mark(100, 103),), 1.0),
        ((span(100, 101),), (mark(100, 103),), 0.0),
        ((Shown("generated", text="all of it", sources=(("d", 100, 110),)),), TEN, 0.0),
        ((Shown("generated", "d", 100, 110, "all of it"),), TEN, 0.0),
        ((span(5, 5),), TEN, 0.0),
    ],
)
def test_known_answers(shown, supporting, value):
    assert evidence_recall(shown, supporting) == pytest.approx(value)
    assert score("evidence_recall", shown, supporting) == pytest.approx(value)


PAGE, LINE = mark(1000, 9000), mark(20, 40)


@pytest.mark.parametrize(
    ("shown", "supporting", "hit", "mrr", "pages"),
    [
        ((), (PAGE,), 0.0, 0.0, 0.0),
        ((span(0, 300), span(2000, 2300)), (PAGE,), 1.0, 0.5, 1.0),  # a chunk of a long page
        ((span(0, 300),), (LINE,), 1.0, 1.0, 1.0),  # a short page in a chunk
        ((span(900, 1049),), (PAGE,), 0.0, 0.0, 0.0),  # a chunk that only touches the page
        ((span(900, 1100),), (PAGE,), 1.0, 1.0, 1.0),
        ((span(2000, 2300, "other"), span(0, 300), span(2000, 2300)), (PAGE, LINE), 1.0, 0.5, 1.0),
        ((span(2000, 2300),), (PAGE, LINE), 1.0, 1.0, 0.5),
        ((Shown("generated", text="x", sources=(("d", 2000, 2300),)),), (PAGE,), 0.0, 0.0, 0.0),
    ],
)
def test_pages_that_were_found(shown, supporting, hit, mrr, pages):
    names = ("evidence_hit", "evidence_mrr", "evidence_pages")
    assert [score(name, shown, supporting) for name in names] == [hit, mrr, pages]
    assert [score(name, shown, ()) for name in names] == [None, None, None]


def test_sources_of_generated_text_are_counted_apart():
    shown = (Shown("generated", text="a summary", sources=(("d", 100, 104),)), span(104, 105))
    assert score("evidence_recall", shown, TEN) == 0.0
    assert score("evidence_recall_sources", shown, TEN) == 1.0


@pytest.mark.parametrize(
    ("shown", "supporting", "part"),
    [
        ((span(9, 3),), TEN, "runs from 9 to 3"),
        ((span(-1, 3),), TEN, "runs from -1 to 3"),
        ((), (mark(5, 5),), "no characters"),
    ],
)
def test_impossible_spans_are_refused(shown, supporting, part):
    with pytest.raises(ScoreError, match=part):
        evidence_recall(shown, supporting)


ranges = st.tuples(st.integers(0, 60), st.integers(1, 20), st.sampled_from("de")).map(
    lambda t: (t[0], t[0] + t[1], t[2])
)
shown_lists = st.lists(ranges.map(lambda r: span(*r)), max_size=6)
support_lists = st.lists(ranges.map(lambda r: mark(*r)), min_size=1, max_size=5)


def by_characters(shown, supporting):
    """The definition, a character at a time."""
    seen = {(s.document_id, at) for s in shown for at in range(s.start, s.end)}
    hits = [
        sum((s.document_id, at) in seen for at in range(s.start, s.end)) * 2 >= s.end - s.start
        for s in supporting
    ]
    return sum(hits) / len(hits)


@given(shown_lists, support_lists)
def test_equals_the_definition(shown, supporting):
    assert evidence_recall(shown, supporting) == by_characters(shown, supporting)
