"""A run folder or cache that is removed or replaced under a running run: the next write ends the
run."""

import contextlib
import os
import random
import shutil
import tempfile
import threading
import time
from pathlib import Path

import pytest

from harness.engine.progress import Silent
from harness.errors import SaveError
from harness.stats.resampling import student_quantile
from tests.engine.fakes import FakeModel, Quiet, World, go, make_plan

QUESTIONS = 40
FOLDER = make_plan().folder


def _anew(path):
    """Another folder with the same content in its place."""
    shutil.copytree(path, path.with_name("copy"))
    shutil.rmtree(path)
    os.rename(path.with_name("copy"), path)


def _rewritten(path):
    """What an editor does that saves a file."""
    path.with_name("draft").write_bytes(path.read_bytes())
    os.replace(path.with_name("draft"), path)


LOSSES = {
    "records removed": lambda run: (run / "records.jsonl").unlink(),
    "records replaced": lambda run: _rewritten(run / "records.jsonl"),
    "folder removed": shutil.rmtree,
    "folder moved": lambda run: os.rename(run, run.with_name("elsewhere")),
    "folder replaced": _anew,
}


@pytest.fixture
def place(monkeypatch):
    """A folder of an ordinary user: root may write anywhere, and no mode would stop it."""
    root = Path(tempfile.mkdtemp())
    monkeypatch.setenv("HARNESS_CACHE", str(root / "cache"))
    monkeypatch.setattr("harness.llm.backend.load_model", FakeModel)
    for parallel in (
        1,
        4,
    ):  # imports what a run needs: the ordinary user may not be able to read it
        go(
            make_plan(World(questions=2).dataset(), Quiet(Quiet.Config())),
            root / str(parallel),
            parallel=parallel,
        )
    student_quantile(0.975, 4.0)
    shutil.rmtree(root / "cache")
    with _ordinary_user(root):
        yield root
    shutil.rmtree(root, ignore_errors=True)


@contextlib.contextmanager
def _ordinary_user(root):
    if os.geteuid() != 0:
        yield
        return
    root.chmod(0o777)
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


class Asked:
    """Counts the questions, and does harm at one of them; no other is asked until the harm is
    done."""

    def __init__(self, at, harm):
        self.count, self.at, self.harm = 0, at, harm
        self._turn = threading.Lock()

    def __call__(self):
        with self._turn:
            self.count += 1
            if self.count == self.at:
                self.harm()


def _run(place, asked, parallel, documents=2, progress=None):
    data = World(questions=QUESTIONS, documents=documents, filler=" more" * 100).dataset()
    plan = make_plan(data, Quiet(Quiet.Config(), pause=asked))
    return go(plan, place / "out", parallel=parallel, progress=progress or Silent())


@pytest.mark.parametrize("parallel", [1, 4])
@pytest.mark.parametrize("loss", LOSSES)
def test_the_next_write_says_what_is_lost_and_ends_the_run(loss, parallel, place):
    run, at = place / "out" / FOLDER, random.Random(loss).randrange(3, QUESTIONS // 2)

    def harm():
        # The manifest is replaced once, after the first answer: its draft may vanish while the harm
        # lists the folder.
        while "first_prompts" not in (run / "manifest.json").read_text():
            time.sleep(0.001)
        LOSSES[loss](run)

    asked = Asked(at, harm)
    with pytest.raises(SaveError, match=r"removed or replaced while"):
        _run(place, asked, parallel)
    # Those in flight were asked already; with several of them an answer may come while the next
    # write is still checked.
    assert asked.count <= at + 2 * parallel, "questions were paid for after the loss"
    if loss == "folder moved":
        assert not run.exists(), "nothing is written beside the folder that was moved"
        os.rename(run.with_name("elsewhere"), run)
        assert _run(place, Asked(0, lambda: None), 1).summary.n_scored == QUESTIONS


def test_a_cache_that_is_removed_is_begun_again(place):
    asked = Asked(2, lambda: shutil.rmtree(place / "cache"))
    assert _run(place, asked, 1, documents=5).summary.n_scored == QUESTIONS
    assert list((place / "cache").rglob("data.json"))


@pytest.mark.parametrize("mode", [0o555, 0o000])
def test_a_cache_that_is_locked_under_the_run_costs_a_warning(place, mode):
    cache, progress = place / "cache", Silent()

    def lock():
        folders = [path for path in (*cache.rglob("*"), cache) if path.is_dir()]
        for folder in sorted(folders, reverse=True):  # those inside others first
            folder.chmod(mode)

    result = _run(place, Asked(2, lock), 1, documents=5, progress=progress)
    assert result.summary.n_scored == QUESTIONS
    assert not result.save_problems
    (warning,) = [note for note in progress.notes if "not cached" in note]
    assert "Permission denied" in warning


def test_a_folder_that_stands_in_for_the_lost_one_is_left_alone(place):
    run = place / "out" / FOLDER

    def stand_in():
        shutil.rmtree(run)
        run.mkdir()
        (run / "summary.json").write_text("another run")
        (run / "lock").write_text("its lock")

    with pytest.raises(SaveError, match="removed or replaced"):
        _run(place, Asked(3, stand_in), 1)
    assert sorted(p.name for p in run.iterdir()) == ["lock", "summary.json"]
    assert (run / "summary.json").read_text() == "another run"
