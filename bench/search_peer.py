"""IRCoT and a search agent over a corpus beside FlashRAG's own pipelines: recall of supporting pages,
seconds and CPU seconds, over the same index with the same replies of the model.

    HARNESS_TEST_DATA=DATA python -m bench.search_peer --code FOLDER [--pages FOLDER]
        [--passages 100000] [--questions 100] [--repeats 5]

--code: RUC-NLPIR/FlashRAG at 1ee5249; its package 0.1.2 has no search agent. It runs in this
project's environment. --pages: what the corpus is filled up with (bench/search_corpus.py). Two comparisons:

    ircot-reasoning   IRCOTPipeline       two searches: the question, then the first sentence
    search-r1         SearchR1Pipeline    two searches: the first supporting title, then the question

Both get 5 passages a search from the index that harness index-corpus made, opened in their own
process, and a stand-in for a model that replies at once: sentences and queries made of the question's
row. Ours is the whole command `harness run` with record and scores; the seconds of a question are
those of its record. Theirs is a process that loads the pipeline and asks it one question after
another, without scores. Recall: share of supporting titles among the titles of all passages found.
They take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.parity import import_theirs
from bench.search_corpus import read_material, write_corpus
from harness.cost.meter import Meter
from harness.llm.scripted import Rule, Script
from harness.retrieval.search_index import IndexRequest, SearchIndex, build_index

K = 5
WORDS = 100
METHODS = ("ircot-reasoning", "search-r1")


@dataclass(frozen=True)
class Asked:
    """A question for both sides.

    Args:
        question: Its text.
        titles: The titles of the pages that support it.
        answer: Its answer.
    """

    question: str
    titles: list[str]
    answer: str

    def replies(self, method: str) -> list[str]:
        """What the model replies to a method's requests, in order."""
        if method == "ircot-reasoning":
            return [f"The first page is {self.titles[0]}.", f"So the answer is: {self.answer}."]
        return [
            f"<think>I look for a page.</think>\n<search>{self.titles[0]}</search>",
            f"<think>I look for more.</think>\n<search>{self.question}</search>",
            f"<think>I know it.</think>\n<answer>{self.answer}</answer>",
        ]


@dataclass(frozen=True)
class Measured:
    """What one command took.

    Args:
        seconds: Seconds a question, the median.
        cpu: CPU seconds of the whole process.
        recall: Share of the supporting titles that were found, the mean.
    """

    seconds: float
    cpu: float
    recall: float


def asked_questions(path: Path, count: int) -> list[Asked]:
    """The first questions of HotpotQA's file; each supporting title once, in order."""
    questions: list[Asked] = []
    for row in json.loads(path.read_text())[:count]:
        titles: list[str] = []
        for title, _ in row["supporting_facts"]:
            if title not in titles:
                titles.append(title)
        questions.append(Asked(question=row["question"], titles=titles, answer=row["answer"]))
    return questions


# What the process of FlashRAG's pipelines runs.


@dataclass
class Generator:
    """FlashRAG's interface of a generator, with fixed replies.

    Args:
        replies: What it replies to one question's prompts, in order.
    """

    replies: list[str]

    def generate(self, prompts: Sequence[str], **_: Any) -> list[str]:
        """Take the next reply, whatever the only prompt is; as a list of one."""
        del prompts
        return [self.replies.pop(0)]


@dataclass
class Retriever:
    """FlashRAG's interface of a retriever, over an index of this project.

    Args:
        index: The index.
        titles: The titles of all pages that were found so far.
    """

    index: SearchIndex
    titles: set[str] = field(default_factory=set)

    def batch_search(self, queries: Sequence[str], return_score: bool = False) -> Any:
        """The passages of each query, and with `return_score` their scores too; also adds their
        titles to `titles`."""
        documents: list[list[dict[str, str]]] = []
        scores: list[list[float]] = []
        for query in queries:
            found: list[dict[str, str]] = []
            found_scores: list[float] = []
            for hit in self.index.search(query, K, Meter("search")):
                self.titles.add(key_of(hit.title))
                found.append({"id": hit.id, "contents": hit.titled_text})
                found_scores.append(hit.score)
            documents.append(found)
            scores.append(found_scores)
        if return_score:
            return documents, scores
        return documents


