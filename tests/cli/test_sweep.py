"""`harness run --sweep`, `harness validate --sweep` and suites that sweep: each combination is an
ordinary run."""

import json
from pathlib import Path

import yaml

ROW = ["--dataset", "pocket/musique", "--limit", "1", "--mlflow", "off"]


def configs_of(done):
    folders = [Path(json.loads(line)["run"]) for line in done.stdout.splitlines()]
    return [yaml.safe_load((folder / "run.yaml").read_text())["config"] for folder in folders]


def test_each_combination_is_a_run_and_the_report_has_its_values_as_columns(here):
    sweep = ["run", "--method", "echo", *ROW, "--sweep", "method.k=1,3", "method.word=a,b"]
    planned = here(*sweep, "--plan")
    assert planned.stdout.count("echo k=") == 4, planned.stderr
    assert not Path("results").exists()
    done = here(*sweep, "--json")
    assert "--- echo k=3 word=b on pocket/musique" in done.stderr
    swept = [c["method"]["params"] for c in configs_of(done)]
    assert [(p["k"], p["word"]) for p in swept] == [(1, "a"), (1, "b"), (3, "a"), (3, "b")]
    table = here("report", "results").stdout
    assert table.splitlines()[1].split()[:3] == ["method", "word", "k"]
    rows = {tuple(line.split()[:3]) for line in table.splitlines()[2:6]}
    assert rows == {("echo", word, k) for k in "13" for word in "ab"}
    again = here(*sweep, "--json")  # nothing runs twice: every row is stored
    assert [c["method"]["params"] for c in configs_of(again)] == [
        c["method"]["params"] for c in configs_of(done)
    ]


def test_a_suite_sweeps(here, configs):
    text = "methods: [echo, echo-loud]\ndatasets: [pocket/musique]\nlimit: 1\nsweep: {method.k: [2, 4], seed: [0, 1]}\n"
    (configs / "suites" / "grid.yaml").write_text(text)
    # --set ends a sweep of its key.
    done = here("run", "--suite", "grid", "--mlflow", "off", "--json", "--set", "seed=1")
    made = [(c["method"]["name"], c["method"]["params"]["k"], c["seed"]) for c in configs_of(done)]
    assert made == [(name, k, 1) for name in ("echo", "echo-loud") for k in (2, 4)], done.stderr


def test_validate_checks_every_combination(here):
    done = here(
        "validate", "--method", "echo", "--dataset", "pocket/musique", "--sweep", "method.k=1,3"
    )
    assert (done.returncode, done.stdout.count("ok  echo k=")) == (0, 2), done.stderr
    wrong = here(
        "validate", "--method", "echo", "--dataset", "pocket/musique", "--sweep", "method.k=1,many"
    )
    assert (wrong.returncode, "method.k='many'" in wrong.stderr) == (2, True)
