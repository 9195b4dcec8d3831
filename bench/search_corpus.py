"""CPU time, size, memory and milliseconds a query of an index of a corpus (harness index-corpus).

    HARNESS_TEST_DATA=DATA python -m bench.search_corpus [--pages FOLDER] [--kind bm25]
        [--made-up-vectors] [--passages 100000,1000000] [--queries 200]

Passages: the paragraphs of the data sets in DATA, each once; the rest are the pages of FOLDER, cut
into 100 words, in random order. FOLDER holds a file of plain text (.md, .txt) a page, named after
its title, such as a dump of Wikipedia. Without it the rest is made up of the data sets' words, drawn
by how often each stands in them, so that lists of postings are as long as real ones.

--made-up-vectors: vectors of passages are random, as encoding is slow and an exact search takes as
long for any vectors; what is found then means nothing.

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

import numpy as np

from harness.config.layers import Choices
from harness.config.resolve import resolve_encoder
from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.load import load_encoder
from harness.retrieval.search_index import (
    KINDS,
    IndexRequest,
    Kind,
    SearchIndex,
    build_index,
)

WIKIPEDIA = 21_015_324
_WORDS = 100
_LEAST_WORDS = 20
"""Fewer words at the end of a page are no passage."""
_FILES = (
    ("hotpotqa", "hotpot_dev_distractor_sample.json"),
    ("2wikimultihopqa", "dev_sample.json"),
    ("musique", "musique_ans_v1.0_dev_sample.jsonl"),
)


@dataclass(frozen=True)
class Paragraph:
    """A paragraph of a data set, or a passage of a page.

    Args:
        title: The title of its page.
        text: Its text.
    """

    title: str
    text: str


@dataclass(frozen=True)
class Material:
    """What a corpus is made of.

    Args:
        paragraphs: The paragraphs of the data sets.
        questions: The questions of the data sets.
        pages: A folder of real pages for the rest; None where the rest is made up.
    """

    paragraphs: list[Paragraph]
    questions: list[str]
    pages: Path | None = None


@dataclass(frozen=True)
class Measured:
    """One row of the table.

    Args:
        passages: How many passages the index has.
        build: CPU seconds to build it.
        size: Its bytes on disk.
        build_memory: Bytes of memory at most while it was built.
        open_memory: Bytes of memory at most before the first query.
        search_memory: Bytes of memory at most after the last query.
        cpu: CPU milliseconds a query, the mean.
        wall: Milliseconds a query, the median.
    """

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
    paragraphs: list[Paragraph] = []
    for title, sentences in row.get("context", ()):  # HotpotQA and 2WikiMultihopQA
        paragraphs.append(Paragraph(title, "".join(sentences)))
    paragraphs.extend(
        Paragraph(paragraph["title"], paragraph["paragraph_text"])
        for paragraph in row.get("paragraphs", ())  # MuSiQue
    )
    return paragraphs


def read_material(data: Path, pages: Path | None = None) -> Material:
    """Read the paragraphs, each once, and the questions of the data sets.

    Args:
        data: The folder of test data.
        pages: A folder of real pages; None where the rest is made up.
    """
    paragraphs: dict[Paragraph, None] = {}
    questions: list[str] = []
    for folder, name in _FILES:
        for row in rows_of(data / "data" / folder / name):
            paragraphs |= dict.fromkeys(paragraphs_of(row))
            questions.append(str(row["question"]))
    return Material(paragraphs=list(paragraphs), questions=questions, pages=pages)


def make_up_passages(material: Material, count: int) -> Iterator[Paragraph]:
    """Yield passages of words that are drawn by how often each stands in the paragraphs; the same
    at each call."""
    words: Counter[str] = Counter()
    for paragraph in material.paragraphs:
        words.update(paragraph.text.split())
    vocabulary = list(words)
    weights = list(itertools.accumulate(words.values()))
    draw = random.Random(0)
    for number in range(count):
        text = " ".join(draw.choices(vocabulary, cum_weights=weights, k=_WORDS))
        yield Paragraph(f"Made up {number}", text)


def passages_of_pages(pages: Path) -> Iterator[Paragraph]:
    """Yield the passages of all pages below a folder, pages in a random order that is the same at
    each call. An end of fewer than _LEAST_WORDS words is left out."""
    files = sorted(path for path in pages.rglob("*") if path.suffix in {".md", ".txt"})
    random.Random(0).shuffle(files)
    for file in files:
        title = file.stem.replace("_", " ")
        words = file.read_text(encoding="utf-8", errors="replace").split()
        for start in range(0, len(words), _WORDS):
            passage = words[start : start + _WORDS]
            if len(passage) >= _LEAST_WORDS:
                yield Paragraph(title, " ".join(passage))


def passages_to_fill_up(material: Material, count: int) -> Iterator[Paragraph]:
    """`count` passages beside the data sets' paragraphs: of the pages, or fewer where those have
    fewer; made up where there are no pages."""
    if material.pages is None:
        return make_up_passages(material, count)
    return itertools.islice(passages_of_pages(material.pages), count)


def write_corpus(material: Material, passages: int, path: Path) -> None:
    """Write a corpus of so many passages, the data sets' paragraphs first; fewer where the pages
    have no more.

    Args:
        material: What it is made of.
        passages: How many passages.
        path: The file.
    """
    of_data_sets = material.paragraphs[:passages]
    rest = passages_to_fill_up(material, passages - len(of_data_sets))
    with path.open("w") as file:
        for number, paragraph in enumerate(itertools.chain(of_data_sets, rest)):
            row = {"id": str(number), "title": paragraph.title, "text": paragraph.text}
            file.write(json.dumps(row) + "\n")


def own_peak() -> int:
    """The largest resident memory of this process so far, in bytes. Raises OSError where the system
    does not tell.

    Not ru_maxrss, which begins at the memory of the process that started this one.
    """
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024  # given in KiB
    raise OSError("/proc/self/status has no VmHWM")


def write_vectors(folder: Path, passages: int, encoder: EncoderConfig) -> None:
    """Write random unit vectors as the files of an index, which its build then keeps.

    Args:
        folder: The folder of the index.
        passages: How many passages it has.
        encoder: The encoder whose vectors they stand for.
    """
    from harness.retrieval import dense_index

    place = folder / dense_index.folder_name(encoder)
    place.mkdir(parents=True)
    width = load_encoder(encoder, Meter(), "retriever").encode(["width"], "passage").shape[1]
    draw = np.random.default_rng(0)
    for number, start in enumerate(range(0, passages, dense_index.PASSAGES_PER_FILE)):
        count = min(dense_index.PASSAGES_PER_FILE, passages - start)
        vectors = draw.standard_normal((count, width), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        np.save(place / f"{number:05}.npy", vectors)


def build(corpus: str, out: str, kind: Kind, encoder: str, made_up_vectors: str) -> None:
    """Build an index in this process, and print its passages, seconds and memory as a JSON object.

    Args:
        corpus: The file of the corpus.
        out: The folder of the index.
        kind: The kind of index.
        encoder: The name of the encoder, for vectors.
        made_up_vectors: "" to encode the passages; else vectors are random.
    """
    config: EncoderConfig | None = None
    if kind != "bm25":
        config = resolve_encoder(Choices(sets={"encoder": encoder})).value
    if config is not None and made_up_vectors:
        with open(corpus, encoding="utf-8") as rows:
            passages = sum(1 for _ in rows)
        write_vectors(Path(out), passages, config)
    began = time.process_time()
    request = IndexRequest(
        corpus_file=Path(corpus),
        folder=Path(out),
        kind=kind,
        encoder=config,
        words_per_passage=_WORDS,
    )
    facts = build_index(request, lambda *_: None)
    seconds = time.process_time() - began
    print(json.dumps({"passages": facts.passages, "seconds": seconds, "memory": own_peak()}))


def search(out: str, queries: str) -> None:
    """Ask an index each query in this process, after one that is not counted, and print
    milliseconds and memory as a JSON object.

    Args:
        out: The folder of the index.
        queries: The file of queries, a JSON list.
    """
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
    """Run a step of this file as a process of its own; returns the object that it prints. Raises
    CalledProcessError where it fails."""
    command = [sys.executable, "-m", "bench.search_corpus", "--step", step, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout.splitlines()[-1]))


def size_of(folder: Path) -> int:
    """Bytes of the files below a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def measure(material: Material, passages: int, given: argparse.Namespace, folder: Path) -> Measured:
    """Write a corpus, build an index of it and search in it; returns the row of the table.

    Args:
        material: What the corpus is made of.
        passages: How many passages it has.
        given: The options of the command.
        folder: Where the files are written.
    """
    corpus, out, asked = folder / "corpus.jsonl", folder / "index", folder / "queries.json"
    write_corpus(material, passages, corpus)
    asked.write_text(json.dumps(material.questions[: given.queries]))
    built = in_process(
        "build", str(corpus), str(out), given.kind, given.encoder, given.made_up_vectors
    )
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
    """A row multiplied to another number of passages; no measurement. Of memory only what queries
    have read of the mapped files grows, which the system may take back; the counting of words grows
    by new words alone, so it is taken as it is."""
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


