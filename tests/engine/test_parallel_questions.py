"""Questions in flight: who waits for whom, what ends a run, and records that equal those of one at
a time."""

import importlib
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from unittest import mock

import pytest

from harness.engine.progress import Silent
from harness.engine.runner import Interrupted
from harness.engine.tools import Models
from harness.errors import CannotRun, UserError
from harness.parallel.in_flight import in_flight, questions_that_fit
from harness.scorers import rouge_score
from harness.storage.run_folder import read_run
from tests.engine import fakes
from tests.engine.fakes import Quiet, Words, World, comparable, go, make_plan
from tests.engine.slow_parallel_run import slow_plan

pytestmark = pytest.mark.usefixtures("fake_model", "no_deadlock")

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _own_draws(monkeypatch):
    monkeypatch.setattr(fakes, "random", random.Random(0))  # the fake model draws its seconds


def quiet(pause=lambda: None):
    return Quiet(Quiet.Config(), pause)


def rows(folder):
    return [comparable(r) for r in read_run(folder).records]


def documents(folder):
    """The indexes of a run by document, with their costs but the seconds."""
    found = {}
    for line in read_run(folder).index_lines:
        costs = {phase: {**spent, "seconds": None} for phase, spent in line.usage.items()}
        found[line.identity] = costs
    return found


WORLD = World(questions=12, documents=3, words=("a", "bug", "b", "window", "c", "memory"))


@pytest.mark.parametrize("parallel", [2, 5, 16])
def test_records_equal_those_of_one_at_a_time(parallel, tmp_path, monkeypatch):
    one = go(make_plan(WORLD.dataset(), quiet()), tmp_path / "one")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cold"))
    method, progress = quiet(lambda: time.sleep(0.003)), Silent()
    many = go(
        make_plan(WORLD.dataset(), method), tmp_path / "many", parallel=parallel, progress=progress
    )
    assert rows(one.folder) == rows(many.folder)
    assert documents(one.folder) == documents(many.folder)
    assert sorted(method.built) == ["d0", "d1", "d2"], "each index is built by one of its questions"
    summaries = [
        {k: v for k, v in run.summary.to_json().items() if k not in ("usage", "index", "files")}
        for run in (one, many)
    ]
    assert summaries[0] == summaries[1]
    assert progress.notes == []
    assert (progress.n_unrecorded, many.failed) == (0, 3)


def test_packages_of_scorers_are_imported_before_a_question_is_asked(tmp_path, monkeypatch):
    """An import of a second would count as latency of the requests in flight."""
    monkeypatch.setattr(
        rouge_score, "need", lambda name: happened.append("import") or importlib.import_module(name)
    )
    rouge_score._f_measure_of.cache_clear()
    happened = []
    plan = make_plan(World(questions=4).dataset(), quiet(lambda: happened.append("asked")))
    data = plan.config.dataset.model_copy(update={"scorers": ("rouge_score.rougeL",)})
    go(replace(plan, config=plan.config.model_copy(update={"dataset": data})), tmp_path, parallel=2)
    assert happened == ["import", *["asked"] * 4]


@pytest.mark.parametrize("parallel", [1, 8])
def test_an_index_is_built_once_while_the_others_wait_and_fails_once(parallel, tmp_path):
    class Broken(Quiet):
        def index(self, document, tools):
            index = super().index(document, tools)
            time.sleep(0.05)
            if document.id == "d0":
                raise ValueError("no sentences")
            return index

    method = Broken(Broken.Config())
    result = go(make_plan(World(questions=8).dataset(), method), tmp_path, parallel=parallel)
    assert sorted(method.built) == ["d0", "d1"]
    stored = read_run(result.folder)
    assert [r.error is not None for r in stored.records] == [True, False] * 4
    assert sorted(line.status for line in stored.index_lines) == ["built", "failed"]
    assert [line.usage["index"]["tokens_in"] for line in stored.index_lines] == [3, 3], (
        "a failure has its cost too"
    )


def test_indexes_of_different_documents_are_built_at_the_same_time(tmp_path):
    """Also where all questions on one document come before those on the next."""
    both = threading.Barrier(2)

    class Meets(Quiet):
        def index(self, document, tools):
            both.wait(60)
            return super().index(document, tools)

    made = World(questions=12, documents=2).dataset()
    examples = tuple(sorted(made.examples, key=lambda e: e.question.document_ids))
    method = Meets(Meets.Config())
    result = go(make_plan(replace(made, examples=examples), method), tmp_path, parallel=2)
    assert result.failed == 0
    assert sorted(method.built) == ["d0", "d1"]