def key_of(title: str) -> str:
    """A title as recall compares it: in small letters, with single spaces."""
    return " ".join(title.casefold().split())


class Template:
    """FlashRAG's interface of a prompt; the replies need the question alone."""

    def get_string(self, question: str, **_: Any) -> str:
        """The prompt: the question itself."""
        return question


def pipeline_of(method: str, code: Path) -> Any:
    """FlashRAG's pipeline with its defaults, without what loads a model and scores: a prompt that is
    the question, and a retriever and generator that `ask_theirs` sets.

    Also replaces how all of FlashRAG's pipelines are set up in this process.
    """
    package = import_theirs(code, "flashrag.pipeline")
    config = {"device": "cpu", "save_retrieval_cache": False}
    kinds = {"ircot-reasoning": package.IRCOTPipeline, "search-r1": package.SearchR1Pipeline}
    package.BasicPipeline.__init__ = _begin
    return kinds[method](config, prompt_template=Template(), retriever=..., generator=...)


def _begin(pipeline: Any, config: dict[str, Any], prompt_template: Any) -> None:
    """Set what BasicPipeline sets, but for its evaluator, which loads a tokenizer."""
    pipeline.config = config
    pipeline.prompt_template = prompt_template
    pipeline.save_retrieval_cache = False


def ask_theirs(pipeline: Any, one: Asked, method: str, index: SearchIndex) -> tuple[float, float]:
    """Ask FlashRAG's pipeline a question, whose replies are set: (seconds, recall).

    Args:
        pipeline: The pipeline.
        one: The question.
        method: The method.
        index: The index to search in.
    """
    from flashrag.dataset.dataset import Dataset

    pipeline.generator = Generator(one.replies(method))
    pipeline.retriever = Retriever(index)
    rows = Dataset(data=[{"question": one.question, "output": {}}])
    began = time.perf_counter()
    pipeline.run(rows, do_eval=False, pred_process_fun=None)
    seconds = time.perf_counter() - began
    gold = set(map(key_of, one.titles))
    return seconds, len(gold & pipeline.retriever.titles) / len(gold)


def print_theirs(method: str, code: Path, folder: Path, asked: Sequence[Asked]) -> None:
    """Ask FlashRAG's pipeline each question, and print [median seconds, mean recall].

    Args:
        method: The method.
        code: The folder of FlashRAG's code.
        folder: The folder with the index.
        asked: The questions.
    """
    pipeline = pipeline_of(method, code)
    index = SearchIndex.open(folder / "index")
    seconds: list[float] = []
    recalls: list[float] = []
    for one in asked:
        taken, recall = ask_theirs(pipeline, one, method, index)
        seconds.append(taken)
        recalls.append(recall)
    print(json.dumps([statistics.median(seconds), statistics.mean(recalls)]))


# Both, each in a process of its own.


