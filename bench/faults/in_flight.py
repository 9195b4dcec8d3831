"""Kills of a run with many questions in flight, against two servers that are unwell now and then."""

import math
import re
from pathlib import Path

from bench.faults.commands import Bench, Kind, answers, ended, kill, own_cache, start
from bench.faults.kills import ROUNDS, Job, finish, undisturbed
from tests.stand_in_server import StandIn

_QUESTIONS = 40


def questions_in_flight(kind: Kind, bench: Bench) -> None:
    """A fleet answers 16 questions at a time: the records equal those of an undisturbed run, and no
    more questions were ever shown as done than records are on disk."""
    with StandIn(delay=0.01).server() as one, StandIn(delay=0.03).server() as other:
        row = ["run", "-m", "bm25", "-d", "pocket/musique", "--mlflow", "off", "--parallel", "16"]
        row += ["--model", "endpoint", "--set", f"model.base_url={one.url},{other.url}"]
        row += ["model.source=stand-in", "model.window=9000", "dataset.tokens=300"]
        row += [f"dataset.questions={_QUESTIONS}"]
        job = Job(lambda out: [[*row, "--out", out]], answers)
        undisturbed_result, longest_seconds = undisturbed(kind, job)
        for number in range(math.ceil(bench.tries / ROUNDS)):
            place = f"{kind.name} {number}"
            with own_cache(f"{place} cache"):
                for _ in range(ROUNDS):
                    kind.tries += 1
                    (words,) = job.commands(place)
                    child = start(words)
                    if ended(child, bench.rng.uniform(0, longest_seconds)) is None:
                        kill(child)
                    n_shown = shown_as_done()
                    n_stored = stored_in(place)
                    if n_shown > n_stored:
                        kind.fell.append(f"{place}: {n_shown} shown as done, {n_stored} on disk")
                finish(kind, job, place)
            if job.result(place) != undisturbed_result:
                kind.fell.append(f"{place}: another result than that of an undisturbed command")


def shown_as_done() -> int:
    """How many questions the last command said are done."""
    counts = re.findall(rf"(\d+)/{_QUESTIONS}\b", Path("err.txt").read_text(errors="replace"))
    return max(map(int, counts), default=0)


def stored_in(out: str) -> int:
    """How many whole records are on disk below `out`."""
    files = Path(out).rglob("records.jsonl")
    return sum(path.read_bytes().count(b"\n") for path in files)
