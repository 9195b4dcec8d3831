"""Events in, usage out: what every model call cost, by phase and role.

    Event(role, model, phase, kind, new, cached, logits, seconds) ── flops.py ──► usage {phase: {...}}

FLOPs are a pure function of events and the model's shape (harness/flops.py), so a convention can be changed
after the run.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

from harness.events import PHASES, Event, Kind
from harness.flops import CONVENTIONS, ModelShape, flops

__all__ = ["PHASES", "Event", "Kind", "Meter", "add_usage", "usage_of"]


class Meter:
    """Collects events. One meter a question or a document; thread-safe, because tools.map may run calls together."""

    def __init__(self, phase: str = "answer") -> None:
        self.events: list[Event] = []
        self.shapes: dict[str, ModelShape] = {}
        self._phase = phase
        # Kept as a running sum: a search asks after every step, and summing all events each time was quadratic.
        self._full = 0.0
        self._lock = threading.Lock()

    @property
    def current_phase(self) -> str:
        """The phase new events are booked under."""
        return self._phase

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Book the events inside under phase `name`, one of PHASES."""
        if name not in PHASES:
            raise ValueError(f"phase {name!r} is not one of {PHASES}")
        before, self._phase = self._phase, name
        try:
            yield
        finally:
            self._phase = before

    def record(self, event: Event, shape: ModelShape | None) -> None:
        """Keep `event`; `shape` is the model's, None where FLOPs are unknown (a scripted or remote model)."""
        with self._lock:
            self.events.append(event)
            if shape is not None:
                self.shapes[event.model] = shape
                self._full += flops(event, shape, "full")

    def flops(self, convention: str = "full") -> float:
        """FLOPs of all events so far under `convention`."""
        if convention == "full":
            return self._full
        return sum(flops(e, self.shapes[e.model], convention) for e in self.events if e.model in self.shapes)

    def usage(self) -> dict[str, dict[str, Any]]:
        """Return {phase: {flops, tokens_in, tokens_cached, tokens_out, requests, seconds}}."""
        return usage_of(self.events, self.shapes)


def _empty() -> dict[str, Any]:
    return {
        "flops": dict.fromkeys(CONVENTIONS, 0.0),
        "tokens_in": 0,
        "tokens_cached": 0,
        "tokens_out": 0,
        "requests": 0,
        "seconds": 0.0,
        "uncounted": 0,
        "texts_cut": 0,
        "roles": {},
    }


def usage_of(events: Iterable[Event], shapes: dict[str, ModelShape]) -> dict[str, dict[str, Any]]:
    """Sum events by phase.

    tokens_in counts tokens read (prefill, probe, score, embed, rerank), tokens_out tokens written, tokens_cached the
    context a request did not have to re-send; uncounted the events of models whose
    shape is unknown, texts_cut the texts an encoder shortened. `roles` splits FLOPs (convention "full") by role.
    """
    usage: dict[str, dict[str, Any]] = {}
    for e in events:
        u = usage.setdefault(e.phase, _empty())
        u["tokens_in"] += 0 if e.kind == "decode" else e.new
        u["tokens_out"] += e.out
        u["tokens_cached"] += e.cached if e.requests else 0
        u["requests"] += e.requests
        u["seconds"] += e.seconds
        u["texts_cut"] += e.cut
        shape = shapes.get(e.model)
        if shape is None:
            u["uncounted"] += 1
            continue
        for name in CONVENTIONS:
            u["flops"][name] += flops(e, shape, name)
        u["roles"][e.role] = u["roles"].get(e.role, 0.0) + flops(e, shape, "full")
    return usage


def add_usage(total: dict[str, dict[str, Any]], more: dict[str, dict[str, Any]]) -> None:
    """Add `more` to `total` in place; both as `usage_of` returns them."""
    for phase, values in more.items():
        _add(total.setdefault(phase, {}), values)


def _add(into: dict[str, Any], values: dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            _add(into.setdefault(key, {}), value)
        else:
            into[key] = into.get(key, 0) + value


def event_row(event: Event) -> dict[str, Any]:
    """The event as JSON values."""
    return asdict(event)
