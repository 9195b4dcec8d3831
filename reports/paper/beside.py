"""Printed and measured, side by side, with a verdict.

frame(runs)   one row for each printed value and each run that measures it, in the paper's units (scores times 100):

dataset  paper            row          metric  printed  method  model  ours  ours.low  ours.high  n  apart  verdict
musique  GARLIC, Table 1  BM25 top-5   F1      28.7     bm25    ...    29.4  27.9      30.9       …  0.7    reproduced

reproduced       the printed value, as far as its digits go, lies in our interval, or within the metric's tolerance
off              it does not
not comparable   the run differs in more than chance; `notes` say in what
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness import embedded
from harness.stats import interval
from reports import facts, tables
from reports.figures.requests import per_question
from reports.paper.printed import Metric, Value, load

if TYPE_CHECKING:
    from harness.store import StoredRun

__all__ = ["NOT_COMPARABLE", "OFF", "REPRODUCED", "frame", "reasons", "verdict"]

REPRODUCED, OFF, NOT_COMPARABLE = "reproduced", "off", "not comparable"
COLUMNS = (
    "dataset", "paper", "row", "metric", "printed", "method", "model", "ours", "ours.low", "ours.high", "n", "apart",
    "verdict", "notes", "run",
)  # fmt: skip


@dataclass(frozen=True)
class _Ours:
    """What was measured, in the paper's units; None where it could not be."""

    value: float | None = None
    low: float | None = None
    high: float | None = None


def frame(runs: Sequence[StoredRun], values: Sequence[Value] | None = None) -> pd.DataFrame:
    """Return the table above; no rows where no run measures a printed value.

    values: by default those of paper_results.csv that mapping.yaml maps. Raises UserError for no runs or runs without
    records.
    """
    values = load() if values is None else values
    facts.check_runs(runs)
    measured = {
        convention: {facts.key(run): row for run, row in zip(runs, _rows(runs, convention), strict=True)}
        for convention in {value.metric.convention for value in values}
    }
    rows = [
        _row(value, run, measured[value.metric.convention][facts.key(run)])
        for value in values
        for run in runs
        if run.config["method"]["name"] == value.entry.preset
        and facts.key(run)[0] in (value.dataset.dataset, *value.dataset.stand_ins)
    ]
    made = pd.DataFrame(rows, columns=list(COLUMNS)).sort_values("dataset", kind="stable", ignore_index=True)
    return facts.numbers(made)


def _rows(runs: Sequence[StoredRun], convention: str) -> list[dict[str, Any]]:
    """The row of reports.tables.frame for each run, in the given order."""
    by_key = {(row["dataset"], row["run"]): row for row in facts.records(tables.frame(runs, convention=convention))}
    return [by_key[facts.key(run)] for run in runs]


def verdict(printed: float, digits: int, ours: _Ours, tolerance: float = 0.0) -> str:
    """REPRODUCED or OFF. A printed 28.7 stands for anything that is rounded to it, so half a digit is allowed for."""
    assert ours.value is not None
    half = 0.5 * 10.0**-digits
    inside = ours.low is not None and ours.high is not None and ours.low - half <= printed <= ours.high + half
    near = abs(ours.value - printed) <= max(half, tolerance * abs(printed))
    return REPRODUCED if inside or near else OFF


def _row(value: Value, run: StoredRun, measured: dict[str, Any]) -> dict[str, Any]:
    why, ours = reasons(value, run), _requests(run) if value.metric.requests else _measure(value, run, measured)
    if ours.value is None and not any(reason.startswith("metric:") for reason in why):
        lacks = "question that was answered" if value.metric.requests else "FLOPs, its model tells no shape"
        why.append(f"metric: the run has no {value.metric.score or lacks}")
    told = NOT_COMPARABLE if why else verdict(value.printed, value.digits, ours, value.metric.tolerance)
    return {
        "dataset": facts.key(run)[0],
        "paper": f"{value.paper.name}, {value.entry.table}",
        "row": value.entry.method,
        "metric": value.label,
        "printed": value.printed,
        "method": measured["method"],
        "model": measured["model"],
        "ours": ours.value,
        "ours.low": ours.low,
        "ours.high": ours.high,
        "n": measured["n"],
        "apart": None if ours.value is None else ours.value - value.printed,
        "verdict": told,
        "notes": tuple(why),
        "run": run.path.name,
    }


