"""Places worked by hand, means against plain arithmetic, and the command on stored runs."""

import json
from functools import partial

import numpy as np
import pytest
from harness_audit.position import APART, SupportPosition, frame, panels, sections, support_position

from harness.errors import UnknownName, UserError
from harness.types import Document, Example, Gold, Question, Support
from reports import gold_rows as rows_module
from reports.gold_rows import QuestionRows
from tests.reports.build import SCORE, mistake, record, stored, write_run


def example(number, *spans, documents=None):
    names = documents or (f"d{number // 2}",)
    return Example(
        Question(f"q{number}", "?", names), Gold(("a",), tuple(Support(*s) for s in spans))
    )


def texts(**lengths):
    return {name: Document(name, "x" * length) for name, length in lengths.items()}


@pytest.mark.parametrize(
    ("spans", "centres", "where", "distance"),
    [
        ([("d0", 0, 10)], (0.05,), 0, None),
        ([("d0", 30, 40), ("d0", 50, 60)], (0.35, 0.55), 1, 0.2),
        ([("d0", 90, 100), ("d0", 0, 10)], (0.05, 0.95), None, 0.9),
        ([("d0", 100, 100)], (1.0,), 2, None),  # the end belongs to the last part
        ([], None, None, None),
        ([("elsewhere", 0, 1)], None, None, None),
    ],
)
def test_places_by_hand(spans, centres, where, distance):
    found = support_position(example(0, *spans), QuestionRows(documents=texts(d0=100)))
    if centres is None:
        assert found is None
        return
    assert found.centres == pytest.approx(centres)
    assert found.third_of_text() == where
    assert found.distance() == (None if distance is None else pytest.approx(distance))


def test_several_documents_are_one_text_in_order_with_a_blank_line_between():
    asked = example(0, ("b", 0, 10), documents=("a", "b"))
    found = support_position(asked, QuestionRows(documents=texts(a=48, b=50)))
    assert found.centres == (0.55,)  # (48 + 2 + 5) / 100
    turned = support_position(
        example(0, ("b", 0, 10), documents=("b", "a")), QuestionRows(documents=texts(a=48, b=50))
    )
    assert turned == SupportPosition((0.05,))
    assert support_position(example(0, ("d0", 0, 0)), QuestionRows(documents=texts(d0=0))) is None


def rows_of(spans):
    examples = {
        f"q{n}": example(n, *((f"d{n // 2}", a, b) for a, b in places))
        for n, places in spans.items()
    }
    return QuestionRows(examples, texts(d0=90, d1=90, d2=90, d3=90))


_AT = [
    [(0, 10)],
    [(5, 15), (10, 20)],
    [(40, 50)],
    [(80, 90)],
    [(0, 10), (80, 90)],
    [(0, 10), (70, 80)],
    [],
]
SPANS = dict(enumerate(_AT))
SCORES = [1.0, 0.5, 0.25, None, 0.75, 0.25, 1.0]


def test_means_by_hand_with_what_failed_and_what_is_left_out(tmp_path):
    run = stored(tmp_path, SCORES)
    table = frame([(run, rows_of(SPANS))])
    found = {
        (r["study"], r["part"]): (r["mean"], r["n"], r["failed"]) for r in table.to_dict("records")
    }
    assert found == {
        ("where", "head"): (0.75, 2, 0),
        ("where", "middle"): (0.25, 1, 0),
        ("where", "tail"): (0.0, 1, 1),  # a failed question scores 0
        ("where", APART): (0.5, 2, 0),
        ("distance", "0-33 %"): (0.5, 1, 0),
        ("distance", "67-100 %"): (0.5, 2, 0),
    }
    assert list(table["part"])[:4] == ["head", "middle", "tail", APART]
    assert "1 of 7 questions have no supporting part marked and are left out" in table["notes"][0]
    # q0 and q1 share a document: one cluster says nothing of the spread between documents.
    assert table["mean.low"].isna().all()
    (where, distance) = sections(table)
    assert where[0] == "musique · tiny · support at"
    assert list(distance[1]["distance of the supports"]) == ["0-33 %", "67-100 %"]
    assert SCORE in where[1].columns


