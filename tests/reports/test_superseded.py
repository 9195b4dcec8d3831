"""Runs that newer code made again, and runs of other questions: what compare and report show."""

import json

import pytest

from tests.reports.build import BASE, OURS, record, span, write_run

OLD = {"started": "2026-01-01T00:00:00+00:00"}
NOTE = "1 run of older code or prompts left out"


def records(scores):
    """A record for each score, which shows a piece of its own document."""
    return [
        record(number, score, shown=[span(f"d{number // 2}", 0, 3)])
        for number, score in enumerate(scores)
    ]


@pytest.fixture
def results(tmp_path):
    """A method whose code was edited, before and after, beside bm25."""
    write_run(tmp_path, records(BASE), method="bm25")
    write_run(tmp_path, records(BASE), method="lead", hash8="0000000b", manifest=OLD)
    write_run(tmp_path, records(OURS), method="lead", hash8="0000000a")
    return tmp_path


@pytest.mark.parametrize("verb", ["report", "compare"])
def test_a_table_shows_the_newest_code_and_counts_the_others(verb, results, command):
    _, out, _ = command(verb, str(results))
    rows_and_verdict = 2
    assert (out.count("\nlead "), NOTE in out) == (rows_and_verdict, True)
    assert "65.0" in out  # the mean of the newest
    _, every, _ = command(verb, str(results), "--all-code", *FORCED[verb])
    assert (NOTE in every, every.count("\nlead ") > out.count("\nlead ")) == (False, True)


FORCED = {"report": [], "compare": ["--force", "--reference", "bm25"]}


@pytest.mark.parametrize("words", ["report front", "report sweep --x k"])
def test_a_figure_shows_the_newest_code(words, results, command):
    shown = [*words.split(), str(results), "--format", "json"]
    _, newest, err = command(*shown)
    _, every, _ = command(*shown, "--all-code")
    methods = [[row["method"] for row in json.loads(out)] for out in (newest, every)]
    counts = [len({name for name in names if name.startswith("lead")}) for names in methods]
    assert counts == [1, 2], err


@pytest.mark.parametrize("analysis", ["bands", "stability"])
def test_an_analysis_shows_the_newest_code_and_counts_the_others(analysis, results, command):
    _, out, err = command("report", analysis, str(results), "--format", "json")
    assert NOTE in err
    assert "0000000b" not in out


@pytest.mark.parametrize("changed", ["fingerprint", "weights", "setting", "imported"])
def test_other_rows_weights_or_settings_are_no_older_code(changed, tmp_path, command):
    write_run(tmp_path / "a", records(OURS), method="lead", hash8="0000000a")
    changes = {
        "fingerprint": {"manifest": OLD | {"dataset": {"fingerprint": "e" * 64}}},
        "weights": {"manifest": OLD | {"models": {"reader": {"weights": "other"}}}},
        "setting": {"manifest": OLD, "settings": {"seed": 1}},
        "imported": {"manifest": OLD | {"imported": {"tool": "x", "files": []}}},
    }[changed]
    write_run(tmp_path / "b", records(BASE), method="lead", hash8="0000000b", **changes)
    _, out, _ = command("report", str(tmp_path), "--all")
    assert "older code" not in out


def test_the_same_run_in_two_folders_is_no_older_code(tmp_path, command):
    for folder in "ab":
        write_run(tmp_path / folder, records(OURS), method="lead")
    _, out, _ = command("report", "front", str(tmp_path))
    assert out.count("\nlead ") == 2


def test_compare_leaves_out_a_run_without_records(results, command):
    empty = write_run(results, [], method="pecan")
    code, out, err = command("compare", str(results))
    assert (code, "pecan" in out) == (0, False)
    assert err == f"warning: left out: {empty} has no answered question yet\n"


def test_compare_common_compares_the_questions_that_all_were_asked(tmp_path, command):
    write_run(tmp_path, records(BASE), method="bm25")
    write_run(tmp_path, records(OURS[:6]), method="lead")
    code, _, err = command("compare", str(tmp_path))
    assert (code, "6 in common; --common compares those" in err) == (2, True)
    code, out, _ = command("compare", str(tmp_path), "--common")
    assert (code, "the 6 of 8 questions that every run was asked" in out) == (0, True)
