"""Printed and measured, side by side, with a verdict.

frame(runs)   one row for each printed value and each run that measures it, in the paper's units (scores times 100):

dataset  paper            row          metric  printed  method  model  ours  ours.low  ours.high  n  apart  verdict
musique  GARLIC, Table 1  BM25 top-5   F1      28.7     bm25    ...    29.4  27.9      30.9       …  0.7    reproduced

A value that is a mean over data sets is measured by a run on each of them: its row names them all and comes last.

reproduced       the printed value, as far as its digits go, lies in our interval, or within the metric's tolerance
off              it does not
not comparable   a run differs in more than chance; `notes` say in what
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pandas as pd

from reports import facts, tables
from reports.paper.comparable import listed, reasons
from reports.paper.matching import Pair, matches
from reports.paper.measured import Ours, mean, measure
from reports.paper.printed import Value, load

if TYPE_CHECKING:
    from harness.store import StoredRun

__all__ = ["NOT_COMPARABLE", "OFF", "REPRODUCED", "frame", "verdict"]

REPRODUCED, OFF, NOT_COMPARABLE = "reproduced", "off", "not comparable"
COLUMNS = (
    "dataset", "paper", "row", "metric", "printed", "method", "model", "ours", "ours.low", "ours.high", "n", "apart",
    "verdict", "convention", "notes", "run",
)  # fmt: skip

_Rows = Mapping[tuple[str, str], dict[str, Any]]


def frame(
    runs: Sequence[StoredRun], values: Sequence[Value] | None = None, convention: str | None = None
) -> pd.DataFrame:
    """Return the table above; no rows where no run measures a printed value.

    values: by default those of paper_results.csv that mapping.yaml maps; convention: another way to count FLOPs than
    the papers' own, as mapping.yaml has it. Raises UserError for no runs or runs without
    records.
    """
    values = load() if values is None else values
    facts.check_runs(runs)
    if convention is not None:
        counted = {"convention": convention}
        values = [replace(value, metric=value.metric.model_copy(update=counted)) for value in values]
    measured = {
        convention: {facts.key(run): row for run, row in zip(runs, _rows(runs, convention), strict=True)}
        for convention in {value.metric.convention for value in values}
    }
    several = _several(values)
    found = [
        (len(pairs), _row(value, pairs, measured[value.metric.convention], several))
        for value in values
        for pairs in matches(value, runs)
    ]
    found.sort(key=lambda each: (each[0] > 1, each[1]["dataset"]))  # stable; means last
    return facts.numbers(pd.DataFrame([row for _, row in found], columns=list(COLUMNS)))


def _rows(runs: Sequence[StoredRun], convention: str) -> list[dict[str, Any]]:
    """The row of reports.tables.frame for each run, in the given order."""
    by_key = {(row["dataset"], row["run"]): row for row in facts.records(tables.frame(runs, convention=convention))}
    return [by_key[facts.key(run)] for run in runs]


def _several(values: Sequence[Value]) -> set[tuple[str, str]]:
    """(paper, data set) where the made-up data set stands in for several labels of the paper."""
    places: dict[tuple[str, str], set[str]] = {}
    for value in values:
        for name in value.stand_ins:
            places.setdefault((value.paper.name, name), set()).add(value.place)
    return {key for key, labels in places.items() if len(labels) > 1}


def verdict(printed: float, digits: int, ours: Ours, tolerance: float = 0.0) -> str:
    """REPRODUCED or OFF. A printed 28.7 stands for anything that is rounded to it, so half a digit is allowed for."""
    assert ours.value is not None
    half = 0.5 * 10.0**-digits
    inside = ours.low is not None and ours.high is not None and ours.low - half <= printed <= ours.high + half
    near = abs(ours.value - printed) <= max(half, tolerance * abs(printed))
    return REPRODUCED if inside or near else OFF


def _row(value: Value, pairs: tuple[Pair, ...], rows: _Rows, several: set[tuple[str, str]]) -> dict[str, Any]:
    own = [rows[facts.key(run)] for _, run in pairs]
    ours = mean([measure(value, run, row) for (_, run), row in zip(pairs, own, strict=True)])
    why = _why(value, pairs)
    if ours.value is None and not any(reason.startswith("metric:") for reason in why):
        lacks = "question that was answered" if value.metric.requests else "FLOPs, its model tells no shape"
        why.append(f"metric: the run has no {value.metric.score or lacks}")
    told = NOT_COMPARABLE if why else verdict(value.printed, value.digits, ours, value.metric.tolerance)
    names = [facts.key(run)[0] for _, run in pairs]
    label = f", {value.place}" if (value.paper.name, names[0]) in several else ""
    return {
        "dataset": names[0] if len(pairs) == 1 else f"{value.place} (mean of {listed(names)})",
        "paper": f"{value.paper.name}, {value.entry.table}",
        "row": f"{value.entry.method}{label}",
        "metric": value.label,
        "printed": value.printed,
        "method": own[0]["method"],
        "model": own[0]["model"],
        "ours": ours.value,
        "ours.low": ours.low,
        "ours.high": ours.high,
        "n": sum(row["n"] for row in own),
        "apart": None if ours.value is None else ours.value - value.printed,
        "verdict": told,
        "convention": value.metric.convention if value.metric.phases else None,
        "notes": tuple(why),
        "run": ", ".join(dict.fromkeys(run.path.name for _, run in pairs)),
    }


def _why(value: Value, pairs: tuple[Pair, ...]) -> list[str]:
    """The reasons of all runs; one that is not every run's names the data sets that it is of."""
    found: dict[str, list[str]] = {}
    for rule, run in pairs:
        for reason in reasons(value, run, rule):
            found.setdefault(reason, []).append(facts.key(run)[0])
    return [r if len(of) == len(pairs) else f"{r} ({listed(of)})" for r, of in found.items()]
