"""Questions and documents in flight against one at a time: search, reading, index construction, and
number formats.

Made-up questions, their indexes built before or timed alone. B of every row does what A does, with
more in flight or in bfloat16, in turn with it. SmolLM2 searches graphs that pocket-llama built,
since its search is timed alone.
"""

import os
import time
import unittest.mock
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

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


def _rows_by_number_in_flight(name: str, seconds: Callable[[int], float]) -> Iterator[Row]:
    """Yield rows that compare one question in flight with 4 and with 16.

    Args:
        name: What the rows are about.
        seconds: A function: number in flight -> the seconds of such a run.
    """
    alone = seconds(1)
    for n_in_flight in (4, 16):
        row_name = f"{name}, {QUESTIONS} questions: 1 / {n_in_flight} in flight"
        yield row_name, alone, seconds(n_in_flight), ">= 1"


def measured_rows(bench: Bench, model: str) -> Iterator[Row]:
    """Yield the rows of a model: (name, seconds of A, seconds of B, target of A / B).

    The rows are of reading, number formats, whole documents, search and construction. pocket-llama
    runs with its own data type and documents, another model in bfloat16 and on shorter documents.
    """
    if model == "pocket-llama":
        settings = _SettingsOfRows(
            label=model,
            reading={},
            whole_documents={"dataset": "narrativeqa", "dataset__tokens": 4000},
            search={},
            trees={},
        )
    else:
        dtype = {"model__dtype": "bfloat16"}
        short_documents = {"dataset__tokens": 300, **dtype}
        settings = _SettingsOfRows(
            label=f"{model} bf16",
            reading=short_documents,
            whole_documents={"dataset": "narrativeqa", "dataset__tokens": 2000, **dtype},
            search={**short_documents, **SEARCH},
            trees={**dtype, "dataset__tokens": 1000},  # a shorter one has a node or two
        )
    yield from _rows_of_reading(bench, model, settings)
    yield _row_of_whole_documents(bench, model, settings)
    bench.seconds("pecan", model, 4, QUESTIONS, "warm", **settings.search)  # builds the graphs

    def search_seconds(n_in_flight: int) -> float:
        """The seconds of a run of PECAN, with so many questions in flight."""
        return bench.seconds("pecan", model, n_in_flight, QUESTIONS, "warm", **settings.search)

    yield from _rows_by_number_in_flight(f"{settings.label}, search (pecan)", search_seconds)
    for method, sets in (("pecan", settings.reading), ("raptor-ct", settings.trees)):
        alone = bench.construction(method, model, 1, **sets)
        together = bench.construction(method, model, DOCUMENTS, **sets)
        yield (
            f"{settings.label}, construction ({method}): {DOCUMENTS} documents, 1 / 4 in flight",
            alone,
            together,
            ">= 1.5",
        )


class _SettingsOfRows(NamedTuple):
    """What the runs of a model's rows have set, with "__" for dots.

    Attributes:
        label: What the rows call the model.
        reading: The settings of runs of BM25, and of PECAN's construction.
        whole_documents: Those of runs that read whole documents.
        search: Those of PECAN's search.
        trees: Those of RAPTOR's construction.
    """

    label: str
    reading: dict[str, Any]
    whole_documents: dict[str, Any]
    search: dict[str, Any]
    trees: dict[str, Any]


def _rows_of_reading(bench: Bench, model: str, settings: _SettingsOfRows) -> Iterator[Row]:
    """Yield the rows of reading (BM25) by the number in flight, and, but for pocket-llama, of its
    number formats.

    Args:
        bench: Makes the runs.
        model: The model.
        settings: The settings of its runs.
    """
    bench.seconds(
        "closed-book", model, 4, 4, "warm", **_dtype_of(settings.reading)
    )  # loads the model

    def reading_seconds(n_in_flight: int, **more: Any) -> float:
        """The seconds of a run of BM25, with so many questions in flight."""
        sets = {**settings.reading, **more}
        return bench.seconds("bm25", model, n_in_flight, QUESTIONS, "warm", **sets)

    yield from _rows_by_number_in_flight(f"{settings.label}, reading (bm25)", reading_seconds)
    if model != "pocket-llama":
        bench.seconds("closed-book", model, 4, 4, "warm", model__dtype="float32")  # loads it
        wide = reading_seconds(4, model__dtype="float32")
        narrow = reading_seconds(4)
        yield f"{model}, reading, 4 in flight: float32 / bfloat16", wide, narrow, ">= 1.5"


def _dtype_of(sets: Mapping[str, Any]) -> dict[str, Any]:
    """The data type among settings, {"model__dtype": "bfloat16"}; {} where none is set."""
    return {name: value for name, value in sets.items() if name == "model__dtype"}


def _row_of_whole_documents(bench: Bench, model: str, settings: _SettingsOfRows) -> Row:
    """The row of several questions on two whole documents: A, in which each question reads its
    own, against B, in which one does for all.

    Args:
        bench: Makes the runs.
        model: The model.
        settings: The settings of its runs.
    """

    def reading_seconds() -> float:
        """The seconds of a run that reads whole documents."""
        sets = settings.whole_documents
        return bench.seconds("full-context", model, 4, DOCUMENT_QUESTIONS, "warm", **sets)

    with unittest.mock.patch("harness.llm.network.Network.shares_prefixes", False):
        each_its_own = reading_seconds()
    one_for_all = reading_seconds()
    name = (
        f"{settings.label}, {DOCUMENT_QUESTIONS} questions on two documents: "
        "each reads its own / one does"
    )
    target = ">= 1" if model == "pocket-llama" else ">= 2"
    return name, each_its_own, one_for_all, target