def run_counted(command: Sequence[str]) -> tuple[str, float]:
    """Run a command: (what it prints, its CPU seconds). Raises CalledProcessError where it
    fails."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return done.stdout, cpu


def theirs(method: str, given: argparse.Namespace, folder: Path) -> Measured:
    """Run FlashRAG's pipeline on all questions; returns what it took.

    Args:
        method: The method.
        given: The options of the command.
        folder: The folder with the index.
    """
    command = [sys.executable, "-m", "bench.search_peer", "--code", str(given.code)]
    command += ["--questions", str(given.questions), "--step", method, str(folder)]
    printed, cpu = run_counted(command)
    seconds, recall = json.loads(printed.splitlines()[-1])
    return Measured(seconds=seconds, cpu=cpu, recall=recall)


def write_script(method: str, asked: Sequence[Asked], path: Path) -> None:
    """Write the replies to all questions as a script of this project's scripted model; each is
    given once."""
    script = Script(window=100_000)
    for one in asked:
        for reply in one.replies(method):
            rule = Rule(when=f"Question: {one.question}", reply=reply, once=True)
            script.replies.append(rule)
    path.write_text(script.model_dump_json(exclude_none=True))


def ours(method: str, given: argparse.Namespace, folder: Path) -> Measured:
    """Run this project on all questions; returns what it took. Also writes its script into the
    folder.

    Args:
        method: The method.
        given: The options of the command.
        folder: The folder with the index.
    """
    script = folder / f"{method}.yaml"
    write_script(method, asked_questions(hotpotqa(), given.questions), script)
    with tempfile.TemporaryDirectory() as out:
        words = ["run", "-m", method, "-d", "hotpotqa", "--data", str(hotpotqa())]
        words += ["--limit", str(given.questions), "--corpus", str(folder / "index")]
        words += ["--model", "scripted", "--set", f"model.script={script}", f"method.k={K}"]
        words += ["--out", out, "--mlflow", "off", "--quiet"]
        _, cpu = run_counted([sys.executable, "-m", "harness", *words])
        (records,) = Path(out).glob("*/*/records.jsonl")
        rows = list(map(json.loads, records.read_text().splitlines()))
    seconds: list[float] = []
    recalls: list[float] = []
    for row in rows:
        seconds.append(row["notes"]["seconds"])
        recalls.append(row["scores"]["search_recall_pages"])
    return Measured(seconds=statistics.median(seconds), cpu=cpu, recall=statistics.mean(recalls))


def print_row(name: str, runs: Sequence[Measured]) -> None:
    """Print a line with the medians and ranges of one side's runs."""
    milliseconds: list[float] = []
    cpu: list[float] = []
    recalls: list[float] = []
    for run in runs:
        milliseconds.append(1000 * run.seconds)
        cpu.append(run.cpu)
        recalls.append(100 * run.recall)
    print(
        f"{name:>26}  recall {spread(recalls)}, {spread(milliseconds)} ms a question, "
        f"{spread(cpu)} CPU s of the process",
        flush=True,
    )


def spread(values: Sequence[float]) -> str:
    """The median of values, and their range: "1.5 (1.2 to 1.9)"."""
    return f"{statistics.median(values):.1f} ({min(values):.1f} to {max(values):.1f})"


def compare(given: argparse.Namespace, folder: Path) -> None:
    """Make the corpus and its index, run both sides in turn, and print two lines for each method:
    ours and FlashRAG's."""
    material = read_material(Path(os.environ["HARNESS_TEST_DATA"]), given.pages)
    write_corpus(material, given.passages, folder / "corpus.jsonl")
    request = IndexRequest(
        corpus_file=folder / "corpus.jsonl",
        folder=folder / "index",
        kind="bm25",
        encoder=None,
        words_per_passage=WORDS,
    )
    facts = build_index(request, lambda *_: None)
    print(f"{facts.passages:,} passages, {given.questions} questions, {given.repeats} repeats")
    for method in METHODS:
        of_ours: list[Measured] = []
        of_theirs: list[Measured] = []
        for _ in range(given.repeats):
            of_ours.append(ours(method, given, folder))
            of_theirs.append(theirs(method, given, folder))
        print_row(method, of_ours)
        print_row(f"{method}, FlashRAG", of_theirs)


def hotpotqa() -> Path:
    """The file of questions, below HARNESS_TEST_DATA."""
    data = Path(os.environ["HARNESS_TEST_DATA"]) / "data"
    return data / "hotpotqa" / "hotpot_dev_distractor_sample.json"


def main() -> None:
    """Run the comparison, or the peer's part of it."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--code", type=Path, required=True)
    parser.add_argument("--pages", type=Path)
    parser.add_argument("--passages", type=int, default=100_000)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--step", nargs=2)
    given = parser.parse_args()
    if given.step:
        method, folder = given.step
        asked = asked_questions(hotpotqa(), given.questions)
        print_theirs(method, given.code, Path(folder), asked)
        return
    with tempfile.TemporaryDirectory() as folder:
        compare(given, Path(folder))


if __name__ == "__main__":
    main()