class Parts(Quiet):
    """An index of six parts, two of one name; made together where there are places. `breaks` stops
    the run in one."""

    breaks: int | None = None

    def index(self, document, tools):
        def part(n):
            def make():
                if n == self.breaks:
                    raise CannotRun("the weights are gone")
                self.built.append(f"{document.id} part {n % 5}")
                tools.model().session().feed("word " * (n % 5 + 1))
                return n

            return int(tools.keep(f"part {n % 5}", make))

        return {**super().index(document, tools), "parts": tools.map(part, range(6))}


@pytest.mark.parametrize(("first", "then"), [(4, 1), (1, 4), (4, 4)])
def test_parts_of_a_stopped_run_are_kept_and_cost_once(first, then, tmp_path, monkeypatch):
    data = World(questions=4).dataset()
    whole = go(make_plan(data, Parts(Parts.Config())), tmp_path / "whole")
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cold"))
    stopped, resumed = Parts(Parts.Config()), Parts(Parts.Config())
    stopped.breaks = 3
    with pytest.raises(CannotRun, match="weights are gone"):
        go(make_plan(data, stopped), tmp_path / "cut", parallel=first)
    result = go(make_plan(data, resumed), tmp_path / "cut", parallel=then)
    made = [name for name in stopped.built + resumed.built if "part" in name]
    assert len(made) == len(set(made)) == 10, "no part is made twice"
    assert not list((tmp_path / "cold").rglob("*.parts")), "they go when the index is whole"
    assert rows(result.folder) == rows(whole.folder)
    assert documents(result.folder) == documents(whole.folder)