def text_of_row(row: Measured, name: str) -> str:
    """A row of the table as text."""
    gib = 2**30
    return (
        f"{name:>22}  build {row.build:8.0f} CPU s, {row.build_memory / gib:5.2f} GiB   index "
        f"{row.size / gib:6.2f} GiB   query {row.cpu:8.1f} CPU ms, {row.wall:8.1f} ms, "
        f"{row.open_memory / gib:5.2f} to {row.search_memory / gib:5.2f} GiB"
    )


def main() -> None:
    """Print a row for each number of passages, and the last one scaled to Wikipedia; or run the step
    that a process was started for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--passages", default="100000,1000000")
    parser.add_argument("--pages", type=Path)
    parser.add_argument("--kind", choices=KINDS, default="bm25")
    parser.add_argument("--encoder", default="minilm")
    parser.add_argument("--made-up-vectors", action="store_const", const="yes", default="")
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--step", nargs="+")
    arguments = parser.parse_args()
    if arguments.step:
        step, *rest = arguments.step
        {"build": build, "search": search}[step](*rest)
        return
    material = read_material(Path(os.environ["HARNESS_TEST_DATA"]), arguments.pages)
    n_paragraphs, n_questions = len(material.paragraphs), len(material.questions)
    print(f"{n_paragraphs:,} paragraphs of data sets, {n_questions} questions")
    row: Measured | None = None
    for passages in map(int, arguments.passages.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            row = measure(material, passages, arguments, Path(folder))
        print(text_of_row(row, f"{row.passages:,}"), flush=True)
    if row is not None:
        print(text_of_row(scaled(row, WIKIPEDIA), f"{WIKIPEDIA:,} (x)"))


if __name__ == "__main__":
    main()
