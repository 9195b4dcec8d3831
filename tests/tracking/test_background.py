import json
import shutil
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.tracking import background
from harness.tracking.background import BackgroundTracking
from harness.tracking.mlflow_run import MlflowRun
from harness.tracking.track import StoreError
from tests.tracking.store import (
    SCORE,
    SCORES,
    append,
    client,
    history,
    only_run,
    row,
    run_folder,
    stored_traces,
    suite,
)

pytest.importorskip("mlflow", reason="the extra 'mlflow' is not installed")


def until(condition, seconds=120.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


def logged(uri, folders, suite=None, timeout=240):
    """What `finish` says of a command that ran and ended at once."""
    trackers = BackgroundTracking(Path("results"), uri, suite)
    for folder in folders:
        trackers.follow_run(folder)
    return trackers.finish(timeout)


def test_a_run_is_logged_while_it_goes_on_and_ends_with_it(uri, tmp_path, monkeypatch):
    monkeypatch.setattr(background, "SECONDS_BETWEEN_PASSES", 0.2)
    folder = tmp_path / "results" / "musique" / "pecan--tiny--0123abcd"
    trackers = BackgroundTracking(tmp_path, uri)
    trackers.follow_run(folder)
    ready = run_folder(tmp_path / "other", 3, summary={})
    shutil.copytree(ready, folder)
    with open(folder / "records.jsonl", "a") as file:
        file.write('{"question_id": "torn')
        file.flush()
        it = client(uri)

        def live():
            found = it.get_experiment_by_name("musique")
            runs = it.search_runs([found.experiment_id]) if found else []
            return (
                bool(runs) and runs[0].data.metrics.get(SCORE) == 30
            )  # the third question waits for the next one

        assert until(live)
    assert until(lambda: only_run(uri).info.status == "RUNNING")
    rows = "".join(json.dumps(row(i, s)) + "\n" for i, s in enumerate(SCORES))
    (folder / "records.jsonl").write_text(rows)
    (folder / "summary.json").write_text('{"state": "finished"}')
    assert trackers.finish(240) == []
    assert [step for step, _ in history(uri, SCORE)] == list(range(1, 9))
    assert only_run(uri).info.status == "FINISHED"


def test_the_runs_of_a_suite(uri, tmp_path):
    """A damaged run does not lose the others, and one refused before its first question leaves
    nothing."""
    broken = run_folder(tmp_path, method="broken")
    (broken / "summary.json").write_text("{")
    refused = tmp_path / "results" / "qasper" / "x--y--0123abcd"
    whole = [run_folder(tmp_path, method=method) for method in ("pecan", "bm25")]
    (sentence,) = logged(uri, [broken, refused, *whole], "first")
    assert f"{broken / 'summary.json'}: not valid JSON" in sentence
    assert client(uri).get_experiment_by_name("qasper") is None
    parent, children = suite(uri)
    assert (len(children), parent.info.status) == (2, "FINISHED")


def test_nothing_is_logged_between_the_runs_of_a_short_command(tmp_path, monkeypatch):
    """It would slow down the calls of the next run, whose seconds are measured."""
    logged_runs = []

    def count(folder, *_, **__):
        logged_runs.append(folder.name)
        return 0

    monkeypatch.setattr(background, "track", count)
    folder = run_folder(tmp_path, 3)
    trackers = BackgroundTracking(folder.parent, "sqlite:///x.db")
    plan = SimpleNamespace(folder=folder.name)
    trackers.started(plan)
    trackers.ended(plan, SimpleNamespace(folder=folder))
    assert not until(lambda: logged_runs, seconds=1)
    assert trackers.finish() == []
    assert logged_runs == [folder.name]


def test_a_slow_start_of_mlflow_takes_no_time_from_the_traces(uri, tmp_path, monkeypatch):
    """A new database and MLflow's import take longer than traces may, on a busy machine."""
    log_results = MlflowRun.log_results

    def slow(self):
        time.sleep(1.5)
        return log_results(self)

    monkeypatch.setattr(MlflowRun, "log_results", slow)
    monkeypatch.setattr(background, "_LAST_TRACING_SECONDS", 1.0)
    folder = run_folder(tmp_path, 3)
    assert logged(uri, [folder]) == []
    assert sorted(stored_traces(uri)) == ["q0", "q1", "q2"]


def test_a_dead_server_is_one_sentence_for_all_runs(tmp_path):
    folders = [run_folder(tmp_path, method=method) for method in ("a", "b", "c", "d")]
    begun = time.monotonic()
    trackers = BackgroundTracking(tmp_path, "http://127.0.0.1:9")
    for folder in folders:
        trackers.follow_run(folder)
    called = time.monotonic() - begun
    (sentence,) = trackers.finish(40)
    assert called < 1
    assert time.monotonic() - begun < 40
    assert "(ConnectionRefusedError: nobody answers at 127.0.0.1:9)" in sentence
    assert (
        f"The 4 runs themselves are on disk; fill MLflow from there with: harness track {tmp_path}"
        in sentence
    )


@pytest.mark.parametrize("bad_server", [0], indirect=True)
def test_a_server_that_never_answers_cannot_hold_the_end(bad_server, tmp_path):
    trackers = BackgroundTracking(tmp_path, bad_server)
    trackers.follow_run(run_folder(tmp_path))
    begun = time.monotonic()
    (sentence,) = trackers.finish(1)
    assert time.monotonic() - begun < 8
    assert "not done 1 s after the run ended" in sentence


def test_whatever_mlflow_raises_is_a_sentence(uri, tmp_path, monkeypatch):
    def broken(*_, **__):
        raise AttributeError("no attribute 'x'")

    monkeypatch.setattr(background, "track", broken)
    folder = run_folder(tmp_path)
    (sentence,) = logged(uri, [folder])
    assert "(AttributeError: no attribute 'x')" in sentence
    assert f"harness track {folder} --uri {uri}" in sentence


def test_a_store_that_nobody_asked_for_and_that_fails_is_an_error(tmp_path, monkeypatch):
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)

    def full(*_, **__):
        raise StoreError([tmp_path], "sqlite:///mlflow.db", "database or disk is full")

    monkeypatch.setattr(background, "track", full)
    notes = []
    trackers = BackgroundTracking(tmp_path, None, note=notes.append)
    trackers.follow_run(run_folder(tmp_path))
    assert trackers.closed() == 3
    assert notes[0].startswith("error: tracking failed at sqlite:///")


