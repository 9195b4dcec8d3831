from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.tracking.follower import Follower
from tests.tracking.store import RUNNING, SCORES, client, history, only_run, row, run_folder

pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")


def until(told: Callable[[], bool], seconds: float = 120.0) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if told():
            return True
        time.sleep(0.2)
    return False


class TestFollower:
    def test_follows_a_run_that_begins_later_and_ends_with_it(self, uri: str, tmp_path: Path) -> None:
        folder = tmp_path / "results" / "musique" / "pecan--tiny--0123abcd"
        follower = Follower(uri)
        follower.follow(folder)
        ready = run_folder(tmp_path / "other", 3, summary={})
        shutil.copytree(ready, folder)
        with open(folder / "records.jsonl", "a") as file:
            file.write('{"question_id": "torn')
            file.flush()
            it = client(uri)

            def live() -> bool:
                found = it.get_experiment_by_name("musique")
                runs = it.search_runs([found.experiment_id]) if found else []
                return bool(runs) and runs[0].data.metrics.get(RUNNING) == pytest.approx(20)

            assert until(live)
        assert only_run(uri).info.status == "RUNNING"
        rows = "".join(json.dumps(row(i, s)) + "\n" for i, s in enumerate(SCORES))
        (folder / "records.jsonl").write_text(rows)
        (folder / "summary.json").write_text('{"state": "finished"}')
        follower.ended(folder)
        assert follower.finish(240) == []
        assert [step for step, _ in history(uri, RUNNING)] == list(range(1, 9))
        assert only_run(uri).info.status == "FINISHED"

    def test_one_process_for_the_runs_of_a_suite(self, uri: str, tmp_path: Path) -> None:
        follower = Follower(uri)
        for method in ("pecan", "bm25"):
            folder = run_folder(tmp_path, method=method)
            follower.follow(folder, "first")
            follower.ended(folder)
        assert follower.finish(240) == []
        it = client(uri)
        runs = it.search_runs([it.get_experiment_by_name("musique").experiment_id])
        (parent,) = [r for r in runs if r.data.tags.get("harness.suite") == "first"]
        children = {r.data.tags["mlflow.parentRunId"] for r in runs if r is not parent}
        assert (len(runs), children, parent.info.status) == (3, {parent.info.run_id}, "FINISHED")
        assert "report.html" in {f.path for f in it.list_artifacts(parent.info.run_id)}

    def test_ends_when_its_run_is_killed(self, uri: str, tmp_path: Path) -> None:
        folder = run_folder(tmp_path, summary={})
        code = f"""
            import os, signal
            from pathlib import Path
            from harness.tracking.follower import Follower
            follower = Follower({uri!r})
            follower.follow(Path({str(folder)!r}))
            print(follower.process.pid, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        """
        parent = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True, text=True)
        child = int(parent.stdout)
        assert until(lambda: not _alive(child))
        assert only_run(uri).info.status == "KILLED"
        assert only_run(uri).data.metrics["n"] == 8

    def test_a_dead_server_is_one_sentence_for_all_runs(self, tmp_path: Path) -> None:
        folders = [run_folder(tmp_path, method=method) for method in ("a", "b", "c", "d")]
        before = [(folder / "records.jsonl").read_bytes() for folder in folders]
        begun = time.monotonic()
        follower = Follower("http://127.0.0.1:9")
        for folder in folders:
            follower.follow(folder)
        called = time.monotonic() - begun
        told = follower.finish(40)
        assert called < 1
        assert time.monotonic() - begun < 40
        assert len(told) == 1
        assert f"The 4 runs themselves are on disk; fill MLflow from there with: harness track {tmp_path}" in told[0]
        assert [(folder / "records.jsonl").read_bytes() for folder in folders] == before

    @pytest.mark.parametrize("bad_server", [0], indirect=True)
    def test_a_server_that_never_answers_cannot_hold_the_end(self, bad_server: str, tmp_path: Path) -> None:
        follower = Follower(bad_server)
        follower.follow(run_folder(tmp_path))
        time.sleep(1)
        begun = time.monotonic()
        told = follower.finish(1)
        assert time.monotonic() - begun < 8
        assert "not done 1 s after the run ended" in told[0]
        assert follower.process is not None
        assert follower.process.poll() is not None

    def test_messages_never_wait_for_a_process_that_does_not_read(self, uri: str, tmp_path: Path) -> None:
        follower = Follower(uri)
        begun = time.monotonic()
        for number in range(4000):  # more than a pipe holds, long before the process has started
            follower.follow(tmp_path / f"run{number}" / ("x" * 80))
        assert time.monotonic() - begun < 2
        assert follower.finish(240) == []

    def test_a_process_that_dies_is_told(self, uri: str, tmp_path: Path) -> None:
        follower = Follower(uri)
        assert follower.process is not None
        follower.process.kill()
        follower.process.wait()
        folder = run_folder(tmp_path)
        follower.follow(folder)
        follower.ended(folder)
        told = follower.finish(240)
        assert len(told) == 1
        assert "its process ended with -9" in told[0]
        assert f"harness track {folder} --uri {uri}" in told[0]

    def test_a_process_that_cannot_be_started_is_told_and_not_raised(
        self, uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
        follower = Follower(uri)
        follower.follow(run_folder(tmp_path))
        told = follower.finish(240)
        assert len(told) == 1
        assert "FileNotFoundError" in told[0]

    def test_a_damaged_folder_does_not_lose_the_others(self, uri: str, tmp_path: Path) -> None:
        broken, whole = (run_folder(tmp_path, method=method) for method in ("a", "b"))
        (broken / "summary.json").write_text("{")
        follower = Follower(uri)
        for folder in (broken, whole):
            follower.follow(folder)
            follower.ended(folder)
        told = follower.finish(240)
        assert len(told) == 1
        assert f"{broken / 'summary.json'}: not valid JSON" in told[0]
        assert only_run(uri).data.tags["method"] == "b"

    def test_a_run_refused_before_its_first_question_leaves_nothing(self, uri: str, tmp_path: Path) -> None:
        follower = Follower(uri)
        follower.follow(tmp_path / "results" / "musique" / "x--y--0123abcd")
        assert follower.finish(240) == []
        assert client(uri).get_experiment_by_name("musique") is None

    def test_tail_reads_whole_lines_once_and_anew_after_a_replacement(self, tmp_path: Path) -> None:
        from harness.tracking.follow import Tail

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
