"""What building a RAPTOR tree costs beside its models, by stage, in seconds of the processor.

    python -m bench.raptor [--chunks 300 1000 3000] [--reduction umap]

The summaries come from a table and the embeddings from a generator around as many centres as there are chapters, so
what remains is the method's own: cutting, UMAP, the mixtures with BIC, and the rest (prompts, the tree). What the first
UMAP of a process takes, numba's import and compilation included, is told apart.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np

from harness.llm.base import MeteredModel
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.meter import Meter
from harness.types import Document
from methods.raptor import cluster, tree
from methods.raptor.config import RaptorConfig

WIDTH, CHAPTER = 384, 40  # width of the embeddings; chunks a chapter
SENTENCES = 5  # of 20 words each: a chunk of 100 tokens


class Tools:
    """What building asks for, from tables."""

    def __init__(self) -> None:
        self.meter, self._model = Meter(), ScriptedModel(Script(replies=[Rule(reply="word " * 80)], window=10**6))

    def model(self, role: str = "reader") -> MeteredModel:
        self._model.prompts.clear()
        return MeteredModel(self._model, self.meter, role)

    def encoder(self, role: str = "encoder") -> Any:
        return self

    def encode(self, texts: Sequence[str], kind: str) -> np.ndarray:
        draws = np.random.default_rng(len(texts))
        centres = draws.normal(size=(len(texts) // CHAPTER + 1, WIDTH))
        rows = centres[np.arange(len(texts)) // CHAPTER] + draws.normal(size=(len(texts), WIDTH))
        return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), dtype=np.float32)

    def map(self, fn: Any, items: Any) -> list[Any]:
        return [fn(item) for item in items]

    def keep(self, key: str, fn: Any) -> Any:
        return fn()

    def progress(self, done: int, total: int, what: str) -> None:
        pass


def clocked(name: str, inner: Callable[..., Any], seconds: dict[str, float]) -> Callable[..., Any]:
    """`inner`, its time added to seconds[name]."""

    def run(*args: Any) -> Any:
        began = time.process_time()
        try:
            return inner(*args)
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.process_time() - began

    return run


def stages(chunks: int, config: RaptorConfig) -> tuple[dict[str, float], str]:
    """Seconds by stage for a document of about `chunks` chunks, and the sizes of the levels."""
    seconds: dict[str, float] = {}
    text = " ".join("word " * 19 + f"w{i}." for i in range(chunks * SENTENCES))
    began = time.process_time()
    with (
        mock.patch.object(tree, "packed", clocked("chunks", tree.packed, seconds)),
        mock.patch.object(cluster, "_reduced", clocked("reduction", cluster._reduced, seconds)),
        mock.patch.object(cluster, "_mixture", clocked("mixtures", cluster._mixture, seconds)),
    ):
        graph, _ = tree.build_tree(Document("d", text), config, Tools())  # type: ignore[arg-type]
    seconds["rest"] = time.process_time() - began - sum(seconds.values())
    levels = [graph.level.count(level) for level in range(1, max(graph.level) + 1)]
    return seconds, " ".join(map(str, levels))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chunks", type=int, nargs="+", default=[300, 1000])
    parser.add_argument("--reduction", choices=("umap", "pca"), default="umap")
    flags = parser.parse_args()
    config = RaptorConfig(reduction=flags.reduction)
    points = np.random.default_rng(0).normal(size=(20, WIDTH)).astype(np.float32)
    began = time.process_time()
    cluster._reduced(points, 4, config)
    print(f"RAPTOR's tree: the first {flags.reduction} of a process takes {time.process_time() - began:.1f} s")
    for chunks in flags.chunks:
        seconds, levels = stages(chunks, config)
        told = ", ".join(f"{name} {value:.1f}" for name, value in seconds.items())
        print(f"  {chunks} chunks (levels {levels}): {told} s", flush=True)


if __name__ == "__main__":
    main()
