"""Rows that take a number from another row of the command, or from a run that is named."""

import json
import shlex
from pathlib import Path

import pytest
import yaml

import harness
from harness.config.layers import Choices
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import UserError

BOTH = ["run", "--method", "walks-fixed,walks", "--mlflow", "off"]
ROW = ["--dataset", "pocket/musique", "--limit", "3"]


def folders(done):
    return [Path(json.loads(line)["run"]) for line in done.stdout.splitlines()]


def stored(folder):
    return yaml.safe_load((folder / "run.yaml").read_text()), json.loads(
        (folder / "manifest.json").read_text()
    )


def visits(folder):
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    return [sum(step["action"] == "visit" for step in row["steps"]) for row in rows]


def test_a_row_runs_behind_its_source_and_takes_its_mean(here):
    done = here(
        *BOTH,
        "--dataset",
        "pocket/musique,pocket/hotpotqa",
        "--limit",
        "4",
        "--json",
        "--parallel",
        "2",
    )
    assert done.returncode == 0, done.stderr
    made = folders(done)
    rows = [(folder.parent.name, folder.name.partition("--")[0]) for folder in made]
    assert rows == [
        (f"pocket~{d}", m) for d in ("musique", "hotpotqa") for m in ("walks", "walks-fixed")
    ]
    assert sorted(visits(made[0])) == [2, 3, 4, 5]  # 3.5 on average, rounded up
    assert visits(made[1]) == [4, 4, 4, 4]
    config, manifest = stored(made[1])
    assert config["config"]["method"]["params"]["max_nodes"] == 4
    assert config["config"]["method"]["mark"] == ""
    note = f"max_nodes = 4, as many nodes as walks visits (3.50, mean of 4 questions of {made[0].name})"
    assert config["origins"]["method.params.max_nodes"] == note
    amount = {
        "value": 4,
        "note": note,
        "mean": 3.5,
        "unit": "nodes",
        "source": "walks",
        "run": str(made[0]),
    }
    of = {"dataset": "pocket/musique", "model": config["config"]["model"]["name"]}
    assert manifest["amounts"] == {"max_nodes": {**amount, **of, "questions": 4, "failed": 0}}
    assert "amounts" not in stored(made[0])[1]
    assert note in here("report", "results", "--format", "markdown").stdout
    # The number is hashed, not where it comes from; the same command again goes on in the same
    # folders.
    plain = [
        "run",
        "--method",
        "walks-fixed",
        "--dataset",
        "pocket/musique",
        "--mlflow",
        "off",
        "--json",
    ]
    assert folders(here(*plain, "--limit", "1", "--set", "method.max_nodes=4")) == [made[1]]
    assert folders(here(*BOTH, "--dataset", "pocket/musique", "--limit", "4", "--json")) == made[:2]


def test_the_mean_is_over_the_questions_that_the_command_asks(here):
    four = folders(here(*BOTH, "--dataset", "pocket/musique", "--limit", "4", "--json"))
    three = folders(here(*BOTH, *ROW, "--json"))
    assert four[0] == three[0]
    assert (visits(four[1]), visits(three[1])) == ([4, 4, 4, 4], [3, 3, 3])


def test_the_plan_names_what_is_not_known_yet(here):
    before = here(*BOTH, *ROW, "--plan").checked()
    assert [line.split()[0] for line in before.stdout.splitlines()[2:4]] == ["walks", "walks-fixed"]
    assert "max_nodes from walks, not known yet" in before.stdout
    assert "max_nodes from walks, not known yet" in here(*BOTH, *ROW, "--plan", "--json").stdout
    assert not Path("results").exists()
    here("run", "--method", "walks", *ROW, "--mlflow", "off")
    after = here(*BOTH, *ROW, "--plan")
    assert "not known yet" not in after.stdout
    checked = here("validate", "--method", "walks,walks-fixed", *ROW)
    assert "run folder known later: method.max_nodes comes from walks" in checked.stdout