def test_off_starts_no_thread(tmp_path):
    trackers = BackgroundTracking(tmp_path, "off")
    trackers.follow_run(run_folder(tmp_path))
    assert (trackers.thread, trackers.finish()) == (None, [])


class TestPasses:
    """The passes themselves, with a store that only counts what it is given."""

    @pytest.fixture
    def tracked(self, monkeypatch):
        calls = []

        def count(folder, _uri, *, running, **_):
            calls.append((folder.name.partition("--")[0], running))
            return 0

        monkeypatch.setattr(background, "track", count)
        return calls

    @pytest.fixture
    def trackers(self, tmp_path, monkeypatch):
        monkeypatch.setattr(BackgroundTracking, "_follow", lambda self: None)
        return BackgroundTracking(tmp_path, "sqlite:///x.db")

    def test_only_what_changed_is_logged_and_all_but_the_last_run_have_ended(
        self, trackers, tracked, tmp_path
    ):
        first, second = (run_folder(tmp_path, 2, method=method) for method in ("a", "b"))
        trackers.follow_run(first)
        for _ in range(2):
            assert trackers.log_changes() == {}
        trackers.follow_run(second)
        for _ in range(2):
            trackers.log_changes()
        append(second, 2, 3)
        trackers.log_changes()
        trackers.log_changes(last=True)
        assert tracked == [("a", True), ("a", False), ("b", True), ("b", True), ("b", False)]

    def test_a_run_is_not_logged_before_it_is_described(self, trackers, tracked, tmp_path):
        folder = run_folder(tmp_path)
        (
            folder / "manifest.json"
        ).unlink()  # without the time of its start it would become another run
        trackers.follow_run(folder)
        trackers.log_changes()
        assert tracked == []

    def test_traces_without_time_are_logged_by_the_next_pass_and_named_by_the_last(
        self, trackers, tmp_path, monkeypatch
    ):
        left = iter([7, 3, 3, 2])
        monkeypatch.setattr(background, "track", lambda *_, **__: next(left))
        folder = run_folder(tmp_path, 2)
        trackers.follow_run(folder)
        for last in (False, False, False, True):  # nothing has changed, but traces are missing
            trackers.log_changes(last)
        (sentence,) = trackers.finish()
        assert (
            f"2 questions of {folder} have no trace in MLflow yet; log them with: harness track"
            in sentence
        )
