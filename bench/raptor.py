"""What building a RAPTOR tree costs, by stage, in seconds of the processor (all threads).

    python -m bench.raptor [--tokens 1640 20000] [--chunks 300 1000 3000] [--reduction umap]

First a made-up story of so many tokens, as the row raptor-ct builds it: MiniLM embeds, pocket-llama summarises. Then
the method alone, for longer texts: the summaries come from a table and the embeddings from a generator around as many
centres as there are chapters. What the first UMAP of a process takes, numba's import and compilation included, is told
apart.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.config.schema import EncoderConfig, ModelConfig
from harness.cost.meter import Meter
from harness.embed.load import load_encoder
from harness.llm.load import load_model
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.models import MeteredModel
from harness.types import Document
from methods import summary
from methods.raptor import cluster, tree
from methods.raptor.config import RaptorConfig
from pocket.world.sample import sample

WIDTH, CHAPTER = 384, 40  # width of the embeddings; chunks a chapter
SENTENCES = 5  # of 20 words each: a chunk of 100 tokens
STAGES = ("chunks", "embedding", "reduction", "clustering", "summaries", "rest")


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


class Real(Tools):
    """The same with the models of profile pocket."""

    def __init__(self) -> None:
        self.meter = Meter("index")
        choices = Choices(profile="pocket")
        self._encoder_config: EncoderConfig = resolve_part("encoders", choices).parts["encoder"]
        config: ModelConfig = resolve_part("models", choices).parts["model"]
        self._net = load_model(config)
        self.encoder().encode(["a text, so that nothing is loaded later"], "passage")

    def model(self, role: str = "reader") -> MeteredModel:
        return MeteredModel(self._net, self.meter, role)

    def encoder(self, role: str = "encoder") -> Any:
        return load_encoder(self._encoder_config, self.meter, role)


def clocked(name: str, inner: Callable[..., Any], seconds: dict[str, float]) -> Callable[..., Any]:
    """`inner`, its time added to seconds[name]."""

    def run(*args: Any) -> Any:
        began = time.process_time()
        try:
            return inner(*args)
        finally:
            seconds[name] += time.process_time() - began

    return run


def stages(text: str, config: RaptorConfig, tools: Tools) -> tuple[dict[str, float], str]:
    """Seconds by stage for a text, and the sizes of the levels."""
    seconds = dict.fromkeys(STAGES, 0.0)
    encoder = tools.encoder()
    timed = mock.Mock(wraps=encoder)
    timed.encode = clocked("embedding", encoder.encode, seconds)
    began = time.process_time()
    with (
        mock.patch.object(tools, "encoder", return_value=timed),
        mock.patch.object(tree, "packed", clocked("chunks", tree.packed, seconds)),
        mock.patch.object(cluster, "_reduced", clocked("reduction", cluster._reduced, seconds)),
        mock.patch.object(cluster, "_mixture", clocked("clustering", cluster._mixture, seconds)),
        mock.patch.object(summary, "summarise", clocked("summaries", summary.summarise, seconds)),
    ):
        graph, _ = tree.build_tree(Document("d", text), config, tools)  # type: ignore[arg-type]
    seconds["rest"] = time.process_time() - began - sum(seconds.values())
    levels = [graph.level.count(level) for level in range(1, max(graph.level) + 1)]
    return seconds, " + ".join(map(str, levels))


def row(name: str, seconds: dict[str, float], levels: str) -> str:
    total = sum(seconds.values())
    cells = (f"{value:7.2f} {100 * value / total:3.0f} %" for value in seconds.values())
    return f"{name:<16} {levels:<22} {total:8.2f}  " + "  ".join(cells)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tokens", type=int, nargs="*", default=[1640, 20000])
    parser.add_argument("--chunks", type=int, nargs="*", default=[300, 1000])
    parser.add_argument("--reduction", choices=("umap", "pca"), default="umap")
    flags = parser.parse_args()
    config = RaptorConfig(reduction=flags.reduction)
    points = np.random.default_rng(0).normal(size=(20, WIDTH)).astype(np.float32)
    began = time.process_time()
    cluster._reduced(points, 4, config)
    print(f"RAPTOR's tree: the first {flags.reduction} of a process takes {time.process_time() - began:.1f} s")
    print(f"{'':<16} {'nodes by level':<22} {'seconds':>8}  " + "  ".join(f"{name:>13}" for name in STAGES), flush=True)
    with tempfile.TemporaryDirectory() as folder, mock.patch.dict(os.environ, HARNESS_HOME=str(Path(folder))):
        tools = Real() if flags.tokens else None
        for tokens in flags.tokens:
            story = sample("narrativeqa", 0, tokens=tokens, purpose="evaluation").documents[0].text
            assert tools is not None
            print(row(f"{tokens:,} tokens", *stages(story, config, tools)), flush=True)
    for chunks in flags.chunks:
        text = " ".join("word " * 19 + f"w{i}." for i in range(chunks * SENTENCES))
        print(row(f"{chunks:,} chunks", *stages(text, config, Tools())), flush=True)


if __name__ == "__main__":
    main()
