"""FLOPs of the steps of a search, and of a question, by convention; older runs kept those of steps by "full" alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


def step_flops(value: Mapping[str, float] | float, convention: str) -> float | None:
    """FLOPs of a stored step under `convention`; None for a plain number, which is "full", under another one.

    value: `flops`, `probe_flops` or `answer_flops` of a step, by convention; nothing in it is 0.
    """
    if isinstance(value, Mapping):
        return float(value.get(convention, 0.0))
    return float(value) if convention == "full" or not value else None


def stop_flops(step: Mapping[str, Any], convention: str) -> float | None:
    """FLOPs of search and answer of a run that stops at a recorded step; None as in `step_flops`."""
    searched, answered = (step_flops(step.get(key) or 0.0, convention) for key in ("flops", "answer_flops"))
    return None if searched is None or answered is None else searched + answered


def full_only(records: Sequence[Mapping[str, Any]], convention: str) -> list[str]:
    """A note where steps have FLOPs under "full" alone and `convention` is another one; else nothing."""
    steps = (step for record in records for step in record["steps"])
    if all(step_flops(step.get("flops") or 0.0, convention) is not None for step in steps):
        return []
    return ["this run kept the FLOPs of its steps under the convention full alone: --convention full shows them"]


def spent_flops(record: Mapping[str, Any], convention: str) -> float | None:
    """FLOPs of search and answer of a record; None where a model tells no shape."""
    usages = [usage for phase in ("search", "answer") if (usage := record["usage"].get(phase))]
    if any(usage.get("uncounted") for usage in usages):
        return None
    return sum(float(usage["flops"][convention]) for usage in usages)
