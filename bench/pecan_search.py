"""What PECAN's search costs beside its models: seconds of the processor, the scripted model's own taken off."""

from __future__ import annotations

import contextlib
import statistics
import time
from typing import Any

import numpy as np

from harness.cost.meter import Meter
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.method import Task
from harness.models import MeteredModel
from harness.types import Document, Question
from methods.graph import Graph
from methods.pecan import Pecan
from methods.pecan.config import PecanConfig
from methods.pecan.search import choose

BATCH, POINTS, TOP = 20, 12, 30  # chunks a call, points it writes, nodes of the top level


class Outside:
    """An object whose methods' time is added to `clock`; what `session` returns is one too."""

    def __init__(self, inner: Any, clock: list[float]) -> None:
        self._inner, self._clock = inner, clock

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*given: Any, **named: Any) -> Any:
            began = time.process_time()
            found = value(*given, **named)
            self._clock[0] += time.process_time() - began
            return Outside(found, self._clock) if name == "session" else found

        return call

    def __enter__(self) -> Outside:
        return self

    def __exit__(self, *_: object) -> None:
        self._inner.close()


class Tools:
    """What a search asks of harness.method.Tools."""

    def __init__(self, width: int = 384) -> None:
        rules = Script(replies=[Rule(reply="x")], probes=[Rule(p={"Yes": 0.0, "No": 1.0})], window=10**6)
        self.clock = [0.0]
        self.meter, self.seed, self.question = Meter(), 0, None
        self.task = Task(instruction="Answer.", max_answer_tokens=8)
        self._model = ScriptedModel(rules, attention=lambda row, column: (hash(row) % 97) / 97)
        self._width = width

    def model(self, role: str = "reader") -> Any:
        self._model.prompts.clear()
        return Outside(MeteredModel(self._model, self.meter, role), self.clock)

    def encoder(self, role: str = "encoder") -> Any:
        return self

    def encode(self, texts: list[str], kind: str) -> np.ndarray:
        return np.random.default_rng(0).normal(size=(len(texts), self._width)).astype(np.float32)

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        return np.asarray(passages @ query)

    def phase(self, name: str) -> contextlib.AbstractContextManager[None]:
        return self.meter.phase(name)


def graph_of(nodes: int) -> Graph:
    """About `nodes` nodes: chunks, points over each BATCH of them, TOP points over all of these."""
    draws, graph = np.random.default_rng(1), Graph()
    chunks = [graph.add(f"chunk {i} " + "word " * 30, 1, (i, i + 1)) for i in range(nodes * BATCH // (BATCH + POINTS))]
    blocks = []
    for first in range(0, len(chunks), BATCH):
        under = chunks[first : first + BATCH]
        above = [graph.add(f"point {first} {i} " + "word " * 20, 2) for i in range(POINTS)]
        blocks.append((above, under, draws.dirichlet(np.ones(len(under)), POINTS)))
    points = [i for above, _, _ in blocks for i in above]
    top = [graph.add(f"top {i} " + "word " * 20, 3) for i in range(TOP)]
    graph.connect([*blocks, (top, points, draws.dirichlet(np.ones(len(points)), TOP))])
    return graph


def own_time(nodes: int, visits: int = 50, repeats: int = 9) -> float:
    """Median milliseconds a question of a search with `visits` visits behind the top level, its models' time off."""
    graph, tools = graph_of(nodes), Tools()
    index = {**graph.to_index(), "embeddings": tools.encode(graph.text, "passage")}
    method = Pecan(PecanConfig(max_nodes=TOP + visits, window=10**6))
    asked, document = Question("q", "who was it", ("d",)), Document("d", "x" * len(graph.text))
    found = []
    for _ in range(repeats):
        tools.clock[0], began = 0.0, time.process_time()
        answer = method.answer(asked, [document], [index], tools)
        found.append(time.process_time() - began - tools.clock[0])
        assert len(answer.steps) == TOP + visits
    return statistics.median(found) * 1e3


def choice_time(nodes: int = 5000, repeats: int = 201) -> float:
    """Median milliseconds from a visit to the next node: z = E^T r and the scores of `nodes` nodes."""
    graph, draws = graph_of(nodes), np.random.default_rng(2)
    n = len(graph.text)
    z, cosine, free = np.zeros(n), draws.normal(size=n), np.ones(n, dtype=bool)
    config, visited = PecanConfig(), draws.integers(0, n, repeats)
    found = []
    for node in visited.tolist():
        began = time.process_time()
        lower, weight = graph.below(node)
        z[lower] += 0.3 * weight
        free[node] = False
        int(np.argmax(choose(z, cosine, free, config)[0]))
        found.append(time.process_time() - began)
    return statistics.median(found) * 1e3


def build_time(chunks: int = 10_000) -> float:
    """Seconds that building takes over `chunks` identical chunks, the scripted model's own time taken off."""
    from methods.pecan.build import build_graph

    class Building(Tools):
        def map(self, fn: Any, items: Any) -> list[Any]:
            return [fn(item) for item in items]

        def keep(self, key: str, fn: Any) -> Any:
            return fn()

        def progress(self, done: int, total: int, what: str) -> None:
            pass

    tools = Building()
    script = Script(replies=[Rule(reply="* one\n* two\n* three")])
    tools._model = ScriptedModel(script, attention=lambda row, column: 0.5)
    config = PecanConfig(chunk_tokens=18, batch_nodes=BATCH, reserve=100)
    document = Document("d", "the same words all over again " * (3 * chunks - 1) + "the same words all over again")
    began = time.process_time()
    graph = build_graph(document, config, tools)  # type: ignore[arg-type]
    assert graph.level.count(1) == chunks
    return time.process_time() - began - tools.clock[0]


def table() -> None:
    """Print the rows of `python -m bench` about the search."""
    print(f"\nPECAN's own time, its models' taken off: {own_time(300):.2f} ms a question of 50 visits over 300 nodes,")
    print(f"{own_time(5000):.2f} ms over 5,000; the next of 5,000 nodes: {choice_time():.3f} ms;", end=" ")
    print(f"a graph over 10,000 identical chunks: {build_time():.2f} s", flush=True)


if __name__ == "__main__":
    table()
