"""`harness run` end to end, without a model: what is printed, what is on disk, and the exit
code."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.cli import run as run_verb
from harness.cli.failures import failure_text
from harness.config.yaml_tree import flatten
from harness.engine import runner
from harness.errors import CannotRun
from harness.storage.summary_file import RunSummary
from harness.tracking.background import BackgroundTracking
from harness.types import Answer
from tests.cli.fakes import Echo

ROW = ["--dataset", "pocket/musique", "--mlflow", "off"]
PREFIX = [
    "run",
    "--method",
    "echo",
    *ROW,
    "--limit",
    "2",
    "--set",
    "dataset.answer_prefix=Answer:",
    "--set",
]
THREAD = "import sys, threading, time; threading.Thread(target=time.sleep, args=(60,)).start()\n"
MAIN = "import harness.cli.main as m; sys.argv = ['harness', 'run', '--method', 'x']\n"


def last(text):
    return text.rstrip("\n").rsplit("\n", 1)[-1]


def test_json_is_the_last_line_and_names_the_folder(cli, tmp_path):
    done = cli(
        "run",
        "--method",
        "Echo",
        *ROW,
        "--limit",
        "3",
        "--json",
        "--set",
        "method.word=yes",
        "method.k=7",
    )
    assert done.returncode == 0, done.stderr
    parsed = json.loads(last(done.stdout))
    folder = tmp_path / parsed["run"]
    assert folder.parent == tmp_path / "results" / "pocket~musique"
    assert folder.name.startswith("echo--pocket-llama--")
    assert parsed["summary"] == json.loads((folder / "summary.json").read_text())
    assert parsed["summary"]["n_total"] == 3
    rows = [json.loads(line) for line in (folder / "records.jsonl").read_text().splitlines()]
    assert [row["prediction"] for row in rows] == ["yes"] * 3
    stored = yaml.safe_load((folder / "run.yaml").read_text())
    assert stored["config"]["method"]["params"] == {
        "word": "yes",
        "k": 7,
        "rate": 0.5,
        "mode": "quiet",
        "pause": 0.0,
    }
    assert stored["origins"]["method.params.k"] == "--set"
    assert stored["origins"]["method.params.rate"] == "default"
    assert stored["origins"]["method.implementation"] == "$HARNESS_CONFIGS/methods/echo.yaml"
    assert stored["origins"]["limit"] == "--limit"
    # Echo loads no encoder; what is null here was set by nobody.
    assert "encoder" not in stored["config"]
    assert not [key for key, value in flatten(stored["config"]).items() if value is None]
    assert stored["origins"].keys() == flatten(stored["config"]).keys()
    sentence = "pocket-llama answers, which is trained on pocket/* only; name another with --model"
    assert [line for line in done.stderr.splitlines() if "--model" in line] == [sentence]
    assert json.loads((folder / "manifest.json").read_text())["command"][:2] == ["harness", "run"]


def test_the_most_frequent_reason_of_failed_questions_is_told(tmp_path):
    reasons = ["gone", "the window of 7 is full", None, "the window of 9 is full"]
    errors = [reason and {"type": "QuestionError", "message": reason} for reason in reasons]
    rows = [{"question_id": f"q{n}", "error": error} for n, error in enumerate(errors)]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    sentence = failure_text(
        runner.RunResult(tmp_path, RunSummary(n_total=4), failed=3), "", with_traceback=False
    )
    assert sentence.startswith(
        "error: 3 of 4 questions failed; 2 of them like 'q1': QuestionError: the window of 7 is "
        "full"
    )


def test_several_methods_run_in_turn_and_the_worst_code_wins(here):
    done = here(
        "run",
        "--method",
        "fails-once,echo",
        "--method",
        "refuses,echo-loud",
        *ROW,
        "--limit",
        "2",
        "--json",
    )
    assert done.returncode == 3, "2 is for a command that ran nothing"
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [Path(r["run"]).name.partition("--")[0] for r in runs] == [
        "fails-once",
        "echo",
        "echo-loud",
    ]
    assert [r["summary"]["n_failed"] for r in runs] == [1, 0, 0]
    assert "error: refuses on pocket/musique: the weights are not there" in done.stderr


@pytest.mark.parametrize(
    ("methods", "code"),
    [
        ("echo", 0),
        ("fails-once", 3),
        ("refuses", 2),
        ("echo,fails-once", 3),
        ("echo,refuses", 3),
        ("ranks,refuses", 2),
    ],
)
def test_exit_codes(methods, code, here):
    assert here("run", "--method", methods, *ROW, "--limit", "1").returncode == code


def test_a_bug_keeps_its_traceback_and_the_other_rows_run(here):
    done = here("run", "--method", "buggy,echo", *ROW, "--limit", "1", "--json").checked(1)
    assert "RuntimeError: a bug in a method" in done.stderr
    assert json.loads(done.stdout)["summary"]["n_total"] == 1
    alone = here("run", "--method", "buggy", *ROW)
    assert (alone.returncode, last(alone.stderr)) == (1, "RuntimeError: a bug in a method")
    assert "Traceback" in alone.stderr


def test_a_bug_while_running_is_told_in_full(here, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("deep inside")

    monkeypatch.setattr(runner, "run", broken)
    done = here("run", "--method", "echo,echo-loud", *ROW, "--limit", "1").checked(1)
    assert done.stderr.count("ZeroDivisionError: deep inside") == 2


@pytest.mark.parametrize("parallel", ["1", "2"])
def test_a_run_that_a_mistake_ends_midway_is_exit_code_3_and_keeps_its_records(
    parallel, here, monkeypatch, tmp_path
):
    answered = []

    def answer(self, question, *_):
        if len(answered) >= 3:
            raise CannotRun("the server refused the key")
        answered.append(question.id)
        return Answer("echo")

    monkeypatch.setattr(Echo, "answer", answer)
    done = here("run", "--method", "echo", *ROW, "--limit", "6", "--parallel", parallel).checked(3)
    assert "error: the server refused the key" in done.stderr
    (records,) = tmp_path.glob("results/*/*/records.jsonl")
    assert len(records.read_text().splitlines()) == 3
    assert here("run", "--method", "echo", *ROW, "--limit", "6").returncode == 2, (
        "this start recorded nothing"
    )


@pytest.mark.parametrize("out", ["file/results", "/proc/results"])
def test_results_that_cannot_be_written_are_exit_code_3(out, here, tmp_path):
    (tmp_path / "file").write_text("")
    done = here("run", "--method", "echo", *ROW, "--limit", "1", "--out", out).checked(3)
    said = done.stderr.splitlines()[-1]
    assert said.startswith(f"error: cannot write {out}/pocket~musique/echo--pocket-llama--")
    assert said.endswith("; choose a folder you may write to with --out.")


def test_a_suite_and_a_profile(here):
    done = here("run", "--suite", "pair", "--profile", "tiny", "--json", "--mlflow", "off").checked(
        3
    )
    runs = [json.loads(line) for line in done.stdout.splitlines()]
    assert [r["summary"]["n_total"] for r in runs] == [2, 2]
    stored = [yaml.safe_load(Path(r["run"], "run.yaml").read_text()) for r in runs]
    assert [s["config"]["method"]["params"]["word"] for s in stored] == ["tiny", "echo"]
    assert [s["config"]["method"]["params"]["rate"] for s in stored] == [0.25, 0.25]
    assert stored[0]["origins"]["limit"] == "profile tiny"
    assert stored[0]["config"]["profile"] == "tiny"


def test_a_failure_says_where_it_happened_and_debug_prints_the_traceback(here):
    command = ["run", "--method", "fails-once", *ROW, "--limit", "2"]
    error = here(*command).stderr.splitlines()[-1]
    assert re.search(r"too hard \(tests/cli/fakes\.py:\d+\)", error), error
    assert "--debug prints the traceback" in error
    sentence = here(*command, "--debug").stderr  # of the stored record: nothing runs again
    assert 'raise ValueError("the first question is too hard")' in sentence
    assert "--debug" not in sentence


def test_fail_fast_stops_at_the_first_failure(here):
    command = ["run", "--method", "fails-once,echo", *ROW, "--limit", "3"]
    done = here(*command, "--fail-fast", "--debug").checked(3)
    assert (
        "failed, and --fail-fast stops there: ValueError: the first question is too hard"
        in done.stderr
    )
    assert "raise ValueError(" in done.stderr
    assert "echo on pocket/musique: not started, as --fail-fast asks" in done.stderr
    (records,) = Path("results").rglob("records.jsonl")
    assert len(records.read_text().splitlines()) == 1
    assert here(*command, "--json").stdout.count('"n_total": 3') == 2, (
        "the same command without it goes on"
    )


@pytest.mark.parametrize(
    ("mlflow", "variable", "missed", "code"),
    [
        (["--mlflow", "sqlite:///x.db"], "", [], 0),
        (["--mlflow", "sqlite:///x.db"], "", ["tracking failed"], 3),
        ([], "http://127.0.0.1:9", ["tracking failed"], 3),
        ([], "", ["tracking failed"], 0),
        (["--mlflow", "off"], "http://127.0.0.1:9", ["never asked"], 0),
    ],
)
def test_mlflow_logs_and_counts_only_where_it_was_asked_for(
    mlflow, variable, missed, code, here, monkeypatch
):
    started = []

    def add(self, folder):
        if self._uri:
            started.append(
                (folder.name.partition("--")[0], self._uri.rpartition("/")[2], self._suite)
            )

    monkeypatch.setattr(BackgroundTracking, "follow_run", add)
    monkeypatch.setattr(BackgroundTracking, "finish", lambda self: missed if self._uri else [])
    monkeypatch.setenv("MLFLOW_TRACKING_URI", variable)
    done = here("run", "--method", "echo", "--dataset", "pocket/musique", "--limit", "1", *mlflow)
    assert done.returncode == code, done.stderr
    name = {"--mlflow sqlite:///x.db": "x.db", "": "127.0.0.1:9" if variable else "mlflow.db"}.get(
        " ".join(mlflow)
    )
    assert started == ([("echo", name, None)] if name else [])
    lines = [line for line in done.stderr.splitlines() if "tracking failed" in line]
    expected = f"{'error' if code else 'warning'}: tracking failed"
    assert lines == ([expected] if name and missed else [])


def test_an_interrupt_prints_no_password(here, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(run_verb, "run_request", interrupted)
    uri = "postgresql://bob:hunter2@db/runs?password=hunter3"
    done = here("run", "--method", "echo", "--dataset", "pocket/musique", "--mlflow", uri)
    assert done.returncode == 130
    assert "hunter" not in done.stderr
    lines = done.stderr.splitlines()
    assert lines[-2].endswith("The same command resumes (replace *** by the password):")
    assert shlex.split(lines[-1])[-2:] == ["--mlflow", "postgresql://***@db/runs?password=***"]


def test_a_password_of_a_dead_database_stands_nowhere_and_the_end_does_not_wait_for_it(
    here, tmp_path
):
    uri = "postgresql://bob:hunter2@127.0.0.1:9/runs?password=hunter3"
    done = here(
        "run", "--method", "echo", "--dataset", "pocket/musique", "--limit", "1", f"--mlflow={uri}"
    ).checked(3)
    (sentence,) = [line for line in done.stderr.splitlines() if "tracking failed" in line]
    assert "(ConnectionRefusedError: nobody answers at 127.0.0.1:9)" in sentence
    assert "harness track 'results/pocket~musique/echo--" in sentence
    assert "hunter" not in done.stderr
    (manifest,) = tmp_path.glob("results/*/*/manifest.json")
    kept = json.loads(manifest.read_text())
    argument = "--mlflow=postgresql://***@127.0.0.1:9/runs?password=***"
    assert kept["command"][-1] == kept["starts"][0]["command"][-1] == argument
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"hunter" not in path.read_bytes(), path


def test_quiet_prints_no_progress_and_all_else(here):
    done = here("run", "--method", "fails-once", *ROW, "--limit", "2", "-q").checked(3)
    assert "1/2" not in done.stderr
    assert "1 of 2 questions failed" in done.stderr
    assert "2 questions, 1 failed" in done.stdout
    traceback = here(
        "run", "--method", "fails-once", *ROW, "--limit", "2", "-q", "-v", "--retry-failed"
    ).stderr
    assert "Traceback" in traceback


def test_a_reader_that_goes_away_is_no_error(environment, tmp_path):
    command = f"{shlex.quote(sys.executable)} -m harness show pecan | true; echo ${{PIPESTATUS[0]}}"
    place = {"env": environment, "cwd": tmp_path}
    done = subprocess.run(
        ["bash", "-c", command], **place, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() in (
        "141",
        "0",
    )  # 0 where all of it fitted into the pipe before its reader went
    assert done.stderr == ""


def test_replies_without_it_are_counted_where_the_result_is_printed(here):
    done = here(*PREFIX, "method.word=echo").checked()
    last = done.stdout.rstrip().splitlines()[-1]
    assert last == "  2 questions, 0 failed, 2 replies without the answer prefix, scored whole"
    assert (
        "2 of 2 replies lacked the answer prefix 'Answer:' and were scored whole"
        in here("report", "results").stdout
    )
    plain = here("run", "--method", "echo", *ROW, "--limit", "2")
    assert plain.stdout.rstrip().splitlines()[-1] == "  2 questions, 0 failed"


def test_a_trace_shows_the_reply_and_what_was_scored(here, tmp_path):
    done = here(*PREFIX, "method.word=Two towns. Answer: Mira", "--json")
    parsed = json.loads(done.stdout)
    assert parsed["summary"]["n_without_prefix"] == 0
    first = json.loads((tmp_path / parsed["run"] / "records.jsonl").read_text().splitlines()[0])
    lines = here("trace", parsed["run"], first["question_id"]).stdout.splitlines()
    assert [line for line in lines if line.startswith(("answer ", "scored "))] == [
        "answer     Two towns. Answer: Mira",
        "scored     Mira",
    ]


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ("m._run_command = lambda _: 130", ""),
        (
            "m._run_command = lambda _: (_ for _ in ()).throw(KeyboardInterrupt)",
            "harness run --method x",
        ),
    ],
)
def test_an_interrupted_command_waits_for_no_thread_and_ends_with_130(ends, sentence):
    code = f"{THREAD}{MAIN}{ends}\nm.main()"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, "Traceback" in done.stderr) == (130, False)
    assert sentence in done.stderr


def test_a_run_stopped_below_a_larger_limit_and_finished_with_a_smaller_one_is_not_marked(here):
    run = [
        "run",
        "--method",
        "closed-book",
        "--dataset",
        "pocket/musique",
        "--profile",
        "pocket",
        "--mlflow",
        "off",
    ]
    here(*run, "--limit", "1").checked()
    stopped = here(*run, "--limit", "3", "--max-tokens", "1")
    assert stopped.returncode == 3, stopped.stderr
    here(*run, "--limit", "1").checked()
    report = here("report", "results")
    assert "does not fit" not in report.stdout + report.stderr
    assert "of 3 questions" not in report.stdout + report.stderr
