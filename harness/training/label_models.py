"""The models that make labels: the teacher, and the base with the adapters that are trained already."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from harness.cost.meter import Meter
from harness.method import Task
from harness.models import LanguageModel, MeteredModel
from harness.parallel.scheduler import Claims

T = TypeVar("T")
_KEPT = 2048  # results of `once`: neighbouring questions share documents


@dataclass
class Models:
    """Implements harness.method.Labelling; a model is loaded at its first use. Thread-safe."""

    task: Task
    load_teacher: Callable[[], LanguageModel]
    load_base: Callable[[], LanguageModel]
    offsets: Callable[[str], list[tuple[int, int]]]
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

    def _metered(self, role: str, load: Callable[[], LanguageModel]) -> MeteredModel:
        with self._claims.hold(f"model {role}"):
            if role not in self._loaded:
                self._loaded[role] = load()
        return MeteredModel(self._loaded[role], self.meter, role)
