"""`harness duel` on the command line."""

import json
from pathlib import Path

ROW = ("--dataset", "pocket/musique", "--limit", "3")


def test_two_methods(here, tmp_path):
    done = here("duel", "echo", "dice", *ROW, "--quiet").checked()
    assert done.stdout.startswith("echo and dice are not settled: echo minus dice is ")
    assert (
        "longbench.qa_f1_score, about documents like these; alpha 5 %, valid at every look"
        in done.stdout
    )
    assert done.stdout.count("3 of 3") == 2
    again = here(
        "duel", "echo", "--method", "dice", *ROW, "--json", "--target", "table", "--width", "150"
    )
    values = json.loads(again.stdout)
    (pair,) = values["pairs"]
    assert (pair["a"], pair["b"]) == ("echo", "dice")
    assert pair["settled_by"] in ("level", "width")
    assert {run["of"] for run in values["runs"]} == {3}
    assert len(list(Path("results").rglob("run.yaml"))) == 2


def test_failed_questions(here):
    done = here("duel", "echo", "fails-once", *ROW).checked(3)
    assert (
        "error: questions failed and count 0: fails-once 1; --retry-failed runs them again"
        in done.stderr
    )


def test_a_number_comes_from_the_stored_run_of_another_method_of_the_duel(here):
    early = here("duel", "walks", "walks-fixed", *ROW, "--quiet").checked(2)
    assert "method.max_nodes comes from the run of 'walks', which did not run" in early.stderr
    assert here("run", "--method", "walks", *ROW, "--mlflow", "off").returncode == 0
    done = here("duel", "walks", "walks-fixed", *ROW, "--quiet").checked()
    assert "walks-fixed  1 to 2  3 of 3" in done.stdout
    outside = here("duel", "echo", "walks-fixed", *ROW, "--quiet")
    assert (outside.returncode, "add walks to --method" in outside.stderr) == (2, True)
