"""Questions and documents in flight against one at a time: search, reading, index construction, and
number formats.

Made-up questions, their indexes built before or timed alone. B of every row does what A does, with
more in flight or in bfloat16, in turn with it. SmolLM2 searches graphs that pocket-llama built,
since its search is timed alone.
"""

import os
import time
import unittest.mock
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

QUESTIONS = 16
DOCUMENTS = 4  # whose indexes are built
DOCUMENT_QUESTIONS = 8  # on two documents
# Another model searches graphs that pocket-llama built, with summaries short enough for its window
# of 2,048 tokens.
SEARCH: dict[str, Any] = {
    "roles__builder": "pocket-llama",
    "method__reserve": 300,
    "method__max_nodes": 12,
}


@dataclass
class Bench:
    """Makes runs into folders of their own, with caches beside them.

    Args:
        folder: The folder that all of them are below.
        runs: How many runs were made.
    """

    folder: Path
    runs: int = 0

    def seconds(
        self,
        method: str,
        model: str,
        parallel: int,
        limit: int,
        cache: str,
        dataset: str = "musique",
        **sets: Any,
    ) -> float:
        """Make a run, and return the seconds that it took; the first run of a model also loads it.
        Raises RuntimeError where a question failed.

        Args:
            method: The method.
            model: The model.
            parallel: How many questions are in flight.
            limit: How many questions.
            cache: The name of the cache's folder.
            dataset: The made-up data set.
            **sets: Settings, with "__" for dots.
        """
        from harness.config.layers import Choices
        from harness.engine.plan import plan_choices
        from harness.engine.progress import Silent
        from harness.engine.runner import AskOptions, run

        self.runs += 1
        named = {name.replace("__", "."): value for name, value in sets.items()}
        profile = "pocket" if model == "pocket-llama" else None
        choices = Choices(
            method, f"pocket/{dataset}", model=model, limit=limit, profile=profile, sets=named
        )
        os.environ["HARNESS_CACHE"] = str(self.folder / cache)
        began = time.perf_counter()
        out = self.folder / f"run-{self.runs}"
        result = run(
            plan_choices(choices),
            out,
            command=["bench"],
            progress=Silent(),
            options=AskOptions(parallel=parallel),
        )
        if result.failed:
            raise RuntimeError(
                f"{result.failed} questions of {method} failed; their time means nothing"
            )
        return time.perf_counter() - began

    def construction(self, method: str, model: str, parallel: int, **sets: Any) -> float:
        """The seconds that the indexes of DOCUMENTS documents take: those of a run that builds
        them, less those of one that has them.

        Args:
            method: The method.
            model: The model.
            parallel: How many questions are in flight.
            **sets: Settings, with "__" for dots.
        """
        cache = f"cold-{self.runs}"
        cold = self.seconds(method, model, parallel, DOCUMENTS, cache, **sets)
        return cold - self.seconds(method, model, parallel, DOCUMENTS, cache, **sets)


Row = tuple[str, float, float, str]


def _by_places(name: str, seconds: Callable[[int], float]) -> Iterator[Row]:
    """Yield rows that compare one question in flight with 4 and with 16.

    Args:
        name: What the rows are about.
        seconds: A function: number in flight -> the seconds of such a run.
    """
    alone = seconds(1)
    for places in (4, 16):
        yield (
            f"{name}, {QUESTIONS} questions: 1 / {places} in flight",
            alone,
            seconds(places),
            ">= 1",
        )


def measured_rows(bench: Bench, model: str) -> Iterator[Row]:
    """Yield the rows of a model: (name, seconds of A, seconds of B, target of A / B)."""
    small = model == "pocket-llama"
    dtype = {} if small else {"model__dtype": "bfloat16"}
    size: dict[str, Any] = {} if small else {"dataset__tokens": 300}
    label = model if small else f"{model} bf16"
    bench.seconds("closed-book", model, 4, 4, "warm", **dtype)

    def read(places: int, **more: Any) -> float:
        """The seconds of a run of BM25, with so many questions in flight."""
        return bench.seconds("bm25", model, places, QUESTIONS, "warm", **{**size, **dtype, **more})

    yield from _by_places(f"{label}, reading (bm25)", read)
    if not small:
        bench.seconds("closed-book", model, 4, 4, "warm", model__dtype="float32")  # loads it
        wide, narrow = read(4, model__dtype="float32"), read(4)
        yield f"{model}, reading, 4 in flight: float32 / bfloat16", wide, narrow, ">= 1.5"
    document: dict[str, Any] = {
        "dataset": "narrativeqa",
        "dataset__tokens": 4000 if small else 2000,
        **dtype,
    }

    def read_whole() -> float:
        """The seconds of a run that reads whole documents."""
        return bench.seconds("full-context", model, 4, DOCUMENT_QUESTIONS, "warm", **document)

    with unittest.mock.patch("harness.llm.network.Network.shares_prefixes", False):
        each = read_whole()
    what = (
        f"{label}, {DOCUMENT_QUESTIONS} questions on two documents: each reads its own / one does"
    )
    yield what, each, read_whole(), ">= 1" if small else ">= 2"
    graph = {**size, **dtype} if small else {**size, **dtype, **SEARCH}
    bench.seconds("pecan", model, 4, QUESTIONS, "warm", **graph)

    def search(places: int) -> float:
        """The seconds of a run of PECAN, with so many questions in flight."""
        return bench.seconds("pecan", model, places, QUESTIONS, "warm", **graph)

    yield from _by_places(f"{label}, search (pecan)", search)
    trees = (
        {**size, **dtype} if small else {**dtype, "dataset__tokens": 1000}
    )  # a shorter one has a node or two
    for method, sets, target in (
        ("pecan", {**size, **dtype}, ">= 1.5"),
        ("raptor-ct", trees, ">= 1.5"),
    ):
        alone, together = (bench.construction(method, model, n, **sets) for n in (1, DOCUMENTS))
        yield (
            f"{label}, construction ({method}): {DOCUMENTS} documents, 1 / 4 in flight",
            alone,
            together,
            target,
        )
