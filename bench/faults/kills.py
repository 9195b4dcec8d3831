"""Kills (SIGKILL) at random moments: the same command, run again, gives what an undisturbed one does."""

import contextlib
import math
import os
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.faults.commands import (
    IMPORT,
    LONGEST,
    Bench,
    Kind,
    Words,
    answers,
    end_of,
    ended,
    kill,
    must,
    nothing,
    outcome,
    own_cache,
    pocket_words,
    records,
    run_words,
    start,
)
from harness.storage.file_hash import file_hash
from tests.llm.test_endpoint_batch import BatchServer

ROUNDS = 5
"""Kills of one folder, before its command may end."""


@dataclass(frozen=True)
class Job:
    """Commands that write one place.

    commands: the place -> commands, one after the other; result: the place -> what an undisturbed
    run is compared by; before: makes what the commands need; prepare: called in each process.
    """

    commands: Callable[[str], list[Words]]
    result: Callable[[str], Any]
    before: Callable[[str], None] = nothing
    prepare: Callable[[], None] = nothing


def killed(kind: Kind, bench: Bench, job: Job) -> None:
    """Kill a job's commands at random moments, ROUNDS times a place, then let them end; a result
    other than that of undisturbed commands is added to what fell.

    Args:
        kind: The row of the table, whose tries are counted and what fell.
        bench: Says how many tries there are, and draws the moments.
        job: The commands, and how their result is read.
    """
    undisturbed_result, longest_seconds = undisturbed(kind, job)
    for number in range(math.ceil(bench.tries / ROUNDS)):
        place = f"{kind.name} {number}"
        job.before(place)
        with own_cache(f"{place} cache"):
            for _ in range(ROUNDS):
                kind.tries += 1
                command = bench.rng.choice(job.commands(place))
                child = start(command, job.prepare)
                moment = bench.rng.uniform(0, longest_seconds)
                if ended(child, moment) is None:
                    kill(child)
            finish(kind, job, place)
        if job.result(place) != undisturbed_result:
            kind.fell.append(f"{place}: another result than that of an undisturbed command")


def undisturbed(kind: Kind, job: Job) -> tuple[Any, float]:
    """The result without kills, and the seconds of the longest command."""
    place = f"{kind.name} whole"
    job.before(place)
    longest_seconds = 0.0
    with own_cache(f"{place} cache"):
        for words in job.commands(place):
            start_time = time.monotonic()
            must(words, job.prepare)
            longest_seconds = max(longest_seconds, time.monotonic() - start_time)
    return job.result(place), longest_seconds


def finish(kind: Kind, job: Job, place: str) -> None:
    """Let the commands end after kills; an import that had ended is not made again."""
    for words in job.commands(place):
        done = outcome(words, job.prepare)
        if done.code != 0 and "is there already; delete it" not in done.err:
            kind.fell.append(f"{place}: after kills {done.words}")


def copy_of_stored(place: str) -> None:
    """Copy the stored run to a place."""
    shutil.copytree("stored", place)


# One function a kind


def run_bm25(kind: Kind, bench: Bench) -> None:
    """A run by retrieval, its index included."""
    killed(kind, bench, Job(lambda out: [run_words("bm25", "--out", out)], answers))


def index_of_pecan(kind: Kind, bench: Bench) -> None:
    """A run of PECAN: nearly all of its time builds the index."""
    killed(kind, bench, Job(lambda out: [pocket_words("pecan", out)], answers))


def index_of_raptor(kind: Kind, bench: Bench) -> None:
    """A run of RAPTOR: nearly all of its time builds the index."""
    killed(kind, bench, Job(lambda out: [pocket_words("raptor", out)], answers))


def shards_and_merge(kind: Kind, bench: Bench) -> None:
    """Three shards and their merge."""

    def commands(out: str) -> list[Words]:
        """The commands of the three shards, and that of the merge."""
        row = run_words("slow", "--out", out)
        return [*([*row, "--shard", f"{n}/3"] for n in (1, 2, 3)), ["merge", out]]

    killed(kind, bench, Job(commands, records))


def duel(kind: Kind, bench: Bench) -> None:
    """A duel of two methods, two questions at a time."""
    _, _, _, *row = run_words("slow")
    words = ["duel", "slow", "bm25", "--parallel", "2"]
    words += [word for word in row if word not in ("--mlflow", "off")]
    killed(kind, bench, Job(lambda out: [[*words, "--out", out]], records))


