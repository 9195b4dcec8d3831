"""The options --record-stops, --record-t-p and --parallel, and the commands of two words."""

from pathlib import Path

import pytest
import yaml

from harness.cli.main import COMMANDS, root
from harness.cli.stored_runs import FIGURES
from harness.engine import runner
from harness.engine.runner import RunResult
from harness.storage.summary_file import RunSummary
from harness.types import Answer
from tests.cli.fakes import Echo

ROW = ["--dataset", "pocket/musique", "--mlflow", "off"]
PRESETS = {
    "methods/tape": "implementation: tests.cli.test_options:Tape\n",
    "methods/tape-strict": "implementation: tests.cli.test_options:Tape\nparams: {most: 2}\n",
    "suites/mixed": "methods: [echo, tape, tape-strict]\ndatasets: [pocket/musique]\nlimit: 1\n",
    "suites/none": "methods: [echo, buggy]\ndatasets: [pocket/musique]\nlimit: 1\n",
}


class Tape(Echo):
    """Has the two fields, and a limit that a preset may set."""

    class Config(Echo.Config):
        most: int = 99
        record_stops: int | None = None
        record_t_p: float | None = None

        def model_post_init(self, _context):
            if self.record_stops is not None and self.record_stops > self.most:
                raise ValueError("more stops than this tape holds")

    def answer(self, question, documents, indexes, tools):
        return Answer(f"{self.config.record_stops} {self.config.record_t_p}")


@pytest.fixture
def tapes(configs):
    for name, text in PRESETS.items():
        (configs / f"{name}.yaml").write_text(text)
    return configs


def stored(folder):
    """The method's values of each run, by preset."""
    runs = [
        yaml.safe_load(path.read_text())["config"]["method"] for path in folder.rglob("run.yaml")
    ]
    return {run["name"]: run["params"] for run in runs}


def test_the_flags_set_the_methods_fields(here, tapes, tmp_path):
    here(
        "run",
        "--method",
        "tape",
        *ROW,
        "--limit",
        "1",
        "--record-stops",
        "8",
        "--record-t-p",
        "0.9",
    ).checked()
    params = stored(tmp_path / "results")["tape"]
    assert (params["record_stops"], params["record_t_p"]) == (8, 0.9)
    sets = ("--set", "method.record_stops=8", "method.record_t_p=0.9")
    here("run", "--method", "tape", *ROW, "--limit", "1", *sets).checked()
    assert (
        len(list((tmp_path / "results").rglob("run.yaml"))) == 1
    )  # the same run, so the same folder


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--method", "echo", "--record-stops", "8"], ["--record-stops does not apply to echo", "these have it: ", "tape"]),
        (["--method", "tape", "--record-t-p", "0.9"], ["add --record-stops N"]),
        (["--method", "tape", "--record-stops", "8", "--set", "method.record_stops=4"], ["is given twice"]),
        (["--method", "tape-strict", "--record-stops", "8"], ["more stops than this tape holds"]),
        (["--method", "tape", "--record-stops", "0"], ["--record-stops"]),
        (["--method", "tape", "--record-stops", "8", "--record-t-p", "1.2"], ["--record-t-p"]),
        (["--method", "tape", "--parallel", "0"], ["--parallel"]),
        (["--method", "tpae", "--record-stops", "8"], ["Did you mean 'tape'"]),
        (["--suite", "none", "--record-stops", "8"], ["--record-stops does not apply to echo, buggy"]),
    ],
    ids=" ".join,
)  # fmt: skip
def test_a_flag_that_does_not_fit_is_exit_2(here, tapes, tmp_path, arguments, message):
    dataset = [] if "--suite" in arguments else ROW[:2]
    done = here("run", *arguments, *dataset, "--mlflow", "off")
    assert (done.returncode, done.stdout) == (2, "")
    assert all(part in done.stderr for part in message), done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.rglob("run.yaml"))


def test_in_a_suite_the_flags_hold_where_they_fit_and_a_note_names_the_rest(here, tapes, tmp_path):
    done = here("run", "--suite", "mixed", "--mlflow", "off", "--record-stops", "8").checked()
    assert "note: --record-stops does not apply to echo, tape-strict\n" in done.stderr
    found = stored(tmp_path / "results")
    assert found["tape"]["record_stops"] == 8
    assert "record_stops" not in found["tape-strict"]
    assert "record_stops" not in found["echo"]


@pytest.mark.parametrize(("arguments", "expected"), [([], None), (["--parallel", "4"], 4)])
def test_parallel_reaches_the_runner_and_not_the_hash(here, monkeypatch, arguments, expected):
    seen = []

    def run(plan, out, *, options, **more):
        seen.append((options.parallel, plan.hash8))
        return RunResult(Path(out), RunSummary(n_total=1), 0)

    monkeypatch.setattr(runner, "run", run)
    assert here("run", "--method", "echo", *ROW, *arguments).returncode == 0
    assert here("run", "--method", "echo", *ROW).returncode == 0
    assert [n for n, _ in seen] == [expected, None]
    assert seen[0][1] == seen[1][1]


@pytest.mark.parametrize(
    ("typed", "path", "folder"),
    [
        (["report", "curves", "results"], "harness report curves", ["results"]),
        (["report", "tokens"], "harness report tokens", ()),
        (["report", "results"], "harness report", ["results"]),
        (["report", "./nodes"], "harness report", ["./nodes"]),
        (["report", "--all", "nodes"], "harness report", ["nodes"]),
        (["report"], "harness report", ()),
    ],
    ids=str,
)
def test_a_figure_is_a_command_of_two_words(typed, path, folder):
    top = root()
    context = top.make_context("harness", typed)
    name, command, rest = top.resolve_command(context, [*context._protected_args, *context.args])
    below = command.make_context(name, rest, parent=context)
    if below._protected_args:
        last, command, rest = below.command.resolve_command(
            below, [*below._protected_args, *below.args]
        )
        below = command.make_context(last, rest, parent=below)
    assert below.command_path == path
    assert below.params["folders"] == folder


def test_the_listed_figures_and_the_nearest_one(here):
    listed = [n for n in COMMANDS.table["Report stored runs"] if n.startswith("report ")]
    assert listed == [f"report {name}" for name in FIGURES]
    done = here("report", "curvs")
    assert (done.returncode, "harness report curves RUNS_DIR" in done.stderr) == (2, True)