def test_alone_it_says_the_ways_out_and_runs_nothing(here):
    done = here("run", "--method", "walks-fixed", *ROW, "--mlflow", "off")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "error: method.max_nodes of 'walks-fixed' comes from a run of 'walks' on the same data "
        "set, which this command "
        "does not have; add walks to --method, or name a run: --set "
        "method.max_nodes=from:RUN_FOLDER, or use "
        "walks-fixed-printed\n"
    )
    with_another = here("run", "--method", "walks-fixed,echo", *ROW, "--mlflow", "off")
    assert (with_another.returncode, with_another.stdout, with_another.stderr) == (
        2,
        "",
        done.stderr,
    )
    assert not Path("results").exists()
    printed = folders(
        here("run", "--method", "walks-fixed-printed", *ROW, "--mlflow", "off", "--json")
    )
    assert visits(printed[0]) == [9, 9, 9]
    (source,) = folders(here("run", "--method", "walks", *ROW, "--mlflow", "off", "--json"))
    named = f"method.max_nodes=from:{source}"
    done = here("run", "--method", "walks-fixed", *ROW, "--mlflow", "off", "--json", "--set", named)
    assert visits(folders(done)[0]) == [3, 3, 3]
    assert "a run with" not in done.stderr
    other = ["--dataset", "pocket/hotpotqa", "--limit", "1", "--mlflow", "off", "--set", named]
    elsewhere = here("run", "--method", "walks-fixed", *other).stderr
    assert (
        f"comes from {source.name}, a run with data set 'pocket/musique', not 'pocket/hotpotqa'"
        in elsewhere
    )
    sets = {"method.max_nodes": f"from:{source}"}
    result = harness.run("walks-fixed", "pocket/musique", limit=2, mlflow="off", set=sets)
    assert visits(result.folder) == [3, 3, 3]  # the run from above, which was over more questions
    with pytest.raises(UserError, match="add walks to --method"):
        harness.run("walks-fixed", "pocket/musique", limit=2, mlflow="off")