def retry_failed(kind: Kind, bench: Bench) -> None:
    """`--retry-failed` on a run of which some questions failed."""

    def break_some(out: str) -> None:
        """Make a run of which some questions fail."""
        broken = {"BROKEN": "1"}
        must(run_words("fragile", "--out", out), lambda: os.environ.update(broken), codes=(3,))

    words = run_words("fragile", "--retry-failed")
    killed(kind, bench, Job(lambda out: [[*words, "--out", out]], answers, break_some))


def imports(kind: Kind, bench: Bench) -> None:
    """`harness import` of another tool's answers."""
    killed(kind, bench, Job(lambda out: [[*IMPORT, "--out", out]], records))


def judge(kind: Kind, bench: Bench) -> None:
    """`harness judge` of a stored run."""
    words = ["--model", "scripted", "--set", "model.script=verdicts.yaml", "--name", "other"]
    killed(kind, bench, Job(lambda out: [["judge", out, *words]], records, copy_of_stored))


def score(kind: Kind, bench: Bench) -> None:
    """`harness score` of a stored run."""
    killed(kind, bench, Job(lambda out: [["score", out]], records, copy_of_stored))


def export(kind: Kind, bench: Bench) -> None:
    """`harness export`, which writes a bundle."""

    def commands(out: str) -> list[Words]:
        """The command that exports the stored run."""
        return [["export", "stored", f"{out}.zip"]]

    killed(kind, bench, Job(commands, lambda out: file_hash(Path(f"{out}.zip"))))


def runs_and_store() -> None:
    """Make two runs in "more", and a store that another run is in, "with one.db"."""
    if Path("more").exists():
        return
    Path("one").mkdir()
    copy_of_stored("one/stored")
    must(["track", "one/stored", "--uri", f"sqlite:///{Path.cwd()}/with one.db"])
    two = ["sbert", "full-context"]
    must(run_words(",".join(two), "--out", "more"))


def copy_of_store(out: str) -> None:
    """Copy the store that another run is in to "<out>.db"."""
    shutil.copy("with one.db", f"{out}.db")


def track_words(out: str) -> Words:
    """The command that tracks the runs in "more" into the store "<out>.db"."""
    return ["track", "more", "--uri", f"sqlite:///{Path.cwd()}/{out}.db"]


def track_with_store(kind: Kind, bench: Bench) -> None:
    """`harness track` into a store that another run is in."""
    runs_and_store()
    job = Job(lambda out: [track_words(out)], lambda out: logged(f"{out}.db"), copy_of_store)
    killed(kind, bench, job)


def logged(store: str) -> list[Any]:
    """What an MLflow store holds of each run: name, state, numbers of its metrics, params and
    traces."""
    query = """SELECT name, status,
        (SELECT count(*) FROM latest_metrics WHERE latest_metrics.run_uuid = runs.run_uuid),
        (SELECT count(*) FROM params WHERE params.run_uuid = runs.run_uuid)
        FROM runs WHERE lifecycle_stage = 'active'"""
    with contextlib.closing(sqlite3.connect(store)) as opened:
        rows = opened.execute(query).fetchall()
        (traces,) = opened.execute("SELECT count(*) FROM trace_info").fetchone()
    return [*sorted(rows), traces]


def batch_files(kind: Kind, bench: Bench) -> None:
    """A run whose requests go as batch files; no batch is paid for twice."""

    def answer(body: Any) -> dict[str, Any]:
        """A reply to a request, as the server writes it: the length of the request's body."""
        usage = {"prompt_tokens": 50, "completion_tokens": 1, "total_tokens": 51}
        message = {"role": "assistant", "content": str(len(str(body)))}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "x", "object": "chat.completion", "choices": [choice], "usage": usage}

    def prepare() -> None:
        """Look for finished batches often, in this process."""
        import harness.llm.endpoint_batch

        harness.llm.endpoint_batch._FIRST_WAIT = 0.05
        harness.llm.endpoint_batch._LONGEST_WAIT = 0.1

    with BatchServer([answer], served=["m"]) as server:
        row = ["run", "-m", "bm25", "-d", "pocket/musique", "--mlflow", "off", "--quiet"]
        row += ["--model", "endpoint", "--set", "model.batch=true", "model.source=m"]
        row += ["model.window=9000", f"model.base_url={server.url}", "dataset.tokens=300"]
        row += ["dataset.questions=4", "model.price.input=1", "model.price.output=1"]

        def before(_: str) -> None:
            """Forget the batches of the server, and what was paid."""
            server.paid.clear()
            server.batches.clear()

        def result(out: str) -> Any:
            """The answers of a run, and how often each batch was paid for that was paid more than
            once."""
            twice = [count for count in server.paid.values() if count > 1]
            return answers(out), twice

        killed(kind, bench, Job(lambda out: [[*row, "--out", out]], result, before, prepare))


