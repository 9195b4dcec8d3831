"""How searches ended, as sentences below a table."""

from dataclasses import replace
from types import SimpleNamespace

from harness.storage.record_columns import columns_of
from harness.storage.records import StoredRecord
from methods.graph import Graph
from methods.pecan.build import BuilderCall, NodesToRead, log_level
from methods.pecan.config import PecanConfig
from reports.search_notes import count_declined, same_nodes_notes, search_notes
from tests.reports.build import stored_config


def record(stop, *p_yes, error=None, note="", document="d"):
    steps = [{"p_yes": p} for p in p_yes] + [{"note": note}]
    return StoredRecord(
        question_id="q",
        document_ids=[document],
        prediction="",
        scores={},
        usage={},
        error=error,
        stop_reason=stop,
        steps=steps,
    )


def notes_of(rows):
    return search_notes(columns_of(rows, ""))


def test_exhausted_searches_and_ties_are_counted_over_answered_questions():
    rows = [
        record("exhausted", 0.5, 0.4),
        record("yes", 0.5001, None),
        record("yes", 0.9),
        record("", 0.5, error="x"),
    ]
    assert notes_of(rows) == [
        "1 of 3 searches (33 %) visited every node",
        "1 of 4 probes (25 %) are ties: P(Yes) is 0.5",
    ]
    assert notes_of([record("yes", 0.9)]) == []


def test_questions_that_were_declined_at_first_are_counted_among_those_that_could_be():
    rows = [
        replace(record("whole"), steps=[{"action": action}])
        for action in ("decline", "accept", "accept", "select")
    ]
    assert notes_of(rows) == [
        "1 of 3 questions (33 %) were declined at first and answered from the whole document"
    ]
    assert count_declined(columns_of(rows, "")) == 1


def test_a_method_without_a_search_visits_no_node():
    """A bm25 that showed every chunk ends as "exhausted" too."""
    assert notes_of([replace(record("exhausted"), steps=[])]) == []


def test_calls_cut_at_the_reserve_are_counted_once_a_document():
    """The sentence is read from what graph construction notes, so the note is made by it here."""
    graph, batch = Graph(), BuilderCall([0], ["a"], None, "bullets", True, 0)
    for level, cut in ((2, [batch, batch]), (3, [batch])):
        log_level(graph, NodesToRead(level, [0], [1]), cut, PecanConfig(reserve=20))
    note = "; ".join([*graph.notes, "2 top nodes left out"])
    rows = [
        *[record("yes", note=note)] * 2,
        record("yes", document="e"),
        record("", note=note, error=1),
    ]
    assert notes_of(rows) == [
        (
            "3 summaries, in 1 of 2 indexes, were cut at 20 tokens; an unfinished last point is "
            "dropped where there are others"
        )
    ]


def visits(dataset, *nodes):
    rows = [
        replace(
            record(""),
            question_id=str(n),
            steps=[{"node": node, "level": 1, "tokens": 5} for node in [*order, None]],
        )
        for n, order in enumerate(nodes)
    ]
    of = {"name": dataset, "scorers": ["f1"]}
    return SimpleNamespace(config=stored_config(dataset=of), columns=columns_of(rows, ""))


def test_runs_that_visited_the_same_nodes_in_every_question_are_named_together():
    runs = [
        visits("x", [1, 2], [3]),
        visits("x", [2, 1], [3]),
        visits("x", [1, 2], [4]),
        visits("y", [1, 2], [3]),
    ]
    notes = ["a, b visited the same nodes in every question"]
    assert same_nodes_notes(runs, ["a", "b", "c", "d"]) == [notes, notes, [], []]
    assert same_nodes_notes([visits("x", []), visits("x", [])], ["a", "b"]) == [[], []], (
        "a method without a search"
    )


def test_a_ranking_visits_no_node():
    """A retriever that found fewer passages than were asked for, and hybrid on a short page."""
    rows = [replace(record("exhausted"), steps=[{"action": "retrieve"}, {"action": "retrieve"}])]
    assert notes_of(rows) == []
