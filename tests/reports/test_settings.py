"""Labels of runs name the settings in which they differ, and tables have a column for each."""

from dataclasses import replace

import pytest

from reports.columns import sections
from reports.compare import compare
from reports.main_table import frame
from reports.settings import name_runs, own_code_hash, setting_columns
from reports.table_formats import render, render_sections
from tests.reports.build import SCORE, answered, config, mistake, stored, write_run


def run(root, number, origin="--set", mark="", **params):
    """A run of bm25 with these parameters, each set by `origin`."""
    own = config("musique", "bm25", "tiny", {})["method"] | {"params": params, "mark": mark}
    origins = {f"method.params.{name}": origin for name in params}
    return stored(
        root,
        (0.5, 1.0),
        method="bm25",
        hash8=f"0000000{number}",
        settings={"method": own},
        origins=origins,
    )


def test_a_label_names_what_differs_and_nothing_else(tmp_path):
    runs = [
        run(tmp_path, 1, k=1, size=300),
        run(tmp_path, 2, k=3, size=300),
        stored(tmp_path, (1.0,)),
    ]
    assert [(one.label, one.base, one.values) for one in name_runs(runs)] == [
        ("bm25 k=1", "bm25", {"method.k": 1}),
        ("bm25 k=3", "bm25", {"method.k": 3}),
        ("pecan", "pecan", {}),
    ]
    assert [one.label for one in name_runs(runs[:1])] == ["bm25"]


def test_what_a_preset_or_nobody_set_is_named_only_where_nothing_else_differs(tmp_path):
    runs = [run(tmp_path, 1, "configs/methods/bm25.yaml", k=5), run(tmp_path, 2, k=3, mark="k=3")]
    assert [one.label for one in name_runs(runs)] == ["bm25", "bm25 k=3"]
    runs = [
        run(tmp_path / "b", i, "default", k=i) for i in (1, 2)
    ]  # the preset changed between the two
    assert [one.label for one in name_runs(runs)] == ["bm25 k=1", "bm25 k=2"]


def test_what_changes_no_answer_tells_no_runs_apart(tmp_path):
    data = config("musique", "bm25", "tiny", {})["dataset"]
    changes = [{"keep_texts": True, "data": None}, {"keep_texts": False, "data": "/rows"}]
    each = enumerate({"dataset": data | change} for change in changes)
    runs = [stored(tmp_path, (1.0,), hash8=f"0000000{i}", settings=own) for i, own in each]
    assert [one.label for one in name_runs(runs)] == [
        f"pecan (2026-01-02 03:04, 0000000{i})" for i in (0, 1)
    ]


def test_a_table_has_a_column_a_setting_and_the_plain_name(tmp_path):
    table = frame([run(tmp_path, 1, k=1), run(tmp_path, 2, k=10), stored(tmp_path, (1.0, 0.0))])
    assert setting_columns(table) == ["method.k"]
    (section,) = sections(table)
    rows = [line.split()[:2] for line in render_sections([section], "text").splitlines()[1:5]]
    assert rows == [["method", "k"], ["bm25", "1"], ["bm25", "10"], ["pecan", "–"]]
    assert render_sections([section], "markdown").count("| bm25 | 10 |") == 1
    assert "method.k" in render(table, "csv").splitlines()[0]
    assert setting_columns(frame([run(tmp_path / "alone", 1, k=1)])) == []


def edited(root, number, value, code, **manifest):
    """A run of one's own method with the hash of its code, where a default is told only if the user
    set it."""
    own = config("musique", "overlap", "tiny", {})["method"] | {
        "params": {"n": value, "stem": True}
    }
    description = {"code": {"overlap": code}} | manifest
    settings_, origins = {"method": own}, {"method.params.n": "--set"}
    names = {"method": "overlap", "hash8": f"0000000{number}"}
    return stored(
        root, (0.5, 1.0), **names, settings=settings_, manifest=description, origins=origins
    )


def test_every_run_of_a_method_says_its_code_where_that_was_edited(tmp_path):
    runs = [
        edited(tmp_path, i, n, code) for i, (n, code) in enumerate([(1, "a"), (3, "a"), (3, "b")])
    ]
    codes = [own_code_hash(run) for run in runs]
    assert [one.label for one in name_runs(runs)] == [
        f"overlap n={n} (code {code}, 2026-01-02)" for n, code in zip((1, 3, 3), codes, strict=True)
    ]
    assert [one.label for one in name_runs(runs[:2])] == ["overlap n=1", "overlap n=3"]
    assert len({*frame(runs)["base"]}) == 2