def test_runs_that_differ_in_the_place_alone_are_one_line(tmp_path):
    def over(place, hash8, scores, **more):
        dataset = {
            "name": "musique",
            "format": "pocket",
            "scorers": [SCORE],
            "options": {"tokens": 9} | more,
        }
        if place is not None:
            dataset["options"]["place"] = place
        return stored(tmp_path, scores, hash8=hash8, settings={"dataset": dataset})

    head, tail = (
        rows_of({0: [(0, 10)], 1: [(0, 10)]}),
        rows_of({0: [(80, 90)], 1: [(0, 10), (80, 90)]}),
    )
    runs = [
        (over("head", "00000001", [1.0, 0.5]), head),
        (over("tail", "00000002", [0.25, 0.75]), tail),
        (over(None, "00000003", [0.0, 0.5]), head),
        (over("tail", "00000004", [0.5, None], tokens=8), tail),
    ]
    table = frame(runs)
    found = [
        (
            r["placed"],
            r["method"],
            r["part"],
            r["mean"],
            r["n"],
            r["failed"],
            len(r["run"].split(" + ")),
        )
        for r in table[table["study"] == "where"].to_dict("records")
    ]
    assert found == [
        (True, "pecan dataset.tokens=9", "head", 0.75, 2, 0, 1),
        (True, "pecan dataset.tokens=9", "tail", 0.25, 1, 0, 1),
        (True, "pecan dataset.tokens=9", APART, 0.75, 1, 0, 1),
        (False, "pecan dataset.tokens=9", "head", 0.25, 2, 0, 1),
        (
            True,
            "pecan dataset.tokens=8",
            "tail",
            0.5,
            1,
            0,
            1,
        ),  # another length: no line with the others
        (True, "pecan dataset.tokens=8", APART, 0.0, 1, 1, 1),
    ]
    titles = [title for title, _ in sections(table)]
    assert titles[0] == "musique, support placed · tiny · support at"
    assert "musique · tiny · support at" in titles
    _, line = panels(table)[0].lines
    assert [(round(p.x, 2), p.y) for p in line.points] == [(0.17, 75.0), (0.83, 25.0)]


def test_a_question_at_two_places_is_one_cluster(tmp_path):
    options = [{"place": "head"}, {"place": "tail", "distance": 0.1}]
    runs = []
    for number, own in enumerate(options):
        dataset = {"name": "musique", "format": "pocket", "scorers": [SCORE], "options": own}
        scores = [0.0, 1.0, 1.0, 0.0] if number else [1.0, 1.0, 0.0, 0.0]
        run = stored(tmp_path, scores, hash8=f"0000000{number}", settings={"dataset": dataset})
        runs.append((run, rows_of({n: [(0, 10), (80, 90)] for n in range(4)})))
    (row,) = frame(runs)[lambda t: t["study"] == "where"].to_dict("records")
    assert (row["mean"], row["n"], len(row["run"].split(" + "))) == (0.5, 8, 2)
    assert np.isnan([row["mean.low"], row["mean.high"]]).all(), "two documents, not four questions"


def test_no_marks_at_all_and_an_unknown_score_are_told(tmp_path):
    run = stored(tmp_path, [0.5, 0.5])
    with pytest.raises(UserError, match="no question of these runs has supporting parts marked"):
        frame([(run, rows_of({0: [], 1: []}))])
    with pytest.raises(UnknownName, match="unknown score 'f2'"):
        frame([(run, rows_of(SPANS))], "f2")


@pytest.fixture
def call(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)

    return partial(command, "study", "position")


def known(found):
    gone = QuestionRows(problem="the rows are gone")
    return lambda runs, **_: [
        found if run.config.dataset.name == "musique" else gone for run in runs
    ]


def test_table_csv_and_drawing(call, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "read_rows_of_runs", known(rows_of(SPANS)))
    stored(tmp_path / "results", SCORES)
    stored(tmp_path / "more", SCORES, dataset="narrativeqa")
    code, out, err = call("results", "more")
    assert code == 0
    assert "musique · tiny · support at" in out
    assert " 75.0 " in out
    assert "warning: left out: more/narrativeqa" in err
    rows = json.loads(call("results", "--format", "json")[1])
    assert [r["part"] for r in rows if r["study"] == "where"] == ["head", "middle", "tail", APART]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["gone"], "the rows are gone; name the file of the rows with --data"),
        (["results", "gone", "--data", "x.jsonl"], "--data holds the rows of one data set"),
        ([], "RUN"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence, call, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "read_rows_of_runs", known(rows_of(SPANS)))
    stored(tmp_path / "results", SCORES)
    write_run(tmp_path / "gone", [record(0, 0.5)], dataset="qasper")
    assert sentence in mistake(call(*arguments))
