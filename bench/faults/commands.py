"""Harness commands in processes of their own, which can be killed, and what they leave on disk."""

import contextlib
import json
import os
import random
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.cli.main import main as harness
from harness.storage.json_lines import read_lines

Words = Sequence[str]
IMPORT = ("import", "--from", "jsonl", "answers.jsonl", "--scorers", "musique.answer_f1")
LONGEST = 240.0
"""Seconds of a command that is not killed."""


def nothing(*_: Any) -> None:
    """Prepare nothing."""


@dataclass
class Kind:
    """One row of the table. fell: a sentence for each try that did not end as it should."""

    name: str
    tries: int = 0
    fell: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Bench:
    """What all attacks share. tries: of each kind that is drawn at random."""

    rng: random.Random
    tries: int


@dataclass(frozen=True)
class Outcome:
    """How a command ended. code: None where it took too long."""

    code: int | None
    err: str

    @property
    def is_sentence(self) -> bool:
        """Whether it ended well, or by a sentence with its exit code."""
        if "Traceback" in self.err or self.code not in (0, 2, 3):
            return False
        return self.code == 0 or "error: " in self.err or "Usage" in self.err

    @property
    def words(self) -> str:
        """The exit code and the end of what was printed, for the table."""
        return f"exit code {self.code}; {' '.join(self.err.split())[-200:]}"


def start(words: Words, prepare: Callable[[], None] = nothing, log: str = "err.txt") -> int:
    """Run a harness command in a forked process.

    Args:
        words: The command.
        prepare: Called in the process before the command.
        log: Gets its stderr.

    Returns:
        The process's id.
    """
    child = os.fork()
    if child != 0:
        return child
    os.setsid()
    for stream, name in ((1, "out.txt"), (2, log)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666), stream)
    sys.argv = ["harness", *words]
    code = 1
    try:
        prepare()
        harness(list(words))
    except SystemExit as error:
        code = int(error.code or 0)
    except BaseException:  # noqa: BLE001 - the child must not go on as the bench
        traceback.print_exc()
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            file.flush()
    os._exit(code)


def ended(child: int, seconds: float) -> int | None:
    """The exit code of a process; None if it still runs after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def kill(child: int) -> None:
    """Kill a process that runs, with its children."""
    try:
        os.killpg(child, signal.SIGKILL)
    except ProcessLookupError:  # it has no group of its own yet
        os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def end_of(child: int, log: str = "err.txt") -> Outcome:
    """Wait for a process; one that takes too long is killed."""
    code = ended(child, LONGEST)
    if code is None:
        kill(child)
    return Outcome(code, Path(log).read_text(errors="replace"))


def outcome(words: Words, prepare: Callable[[], None] = nothing) -> Outcome:
    """Run a command to its end."""
    return end_of(start(words, prepare))


def must(words: Words, prepare: Callable[[], None] = nothing, codes: Sequence[int] = (0,)) -> None:
    """Run a command that the attacks need. Raises SystemExit where it ends otherwise."""
    done = outcome(words, prepare)
    if done.code not in codes:
        raise SystemExit(f"{' '.join(words)}: {done.words}")


def records(out: str) -> list[dict[str, Any]]:
    """The records below `out` without seconds, run after run."""
    found = []
    for path in sorted(Path(out).rglob("records.jsonl")):
        found += read_lines(path, "question_id")
    for row in found:
        row["notes"].pop("seconds", None)
        for phase in row["usage"].values():
            phase.pop("seconds", None)
            phase.pop("queued", None)
    return found


def answers(out: str) -> list[dict[str, Any]]:
    """The records without their costs, which an index that was found in a cache changes."""
    rows = records(out)
    for row in rows:
        del row["usage"]
    return sorted(rows, key=lambda row: str(row["question_id"]))


def run_words(method: str, *more: str) -> list[str]:
    """A run of four questions about texts of 300 tokens, by the scripted model."""
    words = ["run", "-m", method, "-d", "pocket/musique", "--model", "scripted", "--mlflow", "off"]
    sets = ["model.script=replies.yaml", "dataset.tokens=300", "dataset.questions=4"]
    return [*words, "--quiet", "--set", *sets, *more]


def pocket_words(method: str, out: str) -> list[str]:
    """A run of two questions about texts of 300 tokens, by the embedded model."""
    words = ["run", "-m", method, "-d", "pocket/musique", "--profile", "pocket", "--mlflow", "off"]
    sets = ["dataset.tokens=300", "dataset.questions=2"]
    return [*words, "--limit", "3", "--quiet", "--out", out, "--set", *sets]


@contextlib.contextmanager
def own_cache(name: str) -> Iterator[None]:
    """A cache of its own, so that nothing is found there."""
    before = os.environ["HARNESS_CACHE"]
    os.environ["HARNESS_CACHE"] = str(Path.cwd() / name)
    try:
        yield
    finally:
        os.environ["HARNESS_CACHE"] = before


OWN_METHODS = """
import os
import time
import zlib

from methods.retrieval import BM25


class Slow(BM25):
    def index(self, document, tools):
        time.sleep(0.02)
        return super().index(document, tools)

    def answer(self, question, documents, indexes, tools):
        time.sleep(0.1)
        return super().answer(question, documents, indexes, tools)


class Fragile(BM25):
    def answer(self, question, documents, indexes, tools):
        time.sleep(0.05)
        if os.environ.get("BROKEN") and zlib.crc32(question.text.encode()) % 2:
            raise ValueError("broken")
        return super().answer(question, documents, indexes, tools)
"""


def write_inputs() -> None:
    """Write the files that the attacks use, and a stored run."""
    Path("replies.yaml").write_text(json.dumps({"replies": [{"reply": "an answer"}]}))
    Path("verdicts.yaml").write_text(json.dumps({"replies": [{"reply": "yes"}]}))
    Path("rows.jsonl").write_text('{"question": "Where?", "answer": "here"}\n')
    Path("empty").mkdir()
    Path("own/methods").mkdir(parents=True)
    Path("own/attacked.py").write_text(OWN_METHODS)
    for name in ("slow", "fragile"):
        preset = f"implementation: attacked:{name.title()}\n"
        Path("own/methods", f"{name}.yaml").write_text(preset)
    must(run_words("bm25", "--out", "stored"))
    with Path("answers.jsonl").open("w") as file:
        for row in records("stored"):
            gold = row["gold"]["answers"]
            held = {"id": row["question_id"], "question": row["question"], "answers": gold}
            file.write(json.dumps({**held, "prediction": "an answer"}) + "\n")
