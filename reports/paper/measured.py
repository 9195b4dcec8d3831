"""What a run, or several together, measured of a printed value, in the paper's units (scores times 100)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.stats import interval
from reports import facts
from reports.figures.requests import per_question
from reports.paper.printed import Value
from reports.paper.rules import Metric

if TYPE_CHECKING:
    from harness.store import StoredRun

__all__ = ["Ours", "mean", "measure", "score_of"]


@dataclass(frozen=True)
class Ours:
    """What was measured, with its 95 % interval; None where it could not be."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def measure(value: Value, run: StoredRun, row: dict[str, Any]) -> Ours:
    """The run's value; `row` is that of reports.tables.frame under the metric's convention."""
    entry, metric = value.entry, value.metric
    if metric.requests:
        return _requests(run)
    if metric.score is not None:
        score = score_of(metric, run)
        return Ours(*(_known(row.get(f"{score}{end}"), 100.0) for end in ("", ".low", ".high")))
    if not metric.phases:
        return Ours()
    index = _known(row["tflops.index"])
    if entry.per_document:
        return Ours(index)
    if entry.questions_per_document is None:
        return Ours(*(_known(row[f"tflops{end}"]) for end in ("", ".low", ".high")))
    search = _known(row["tflops"])
    return Ours() if index is None or search is None else Ours(index / entry.questions_per_document + search)


def mean(parts: Sequence[Ours]) -> Ours:
    """The mean over k data sets, each counting the same, as papers take it.

    The samples are independent, so the errors of their means add in quadrature: with m_i in [low_i, high_i],

        m = (m_1 + ... + m_k) / k
        low = m - sqrt((m_1 - low_1)^2 + ... + (m_k - low_k)^2) / k        high likewise, with high_i - m_i

    Without a value where a part has none, without an interval where a part has none.
    """
    if len(parts) == 1:
        return parts[0]
    values = [part.value for part in parts if part.value is not None]
    if len(values) < len(parts):
        return Ours()
    middle = sum(values) / len(values)
    below = [m - part.low for m, part in zip(values, parts, strict=True) if part.low is not None]
    above = [part.high - m for m, part in zip(values, parts, strict=True) if part.high is not None]
    if len(below) < len(parts) or len(above) < len(parts):
        return Ours(middle)
    return Ours(middle, middle - math.hypot(*below) / len(parts), middle + math.hypot(*above) / len(parts))


def score_of(metric: Metric, run: StoredRun) -> str | None:
    """The run's score for a metric: its first choice, else one that measures the same."""
    own = facts.score_names(run)
    return next((name for name in (metric.score, *metric.instead) if name in own), metric.score)


def _requests(run: StoredRun) -> Ours:
    """Requests of search and answer per question; what an index took is no part of it."""
    values, clusters = per_question(run)
    found = interval(values, clusters, seed=int(run.config.get("seed") or 0), bounds=None)
    return Ours(found.mean, found.low, found.high)


def _known(value: Any, scale: float = 1.0) -> float | None:
    return None if value is None or pd.isna(value) else scale * float(value)
