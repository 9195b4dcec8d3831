from __future__ import annotations

import http.server
import json
import os
import shutil
import socket
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness import tracking
from harness.errors import SaveError, UserError
from harness.store import find_runs, read_run
from harness.tracking import start_follower, track
from reports.tables import frame
from tests.reports.build import SCORE, record, write_run

pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")

SCORES = [0.2, 0.4, None, 1.0, 0.0, 0.0, 0.3, 0.1]
RUNNING = f"running/{SCORE}"


@pytest.fixture(scope="session")
def empty_store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A sqlite file with MLflow's tables and nothing in them: making one takes seconds, copying it does not."""
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    code = f"from mlflow import MlflowClient; MlflowClient('sqlite:///{path}').search_experiments()"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return path


@pytest.fixture
def uri(empty_store: Path, tmp_path: Path) -> str:
    shutil.copy(empty_store, tmp_path / "mlflow.db")
    return f"sqlite:///{tmp_path / 'mlflow.db'}"


def client(uri: str) -> Any:
    from mlflow import MlflowClient

    return MlflowClient(tracking_uri=uri)


def only_run(uri: str, dataset: str = "musique") -> Any:
    """The one MLflow run of the data set's experiment."""
    it = client(uri)
    runs = it.search_runs([it.get_experiment_by_name(dataset).experiment_id])
    assert len(runs) == 1
    return runs[0]


def history(uri: str, name: str) -> list[tuple[int, float]]:
    found = client(uri).get_metric_history(only_run(uri).info.run_id, name)
    return sorted((m.step, m.value) for m in found)


def run_folder(root: Path, count: int = 8, **changes: Any) -> Path:
    return write_run(root / "results", [record(i, s) for i, s in enumerate(SCORES[:count])], **changes)


def append(folder: Path, start: int, stop: int) -> None:
    with open(folder / "records.jsonl", "a") as file:
        for i in range(start, stop):
            file.write(json.dumps(record(i, SCORES[i])) + "\n")


