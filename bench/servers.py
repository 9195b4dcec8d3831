"""Time of a run against a server, beside the bare openai client on the same requests.

    python -m bench.servers [--peers PYTHON] [--questions 2000] [--in-flight 64 256] [--repeats 5]
    python -m bench.servers --fleet      four servers; of these one slow, and one that ends

A stand-in server in a process of its own takes `--delay` seconds for each reply. Each row has one
tool: wall time of its whole process (start, answers, scores), its CPU time (user and system) and
its peak memory; the tools take turns. The floor is what the server alone takes: questions / in
flight * delay. peers: the Python of an environment with openai; without it the harness runs alone.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.overhead import write_rows

STAND_IN = """
import asyncio, json, os, sys

delay, ends_after = float(sys.argv[1]), int(sys.argv[2])
taken = 0
reply = {
    "id": "x", "object": "chat.completion", "created": 0, "model": "m",
    "choices": [{"index": 0, "finish_reason": "stop",
                 "message": {"role": "assistant", "content": "an answer"}}],
    "usage": {"prompt_tokens": 60, "completion_tokens": 2, "total_tokens": 62},
}

def framed(value):
    body = json.dumps(value).encode()
    head = "HTTP/1.1 200 OK\\r\\nContent-Type: application/json\\r\\nContent-Length: %d\\r\\n\\r\\n"
    return (head % len(body)).encode() + body

CHAT, MODELS = framed(reply), framed({"object": "list", "data": [{"id": "m"}]})

class Connection(asyncio.Protocol):
    def connection_made(self, transport):
        self.transport, self.data = transport, b""

    def data_received(self, data):
        self.data += data
        while b"\\r\\n\\r\\n" in self.data:
            head, _, rest = self.data.partition(b"\\r\\n\\r\\n")
            length = 0
            for line in head.lower().split(b"\\r\\n"):
                if line.startswith(b"content-length:"):
                    length = int(line[15:])
            if len(rest) < length:
                return
            self.data = rest[length:]
            if head.startswith(b"POST"):
                self.take()
            else:
                self.send(MODELS)

    def take(self):
        global taken
        taken += 1
        if taken == ends_after:
            os._exit(0)
        asyncio.get_running_loop().call_later(delay, self.send, CHAT)

    def send(self, content):
        if not self.transport.is_closing():
            self.transport.write(content)

async def main():
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Connection, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()

asyncio.run(main())
"""

BARE = """
import asyncio, json, sys
from openai import AsyncOpenAI

url, rows, places = sys.argv[1], sys.argv[2], int(sys.argv[3])

async def main():
    questions = [json.loads(line)["question"] for line in open(rows, encoding="utf-8")]
    client = AsyncOpenAI(base_url=url, api_key="none")
    turn = asyncio.Semaphore(places)

    async def ask(question):
        async with turn:
            messages = [{"role": "user", "content": question}]
            done = await client.chat.completions.create(
                model="m", messages=messages, max_tokens=32, temperature=0, seed=0)
            return done.choices[0].message.content

    answers = await asyncio.gather(*map(ask, questions))
    assert len(answers) == len(questions) and all(answers)

