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


def test_a_number_comes_from_the_finished_run_that_is_named(here, tmp_path):
    early = here("duel", "walks", "walks-fixed", *ROW, "--quiet").checked(2)
    assert "method.max_nodes of 'walks-fixed' comes from a finished run of 'walks'" in early.stderr
    here("run", "--method", "walks", *ROW, "--mlflow", "off").checked()
    (folder,) = (path.parent for path in tmp_path.rglob("run.yaml"))
    named = tmp_path / "named.yaml"
    named.write_text(f"methods: {{walks-fixed: {{max_nodes: 'from:{folder}'}}}}\n")
    duel = ("duel", "walks", "walks-fixed", *ROW, "--config", str(named), "--quiet")
    done = here(*duel).checked()
    assert "walks-fixed  1 to 2  3 of 3" in done.stdout
