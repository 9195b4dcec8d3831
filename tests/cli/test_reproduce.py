"""`harness reproduce`: run a suite and show ours beside the printed values; what is listed."""

import json

import pytest

from harness.api.run_request import RunOptions
from harness.cli.reproduce import _suite_selection
from reports.paper import tables_and_figures

SUITE = "methods: [echo]\ndatasets: [pocket/musique]\nprofile: tiny\n"
ARGUMENTS = ("--mlflow", "off", "-q", "--model", "random")


@pytest.fixture
def twins(configs):
    """Two twins of the user's own, with a method that needs no model."""
    for name in ("pocket-garlic-table2", "pocket-garlic-figure4"):
        (configs / "suites" / f"{name}.yaml").write_text(SUITE)


def test_a_table_is_run_and_shown(here, twins, tmp_path):
    done = here(
        "reproduce", "pocket-garlic-table2", *ARGUMENTS, "--html", "t.html", "--latex", "t.tex"
    ).checked()
    assert "2 questions, 0 failed" in done.stdout
    assert "60 printed values of GARLIC, Table 2 have no run here yet" in done.stdout
    assert "GARLIC, Table 2: ablations" in (tmp_path / "t.html").read_text()
    assert (tmp_path / "t.tex").exists()
    again = here("reproduce", "pocket-garlic-table2", *ARGUMENTS, "--plan")
    assert "0 of 2" in again.stdout
    here("reproduce", "--markdown", "all.md").checked()
    assert "QRMeM, Table 6" in (tmp_path / "all.md").read_text()


def test_checks_hold_for_its_runs(here, twins, tmp_path):
    limit = ("--fail-under", "flashrag.acc=99", "--junit", "checks.xml")
    done = here("reproduce", "pocket-garlic-table2", *ARGUMENTS, *limit)
    assert done.returncode == 4
    assert "printed values of GARLIC, Table 2 have no run here yet" in done.stdout
    assert 'failures="1"' in (tmp_path / "checks.xml").read_text()
    pages = here("reproduce", "--markdown", "all.md", "--fail-under", "flashrag.acc=99")
    assert pages.returncode == 2
    assert "a page of stored runs runs nothing" in pages.stderr


def scripted(configs, tmp_path, *names):
    """Twins of these names with bm25 and closed-book, and arguments for a model of fixed
    replies."""
    suite = SUITE.replace("[echo]", "[bm25, closed-book]")
    for name in names:
        (configs / "suites" / f"{name}.yaml").write_text(suite)
    (tmp_path / "replies.yaml").write_text("replies: [{reply: nothing}]")
    return "--mlflow", "off", "-q", "--model", "scripted", "--set", "model.script=replies.yaml"


def test_it_says_whose_values_have_no_run(here, configs, tmp_path):
    arguments = scripted(configs, tmp_path, "pocket-pecan-table1")
    done = here("reproduce", "pocket-pecan-table1", *arguments).checked()
    counted = " printed values of GARLIC, Table 1, which stand beside PECAN, Table 1, have no run"
    assert counted in done.stdout
    assert "printed values of PECAN" not in done.stdout


def test_only_chosen_methods_and_data_sets_are_shown(here, configs, tmp_path):
    arguments = scripted(configs, tmp_path, "pocket-garlic-table1")
    chosen = ("--method", "BM25", "--dataset", "pocket/musique", "--latex", "t.tex")
    done = here("reproduce", "pocket-garlic-table1", *chosen, *arguments).checked()
    # F1, BLEU-4, ROUGE-L and so on of one printed row, all of them run
    assert "have no run here yet" not in done.stdout
    assert "BM25 top-5" in done.stdout
    latex = (tmp_path / "t.tex").read_text()
    assert ("BM25 top-5" in latex, "SBERT" in latex) == (True, False)


def test_latex_of_a_table_has_no_row_without_a_run(here, configs, tmp_path):
    arguments = scripted(configs, tmp_path, "pocket-garlic-table1")
    files = ("--latex", "t.tex", "--markdown", "t.md")
    here("reproduce", "pocket-garlic-table1", *files, *arguments).checked()
    texts = [(tmp_path / name).read_text() for name in ("t.tex", "t.md")]
    assert ["no run yet" in text for text in texts] == [False, True]


def test_a_figure_that_cannot_be_drawn_says_why(here, twins):
    done = here("reproduce", "pocket-garlic-figure4", *ARGUMENTS).checked()
    assert (
        "note: pocket-garlic-figure4.svg was not drawn: no run here stops by t_n and t_p"
        in done.stderr
    )


def test_the_list_says_what_is_needed_and_what_is_here(here, monkeypatch):
    few = [item for item in tables_and_figures.tables_and_figures() if item.name == "pecan-table1"]
    with monkeypatch.context() as patch:  # what all of them need takes seconds
        patch.setattr(tables_and_figures, "tables_and_figures", lambda: few)
        done = here("reproduce", "--list").checked()
    line = next(line for line in done.stdout.splitlines() if line.startswith("pecan-table1"))
    assert line.split("  ")[0] == "pecan-table1"
    assert "PECAN, Table 1" in line
    assert "37 GiB" in line
    (table,) = json.loads(here("reproduce", "longrefiner-table4", "--list", "--json").stdout)
    needed = {check["name"]: check["text"] for check in table["needs"]}
    assert "harness retrieve --dataset nq" in needed["retrieved/nq-e5.jsonl"]
    assert "harness train longrefiner" in needed["adapters/qwen2.5-3b-instruct/adapters/analysis"]
    assert "hf download BAAI/bge-reranker-v2-m3" in needed["bge-reranker"]
    assert "GiB for weights and cache" in needed["memory"]
    assert (
        "cannot be had: which 222 questions" in here("reproduce", "qrmem-table2", "--list").stdout
    )


@pytest.mark.parametrize(
    ("model", "profile"),
    [("smollm2-135m", "small"), ("pocket-llama", "pocket"), ("llama-3.2-1b-instruct", None)],
)
def test_another_model_plays_every_role_of_the_suite(model, profile):
    made = _suite_selection(RunOptions(model=model), "pecan-table2")
    assert (made.suite, made.profile, made.unset) == ("pecan-table2", profile, ["roles.builder"])
    assert (
        _suite_selection(RunOptions(model=model, profile="paper"), "pecan-table2").profile
        == "paper"
    )
    assert _suite_selection(RunOptions(model=model), "pocket-pecan-table2").unset == ()
    assert _suite_selection(RunOptions(), "pecan-table2").unset == ()