asyncio.run(main())
"""


@dataclass(frozen=True)
class Taken:
    """What one process took.

    Args:
        wall: Its seconds.
        cpu: Its CPU seconds, user and system.
        memory: Its largest resident memory in MB.
    """

    wall: float
    cpu: float
    memory: float


@contextlib.contextmanager
def stand_in(delay: float, ends_after: int = 0) -> Iterator[str]:
    """A context manager that starts a server in a process of its own, and gives its address; the
    server ends with the `with` block.

    Args:
        delay: The seconds that it takes for each reply.
        ends_after: The request at which it ends by itself, 0 for none.
    """
    command = [sys.executable, "-c", STAND_IN, str(delay), str(ends_after)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def taken(command: Sequence[str], folder: Path) -> Taken:
    """Run a command to its end, with homes below the folder and one thread; returns what it took.
    Raises RuntimeError where it fails.

    Args:
        command: Its words.
        folder: The folder that it is run in, which gets its log.
    """
    own = {
        "HARNESS_HOME": str(folder / "home"),
        "HF_HOME": str(folder / "hf"),
        "OMP_NUM_THREADS": "1",
    }
    log = folder / "log"
    with log.open("w") as file:
        began = time.perf_counter()
        process = subprocess.Popen(
            command, stdout=file, stderr=file, cwd=folder, env={**os.environ, **own}
        )
        _, status, usage = os.wait4(process.pid, 0)
        wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(
            f"{command[0]} ended with {process.returncode}: {log.read_text()[-999:]}"
        )
    cpu = usage.ru_utime + usage.ru_stime
    return Taken(wall=wall, cpu=cpu, memory=usage.ru_maxrss / 1024)


def harness_command(url: str, rows: Path, in_flight: int, out: Path) -> list[str]:
    """The command of a run of questions without documents.

    Args:
        url: The address of the server, or several divided by commas.
        rows: The file of questions.
        in_flight: How many questions are in flight.
        out: The folder of results.
    """
    row = ["--method", "closed-book", "--dataset", "musique", "--data", str(rows)]
    sets = [f"model.base_url={url}", "model.source=m", "model.window=9000"]
    model = ["--model", "endpoint", "--set", *sets]
    ends = ["--parallel", str(in_flight), "--mlflow", "off", "--out", str(out)]
    return [sys.executable, "-m", "harness", "run", *row, *model, *ends]


def bare_command(peers: str, url: str, rows: Path, in_flight: int) -> list[str]:
    """The command that sends the same questions by the bare client: nothing is scored, and nothing
    stored.

    Args:
        peers: The Python of an environment with openai.
        url: The address of the server.
        rows: The file of questions.
        in_flight: How many questions are in flight.
    """
    return [peers, "-c", BARE, url, str(rows), str(in_flight)]


def table_row(name: str, in_flight: int, floor: float, runs: Sequence[Taken]) -> str:
    """A row of the table: medians of several runs, and the range of the CPU time.

    Args:
        name: The tool.
        in_flight: How many questions are in flight.
        floor: The seconds that the server alone takes.
        runs: What each run took.
    """
    wall = statistics.median(run.wall for run in runs)
    cpu = statistics.median(run.cpu for run in runs)
    memory = statistics.median(run.memory for run in runs)
    least = min(run.cpu for run in runs)
    most = max(run.cpu for run in runs)
    numbers = f"{floor:.1f} | {wall:.1f} | {cpu:.1f} [{least:.1f}, {most:.1f}] | {memory:.0f}"
    return f"| {name} | {in_flight} | {numbers} |"


def side_by_side(given: argparse.Namespace, folder: Path, rows: Path) -> None:
    """Print rows of the harness and of the bare client, which take turns at one server; without
    `--peers` only of the harness."""
    with stand_in(given.delay) as url:
        for in_flight in given.in_flight:
            floor = given.questions / in_flight * given.delay
            ours: list[Taken] = []
            bare: list[Taken] = []
            for number in range(given.repeats):
                out = folder / f"{in_flight}-{number}"
                ours.append(taken(harness_command(url, rows, in_flight, out), folder))
                if given.peers:
                    bare.append(taken(bare_command(given.peers, url, rows, in_flight), folder))
            print(table_row("harness", in_flight, floor, ours), flush=True)
            if bare:
                print(table_row("openai client", in_flight, floor, bare), flush=True)


def fleets(given: argparse.Namespace, folder: Path, rows: Path) -> None:
    """Print rows of a fleet of four servers: all well; one that takes five times as long and one
    that ends after an eighth of the questions."""
    well = [(given.delay, 0)] * 4
    ill = [*well[:2], (5 * given.delay, 0), (given.delay, given.questions // 8)]
    for name, servers in (("four servers", well), ("one slow, one ends", ill)):
        for in_flight in given.in_flight:
            runs: list[Taken] = []
            for number in range(given.repeats):
                out = folder / f"{name} {in_flight} {number}"
                with contextlib.ExitStack() as stack:
                    urls = [stack.enter_context(stand_in(*server)) for server in servers]
                    command = harness_command(",".join(urls), rows, in_flight, out)
                    runs.append(taken(command, folder))
            floor = given.questions / in_flight * given.delay
            print(table_row(name, in_flight, floor, runs), flush=True)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--peers", help="the Python of an environment with openai")
    parser.add_argument("--fleet", action="store_true", help="four servers instead of one")
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--in-flight", type=int, nargs="+", default=[64, 256])
    parser.add_argument("--delay", type=float, default=0.05)
    parser.add_argument("--repeats", type=int, default=5)
    given = parser.parse_args()
    print("| tool | in flight | floor s | wall s | CPU s | MB |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = write_rows(folder / "rows.jsonl", given.questions)
        if given.fleet:
            fleets(given, folder, rows)
        else:
            side_by_side(given, folder, rows)


if __name__ == "__main__":
    main()