def children(parent: int) -> dict[int, str]:
    """The child processes of a process by id, with their titles."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((path / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found[int(path.name)] = (path / "cmdline").read_text()
    return found


@dataclass(frozen=True)
class Cluster:
    """Ray on this machine. head: the process that started its services."""

    address: str
    head: int

    def services(self) -> dict[int, str]:
        """The processes of the cluster itself by id (its tables, its scheduler), with titles."""
        return children(self.head)

    def workers(self) -> list[int]:
        """The processes that answer questions."""
        found = []
        for service in self.services():
            titles = children(service)
            found += [pid for pid, title in titles.items() if title.startswith("ray::_Worker")]
        return found


@contextlib.contextmanager
def cluster() -> Iterator[Cluster]:
    """Start Ray on this machine."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["start", "--head", "--block", "--num-cpus=2", f"--port={port}"]
    program = [sys.executable, "-m", "ray.scripts.scripts", *words, "--include-dashboard=false"]
    head = subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield Cluster(f"127.0.0.1:{port}", head.pid)
    finally:
        head.terminate()
        head.wait()


def ray_driver_and_workers(kind: Kind, bench: Bench) -> None:
    """A run over Ray: its driver or one of its workers is killed, in turn. A worker's death costs
    no answer."""
    must(run_words("slow", "--out", f"{kind.name} whole"))
    undisturbed_answers = answers(f"{kind.name} whole")
    with cluster() as ray:
        command = _over_ray(ray)
        for number in range(max(2, bench.tries // 5)):
            kind.tries += 1
            out = f"{kind.name} {number}"
            driver = start([*command, "--out", out])
            code = _until(driver, ray.workers)
            is_running = code is None
            if is_running and number % 2:
                kill(driver)
            elif is_running:
                for worker in ray.workers()[:1]:
                    os.kill(worker, signal.SIGKILL)
                done = end_of(driver)
                if done.code != 0:
                    kind.fell.append(f"{out}: after a worker's death {done.words}")
            done = outcome([*command, "--out", out])
            if done.code != 0 or answers(out) != undisturbed_answers:
                kind.fell.append(f"{out}: {done.words}, or other records")


def ray_head(kind: Kind, bench: Bench) -> None:
    """A run over Ray of which the cluster's scheduler or its tables are killed, in turn, or both:
    a sentence, and the same command on a new cluster goes on."""
    must(run_words("slow", "--out", f"{kind.name} whole"))
    undisturbed_answers = answers(f"{kind.name} whole")
    services: list[tuple[str, ...]] = [("raylet",), ("gcs_server",), ("raylet", "gcs_server")]
    for number in range(max(3, bench.tries // 5)):
        kind.tries += 1
        out = f"{kind.name} {number}"
        names = services[number % len(services)]
        with cluster() as ray:
            driver = start([*_over_ray(ray), "--out", out])
            code = _until(driver, ray.workers)
            if code is None and ended(driver, bench.rng.uniform(0, 1)) is None:
                _kill_services(ray, names)
                done = end_of(driver)
                if not done.is_sentence:
                    kind.fell.append(f"{out}: without {' and '.join(names)} {done.words}")
        with cluster() as new_ray:
            done = outcome([*_over_ray(new_ray), "--out", out])
        if done.code != 0 or answers(out) != undisturbed_answers:
            kind.fell.append(f"{out}: {done.words}, or other records")


def _over_ray(ray: Cluster) -> list[str]:
    """The command of a run with two workers on a cluster of Ray."""
    return run_words("slow", "--engine", "ray", "--workers", "2", "--ray-address", ray.address)


def _kill_services(ray: Cluster, names: Sequence[str]) -> None:
    """Kill those services of a cluster whose programs have these names, such as "raylet"."""
    for pid, title in ray.services().items():
        program = Path(title.split("\0")[0]).name
        if program in names:
            os.kill(pid, signal.SIGKILL)


def _until(child: int, workers: Callable[[], Sequence[int]]) -> int | None:
    """Wait until a worker answers; returns the exit code if the process ended before."""
    end = time.monotonic() + LONGEST
    while not workers() and time.monotonic() < end:
        code = ended(child, 0.05)
        if code is not None:
            return code
    return None
