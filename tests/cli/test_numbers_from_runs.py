"""Parameters that a finished run gives: the run is made first, then named."""

import json
from pathlib import Path

import pytest
import yaml

import harness

ROW = ["--dataset", "pocket/musique", "--limit", "3", "--mlflow", "off", "--json"]


def run_folder(done):
    """The folder of the one run that a command made."""
    (line,) = done.stdout.splitlines()
    return Path(json.loads(line)["run"])


def visits(folder):
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return [sum(step["action"] == "visit" for step in row["steps"]) for row in rows]


def test_a_row_takes_the_mean_of_the_run_that_is_named(here):
    four = ["--dataset", "pocket/musique", "--limit", "4", "--mlflow", "off", "--json"]
    walks = run_folder(here("run", "-m", "walks", *four).checked())
    named = f"method.max_nodes=from:{walks}"
    done = here("run", "-m", "walks-fixed", *four, "--set", named).checked()
    fixed = run_folder(done)
    assert sorted(visits(walks)) == [2, 3, 4, 5]  # 3.5 on average, rounded up
    assert visits(fixed) == [4, 4, 4, 4]
    stored = yaml.safe_load((fixed / "run.yaml").read_text())
    manifest = json.loads((fixed / "manifest.json").read_text())
    note = (
        f"max_nodes = 4, as many nodes as walks visits (3.50, mean of 4 questions of {walks.name})"
    )
    assert stored["config"]["method"]["params"]["max_nodes"] == 4
    assert stored["config"]["method"]["mark"] == ""
    assert stored["origins"]["method.params.max_nodes"] == note
    assert manifest["amounts"]["max_nodes"] == {
        "value": 4,
        "note": note,
        "mean": 3.5,
        "unit": "nodes",
        "source": "walks",
        "run": str(walks),
        "dataset": "pocket/musique",
        "model": stored["config"]["model"]["name"],
        "questions": 4,
        "failed": 0,
    }
    assert note in here("report", "results", "--format", "markdown").stdout
    # The number is hashed, not where it comes from.
    plain = ["run", "-m", "walks-fixed", *four, "--set", "method.max_nodes=4"]
    assert run_folder(here(*plain)) == fixed


def test_a_run_of_another_data_set_is_a_warning(here):
    walks = run_folder(here("run", "-m", "walks", *ROW))
    other = ["--dataset", "pocket/hotpotqa", "--limit", "1", "--mlflow", "off"]
    done = here("run", "-m", "walks-fixed", *other, "--set", f"method.max_nodes=from:{walks}")
    what = f"comes from {walks.name}, a run with data set 'pocket/musique', not 'pocket/hotpotqa'"
    assert what in done.stderr


def test_python_takes_the_same_value(here):
    walks = run_folder(here("run", "-m", "walks", *ROW))
    sets = {"method.max_nodes": f"from:{walks}"}
    result = harness.run("walks-fixed", "pocket/musique", limit=2, mlflow="off", set=sets)
    assert visits(result.folder) == [3, 3]


def test_failed_questions_of_the_run_are_left_out(here):
    trips = run_folder(here("run", "-m", "trips", *ROW).checked(3))
    done = here("run", "-m", "walks-fixed", *ROW, "--set", f"method.max_nodes=from:{trips}")
    fixed = run_folder(done.checked())
    amount = json.loads((fixed / "manifest.json").read_text())["amounts"]["max_nodes"]
    assert (amount["mean"], amount["questions"], amount["failed"]) == (3.5, 2, 1)
    assert amount["note"].endswith(", 1 failed and left out)")


def test_a_preset_without_its_run_says_the_ways_out(here):
    done = here("run", "-m", "walks-fixed", *ROW)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: method.max_nodes of 'walks-fixed' comes from a finished run of 'walks' on the same "
        "data set; make that run, then name its folder: --set method.max_nodes=from:RUN_FOLDER, or "
        "use walks-fixed-printed\n"
    )
    assert not Path("results").exists()
    assert visits(run_folder(here("run", "-m", "walks-fixed-printed", *ROW))) == [9, 9, 9]


def test_of_several_runs_the_others_go_on(here):
    done = here("run", "-m", "walks-fixed,walks", *ROW).checked(3)
    assert run_folder(done).name.startswith("walks--")
    assert (
        "walks-fixed on pocket/musique: method.max_nodes of 'walks-fixed' comes from" in done.stderr
    )


def test_show_names_the_run_that_a_preset_needs(here):
    shown = json.loads(here("show", "walks-fixed", "--json").stdout)
    assert shown["values"]["method.params.max_nodes"] == "from:walks"


CONFIG = {
    "method": {"name": "walks"},
    "dataset": {"name": "d", "scorers": ["s"]},
    "model": {"name": "m"},
    "seed": 0,
}
BAD = [
    ("walks", "from:wolks", "wolks is not a run folder: it has no run.yaml"),
    ("walks", "from:.", ". is not a run folder: it has no run.yaml"),
    ("walks", "from:unfinished", "'from:unfinished': that run is not finished"),
    ("echo", "from:walks", "unknown key 'method.max_nodes' (--set)"),
    ("walks-fixed", "from:empty", "no question is answered there"),
]


@pytest.mark.parametrize(("method", "value", "sentence"), BAD)
def test_a_wrong_source_is_one_sentence(method, value, sentence, here, tmp_path):
    for name, state in (("unfinished", "interrupted"), ("empty", "finished")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "run.yaml").write_text(json.dumps({"config": CONFIG}))
        (tmp_path / name / "summary.json").write_text(json.dumps({"state": state}))
    done = here("run", "-m", method, *ROW, "--set", f"method.max_nodes={value}")
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert not Path("results").exists()


def test_the_chunks_that_cost_as_much_as_the_run(here):
    small = ["--dataset", "pocket/qasper", "--limit", "2", "--set", "dataset.tokens=600"]
    small += ["--mlflow", "off", "--json"]
    three = ["method.k=3", "method.chunk_tokens=60"]
    bm25 = run_folder(here("run", "-m", "bm25", *small, "--set", *three).checked())
    done = here("run", "-m", "bm25-topx", *small, "--set", f"method.k=from:{bm25}").checked()
    runs = [harness.read_run(folder) for folder in (bm25, run_folder(done))]
    tflops = [
        sum(p["flops"]["all-params"] for r in run.records for p in r.usage.values()) / 2e12
        for run in runs
    ]
    k = runs[1].config.method.params["k"]
    assert runs[1].manifest.amounts["k"].mean == pytest.approx(tflops[0])
    assert abs(tflops[1] - tflops[0]) < tflops[1] / k  # nearer than one chunk more or less