def test_two_rows_whose_settings_are_equal_never_look_alike(tmp_path):
    """A value is in the label of the run whose user set it, and in the columns of both."""
    runs = [edited(tmp_path, i, n, "a") for i, n in enumerate((1, 3, 3))]
    runs[2] = replace(runs[2], origins={"method.params.n": "default"})
    rows = [(row["base"], row["method.n"]) for row in frame(runs).to_dict("records")]
    assert len({*rows}) == 3


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"packages": {"torch": "2.9"}}, "torch 2.9"),
        ({"dataset": {"fingerprint": "0123456789"}}, "rows 0123456"),
        ({"git": {"commit": "c0ffee", "dirty": True}}, "commit c0ffee, changed"),
    ],
)
def test_runs_of_equal_settings_are_told_apart_by_what_made_them(manifest, words, tmp_path):
    plain = {"packages": {"torch": "2.8"}}
    runs = [edited(tmp_path, 1, 3, "a", **plain), edited(tmp_path, 2, 3, "a", **plain | manifest)]
    assert name_runs(runs)[1].label == f"overlap ({words})"


@pytest.mark.parametrize(
    "verb", ["report --all --format json", "report front --format json", "report stability"]
)
def test_runs_of_one_name_in_two_folders_are_both_shown(verb, tmp_path, command, monkeypatch):
    """The same settings run again with other packages, and a plain copy, which only `report` leaves
    out."""
    monkeypatch.chdir(tmp_path)
    for folder, version in (("a", "2.8"), ("b", "2.9"), ("c", "2.9")):
        rows = [answered(i, 0.5, ["x"]) for i in range(2)]
        write_run(tmp_path / folder, rows, manifest={"packages": {"torch": version}, "dataset": {}})
    code, out, err = command(*verb.split(), "a", "b", "c")
    assert code == 0
    assert ("c/musique/pecan--tiny--0123abcd is the same run as b/" in err) == (
        verb == "report --all --format json"
    )
    for words in ("pecan (torch 2.8)", "pecan (torch 2.9"):
        assert words in out
    assert ("(torch 2.9) (2026-01-02 03:04, 0123abcd, c)" in out) != ("is the same run as" in err)


def test_a_note_says_which_run_other_packages_made(tmp_path):
    runs = [
        edited(tmp_path, i, i, "a", packages={"torch": version})
        for i, version in enumerate(("2.8", "2.8", "2.9"))
    ]
    notes = frame(runs).set_index("run")["notes"].to_dict()
    assert [
        "was made with torch 2.9 (most runs: 2.8)" in " ".join(own) for own in notes.values()
    ] == [
        False,
        False,
        True,
    ]


def test_compare_names_edited_code(tmp_path):
    runs = [edited(tmp_path, i, 3, code) for i, code in enumerate("ab")]
    (row,) = compare(runs, reference="00000000").to_dict("records")
    assert (
        f"code: '{own_code_hash(runs[1])}', reference '{own_code_hash(runs[0])}'"
        in row["changed"][0]
    )


def swept(root):
    """bm25 with k = 1 and 3 and a pecan, all of the same questions."""
    return [run(root, 1, k=1), run(root, 2, k=3), stored(root, (0.0, 1.0))]


@pytest.mark.parametrize(
    ("verb", "option", "printed", "other", "sentence"),
    [
        (
            "report",
            "--reference",
            "bm25 k=3",
            "bm25 k=4",
            "'bm25 k=4'. Did you mean 'bm25 k=3' or 'bm25 k=1'?",
        ),
        (
            "report --html p.html",
            "--reference",
            "bm25 k=3",
            "bm25 k=4",
            "unknown reference 'bm25 k=4'",
        ),
        ("report queries", "--reference", "bm25 k=3", "bm25 k=4", "unknown reference 'bm25 k=4'"),
        (
            "compare",
            "--reference",
            "bm25 k=3",
            "bm25 k=4",
            "'bm25 k=4'. Did you mean 'bm25 k=3' or 'bm25 k=1'?",
        ),
        ("report", "--columns", "k,n", "K,n", "unknown column 'K'"),
        ("compare --format latex", "--columns", "k,n", "p,n", "unknown column 'p'"),
        ("report sweep", "--x", "k", "q", "unknown setting 'q'"),
        ("report front", "--score", SCORE, "tokens", f"unknown score 'tokens'. Known: {SCORE}"),
    ],
)
def test_a_name_as_printed_is_taken_and_another_refused_with_the_list(
    verb, option, printed, other, sentence, tmp_path, command, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    swept(tmp_path / "runs")
    assert command(*verb.split(), "runs", option, printed)[0] == 0
    assert sentence in mistake(command(*verb.split(), "runs", option, other))
