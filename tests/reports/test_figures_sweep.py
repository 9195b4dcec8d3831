"""Score and cost against a setting: the table by hand, the lines, and the command."""

import xml.etree.ElementTree as ET

import pytest

from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UnknownName, UserError
from harness.storage.run_folder import read_run
from reports.figures.plot import draw
from reports.figures.sweep import figure, frame, only_varying_setting, panels
from tests.reports.build import SCORE, config, record, usage, write_run

K = "method.k"


def run(root, number, *scores, cost=1.0, method="bm25", **params):
    """A run with the scores twice, on two documents, whose search costs `cost` TFLOPs and whose
    answer 0.5."""
    own = config("musique", method, "tiny", {})["method"] | {"params": params}
    records = [
        record(i, s, usage={"search": usage(cost), "answer": usage(0.5)})
        for i, s in enumerate(scores * 2)
    ]
    origins = {f"method.params.{name}": "--set" for name in params}
    names = {
        "method": method,
        "hash8": f"{number:08}",
        "settings": {"method": own},
        "origins": origins,
    }
    return read_run(write_run(root, records, **names))


@pytest.fixture
def swept(tmp_path):
    """bm25 with k of 10, 1 and 3, and the whole text, which has no k."""
    return [
        run(tmp_path, 1, 1.0, 1.0, cost=9.5, k=10),
        run(tmp_path, 2, 0.0, 0.5, cost=0.5, k=1),
        run(tmp_path, 3, 0.5, 0.5, cost=2.5, k=3),
        run(tmp_path, 4, 1.0, 0.0, cost=19.5, method="full-context"),
    ]


def test_a_row_a_run_by_method_and_value_and_references_last(swept):
    rows = frame(swept, K).to_dict("records")
    assert [(r["method"], r[K], r["mean"], r["tflops"]) for r in rows] == [
        ("bm25", 1, 0.25, 1.0),
        ("bm25", 3, 0.5, 3.0),
        ("bm25", 10, 1.0, 10.0),
        ("full-context", None, 0.5, 20.0),
    ]
    assert not any(r["mean.low"] == r["mean.low"] for r in rows), "two documents have no interval"
    assert frame(swept, K, convention="full")["tflops"].tolist() == [2.0, 6.0, 20.0, 40.0]
    ((title, table),) = (
        figure(swept, x=K, score=None, convention=DEFAULT_CONVENTION, warn=print).sections or ()
    )
    assert (title, SCORE in table) == ("musique · tiny · over method.k", True)


def test_one_line_a_method_for_the_score_and_one_for_the_cost(swept):
    score, cost = panels(frame(swept, K), K)
    assert [line.name for line in score.lines] == ["bm25", "full-context"]
    assert [(p.x, p.y) for p in score.lines[0].points] == [(1.0, 25.0), (3.0, 50.0), (10.0, 100.0)]
    level = score.lines[1]
    assert ([(p.x, p.y) for p in level.points], level.has_marks) == (
        [(1.0, 50.0), (3.0, 50.0), (10.0, 50.0)],
        False,
    )
    assert [p.y for p in cost.lines[0].points] == [1.0, 3.0, 10.0]
    assert (score.x.ticks, score.x.is_logarithmic, score.x.name) == ((1.0, 3.0, 10.0), False, "k")


def test_a_wide_range_is_logarithmic(swept, tmp_path):
    panel = panels(frame([*swept, run(tmp_path, 5, 0.5, k=100)], K), K)[0]
    assert panel.x.is_logarithmic
    assert draw([panel], "Sweep")[:5] == b"<?xml"


def test_another_setting_that_differs_makes_lines_of_its_own(tmp_path):
    runs = [run(tmp_path, 10 * k + size, 0.5, k=k, size=size) for k in (1, 3) for size in (1, 2)]
    table = frame(runs, K)
    assert table["method"].tolist() == ["bm25 size=1"] * 2 + ["bm25 size=2"] * 2
    with pytest.raises(
        UserError, match=r"several settings; name one of them with --x: method\.k, method\.size"
    ):
        only_varying_setting(runs)


def test_two_runs_at_one_value_are_told_apart(tmp_path):
    runs = [run(tmp_path, i, 0.5, k=k) for i, k in enumerate((1, 3, 3))]
    labels = [f"bm25 (2026-01-02 03:04, 0000000{i})" for i in (1, 2)]
    assert frame(runs, K)["method"].tolist() == ["bm25", *labels]


def test_values_that_are_no_numbers_stand_side_by_side(tmp_path):
    runs = [run(tmp_path, i, 0.5, unit=unit) for i, unit in enumerate(["chunk", None, 7])]
    table = frame(runs, "method.unit")
    assert table["method.unit"].tolist() == ["chunk", "null", 7]
    panel = panels(table, "method.unit")[0]
    assert (panel.x.ticks, panel.x.labels) == ((0.0, 1.0, 2.0), ("chunk", "null", "7"))
    texts = [
        e.text
        for e in ET.fromstring(draw([panel], "Sweep")).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert texts[:3] == ["chunk", "null", "7"]


def test_mistakes_are_one_sentence(swept):
    assert only_varying_setting(swept) == K
    with pytest.raises(UnknownName, match=r"unknown setting 'method.kk'. Did you mean 'method.k'"):
        frame(swept, "method.kk")
    with pytest.raises(UserError, match=r"differ in no setting.*--sweep"):
        only_varying_setting(swept[:1])


def test_the_command(swept, tmp_path, command):
    assert command("report", "sweep", str(tmp_path))[1].startswith(
        "musique · tiny · over method.k\n"
    )
    code, out, err = command("report", "sweep", str(swept[0].path), "--x", K)
    assert (code, "bm25" in out) == (0, True)
    assert "all these runs have one value of method.k; run others with --sweep method.k=A,B" in err
