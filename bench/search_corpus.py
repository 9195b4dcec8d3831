"""CPU time, size, memory and milliseconds a query of an index of a corpus (harness index-corpus).

    HARNESS_TEST_DATA=DATA python -m bench.search_corpus [--passages 100000,1000000] [--queries 200]

Passages: the paragraphs of the data sets in DATA, each once; the rest is made up of their words, 100 a
passage, drawn by how often each stands in them, so that lists of postings are as long as real ones.
Queries are questions of these data sets. Each step runs in a process of its own, whose largest
resident memory is printed. The row of Wikipedia 2018 (21,015,324 passages) multiplies the largest
one; it is no measurement.
"""

import argparse
import itertools
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WIKIPEDIA = 21_015_324
_WORDS = 100
_FILES = (
    ("hotpotqa", "hotpot_dev_distractor_sample.json"),
    ("2wikimultihopqa", "dev_sample.json"),
    ("musique", "musique_ans_v1.0_dev_sample.jsonl"),
)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a data set."""

    title: str
    text: str


@dataclass(frozen=True)
class Material:
    """What a corpus is made of."""

    paragraphs: list[Paragraph]
    questions: list[str]


@dataclass(frozen=True)
class Measured:
    """One row. build: CPU seconds; size: bytes; memory: bytes of building, before the first query and
    after the last; CPU milliseconds a query (mean) and wall milliseconds (median)."""

    passages: int
    build: float
    size: int
    build_memory: int
    open_memory: int
    search_memory: int
    cpu: float
    wall: float


def rows_of(path: Path) -> list[dict[str, object]]:
    """The rows of a JSON or JSON-lines file."""
    if path.suffix == ".json":
        return list(json.loads(path.read_text()))
    return [json.loads(line) for line in path.read_text().splitlines()]


def paragraphs_of(row: dict[str, object]) -> list[Paragraph]:
    """The paragraphs of a row of HotpotQA, 2WikiMultihopQA or MuSiQue."""
    found: list[Paragraph] = []
    for title, sentences in row.get("context", ()):
        found += [Paragraph(title, "".join(sentences))]
    for each in row.get("paragraphs", ()):
        found += [Paragraph(each["title"], each["paragraph_text"])]
    return found


def material(data: Path) -> Material:
    """The paragraphs and questions of the data sets."""
    paragraphs: dict[Paragraph, None] = {}
    questions: list[str] = []
    for folder, name in _FILES:
        for row in rows_of(data / "data" / folder / name):
            paragraphs |= dict.fromkeys(paragraphs_of(row))
            questions.append(str(row["question"]))
    return Material(list(paragraphs), questions)


def made_up(found: Material, count: int) -> Iterator[Paragraph]:
    """Passages of words drawn by how often each stands in the paragraphs."""
    words: Counter[str] = Counter()
    for paragraph in found.paragraphs:
        words.update(paragraph.text.split())
    vocabulary = list(words)
    weights = list(itertools.accumulate(words.values()))
    draw = random.Random(0)
    for number in range(count):
        text = " ".join(draw.choices(vocabulary, cum_weights=weights, k=_WORDS))
        yield Paragraph(f"Made up {number}", text)


def write_corpus(found: Material, passages: int, path: Path) -> None:
    """A corpus of so many rows, real ones first."""
    real = found.paragraphs[:passages]
    with path.open("w") as file:
        paragraphs = itertools.chain(real, made_up(found, passages - len(real)))
        for number, paragraph in enumerate(paragraphs):
            row = {"id": str(number), "title": paragraph.title, "text": paragraph.text}
            file.write(json.dumps(row) + "\n")


def own_peak() -> int:
    """The largest resident memory of this process, bytes. Not ru_maxrss, which begins at the memory
    of the process that started this one."""
    for text in Path("/proc/self/status").read_text().splitlines():
        if text.startswith("VmHWM:"):
            return int(text.split()[1]) * 1024
    raise OSError("/proc/self/status has no VmHWM")


def build(corpus: str, out: str) -> None:
    """Build an index in this process and print its passages, seconds and memory."""
    from harness.retrieval.search_index import IndexRequest, build_index

    began = time.process_time()
    request = IndexRequest(Path(corpus), Path(out), "bm25", None, _WORDS)
    facts = build_index(request, lambda *_: None)
    seconds = time.process_time() - began
    print(json.dumps({"passages": facts.passages, "seconds": seconds, "memory": own_peak()}))


def search(out: str, queries: str) -> None:
    """Search in this process and print milliseconds a query and memory."""
    from harness.cost.meter import Meter
    from harness.retrieval.search_index import SearchIndex

    index = SearchIndex.open(Path(out))
    index.search("warm up", 5, Meter("search"))
    opened = own_peak()
    times: list[float] = []
    cpu_began = time.process_time()
    asked = json.loads(Path(queries).read_text())
    for query in asked:
        began = time.perf_counter()
        index.search(query, 5, Meter("search"))
        times.append(1000 * (time.perf_counter() - began))
    cpu = 1000 * (time.process_time() - cpu_began) / len(asked)
    print(json.dumps({"times": times, "cpu": cpu, "opened": opened, "memory": own_peak()}))


def in_process(step: str, *arguments: str) -> dict[str, object]:
    """What a step of this file prints, run as a process of its own."""
    command = [sys.executable, "-m", "bench.search_corpus", "--step", step, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def size_of(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measured(found: Material, passages: int, queries: int, folder: Path) -> Measured:
    """Build and search an index of so many passages."""
    corpus, out, asked = folder / "corpus.jsonl", folder / "index", folder / "queries.json"
    write_corpus(found, passages, corpus)
    asked.write_text(json.dumps(found.questions[:queries]))
    built = in_process("build", str(corpus), str(out))
    searched = in_process("search", str(out), str(asked))
    return Measured(
        passages=int(built["passages"]),
        build=built["seconds"],
        size=size_of(out),
        build_memory=built["memory"],
        open_memory=searched["opened"],
        search_memory=searched["memory"],
        cpu=searched["cpu"],
        wall=statistics.median(searched["times"]),
    )


def scaled(row: Measured, passages: int) -> Measured:
    """A row multiplied to so many passages: what queries have read of the mapped files grows, and
    the system may take it back; so does the counting of words, but by new words alone."""
    factor = passages / row.passages
    return Measured(
        passages=passages,
        build=factor * row.build,
        size=int(factor * row.size),
        build_memory=row.build_memory,
        open_memory=row.open_memory,
        search_memory=int(row.open_memory + factor * (row.search_memory - row.open_memory)),
        cpu=factor * row.cpu,
        wall=factor * row.wall,
    )


def line(row: Measured, name: str) -> str:
    """A row as text."""
    gib = 2**30
    return (
        f"{name:>22}  build {row.build:8.0f} CPU s, {row.build_memory / gib:5.2f} GiB   index "
        f"{row.size / gib:6.2f} GiB   query {row.cpu:8.1f} CPU ms, {row.wall:8.1f} ms, "
        f"{row.open_memory / gib:5.2f} to {row.search_memory / gib:5.2f} GiB"
    )


def main() -> None:
    """Print a row for each number of passages."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", default="100000,1000000")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--step", nargs="+")
    arguments = parser.parse_args()
    if arguments.step:
        step, *rest = arguments.step
        {"build": build, "search": search}[step](*rest)
        return
    found = material(Path(os.environ["HARNESS_TEST_DATA"]))
    print(f"{len(found.paragraphs):,} real paragraphs, {len(found.questions)} questions")
    row: Measured | None = None
    for passages in map(int, arguments.passages.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            row = measured(found, passages, arguments.queries, Path(folder))
        print(line(row, f"{row.passages:,}"), flush=True)
    if row is not None:
        print(line(scaled(row, WIKIPEDIA), f"{WIKIPEDIA:,} (x)"))


if __name__ == "__main__":
    main()
