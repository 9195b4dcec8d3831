"""Methods by data sets: cells and means by hand, gaps as gaps, the command in every format."""

import json
import math
from dataclasses import replace
from functools import partial

import pytest

from harness.errors import UnknownName
from harness.storage.run_folder import read_run
from reports.main_table import table_rows
from reports.methods_by_dataset import wide_table
from reports.table_formats import render_sections
from tests.reports.build import SCORE, mistake, record, stored, write_run

HIGH, LOW = (1.0, 1.0, 1.0, 0.0) * 2, (0.0, 1.0, 0.0, 0.0) * 2


@pytest.fixture
def table(tmp_path):
    """pecan on both data sets, bm25 on one."""
    made = [(LOW, "pecan", "musique"), (HIGH, "pecan", "qasper"), (HIGH, "bm25", "musique")]
    return table_rows(
        [stored(tmp_path, scores, method=method, dataset=data) for scores, method, data in made]
    )


def test_a_cell_a_data_set_and_the_mean_of_those_with_all(table):
    pecan, bm25 = wide_table(table).frame().to_dict("records")
    assert [pecan[name] for name in ("method", "musique", "qasper", "mean")] == [
        "pecan",
        0.25,
        0.75,
        0.5,
    ]
    assert (bm25["musique"], math.isnan(bm25["qasper"]), math.isnan(bm25["mean"])) == (
        0.75,
        True,
        True,
    )
    assert "no mean: no run on qasper" in bm25["notes"]
    assert "musique: 8 questions" in " ".join(pecan["notes"]).replace(f"{SCORE}, ", "")
    assert "musique.low" not in pecan


def test_the_interval_of_the_mean_adds_the_distances_in_squares(table):
    pecan, bm25 = wide_table(table, SCORE, intervals=True).frame().to_dict("records")
    below = [pecan[name] - pecan[f"{name}.low"] for name in ("musique", "qasper")]
    above = [pecan[f"{name}.high"] - pecan[name] for name in ("musique", "qasper")]
    assert pecan["mean.low"] == pytest.approx(0.5 - math.hypot(*below) / 2)
    assert pecan["mean.high"] == pytest.approx(min(1.0, 0.5 + math.hypot(*above) / 2))
    assert math.isnan(bm25["mean.low"])


def test_a_score_that_a_data_set_lacks_is_a_gap(tmp_path):
    only = [record(i, 1.0, scores={SCORE: 1.0, "musique.answer_f1": 0.5}) for i in range(4)]
    write_run(tmp_path, only, dataset="musique")
    runs = [
        read_run(tmp_path / "musique" / "pecan--tiny--0123abcd"),
        stored(tmp_path, HIGH, dataset="qasper"),
    ]
    (row,) = wide_table(table_rows(runs), "musique.answer_f1").frame().to_dict("records")
    assert (row["musique"], "no mean: no such score on qasper" in row["notes"]) == (0.5, True)
    with pytest.raises(
        UnknownName, match=r"unknown score 'musique.answer_f2'. Did you mean 'musique.answer_f1'"
    ):
        wide_table(table_rows(runs), "musique.answer_f2")


def test_one_table_a_model_best_mean_first_and_gaps_are_dashes(tmp_path):
    runs = []
    for method, scores in (("bm25", LOW), ("pecan", HIGH)):
        runs += [
            stored(tmp_path, scores, method=method, dataset=name, model="a", hash8=own_hash)
            for name, own_hash in (("musique", "0123abcd"), ("qasper", "0123abce"))
        ]
    runs.append(stored(tmp_path, HIGH, model="b"))
    found = wide_table(table_rows(runs), SCORE).sections(SCORE)
    assert [table.title for table in found] == [f"{SCORE} · a", f"{SCORE} · b"]
    assert list(found[0].frame["method"]) == ["pecan", "bm25"]
    text = render_sections(found, "text")
    assert text.splitlines()[2].split() == ["pecan", "75.0", "75.0", "75.0"]
    assert (
        render_sections(found[1:], "markdown")
        .splitlines()[4]
        .startswith("| pecan | 75.0 | – | – |")
    )
    assert "pecan & 75.0 & -- & --" in render_sections(found[1:], "latex")


def test_the_command(table, tmp_path, command):
    call = partial(command, "report", str(tmp_path))

    code, out, _ = call("--wide", "--intervals")
    assert (code, out.splitlines()[1].split()) == (
        0,
        ["method", "musique", "qasper", "mean", "notes"],
    )
    assert "25.0 [" in out
    rows = json.loads(call("--wide", "--format", "json")[1])
    assert (rows[0]["mean"], rows[1]["mean"], "mean.low" in rows[0]) == (0.5, None, True)
    for more, sentence in [
        (
            ["--score", SCORE],
            "--score is a setting of the table of methods by data sets; add --wide",
        ),
        (["--intervals"], "add --wide"),
        (["--wide", "--paper"], "--paper has no effect"),
        (["--wide", "--all"], "--all has no effect"),
    ]:
        assert sentence in mistake(call(*more))


def test_what_rounds_to_nothing_is_noted_in_the_tables_of_the_data_sets_alone(tmp_path):
    shares = ("2 of 1558 texts (0 %) were cut", "2 of 8 texts (25 %) were cut")
    runs = [
        replace(stored(tmp_path, HIGH, dataset=name), notes=shares)
        for name in ("musique", "qasper")
    ]
    (row,) = wide_table(table_rows(runs)).frame().to_dict("records")
    notes = " ".join(row["notes"])
    assert [share in notes for share in shares] == [False, True]


def test_a_reference_marks_what_differs_from_it(tmp_path, command):
    ones = [1.0] * 24
    for method, scores in (("bm25", ones), ("pecan", [0.0] * 24), ("raptor", [*ones[1:], 0.0])):
        stored(tmp_path, scores, method=method)
    code, out, _ = command("report", str(tmp_path), "--wide", "--reference", "bm25")
    assert (code, "mean" in out.splitlines()[1]) == (0, False), "of one data set"
    cells = [line.split()[:2] for line in out.splitlines()[2:5]]
    assert cells == [["bm25", "100.0"], ["raptor", "95.8"], ["pecan", "0.0†"]]
    assert (
        "†: differs from bm25, p < 0.05 (paired sign flips by document, Holm over 2 tests)" in out
    )
    rows = json.loads(
        command("report", str(tmp_path), "--wide", "--reference", "bm25", "--format", "json")[1]
    )
    small = {
        row["method"]: row["musique.p"] is not None and row["musique.p"] < 0.05 for row in rows
    }
    assert small == {"bm25": False, "raptor": False, "pecan": True}
