"""Kill runs at random moments and start the same command again: are the records those of an
undisturbed run?

    python -m bench.kills --kills 60 --seed 1    15 kills each of a run, of shards and their merge, of a duel, over Ray

A process is killed (SIGKILL) at a moment between its start and the time that it takes undisturbed;
over Ray, the driver or a worker. After five kills the command runs to its end. Records are compared
but for seconds.
"""

import argparse
import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.cli.main import main as harness
from harness.storage.json_lines import read_lines

os.fsync = lambda fd: (
    None
)  # no test cuts the power: what a killed process wrote is in the files without it

METHOD = """
import time
from methods.retrieval import BM25

class Slow(BM25):
    def index(self, document, tools):
        time.sleep(0.02)
        return super().index(document, tools)

    def answer(self, question, documents, indexes, tools):
        time.sleep(0.1)
        return super().answer(question, documents, indexes, tools)
"""
_ROUNDS = 5  # kills of one folder
_LONGEST = 120.0  # seconds of a command that is not killed
Words = Sequence[str]


def start(words: Words) -> int:
    """Run a harness command in a forked process, without its output; returns its id."""
    if (child := os.fork()) == 0:
        os.setsid()
        log = os.open("log.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        for stream in (1, 2):
            os.dup2(log, stream)
        sys.argv = ["harness", *words]
        try:
            harness(list(words))
        except SystemExit as error:
            os._exit(int(error.code or 0))
        os._exit(1)
    return child


def ended(child: int, seconds: float) -> int | None:
    """The exit code of a process, None if it still runs after so many seconds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.005)
    return None


def kill(child: int) -> None:
    """Kill a process that runs."""
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def finish(commands: Sequence[Words]) -> float:
    """Run commands one after the other to their end; returns the seconds of the longest."""
    took = []
    for words in commands:
        begun = time.monotonic()
        if (code := ended(start(words), _LONGEST)) != 0:
            raise SystemExit(f"{' '.join(words)}: exit code {code}; see log.txt in {Path.cwd()}")
        took.append(time.monotonic() - begun)
    return max(took)


def children(parent: int) -> dict[int, str]:
    """The child processes of a process by id, with their titles."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int((path / "stat").read_text().rpartition(")")[2].split()[1]) == parent:
                found[int(path.name)] = (path / "cmdline").read_text()
    return found


@contextlib.contextmanager
def cluster() -> Iterator[tuple[str, Callable[[], list[int]]]]:
    """Start Ray on this machine: its address, and a function that finds the workers which answer
    questions."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        "start",
        "--head",
        "--block",
        "--num-cpus=2",
        f"--port={port}",
        "--include-dashboard=false",
    ]
    quiet: Any = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    head = subprocess.Popen([sys.executable, "-m", "ray.scripts.scripts", *words], **quiet)

    def workers() -> list[int]:
        below = [child for each in children(head.pid) for child in children(each).items()]
        return [pid for pid, title in below if title.startswith("ray::_Worker")]

    try:
        yield f"127.0.0.1:{port}", workers
    finally:
        head.terminate()
        head.wait()


def records(out: str) -> list[dict[str, Any]]:
    """The records below `out` without seconds, run after run."""
    rows = [
        row
        for path in sorted(Path(out).rglob("records.jsonl"))
        for row in read_lines(path, "question_id")
    ]
    for row in rows:
        row["notes"].pop("seconds")
        for phase in row["usage"].values():
            phase.pop("seconds", None)
            phase.pop("queued", None)
    return rows


def attack(
    name: str,
    commands: Sequence[Words],
    kills: int,
    rng: random.Random,
    whole: list[dict[str, Any]],
    workers: Callable[[], list[int]] = list,
) -> None:
    """Kill one of these commands, or of its workers, `kills` times; fails where the records are not
    `whole` then."""

    def written_to(out: str) -> list[Words]:
        return [
            [*words, out] if words[0] == "merge" else [*words, "--out", out] for words in commands
        ]

    span, done, of_workers, folders = finish(written_to(f"{name}-0")), 0, 0, 0
    stored: list[int] = []
    while done < kills:
        folders += 1
        out = f"{name}-{folders}"
        for _ in range(_ROUNDS):
            child, after = start(rng.choice(written_to(out))), rng.uniform(0, span)
            code, at_worker = None, name == "ray" and rng.random() < 0.5
            while at_worker and code is None and not workers():
                code = ended(child, 0.01)
            if code is not None or ended(child, after * (0.6 if at_worker else 1.0)) is not None:
                continue
            done += 1
            if at_worker and (victims := workers()):
                of_workers += 1
                os.kill(rng.choice(victims), signal.SIGKILL)
                if (code := ended(child, _LONGEST)) != 0:
                    raise SystemExit(
                        f"{out}: exit code {code} after a worker's death; see log.txt in "
                        f"{Path.cwd()}"
                    )
                break
            kill(child)
            stored.append(
                sum(
                    len(path.read_bytes().splitlines()) for path in Path(out).rglob("records.jsonl")
                )
            )
        finish(written_to(out))
        if records(out) != whole:
            raise SystemExit(
                f"{out}: other records than those of an undisturbed run, in {Path.cwd()}"
            )
    killed = f"{done} kills ({of_workers} of workers) on {folders} runs"
    print(
        f"{name}: {killed}, {sum(stored) / len(stored):.1f} of {len(whole)} records stored at a "
        "kill; records equal"
    )


def main() -> None:
    """Parse the arguments and attack in each way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--ways", default="run,shards,duel,ray")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="kills-"))
    os.chdir(folder)
    Path("own/methods").mkdir(parents=True)
    Path("own/slow.py").write_text(METHOD)
    Path("own/methods/slow.yaml").write_text("implementation: slow:Slow\n")
    Path("replies.yaml").write_text(json.dumps({"replies": [{"reply": "an answer"}]}))
    own = {"HARNESS_CONFIGS": str(folder / "own"), "HARNESS_HOME": str(folder / "home")}
    os.environ |= {**own, "RAY_AUTH_MODE": "disabled"}  # the cluster serves this machine alone
    row = [
        "run",
        "-m",
        "slow",
        "-d",
        "pocket/musique",
        "--model",
        "scripted",
        "--mlflow",
        "off",
        "--quiet",
    ]
    row += ["--set", "dataset.tokens=300", "model.script=replies.yaml"]
    with contextlib.suppress(SystemExit):  # in this process, so that all is imported when it forks
        harness([*row, "--out", "whole"])
    duel = ["duel", "slow", "bm25", "--parallel", "2", *row[3:5], *row[5:7], *row[9:]]
    with contextlib.suppress(SystemExit):
        harness([*duel, "--out", "fought"])
    chosen = options.ways.split(",")
    for name in chosen:
        whole = records("fought" if name == "duel" else "whole")
        about = options.kills // len(chosen), random.Random(f"{options.seed} {name}"), whole
        if name == "ray":
            with cluster() as (address, workers):
                over_ray = [*row, "--engine", "ray", "--workers", "2", "--ray-address", address]
                attack(name, [over_ray], *about, workers)
        else:
            parts = [*([*row, "--shard", f"{n}/3"] for n in (1, 2, 3)), ["merge"]]
            attack(name, {"shards": parts, "duel": [duel], "run": [row]}[name], *about)


if __name__ == "__main__":
    main()
