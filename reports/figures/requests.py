"""Requests to a model per question, construction of an index apart (QRMeM, table 6), beside the score they buy.

dataset method model score mean mean.low mean.high     the score's name, its mean in [0, 1], 95 % interval
requests requests.low requests.high                    search + answer per question, interval clustered by document
requests.search requests.answer                        the same by phase
requests.index index of                                construction of one index, and what it belongs to
requests.built                                         all construction of this run, per question answered
retries                                                tries beyond the first that servers made necessary, in all; no
                                                       requests of the method, so they are in none of the columns above
n failed notes run

A request is one prompt that a language model reads and replies to; texts that an encoder or reranker reads are none.
Costs are those of questions answered and indexes built, as everywhere: a cached index still knows what it cost.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.stats.bootstrap import interval
from reports import stored as facts
from reports.figures.plot import KINDS, Line, Panel, Point, linear, logarithmic
from reports.figures.queries import PER_DOCUMENT, shared

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


_OWN = ("search", "answer")


def spent(record: Mapping[str, Any]) -> int:
    """Requests of a question's search and answer."""
    return sum(_of(record["usage"], phase) for phase in _OWN)


def per_question(run: StoredRun) -> tuple[list[float], list[str]]:
    """Requests of each question answered, and the document cluster it belongs to."""
    pairs = zip(run.records, facts.question_clusters(run), strict=True)
    kept = [(float(spent(record)), cluster) for record, cluster in pairs if record["error"] is None]
    return [n for n, _ in kept], [cluster for _, cluster in kept]


def frame(runs: Sequence[StoredRun], score: str | None = None) -> pd.DataFrame:
    """The table above, a row a run. score: by default each run's headline.

    Raises UserError for no runs or a run without records, UnknownName for a score that a run does not have.
    """
    facts.check_runs(runs)
    rows = [_row(run, label, score or facts.headline(run)) for run, label in zip(runs, facts.labels(runs), strict=True)]
    return facts.numbers(pd.DataFrame(rows).sort_values("dataset", kind="stable", ignore_index=True))


def _row(run: StoredRun, label: str, score: str) -> dict[str, Any]:
    seed = int(run.config.get("seed") or 0)
    scored = facts.scored(run, score)
    mean = interval(scored.values, scored.clusters, seed=seed)
    values, clusters = per_question(run)
    own = interval(values, clusters, seed=seed, bounds=None)
    answered = [record for record in run.records if record["error"] is None]
    indexes = _indexes(run)
    built = [_of(usage, "index") for usage in indexes.values()]
    mine = {phase: sum(_of(r["usage"], phase) for r in answered) for phase in _OWN}
    return {
        "dataset": facts.key(run)[0],
        "method": label,
        "model": run.config["model"]["name"],
        "score": score,
        "mean": mean.mean,
        "mean.low": mean.low,
        "mean.high": mean.high,
        "requests": own.mean,
        "requests.low": own.low,
        "requests.high": own.high,
        **{f"requests.{phase}": mine[phase] / len(answered) if answered else None for phase in _OWN},
        "requests.index": sum(built) / len(built) if built else None,
        "index of": ("a question" if any(q for _, q in indexes) else "a document") if indexes else "",
        "requests.built": sum(built) / len(answered) if answered else None,
        "retries": sum(_retries(r["usage"]) for r in run.records) + sum(map(_retries, indexes.values())),
        "n": len(run.records),
        "failed": len(run.records) - len(answered),
        "notes": facts.notes(run),
        "run": run.path.name,
    }


def _indexes(run: StoredRun) -> dict[tuple[str, str | None], dict[str, Any]]:
    """Usage of each index, by its document and question; one that a resumed run met again counts once."""
    rows = (row for row in run.documents if row["status"] != "failed")
    return {(row["document_id"], row.get("question_id")): row["usage"] for row in rows}


def _of(usage: Mapping[str, Any], phase: str) -> int:
    told = usage.get(phase) or {}
    return int(told.get("requests", 0)) - int(told.get("encoder_requests", 0))


def _retries(usage: Mapping[str, Any]) -> int:
    return sum(int(phase.get("retries", 0)) for phase in usage.values())


def sections(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """A table for each data set, model and score, for people; best score first."""
    found = []
    for (dataset, model, score), rows in table.groupby(["dataset", "model", "score"], sort=False):
        names = {f"mean{end}": f"{score}{end}" for end in ("", ".low", ".high")}
        told = rows.sort_values("mean", ascending=False, kind="stable").rename(columns=names)
        told = told.drop(columns=["dataset", "model", "score", "run"]).reset_index(drop=True)
        found.append((f"{dataset} · {model} · requests a question", told))
    return found


def panels(table: pd.DataFrame) -> list[Panel]:
    """For each data set and model, six methods to a drawing: the score over the requests; the requests over queries."""
    found = []
    for (dataset, model, score), rows in table.groupby(["dataset", "model", "score"], sort=False):
        known = [row for row in facts.records(rows) if not pd.isna(row["requests"]) and not pd.isna(row["mean"])]
        for title, part in _parts(f"{dataset} · {model}", known):
            found.append(_bought(title, str(score), part))
        # A method without construction costs the same at any number of queries; it is drawn to be compared with.
        if any(row["requests.built"] for row in known):
            found += [_shared(title, part) for title, part in _parts(f"{dataset} · {model}", known)]
    return found


def _parts(title: str, rows: Sequence[dict[str, Any]]) -> Iterator[tuple[str, Sequence[dict[str, Any]]]]:
    count = -(-len(rows) // KINDS)
    for i in range(count):
        yield title + (f" ({i + 1} of {count})" if count > 1 else ""), rows[KINDS * i : KINDS * (i + 1)]


def _bought(title: str, score: str, rows: Sequence[dict[str, Any]]) -> Panel:
    """A point a method: its score over its requests."""
    lines = []
    for row in rows:
        low, high = (None if pd.isna(row[end]) else 100 * float(row[end]) for end in ("mean.low", "mean.high"))
        told = f"{row['method']}: {100 * row['mean']:.4g} for {row['requests']:.3g} requests a question"
        point = Point(float(row["requests"]), 100 * float(row["mean"]), low, high, told)
        lines.append(Line(str(row["method"]), [point]))
    x = linear("requests a question, construction apart", [float(row["requests"]) for row in rows], zero=True)
    values = [v for line in lines for p in line.points for v in (p.y, p.low, p.high) if v is not None]
    return Panel(title, x, linear(f"{score} × 100", values, zero=True), None, lines)


def _shared(title: str, rows: Sequence[dict[str, Any]]) -> Panel:
    """A line a method: requests a query with its share of the construction; nobody shares a question's own index."""
    lines = []
    for row in rows:
        index = 0.0 if pd.isna(row["requests.index"]) else float(row["requests.index"])
        alone = row["index of"] == "a question"
        costs = [(k, shared(index, float(row["requests"]), 1 if alone else k)) for k in PER_DOCUMENT]
        told = f"{row['method']}, {{}} queries a document: {{:.3g}} requests a query"
        points = [Point(float(k), v, told=told.format(k, v)) for k, v in costs if v]
        lines += [Line(str(row["method"]), points)] if points else []
    ticks = [float(k) for k in PER_DOCUMENT]
    values = [p.y for line in lines for p in line.points if p.y]
    left = logarithmic("requests a query, construction included", values or [1.0])
    return Panel(title, logarithmic("queries per document", ticks, ticks), left, None, lines)
