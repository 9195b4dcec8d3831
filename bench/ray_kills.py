"""Kill workers, a node and the driver of a run over two Ray nodes, and compare the records with one process's.

    nice python -m bench.ray_kills /tmp/kills --kills 20

Starts two nodes on this machine (`ray start --head --num-cpus 1`, and a second raylet), runs a suite over them, and
sends SIGKILL to a worker, the second node or the driver at random moments; the same command is run again until it is
done. Then every row's records must be those of one process in everything but seconds, none missing, none twice, and by
the workers' logs no question was answered twice: a kill costs the question in hand at most.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

SUITE = ["--suite", "pocket-pecan-table3", "--set", "dataset.tokens=600"]


def harness(out: Path, limit: int, *more: str) -> list[str]:
    words = ["run", *SUITE, "--limit", str(limit), "--out", str(out), "--mlflow", "off", "-q", *more]
    return [sys.executable, "-m", "harness", *words]


def processes(pattern: str) -> dict[int, str]:
    """Process id -> command line of the processes of this machine that fit `pattern`."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if re.search(pattern, line):
                found[int(entry.name)] = line
    return found


class Cluster:
    def __init__(self, folder: Path) -> None:
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.address = f"127.0.0.1:{s.getsockname()[1]}"
        self.temp = folder / "ray"
        head = ["--head", "--port", self.address.partition(":")[2], "--include-dashboard", "false"]
        self.second: set[int] = set()
        self._ray(*head, "--temp-dir", str(self.temp))
        self.first = set(self.raylets())
        self.join()

    def _ray(self, *words: str) -> None:
        more = ["--num-cpus", "1", "--disable-usage-stats", "--object-store-memory", "80000000"]
        subprocess.run([shutil.which("ray") or "ray", "start", *words, *more], check=True, capture_output=True)

    def raylets(self) -> dict[int, str]:
        return processes(rf"raylet/raylet .*:{self.address.partition(':')[2]}\b")

    def join(self) -> None:
        """Start the second node, if there is none."""
        if not set(self.raylets()) - self.first:
            self._ray("--address", self.address)
            self.second = set(self.raylets()) - self.first

    def stop(self) -> None:
        subprocess.run([shutil.which("ray") or "ray", "stop", "--force"], check=False, capture_output=True)


def without_seconds(value: object) -> object:
    if isinstance(value, dict):
        return {k: without_seconds(v) for k, v in value.items() if k != "seconds"}
    return [without_seconds(v) for v in value] if isinstance(value, list) else value


def records(out: Path) -> dict[str, list[object]]:
    """Row -> its records without seconds, in file order."""
    found = {}
    for path in sorted(out.rglob("records.jsonl")):
        lines = path.read_text(encoding="utf-8").splitlines()
        found[str(path.parent.relative_to(out))] = [without_seconds(json.loads(line)) for line in lines]
    return found


def answered(out: Path) -> Counter[str]:
    """How often each question of each row was answered, by the logs of the workers."""
    lines = [line for log in (out / "workers").glob("*.log") for line in log.read_text().splitlines()]
    return Counter(line for line in lines if line.endswith((" answered", " failed")))


def kill(cluster: Cluster, driver: subprocess.Popen[bytes], rng: random.Random) -> str:
    kind = rng.choice(["worker", "worker", "raylet", "driver"])
    pids = {
        "worker": lambda: sorted(processes(r"^ray::Worker")),
        "raylet": lambda: sorted(cluster.second),
        "driver": lambda: [driver.pid],
    }[kind]()
    if not pids:
        return ""
    try:
        os.kill(rng.choice(pids), signal.SIGKILL)
    except ProcessLookupError:
        return ""
    if kind == "raylet":
        time.sleep(rng.uniform(0, 3))
        cluster.join()
    return kind


def round_of_kills(
    cluster: Cluster, out: Path, limit: int, wanted: int, rng: random.Random, pause: float
) -> Counter[str]:
    """Run the suite to its end with up to `wanted` kills; returns how many of each kind there were."""
    kills: Counter[str] = Counter()
    command = harness(out, limit, "--engine", "ray", "--workers", "2", "--ray-address", cluster.address)
    while True:
        with open(out.parent / "driver.log", "ab") as log:
            driver = subprocess.Popen(command, stdout=log, stderr=log)
        due = time.monotonic() + rng.uniform(8, pause)
        while driver.poll() is None:
            time.sleep(0.1)
            if time.monotonic() >= due and kills.total() < wanted:
                if kind := kill(cluster, driver, rng):
                    kills[kind] += 1
                    print(f"{time.strftime('%H:%M:%S')} killed: {kind}", flush=True)
                due = time.monotonic() + rng.uniform(3, pause)
        cluster.join()
        if driver.returncode == 0:
            return kills
        print(
            f"{time.strftime('%H:%M:%S')} the driver ended with {driver.returncode}; the same command again", flush=True
        )
        if driver.returncode == 3:  # a question that three kills hit in a row is recorded as failed
            command = [*command, *(["--retry-failed"] * ("--retry-failed" not in command))]
        if driver.returncode in (1, 2):
            sys.exit(f"unexpected; see {out.parent / 'driver.log'}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--limit", type=int, default=3)
    parser.add_argument("--pause", type=float, default=25.0, help="seconds between two kills, at most")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    folder = given.folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with open(folder / "alone.log", "ab") as log:
        subprocess.run(harness(folder / "alone", given.limit), check=True, stdout=log, stderr=log)
    print(f"one process: {time.monotonic() - begun:.0f} s", flush=True)
    alone, rng, kills = records(folder / "alone"), random.Random(given.seed), Counter[str]()
    os.environ |= {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}  # the same for all nodes
    cluster = Cluster(folder)
    try:
        number = 0
        while kills.total() < given.kills or not number:
            number += 1
            out = folder / f"round-{number}"
            shutil.rmtree(out, ignore_errors=True)
            left = given.kills - kills.total()
            kills += round_of_kills(cluster, out, given.limit, left, rng, given.pause)
            # A row that took a number from one with a failed question has a folder under that number too.
            same = {row: found for row, found in records(out).items() if row in alone} == alone
            twice = [line for line, count in answered(out).items() if count > 1]
            print(f"round {number}: records equal: {same}; answered twice: {len(twice)} {twice[:3]}", flush=True)
            if not same or twice:
                sys.exit(4)
    finally:
        cluster.stop()
    print(f"{dict(kills)} kills in {number} rounds of {len(alone)} rows, {sum(map(len, alone.values()))} questions")


if __name__ == "__main__":
    main()
