"""The models that make labels: the teacher, and the base with the adapters that are trained already."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.cost.meter import Meter
from harness.method import Task
from harness.models import LanguageModel, MeteredModel
from harness.parallel.scheduler import Claims

T = TypeVar("T")
SHORT = 128
"""Tokens of the texts with which speeds are measured."""
_WRITTEN = 24
_KEPT = 2048  # results of `once`: neighbouring questions share documents


@dataclass
class Models:
    """Implements harness.method.Labelling; a model is loaded at its first use. Thread-safe.

    length, seconds: what a long reply may take, see `most`; asked: a prompt in place of the method's, or "".
    """

    task: Task
    load_teacher: Callable[[], LanguageModel]
    load_base: Callable[[], LanguageModel]
    offsets: Callable[[str], list[tuple[int, int]]]
    length: int = 1_000_000
    seconds: float = 600
    asked: str = ""
    meter: Meter = field(default_factory=Meter)
    _loaded: dict[str, LanguageModel] = field(default_factory=dict)
    _results: OrderedDict[str, Any] = field(default_factory=OrderedDict)
    _claims: Claims = field(default_factory=Claims)
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def teacher(self) -> MeteredModel:
        """The model whose replies are the labels."""
        return self._metered("teacher", self.load_teacher)

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""
        return self._metered("refiner", self.load_base)

    def once(self, key: str, fn: Callable[[], T]) -> T:
        """fn(), or its result if it is among the last _KEPT; a key's calls never overlap."""
        with self._claims.hold(key):
            with self._lock:
                if key in self._results:
                    self._results.move_to_end(key)
                    kept: T = self._results[key]
                    return kept
            result = fn()
            with self._lock:
                self._results[key] = result
                while len(self._results) > _KEPT:
                    self._results.popitem(last=False)
            return result

    def most(self, tokens: int) -> int:
        """`tokens`, or as many as a row of the training holds and the teacher writes in the time that a reply has."""
        return max(1, min(tokens, self.length, int(self.seconds * self.once("speed", self.speed)[1])))

    def speed(self) -> tuple[float, float]:
        """(tokens read, tokens written) a second by the teacher, which is asked for one token, then for more."""
        teacher, text, seconds, written = self.teacher(), "word " * SHORT, 0.0, 1
        for most in (1, 1, _WRITTEN):  # the first request also loads the model
            before, began = seconds, time.perf_counter()
            with teacher.session() as s:
                s.user(text)
                span = s.write(most).span
            seconds, written = time.perf_counter() - began, span.end - span.start
        return teacher.count(text) / max(before, 1e-9), max(1, written - 1) / max(seconds - before, 1e-9)

    def _metered(self, role: str, load: Callable[[], LanguageModel]) -> MeteredModel:
        with self._claims.hold(f"model {role}"):
            if role not in self._loaded:
                self._loaded[role] = load()
        return MeteredModel(self._loaded[role], self.meter, role)