class TestTrack:
    def test_what_a_run_looks_like(self, uri: str, tmp_path: Path) -> None:
        ends = [{"state": "finished", "finished": "2026-01-02T04:04:05+00:00"}]
        folder = run_folder(tmp_path, manifest={"starts": ends})
        track(folder, uri)
        run = only_run(uri)
        assert (run.info.run_name, run.info.status) == (folder.name, "FINISHED")
        assert run.info.end_time - run.info.start_time == 3_600_000
        row = frame([read_run(folder)]).iloc[0]
        for name in (SCORE, f"{SCORE}.low", f"{SCORE}.high", "tokens.answer", "tflops.search", "tflops", "n", "failed"):
            assert run.data.metrics[name] == row[name]
        assert "tflops.index" not in run.data.metrics, "no index was built: there is no cost, rather than a cost of 0"
        assert run.data.params["method.params.k"] == "5"
        expected = {"method": "pecan", "model": "tiny", "dataset": "musique", "hash8": "0123abcd", "embedded": "false"}
        expected |= {"git_commit": "c0ffee", "mlflow.source.git.commit": "c0ffee", "harness.run": folder.name}
        assert expected.items() <= run.data.tags.items()
        assert SCORE in run.data.tags["mlflow.note.content"]
        names = {f.path for f in client(uri).list_artifacts(run.info.run_id)}
        assert names == {"config.yaml", "manifest.json", "records.jsonl", "summary.json", "table.md"}

    def test_running_means_one_step_a_question(self, uri: str, tmp_path: Path) -> None:
        track(run_folder(tmp_path), uri)
        scores = [s or 0.0 for s in SCORES]
        expected = [(n, pytest.approx(sum(scores[:n]) / n)) for n in range(1, 9)]
        assert history(uri, RUNNING) == expected
        assert history(uri, "running/failed") == [(n, float(n >= 3)) for n in range(1, 9)]
        assert {value for _, value in history(uri, "running/tflops")} == {1.5}

    def test_twice_is_one_run_and_adds_no_point(self, uri: str, tmp_path: Path) -> None:
        folder = run_folder(tmp_path)
        track(folder, uri)
        before = {name: history(uri, name) for name in (RUNNING, "tflops", SCORE, "n")}
        track(folder, uri)
        assert {name: history(uri, name) for name in before} == before
        assert len(before[SCORE]) == 1

    def test_a_continued_run_goes_on_in_its_mlflow_run(self, uri: str, tmp_path: Path) -> None:
        folder = run_folder(tmp_path, 3, summary={"state": "interrupted"})
        track(folder, uri)
        first = only_run(uri).info
        assert first.status == "KILLED"
        append(folder, 3, 8)
        (folder / "summary.json").write_text('{"state": "finished"}')
        track(folder, uri)
        assert only_run(uri).info.run_id == first.run_id
        assert only_run(uri).info.status == "FINISHED"
        assert [step for step, _ in history(uri, RUNNING)] == list(range(1, 9))
        assert only_run(uri).data.metrics["n"] == 8

    def test_new_scores_replace_old_ones(self, uri: str, tmp_path: Path) -> None:
        folder = run_folder(tmp_path, 2)
        track(folder, uri)
        rows = [record(0, 0.2), record(1, 1.0)]
        (folder / "records.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
        track(folder, uri)
        assert only_run(uri).data.metrics[SCORE] == 0.6
        assert only_run(uri).data.metrics[RUNNING] == 0.6

    def test_a_store_that_was_lost_is_refilled(self, uri: str, tmp_path: Path) -> None:
        folder = run_folder(tmp_path)
        track(folder, uri)
        before = only_run(uri).data
        path = tmp_path / "new" / "mlflow.db"  # neither the file nor its folder is there
        code = f"from pathlib import Path; from harness import tracking; tracking.track(Path({str(folder)!r}), {f'sqlite:///{path}'!r})"
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=Path.cwd())
        assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
        after = only_run(f"sqlite:///{path}").data
        assert (after.metrics, after.params) == (before.metrics, before.params)

    def test_long_values_are_named_and_changed_ones_told(self, uri: str, tmp_path: Path) -> None:
        settings = {"encoder": {"name": "minilm", "prefix": "x" * 501}, "limit": 5}
        folder = run_folder(tmp_path, settings=settings)
        track(folder, uri)
        run = only_run(uri).data
        assert "encoder.prefix" not in run.params
        assert "limit" not in run.params
        assert run.tags["harness.long_params"] == "see config.yaml: encoder.prefix"
        assert run.tags["limit"] == "5"
        text = (folder / "run.yaml").read_text()
        (folder / "run.yaml").write_text(text.replace("minilm", "other"))
        track(folder, uri)
        assert only_run(uri).data.tags["harness.changed_params"] == "encoder.name: other"

    def test_runs_of_a_suite_hang_below_one_parent(self, uri: str, tmp_path: Path) -> None:
        for method in ("pecan", "bm25", "pecan"):
            folder = tmp_path / "results" / "musique" / f"{method}--tiny--0123abcd"
            track(folder if folder.exists() else run_folder(tmp_path, method=method), uri, suite="first")
        it = client(uri)
        runs = it.search_runs([it.get_experiment_by_name("musique").experiment_id])
        parent = [r for r in runs if r.data.tags.get("harness.suite") == "first"]
        children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent[0].info.run_id]
        assert (len(runs), len(parent), len(children)) == (3, 1, 2)

    def test_artifacts_are_not_taken_for_runs(self, uri: str, tmp_path: Path) -> None:
        folder = run_folder(tmp_path)
        track(folder, uri)
        assert list(tmp_path.rglob("config.yaml"))
        assert find_runs(tmp_path) == [folder]

    def test_a_run_without_records_yet(self, uri: str, tmp_path: Path) -> None:
        track(run_folder(tmp_path, 0, summary={}), uri)
        assert (only_run(uri).data.metrics, only_run(uri).info.status) == ({}, "KILLED")

    def test_a_deleted_experiment_is_said(self, uri: str, tmp_path: Path) -> None:
        it = client(uri)
        it.delete_experiment(it.create_experiment("musique"))
        with pytest.raises(SaveError, match="'musique' was deleted; restore it"):
            track(run_folder(tmp_path), uri)

    def test_no_run_folder(self, uri: str, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="is not a run folder"):
            track(tmp_path, uri)


