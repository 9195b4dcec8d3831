"""Labels of runs name the settings in which they differ, and tables have a column for each."""

from reports.columns import sections
from reports.main_table import frame
from reports.settings import is_setting, name_runs, settings
from reports.table_formats import render, render_sections
from tests.reports.build import config, stored


def run(root, number, origin="--set", mark="", **params):
    """A run of bm25 with these parameters, each set by `origin`."""
    own = config("musique", "bm25", "tiny", {})["method"] | {"params": params, "mark": mark}
    origins = {f"method.params.{name}": origin for name in params}
    return stored(root, (0.5, 1.0), method="bm25", hash8=f"0000000{number}", settings={"method": own}, origins=origins)


def test_a_label_names_what_differs_and_nothing_else(tmp_path):
    runs = [run(tmp_path, 1, k=1, size=300), run(tmp_path, 2, k=3, size=300), stored(tmp_path, (1.0,))]
    assert [(one.label, one.base, one.values) for one in name_runs(runs)] == [
        ("bm25 k=1", "bm25", {"method.k": 1}),
        ("bm25 k=3", "bm25", {"method.k": 3}),
        ("pecan", "pecan", {}),
    ]
    assert [one.label for one in name_runs(runs[:1])] == ["bm25"]


def test_what_a_preset_or_nobody_set_is_named_only_where_nothing_else_differs(tmp_path):
    runs = [run(tmp_path, 1, "configs/methods/bm25.yaml", k=5), run(tmp_path, 2, k=3, mark="k=3")]
    assert [one.label for one in name_runs(runs)] == ["bm25", "bm25 k=3"]
    runs = [run(tmp_path / "b", i, "default", k=i) for i in (1, 2)]  # the preset changed between the two
    assert [one.label for one in name_runs(runs)] == ["bm25 k=1", "bm25 k=2"]


def test_what_changes_no_answer_tells_no_runs_apart(tmp_path):
    data = config("musique", "bm25", "tiny", {})["dataset"]
    changes = [{"keep_texts": True, "data": None}, {"keep_texts": False, "data": "/rows"}]
    runs = [
        stored(tmp_path, (1.0,), hash8=f"0000000{i}", settings={"dataset": data | c}) for i, c in enumerate(changes)
    ]
    assert [one.label for one in name_runs(runs)] == [f"pecan (2026-01-02 03:04, 0000000{i})" for i in (0, 1)]


def test_a_table_has_a_column_a_setting_and_the_plain_name(tmp_path):
    table = frame([run(tmp_path, 1, k=1), run(tmp_path, 2, k=10), stored(tmp_path, (1.0, 0.0))])
    assert settings(table) == ["method.k"]
    (section,) = sections(table)
    rows = [line.split()[:2] for line in render_sections([(section.title, section.frame)], "text").splitlines()[1:5]]
    assert rows == [["method", "k"], ["bm25", "1"], ["bm25", "10"], ["pecan", "–"]]
    assert render_sections([("", section.frame)], "markdown").count("| bm25 | 10 |") == 1
    assert "method.k" in render(table, "csv").splitlines()[0]
    assert settings(frame([run(tmp_path / "alone", 1, k=1)])) == []


def test_which_columns_are_settings():
    names = ("method.k", "seed", "dataset.tokens", "roles.builder", "method", "tflops.low", "model", "method:score")
    assert [is_setting(name) for name in names] == [True, True, True, True, False, False, False, False]