CONFIG = {
    "method": {"name": "walks"},
    "dataset": {"name": "d", "scorers": ["s"]},
    "model": {"name": "m"},
    "seed": 0,
}
BAD = [
    (
        "walks",
        "from:walks",
        "each of these numbers waits for another one: method.max_nodes=from:walks of 'walks'",
    ),
    (
        "walks",
        "from:wolks",
        "'from:wolks' names neither a run folder nor a method: unknown method 'wolks'. Did you",
    ),
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
    done = here(
        "run", "--method", method, *ROW, "--mlflow", "off", "--set", f"method.max_nodes={value}"
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in done.stderr
    assert len([line for line in done.stderr.splitlines() if line.startswith("error: ")]) == 1
    assert not Path("results").exists()


def test_rows_in_a_circle(here, configs):
    (configs / "methods" / "left.yaml").write_text(
        "extends: walks\nparams: {max_nodes: from:right}\n"
    )
    (configs / "methods" / "right.yaml").write_text(
        "extends: walks\nparams: {max_nodes: from:left}\n"
    )
    done = here("run", "--method", "left,right,echo", *ROW, "--mlflow", "off")
    assert (done.returncode, done.stdout) == (2, "")
    assert (
        "method.max_nodes=from:right of 'left', method.max_nodes=from:left of 'right'; give one"
        in done.stderr
    )
    # A chain is no circle.
    (configs / "methods" / "right.yaml").write_text(
        "extends: walks\nparams: {max_nodes: from:walks-fixed}\n"
    )
    done = here(
        "run", "--method", "left,right,walks-fixed,walks", *ROW, "--mlflow", "off", "--json"
    )
    assert [folder.name.partition("--")[0] for folder in folders(done)] == [
        "walks",
        "walks-fixed",
        "right",
        "left",
    ]


def test_failed_questions_of_the_source_are_left_out(here):
    row = ["run", "--method", "walks-fixed,trips", *ROW, "--mlflow", "off", "--json"]
    done = here(*row, "--set", "method.max_nodes=from:trips")
    assert done.returncode == 2, "trips cannot wait for itself"
    config = Path("rows.yaml")
    config.write_text("methods: {walks-fixed: {max_nodes: from:trips}}\n")
    done = here(*row, "--config", "rows.yaml").checked(3)
    trips, fixed = folders(done)
    amount = stored(fixed)[1]["amounts"]["max_nodes"]
    assert (amount["mean"], amount["questions"], amount["failed"]) == (3.5, 2, 1)
    assert "mean of 2 questions of" in amount["note"]
    assert amount["note"].endswith(", 1 failed and left out)")
    assert visits(fixed) == [4, 4, 4]
    assert stored(trips)[1]["starts"][0]["state"] == "finished"


def test_a_source_that_stops_midway_keeps_its_row_waiting(here):
    Path("rows.yaml").write_text("methods: {walks-fixed: {max_nodes: from:stops}}\n")
    row = [
        "run",
        "--method",
        "walks-fixed,stops,echo",
        *ROW,
        "--mlflow",
        "off",
        "--json",
        "--config",
        "rows.yaml",
    ]
    done = here(*row).checked(3)
    assert [folder.name.partition("--")[0] for folder in folders(done)] == ["echo"]
    why = "method.max_nodes comes from the run of 'stops', which answered 1 of 3 questions so far"
    assert f"error: walks-fixed on pocket/musique: {why}\n" in done.stderr
    lines = done.stderr.splitlines()
    assert f"  walks-fixed on pocket/musique: {why}" in lines
    assert lines[-2] == "runs wait for a number from another run. The same command resumes:"
    assert shlex.split(lines[-1]) == ["harness", *row]
    assert not list(Path("results").rglob("walks-fixed--*"))


def test_a_source_that_cannot_be_planned_costs_its_row_alone(here, configs):
    (configs / "methods" / "no-reranker.yaml").write_text("implementation: tests.cli.fakes:Ranks\n")
    Path("rows.yaml").write_text("methods: {walks-fixed: {max_nodes: from:no-reranker}}\n")
    row = ["run", "--method", "walks-fixed,no-reranker,echo", *ROW, "--mlflow", "off", "--json"]
    done = here(*row, "--config", "rows.yaml").checked(3)
    assert [folder.name.partition("--")[0] for folder in folders(done)] == ["echo"]
    assert (
        "walks-fixed on pocket/musique: it takes a number from 'no-reranker', which cannot run"
        in done.stderr
    )


def test_a_plan_without_its_number_cannot_run(here, tmp_path):
    here("list")  # sets the folder and the environment
    plan = plan_choices(Choices(method="walks-fixed", dataset="pocket/musique", limit=1))
    assert (plan.pending, plan.hash8) == ({"max_nodes": "from:walks"}, "pending")
    with pytest.raises(UserError, match="method.max_nodes=from:walks has no number yet"):
        run(plan, tmp_path / "out", command=[], progress=Silent())
    assert not (tmp_path / "out").exists()
    shown = json.loads(here("show", "walks-fixed", "--json").stdout)
    assert shown["values"]["method.params.max_nodes"] == "from:walks"


def test_the_chunks_that_cost_as_much_as_the_source(here):
    Path("small.yaml").write_text(
        "methods: {bm25-topx: {k: from:bm25}, bm25: {k: 3, chunk_tokens: 60}}\n"
    )
    small = [
        "--config",
        "small.yaml",
        "--limit",
        "2",
        "--set",
        "dataset.tokens=600",
        "--mlflow",
        "off",
        "--json",
    ]
    done = here("run", "--method", "bm25-topx,bm25", "--dataset", "pocket/qasper", *small).checked()
    source, top = folders(done)
    runs = [harness.read_run(folder) for folder in (source, top)]
    tflops = [
        sum(p["flops"]["all-params"] for r in run.records for p in r["usage"].values()) / 2e12
        for run in runs
    ]
    k = runs[1].config["method"]["params"]["k"]
    assert stored(top)[1]["amounts"]["k"]["mean"] == pytest.approx(tflops[0])
    assert f"k = {k}, the same TFLOPs as bm25" in done.stderr
    assert abs(tflops[1] - tflops[0]) < tflops[1] / k  # nearer than one chunk more or less