@pytest.fixture
def bad_server(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that answers everything with the status given; 0 never answers."""
    asked = threading.Event()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if request.param == 0:
                asked.wait(30)
                return
            self.send_response(request.param)
            self.end_headers()
            self.wfile.write(b"<html>broken</html>")

        do_POST = do_GET

        def log_message(self, *_: Any) -> None:
            """Keep the test's output clean."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    asked.set()
    server.shutdown()
    server.server_close()


class TestFaults:
    def test_nobody_listens(self, tmp_path: Path) -> None:
        folder = run_folder(tmp_path)
        begun = time.monotonic()
        with pytest.raises(SaveError, match=r"tracking failed at http://\*\*\*@127.0.0.1:9 .*") as caught:
            track(folder, "http://user:secret@127.0.0.1:9")
        assert time.monotonic() - begun < 20
        assert f"harness track {folder} --uri http://***@127.0.0.1:9" in str(caught.value)
        assert "secret" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert "MLFLOW_HTTP_REQUEST_TIMEOUT" not in os.environ

    @pytest.mark.parametrize("bad_server", [500, 200], indirect=True)
    def test_a_server_that_answers_nonsense(self, bad_server: str, tmp_path: Path) -> None:
        begun = time.monotonic()
        with pytest.raises(SaveError, match="tracking failed at http://127"):
            track(run_folder(tmp_path), bad_server)
        assert time.monotonic() - begun < 20

    def test_a_file_that_is_no_database(self, tmp_path: Path) -> None:
        (tmp_path / "mlflow.db").write_text("not a database " * 100)
        with pytest.raises(SaveError, match="tracking failed at sqlite:"):
            track(run_folder(tmp_path), f"sqlite:///{tmp_path / 'mlflow.db'}")


def until(told: Callable[[], bool], seconds: float = 40.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if told():
            return True
        time.sleep(0.2)
    return False


class TestFollower:
    def test_follows_a_run_that_begins_later_and_ends_with_it(self, uri: str, tmp_path: Path) -> None:
        folder = tmp_path / "results" / "musique" / "pecan--tiny--0123abcd"
        follower = start_follower(folder, uri)
        ready = run_folder(tmp_path / "other", 3, summary={})
        shutil.copytree(ready, folder, dirs_exist_ok=True)
        with open(folder / "records.jsonl", "a") as file:
            file.write('{"question_id": "torn')
            file.flush()
            it = client(uri)

            def live() -> bool:
                found = it.get_experiment_by_name("musique")
                runs = it.search_runs([found.experiment_id]) if found else []
                return bool(runs) and runs[0].data.metrics.get(RUNNING) == pytest.approx(0.2)

            assert until(live), (folder / tracking.LOG).read_text()
        assert only_run(uri).info.status == "RUNNING"
        rows = "".join(json.dumps(record(i, s)) + "\n" for i, s in enumerate(SCORES))
        (folder / "records.jsonl").write_text(rows)
        (folder / "summary.json").write_text('{"state": "finished"}')
        assert follower.finish() == []
        assert [step for step, _ in history(uri, RUNNING)] == list(range(1, 9))
        assert only_run(uri).info.status == "FINISHED"
        assert not (folder / tracking.LOG).exists()

    def test_ends_when_its_run_is_killed(self, uri: str, tmp_path: Path) -> None:
        folder = run_folder(tmp_path, summary={})
        code = f"""
            import os, signal
            from pathlib import Path
            from harness.tracking import start_follower
            follower = start_follower(Path({str(folder)!r}), {uri!r})
            print(follower.process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        parent = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
        child = int(parent.stdout)
        assert until(lambda: not _alive(child))
        assert only_run(uri).info.status == "KILLED"
        assert only_run(uri).data.metrics["n"] == 8

    def test_a_dead_server_is_one_sentence_at_the_end(self, tmp_path: Path) -> None:
        folder = run_folder(tmp_path)
        before = (folder / "records.jsonl").read_bytes()
        begun = time.monotonic()
        told = start_follower(folder, "http://127.0.0.1:9").finish(40)
        assert time.monotonic() - begun < 40
        assert len(told) == 1
        assert f"harness track {folder} --uri http://127.0.0.1:9" in told[0]
        assert (folder / "records.jsonl").read_bytes() == before

    @pytest.mark.parametrize("bad_server", [0], indirect=True)
    def test_a_server_that_never_answers_cannot_hold_the_end(self, bad_server: str, tmp_path: Path) -> None:
        follower = start_follower(run_folder(tmp_path), bad_server)
        time.sleep(1)
        begun = time.monotonic()
        told = follower.finish(1)
        assert time.monotonic() - begun < 8
        assert "not done 1 s after the run ended" in told[0]
        assert follower.process is not None
        assert follower.process.poll() is not None

    def test_a_folder_that_cannot_be_written_is_told_and_not_raised(self, uri: str, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        told = start_follower(tmp_path / "file" / "run", uri).finish()
        assert len(told) == 1
        assert "NotADirectoryError" in told[0]

    def test_a_run_refused_before_its_first_question_leaves_nothing(self, uri: str, tmp_path: Path) -> None:
        assert start_follower(tmp_path / "results" / "musique" / "x--y--0123abcd", uri).finish() == []
        assert client(uri).get_experiment_by_name("musique") is None

    def test_tail_reads_whole_lines_once_and_anew_after_a_replacement(self, tmp_path: Path) -> None:
        from harness._follow import Tail

        path = tmp_path / "records.jsonl"
        tail = Tail(path)
        assert tail.read() == (False, [])
        path.write_text('{"a": 1}\n{"a"')
        assert tail.read() == (True, [{"a": 1}])
        with open(path, "a") as file:
            file.write(": 2}\n")
        assert tail.read() == (False, [{"a": 2}])
        (tmp_path / "new").write_text('{"a": 3}\n')
        os.replace(tmp_path / "new", path)
        assert tail.read() == (True, [{"a": 3}])


def _alive(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False


def test_port_nine_is_closed() -> None:
    """The tests above need an address where nobody listens."""
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", 9)) != 0
