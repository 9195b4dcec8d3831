import json

import pytest

from tests.reports.build import BASE, OURS, SCORE, mistake, record, stored, write_run


@pytest.fixture
def call(tmp_path, monkeypatch, command):
    """Run the command in a folder with two runs in results/: (exit code, stdout, stderr)."""
    monkeypatch.chdir(tmp_path)
    stored(tmp_path / "results", BASE, method="full-context")
    stored(tmp_path / "results", OURS)

    return command


class TestCompare:
    def test_reference_score_columns_and_format(self, call):
        _, out, _ = call(
            "compare", "results", "--reference", "pecan", "--score", SCORE, "--columns", "seconds,n"
        )
        assert "minus that of pecan" in out
        assert out.splitlines()[1].split() == ["method", "seconds", "n"]
        rows = json.loads(call("compare", "results", "--format", "json")[1])
        assert {r["method"]: r["reference"] for r in rows} == {
            "pecan": "full-context",
            "full-context": None,
        }
        assert "tokens.index" not in call("compare", "results")[1]
        assert "seconds" in call("compare", "results", "--all")[1]

    def test_a_name_with_a_comma_goes_in_quotes(self, call, tmp_path):
        name = "logged.exact_match,strict"
        write_run(
            tmp_path / "results", [record(0, 1.0, scores={SCORE: 1.0, name: 0.5})], method="other"
        )
        code, out, _ = call("report", "results", "--columns", f'n, "{name}"', "--format", "csv")
        assert (code, out.splitlines()[0].count(f'"{name}"')) == (0, 1)
        assert """--columns '"A,B",n'""" in call("report", "results", "--columns", name)[2]

    def test_incomparable_runs_are_refused_unless_forced(self, call, tmp_path):
        stored(tmp_path / "results", OURS[:6], method="bm25")
        code, out, err = call("compare", "results")
        assert (
            code,
            out,
            "answered different questions (6 and 8, 6 in common; --common" in err,
        ) == (
            2,
            "",
            True,
        )
        code, out, _ = call("compare", "results", "--force")
        assert (code, "compared all the same" in out, "bm25    6  " in out) == (0, True, True)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--score", "f1"], "harness score RUN --scorers NAME adds a score"),
            (["--columns", "mine:own"], "harness score RUN --scorers NAME adds a score"),
            (["--columns", ","], "--columns names no column"),
            (["--columns", "n", "--all"], "give either --columns or --all"),
            (["--format", "latx"], "unknown format 'latx'. Did you mean 'latex'"),
            (["--out", "x.html"], "harness report RUNS_DIR --html x.html"),
        ],
    )
    def test_mistakes_are_one_sentence_and_exit_2(self, call, arguments, sentence):
        code, out, err = call("compare", "results", *arguments)
        assert (code, out) == (2, "")
        assert sentence in err
        assert "Traceback" not in err


class TestReport:
    def test_a_damaged_and_an_empty_run_are_named_and_the_others_shown(self, call, tmp_path):
        for method, text in (("bm25", "{broken\n{}\n"), ("sbert", "")):
            folder = stored(tmp_path / "results", OURS, method=method).path
            (folder / "records.jsonl").write_text(text, encoding="utf-8")
        code, out, err = call("report", "results")
        assert (code, "pecan" in out, "bm25" in out) == (3, True, False)
        assert "warning: left out: " in err
        assert "has no answered question yet" in err
        (folder.parent / "x").mkdir()
        assert "no run below" in mistake(call("report", str(folder)), warnings=1)

    def test_a_page_and_a_table_at_once(self, call, tmp_path):
        assert call(
            "report", "--html", "page.html", "--questions", "3", "--out", "t.md", "--paper"
        )[:2] == (0, "")
        source = (tmp_path / "page.html").read_text()
        assert source.startswith("<!doctype html>")
        assert "Details of 3 of 8 questions" in source
        assert (
            "None of these runs measures" in (tmp_path / "t.md").read_text() or "GARLIC" in source
        )

    @pytest.mark.parametrize(("form", "begins"), [("text", ""), ("latex", "% "), ("csv", None)])
    def test_a_mean_of_the_paper_that_lacks_a_run_is_told(self, call, tmp_path, form, begins):
        stored(tmp_path / "results", OURS, dataset="nq", method="longrefiner")
        code, out, _ = call("report", "--paper", "--format", form)
        said = [line for line in out.splitlines() if "Single-hop is a mean over" in line]
        assert code == 0
        assert bool(said) == (begins is not None)
        assert all(line.startswith(f"{begins}LongRefiner's ") for line in said)

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            (["--questions", "3"], "--questions is a setting of the page; add --html FILE"),
            (["--html", "p.html", "--questions", "-1"], "should be 0 or more"),
            (["--html", "p.html", "--all"], "--all is a setting of the table"),
            (["--html", "p.html", "--format", "csv"], "--format is a setting of the table"),
            (["--paper", "--all"], "leave them out with --paper"),
            (
                ["--margin", "1"],
                "--margin is a setting of the comparison with published numbers; add --paper",
            ),
            (["--paper", "--margin", "0"], "--margin 0: should be more than 0"),
            (["--paper", "--margin", "nan"], "--margin nan: should be more than 0"),
            (["--out", "x.docx"], "no format ends in '.docx'"),
        ],
    )
    def test_no_flag_is_silently_ignored(self, call, arguments, sentence):
        assert sentence in mistake(call("report", "results", *arguments))

    def test_a_file_that_cannot_be_written_is_exit_3(self, call, tmp_path):
        (tmp_path / "blocked").write_text("")
        code, _, err = call("report", "--html", "blocked/p.html")
        assert code == 3
        assert "cannot write" in err
