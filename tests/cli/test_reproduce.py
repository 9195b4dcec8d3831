"""`harness reproduce`: run a suite and show ours beside the printed values; what is listed."""

import json

import pytest

from harness.cli.options import RunOptions
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
    assert "w/o Attention Search" in (tmp_path / "t.tex").read_text()
    again = here("reproduce", "pocket-garlic-table2", *ARGUMENTS, "--plan")
    assert "0 of 2" in again.stdout
    here("reproduce", "--markdown", "all.md").checked()
    assert "QRMeM, Table 6" in (tmp_path / "all.md").read_text()


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
    assert _suite_selection(RunOptions(model=model), "pocket-pecan-table2").unset == []
    assert _suite_selection(RunOptions(), "pecan-table2").unset == []
