"""Requests a question against plain arithmetic, construction apart, and the command on stored
runs."""

from harness_audit.requests import figure, frame, panels

from harness.cost.flops import Event
from harness.cost.meter import Meter
from harness.storage.run_folder import read_run
from reports.costs import count_requests, request_counts
from reports.facts import answered_clusters
from tests.reports.build import SCORE, record, usage, write_run


def asked(number, search, answer, retries=0, score=0.5):
    """Question q<number> with so many requests."""
    spent = {
        "search": {**usage(1.0), "requests": search},
        "answer": {**usage(0.5), "requests": answer},
    }
    # An encoder was asked twice as well, which is no request to a model that replies.
    spent["search"] |= {"requests": search + 2, "encoder_requests": 2}
    spent["search"]["retries"] = retries
    spent["study"] = {**usage(1.0), "requests": 99}
    return record(number, score, usage=spent)


def built(document, requests, question=None, status="built"):
    line = {"document_id": document, "key": "k", "status": status}
    line["usage"] = {"index": {**usage(2.0), "requests": requests, "retries": 1}}
    return line | ({"question_id": question} if question else {})


def run(root, records, documents, method="qrmem"):
    return read_run(write_run(root, records, documents=documents, method=method))


RECORDS = [asked(0, 2, 1, 3), asked(1, 4, 1), asked(2, 0, 1), asked(3, 1, 2), record(4, None)]
OWN = [built("d0", 10, "q0"), built("d0", 20, "q1"), built("d1", 30, "q2"), built("d1", 40, "q3")]


def test_by_hand(tmp_path):
    # A run that was resumed met the first index again; one that could not be built cost nobody an
    # answer.
    more = [built("d0", 10, "q0", "hit"), built("d2", 7, "q4", "failed")]
    found = run(tmp_path, RECORDS, [*OWN, *more])
    assert request_counts(found) == [3.0, 5.0, 1.0, 3.0]
    assert list(answered_clusters(found)) == [0, 0, 1, 1]
    (row,) = frame([found]).to_dict("records")
    assert (row["requests"], row["requests.search"], row["requests.answer"]) == (3.0, 1.75, 1.25)
    assert row["requests.low"] != row["requests.low"], "two documents have no interval"
    assert (row["requests.index"], row["index of"], row["requests.built"]) == (
        25.0,
        "a question",
        25.0,
    )
    assert row["retries"] == 3 + 4
    assert (row["n"], row["failed"], row["mean"]) == (5, 1, 0.4)


def test_what_an_encoder_reads_is_no_request():
    meter = Meter("search")
    for kind in ("prefill", "embed", "rerank", "probe"):
        meter.record(Event("r", "m", "search", kind, 5, requests=1), None)
    spent = meter.usage()
    assert (spent["search"]["requests"], spent["search"]["encoder_requests"]) == (4, 2)
    assert count_requests(spent, "search", "answer") == 2


def test_an_index_that_questions_share_and_none_at_all(tmp_path):
    shared = run(tmp_path / "a", RECORDS, [built("d0", 6), built("d1", 12)], "memwalker")
    none = run(tmp_path / "b", [asked(0, 0, 1), asked(1, 0, 1)], [], "bm25")
    first, second = frame([shared, none]).to_dict("records")
    assert (first["requests.index"], first["index of"], first["requests.built"]) == (
        9.0,
        "a document",
        4.5,
    )
    assert (second["index of"], second["requests.built"], second["requests"]) == ("", 0.0, 1.0)
    assert second["requests.index"] != second["requests.index"]  # NaN: there is no index


def test_records_from_before_retries_were_counted(tmp_path):
    (row,) = frame([run(tmp_path, [record(0, 0.5)], [])]).to_dict("records")
    assert (row["retries"], row["requests"]) == (0, 2.0)


def test_the_drawings(tmp_path):
    runs = [
        run(tmp_path / "a", RECORDS, OWN),
        run(tmp_path / "b", RECORDS, [built("d0", 6), built("d1", 12)], "memwalker"),
        run(tmp_path / "c", [asked(0, 0, 1, score=0.9)], [], "bm25"),
    ]
    table = frame(runs)
    (score,) = panels(table)
    assert [(line.name, line.points[0].x, line.points[0].y) for line in score.lines] == [
        ("qrmem", 3.0, 40.0), ("memwalker", 3.0, 40.0), ("bm25", 1.0, 90.0),
    ]  # fmt: skip
    ((title, shown),) = figure(runs, score=None).sections or ()
    assert title == "musique · tiny · requests a question"
    assert list(shown["method"]) == ["bm25", "qrmem", "memwalker"], "best score first"
    assert SCORE in shown.columns
    many = [run(tmp_path / f"m{i}", [asked(0, 0, i + 1)], [], f"m{i}") for i in range(7)]
    assert [panel.title for panel in panels(frame(many))] == [
        "musique · tiny (1 of 2)",
        "musique · tiny (2 of 2)",
    ]


def test_nobody_answered(tmp_path):
    table = frame([run(tmp_path, [record(0, None)], [])])
    assert table["requests"].isna().all()
    assert panels(table) == []
