"""How searches ended, as sentences below a table."""

from __future__ import annotations

from reports.search_notes import searches


def record(stop, *p_yes, error=None):
    return {"error": error, "stop_reason": stop, "steps": [{"p_yes": p} for p in p_yes] + [{}]}


def test_exhausted_searches_and_ties_are_counted_over_answered_questions():
    rows = [record("exhausted", 0.5, 0.4), record("yes", 0.5001, None), record("yes", 0.9), record("", 0.5, error="x")]
    assert searches(rows) == [
        "1 of 3 searches (33 %) visited every node",
        "1 of 4 probes (25 %) are ties: P(Yes) is 0.5",
    ]
    assert searches([record("yes", 0.9)]) == []


def test_a_method_without_a_search_visits_no_node() -> None:
    """A bm25 that showed every chunk ends as "exhausted" too."""
    assert searches([{"error": None, "stop_reason": "exhausted", "steps": []}]) == []
