"""A graph over a text of 100,000 tokens: what is booked against a count by hand, and what watching attention costs.

    python -m bench.construction [--tokens 100000]

The same calls twice, with pocket-llama: as the method makes them; then with `watch` left out (weights are ones).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from harness.config.layers import Choices
from harness.cost.meter import Meter
from harness.llm.session import HFSession
from harness.models import MeteredModel, Written
from harness.types import Document
from methods.graph import Graph
from methods.pecan.build import build_graph
from methods.pecan.config import PecanConfig
from pocket.world.sample import sample


class Tools:
    """What building asks of harness.method.Tools."""

    def __init__(self, model: MeteredModel) -> None:
        self._model = model

    def model(self, role: str) -> MeteredModel:
        return self._model

    def map(self, fn: Callable[[Any], Any], items: list[Any]) -> list[Any]:
        return [fn(item) for item in items]

    def keep(self, key: str, fn: Callable[[], Any]) -> Any:
        return fn()

    def progress(self, done: int, total: int, what: str) -> None:
        pass


@contextmanager
def calls(watching: bool) -> Iterator[list[tuple[int, int]]]:
    """(tokens read, tokens written) of every call; without `watching` no attention is captured."""
    seen: list[tuple[int, int]] = []
    before = HFSession.write

    def write(self: HFSession, left: int, *args: Any, watch: Any = (), **more: Any) -> Written:
        out = before(self, left, *args, watch=watch if watching else (), **more)
        # The head of the reply and the end of the turn belong to what is read: all that is not written.
        seen.append((len(self.ids) - len(out.offsets), len(out.offsets)))
        return out if watching else replace(out, attention=np.ones((len(out.offsets), len(watch))))

    HFSession.write = write  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        HFSession.write = before  # type: ignore[method-assign]


def by_hand(seen: list[tuple[int, int]], net: Any) -> float:
    """FLOPs of reading n tokens and writing g, once each: 2 P (n + g) + 4 L H h (n n + n g + g (g + 1) / 2)."""
    d, f, layers, vocab = net.hidden_size, net.intermediate_size, net.num_hidden_layers, net.vocab_size
    heads, keys = net.num_attention_heads, net.num_key_value_heads
    size = d // heads
    weights = layers * (2 * d * heads * size + 2 * d * keys * size + 3 * d * f) + d * vocab
    pairs = sum(n * n + n * g + g * (g + 1) / 2 for n, g in seen)
    return 2 * weights * sum(n + g for n, g in seen) + 4 * layers * heads * size * pairs


def build(tokens: int, watching: bool) -> tuple[tuple[float, float], float, list[tuple[int, int]], Graph, Any]:
    """Seconds (of the clock, of the processor), FLOPs booked, the calls, the graph, and the network's sizes."""
    from harness.engine.plan import plan_choices
    from harness.llm.load import load_model

    plan = plan_choices(Choices(method="pecan", dataset="pocket/narrativeqa", limit=1, profile="pocket"))
    model, meter = load_model(plan.models["builder"]), Meter("index")
    made = sample("narrativeqa", 1, tokens=tokens, purpose="evaluation")
    document = Document("d", made.documents[0].text)
    config = plan.method.config
    assert isinstance(config, PecanConfig)
    began = time.perf_counter(), time.process_time()
    with calls(watching) as seen:
        graph = build_graph(document, config, Tools(MeteredModel(model, meter, "builder")))  # type: ignore[arg-type]
    seconds = time.perf_counter() - began[0], time.process_time() - began[1]
    return seconds, meter.flops("full"), seen, graph, model.net.config  # type: ignore[attr-defined]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, default=100_000)
    tokens = parser.parse_args().tokens
    build(2_000, True)
    seconds, booked, seen, graph, net = build(tokens, True)
    plain, *_ = build(tokens, False)
    expected = by_hand(seen, net)
    print(f"a graph over {tokens} tokens: {graph.level.count(1)} chunks, {len(graph.text)} nodes, {len(seen)} calls,")
    print(f"{sum(n for n, _ in seen)} tokens read, {sum(g for _, g in seen)} written")
    print(f"FLOPs booked {booked:.4g}, counted by hand {expected:.4g}: {booked / expected - 1:+.2%}")
    for kind, watched, without in zip(("", " of the processor"), seconds, plain, strict=True):
        ratio = watched / without
        print(f"{watched:.1f} s{kind}; without watching attention {without:.1f} s: {ratio:.3f} times as long")


if __name__ == "__main__":
    main()