def _measure(value: Value, run: StoredRun, row: dict[str, Any]) -> _Ours:
    entry, metric = value.entry, value.metric
    if metric.score is not None:
        score = _score(metric, run)
        return _Ours(*(_known(row.get(f"{score}{end}"), 100.0) for end in ("", ".low", ".high")))
    if not metric.phases:
        return _Ours()
    index = _known(row["tflops.index"])
    if entry.per_document:
        return _Ours(index)
    if entry.questions_per_document is None:
        return _Ours(*(_known(row[f"tflops{end}"]) for end in ("", ".low", ".high")))
    search = _known(row["tflops"])
    return _Ours() if index is None or search is None else _Ours(index / entry.questions_per_document + search)


def _requests(run: StoredRun) -> _Ours:
    """Requests of search and answer per question; what an index took is no part of it."""
    values, clusters = per_question(run)
    found = interval(values, clusters, seed=int(run.config.get("seed") or 0), bounds=None)
    return _Ours(found.mean, found.low, found.high)


def _score(metric: Metric, run: StoredRun) -> str | None:
    """The run's score for a metric: its first choice, else one that measures the same."""
    own = facts.score_names(run)
    return next((name for name in (metric.score, *metric.instead) if name in own), metric.score)


def _known(value: Any, scale: float = 1.0) -> float | None:
    return None if value is None or pd.isna(value) else scale * float(value)


# ---- what stands between the two -----------------------------------------------------------------------------------


def reasons(value: Value, run: StoredRun) -> list[str]:
    """Why the run's number is no reproduction of the printed one, a sentence each; [] when it is one."""
    return [*_models(value, run), *_method(value, run), *_data(value, run), *_metric(value, run)]


def _models(value: Value, run: StoredRun) -> list[str]:
    config = run.config
    if config["model"].get("embedded"):
        return [f"model: {embedded.caveat(config['model'], config['dataset'])}"]
    used = {"reader": config["model"], **(config.get("roles") or {})}
    return [
        f"model: the {role} is {model['name']}, the paper's is {value.paper.model}"
        for role, model in used.items()
        if not _is(model, value.paper.model)
    ]


def _is(config: dict[str, Any], wanted: str) -> bool:
    """Whether a model or encoder is the one named: by its name, or the last part of its hub id or folder."""
    names = (str(config.get("name") or ""), str(config.get("source") or "").rstrip("/").rpartition("/")[2])
    return wanted.lower() in [name.lower() for name in names]


def _method(value: Value, run: StoredRun) -> list[str]:
    entry, method = value.entry, run.config["method"]
    found = [f"method: {entry.unlike}"] if entry.unlike else []
    params = method.get("params") or {}
    for key, wanted in entry.params.items():
        if params.get(key, wanted) != wanted:
            found.append(f"method: {key} is {params[key]}, the paper's is {wanted}")
    encoder = run.config.get("encoder") or {}
    if entry.encoder is not None and not _is(encoder, entry.encoder):
        found.append(f"encoder: {encoder.get('name') or 'not recorded'}, the paper's is most likely {entry.encoder}")
    return found


def _data(value: Value, run: StoredRun) -> list[str]:
    rule, config = value.dataset, run.config["dataset"]
    if config["name"] != rule.dataset:
        return [f"split: {config['name']} is made up, the paper has {rule.dataset}'s {rule.split} split"]
    found = []
    if config.get("split", rule.split) != rule.split:
        found.append(f"split: {config['split']}, the paper's is {rule.split}")
    n = len(run.records)
    if n != rule.questions:
        found.append(f"sample: {n} questions, the paper has {rule.questions}")
    if rule.subset is not None:
        found.append(f"sample: {rule.subset}")
    cut = sum(record["truncated"] is not None for record in run.records)
    if cut and not value.entry.truncated:
        found.append(f"truncation: {cut} of {n} contexts were cut to fit the window, the paper's were whole")
    return found


def _metric(value: Value, run: StoredRun) -> list[str]:
    metric = value.metric
    if metric.problem is not None:
        return [f"metric: {metric.problem}"]
    if metric.score is None:
        return []
    if _score(metric, run) not in facts.score_names(run):
        return [f"metric: the run has no {metric.score}; add it with: harness score RUN --scorers {metric.score}"]
    if run.config.get("failed", "zero") == "skip" and any(r["error"] is not None for r in run.records):
        return ["metric: failed questions are left out of the mean"]
    return []