@pytest.mark.parametrize("kind", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_keeps_what_was_finished(kind, tmp_path):
    calls, lock = [0], threading.Lock()

    def pause():
        with lock:
            calls[0] += 1
            if calls[0] == 6:
                os.kill(os.getpid(), kind)
        time.sleep(0.02)

    data = World(questions=40).dataset()
    with pytest.raises(Interrupted) as caught:
        go(make_plan(data, quiet(pause)), tmp_path, parallel=3)
    stored = read_run(caught.value.folder)
    assert 3 <= len(stored.records) < 40
    assert stored.summary.state == "interrupted"
    result = go(make_plan(data, quiet()), tmp_path)
    assert rows(result.folder) == rows(go(make_plan(data, quiet()), tmp_path / "whole").folder)


@pytest.mark.parametrize(
    ("error", "raised"), [(CannotRun("no weights"), UserError), (SystemExit(7), SystemExit)]
)
def test_what_ends_a_run_ends_it_with_all_members(error, raised, tmp_path):
    class Ends(Quiet):
        def answer(self, *args):
            if args[0].id == "q4":
                raise error
            return super().answer(*args)

    plan = make_plan(World(questions=30).dataset(), Ends(Ends.Config(), lambda: time.sleep(0.01)))
    with pytest.raises(raised):
        go(plan, tmp_path, parallel=4)
    stored = read_run(tmp_path / plan.folder)
    assert {r.question_id for r in stored.records} >= {"q0"}
    assert len(stored.records) < 30
    assert stored.summary.state == "stopped"


def test_of_several_errors_that_of_the_first_question_is_raised():
    ready = threading.Barrier(2)

    def answer(n):
        ready.wait(60)
        time.sleep(0.02 * (1 - n))
        raise KeyError(n)

    with pytest.raises(KeyError) as caught:
        in_flight([0, 1], 2, answer, lambda outcomes: None)
    assert caught.value.args == (0,)


def test_a_question_is_shown_as_done_once_its_record_is_synced(tmp_path, monkeypatch):
    synced = {}

    def sync(fd):
        path = Path(os.readlink(f"/proc/self/fd/{fd}"))
        if path.is_file():
            synced[path.name] = path.read_text()

    class Watching(Silent):
        early = 0

        def count_recorded(self, record):
            self.early += record.question_id not in synced["records.jsonl"]
            super().count_recorded(record)

    monkeypatch.setattr(os, "fsync", sync)
    progress = Watching()
    go(make_plan(WORLD.dataset(), quiet()), tmp_path, parallel=5, progress=progress)
    assert (progress.early, progress.n_unrecorded) == (0, 0)


def test_draws_from_the_shared_generators_are_said(tmp_path, monkeypatch):
    monkeypatch.setattr(fakes, "random", random)
    progress = Silent()
    go(
        make_plan(World(questions=4).dataset(), Words(Words.Config())),
        tmp_path,
        parallel=2,
        progress=progress,
    )
    assert len(progress.notes) == 1
    assert (
        "drew from the global random generator of Python while several questions"
        in progress.notes[0]
    )


class Sized:
    name, window, contexts_make_room = "big", 8192, True

    def __init__(self, fit, problem=None):
        self.fit, self.pack_problem = fit, problem
        self.pool = mock.Mock()

    def share_memory(self, networks):
        pass

    def contexts_that_fit(self, n_tokens):
        return self.fit if self.fit is None else self.fit * self.window // n_tokens


def test_questions_in_flight_follow_what_contexts_hold_not_whole_windows():
    paper = Sized(3)  # 3 windows of 131,072 tokens stand for 68 GB beside Llama-3.1-8B
    paper.window = 131_072
    assert questions_that_fit([paper], 64, print, lambda: 5024) == 64
    paper.pool.make_buffers_for.assert_called_once_with(64, 5024)
    assert questions_that_fit([paper], 64, print, lambda: 100_000) == 3
    assert questions_that_fit([paper], 64, print, lambda: 500_000) == 3, (
        "no context is longer than the window"
    )
    paper.contexts_make_room = False  # a CPU keeps all contexts
    assert questions_that_fit([paper], 64, print, lambda: 5024) == 3


@pytest.mark.parametrize(
    ("models", "places", "said"),
    [
        ([Sized(99), object()], 16, []),
        ([Sized(None)], 16, []),
        (
            [Sized(5), Sized(3)],
            3,
            ["5 instead of 16", "3 instead of 16 .* holds 3 contexts of 8192 tokens of 'big'"],
        ),
        ([Sized(0)], 1, ["1 instead of 16"]),
        (
            [Sized(16, "it is eager")],
            16,
            ["'big' runs the questions in flight one after the other: it is eager"],
        ),
    ],
)
def test_fewer_in_flight_than_asked_for_is_said(models, places, said):
    notes = []
    assert questions_that_fit(models, 16, notes.append) == places
    assert [bool(re.search(*pair)) for pair in zip(said, notes, strict=True)] == [True] * len(said)


def test_what_made_batches_slow_is_a_note_of_the_run(tmp_path, monkeypatch):
    monkeypatch.setattr(fakes.FakeModel, "slow_paths", lambda _: ["a reason"], raising=False)
    progress = Silent()
    go(make_plan(WORLD.dataset(), quiet()), tmp_path, progress=progress)
    assert progress.notes == ["slower than it could be: a reason"]


def test_two_models_in_one_memory_are_a_slow_path():
    models = Models(make_plan(), print)
    models._loaded = {"a": Sized(1)}
    assert models.slow_paths() == []
    models._loaded |= {"b": Sized(1), "c": Words(Words.Config())}
    (said,) = models.slow_paths()
    assert said.startswith("'big' and 'big' shared a GPU's memory")


def test_none_in_flight_is_refused(tmp_path):
    with pytest.raises(UserError, match="--parallel 0: at least one question"):
        go(make_plan(), tmp_path, parallel=0)
    assert list(tmp_path.iterdir()) == []


def test_a_run_killed_with_four_in_flight_goes_on_with_one(tmp_path, monkeypatch):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    parts, records = killed / "cache", killed / make_plan().folder / "records.jsonl"
    env = {
        **os.environ,
        "HARNESS_CACHE": str(parts),
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
    }
    moments = [
        # os.walk, unlike rglob, is silent where a draft is renamed while it looks.
        lambda: any(
            ".parts/" in where and "usage.json" in files for where, _, files in os.walk(parts)
        ),
        lambda: records.exists() and records.read_bytes().count(b"\n") >= 5,
    ]
    for reached in moments:
        words = [sys.executable, "-m", "tests.engine.slow_parallel_run", str(killed)]
        run = subprocess.Popen(words, env=env, cwd=ROOT)
        while not reached():
            assert run.poll() is None, "it ended before it was killed"
            time.sleep(0.005)
        run.kill()
        assert run.wait() == -9
    undisturbed = go(slow_plan(), whole)
    monkeypatch.setenv("HARNESS_CACHE", str(parts))
    result = go(slow_plan(), killed)
    assert rows(result.folder) == rows(undisturbed.folder)
    assert documents(result.folder) == documents(undisturbed.folder)
    assert result.summary.errors.keys() == {"KeyError"}
