"""Tools for methods without the engine: a scripted model and an encoder that counts shared
words."""

import contextlib
import json

import numpy as np

from harness.cost.flops import ModelShape
from harness.cost.meter import Meter
from harness.engine.searching import Searcher
from harness.llm.scripted import Script, ScriptedModel
from harness.method import Task
from harness.models import MeteredModel


class WordEncoder:
    """Similarity = share of the query's words that the passage has."""

    name, identity = "words", {}

    def __init__(self):
        self._texts = []

    def encode(self, texts, kind):
        start = len(self._texts)
        self._texts += [set(t.lower().split()) for t in texts]
        return np.arange(start, len(self._texts), dtype=np.float32)[:, None]

    def similarity(self, query, passages):
        asked = self._texts[int(query[0])]
        return np.array(
            [len(asked & self._texts[int(p[0])]) / max(len(asked), 1) for p in passages]
        )


def answered(method, tools, document, question):
    """The answer, and the index it was given ({} for a method without one)."""
    tools.documents = [document]
    index = {} if method.scope == "none" else method.index(document, tools)
    return method.answer(question, [document], [index], tools), index


class Counted(Meter):
    """Books the events of a model that tells no shape as those of a small one."""

    def record(self, event, shape):
        super().record(
            event, ModelShape(layers=2, width=8, heads=2, kv_heads=2, head_size=4, mlp=16, vocab=50)
        )


class FakeTools:
    """What the engine hands a method, without an engine.

    `replies` and `probes` are Rules of harness/llm/scripted.py: the first that fits answers every
    time, so a sequence of replies is `Rule(reply=..., once=True)` each.
    """

    def __init__(
        self,
        replies=(),
        probes=(),
        attention=None,
        window=8192,
        similarity=None,
        reranker=None,
        **models,
    ):
        script = Script(replies=list(replies), probes=list(probes), window=window)
        self.reader = ScriptedModel(script, attention=attention)
        self.models = models
        self.meter, self.seed, self.question = Meter(), 0, None
        self.task = Task(
            instruction="Answer the question as concisely as you can.", max_answer_tokens=8
        )
        self._encoder, self._reranker = (
            WordEncoder() if similarity is None else similarity,
            reranker,
        )
        self.kept, self.shared, self.said, self.documents = {}, {}, [], []

    def model(self, role="reader"):
        return MeteredModel(self.models.get(role, self.reader), self.meter, role)

    def encoder(self, role="encoder"):
        return self._encoder

    def reranker(self, role="reranker"):
        return self._reranker

    def retriever(self):
        return None

    def search(self, query, k):
        return Searcher(None, self.documents).search(query, k, self.meter)

    def map(self, fn, items):
        return [fn(i) for i in items]

    def keep(self, key, fn):
        if key not in self.kept:
            self.kept[key] = fn()
        return self.kept[key]

    def share(self, name, role, needs, fn):
        key = json.dumps([name, role, needs], sort_keys=True)
        if key not in self.shared:
            self.shared[key] = json.dumps(fn())
        return json.loads(self.shared[key])

    def phase(self, name):
        return self.meter.phase(name) if name else contextlib.nullcontext()

    def progress(self, done, total, what):
        self.said.append((done, total, what))
