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

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.stats.bootstrap import interval
from reports import stored as facts
from reports.figures.plot import Axis, Line, Panel, Point, split
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
    """For each data set and model: the score over the requests; the requests over the queries of a document."""
    found = []
    for (dataset, model, score), rows in table.groupby(["dataset", "model", "score"], sort=False):
        known = [row for row in facts.records(rows) if not pd.isna(row["requests"]) and not pd.isna(row["mean"])]
        bought = [Line(str(row["method"]), [Point.of(row, "requests", "mean", 100)]) for row in known]
        x, left = Axis("requests a question, construction apart", zero=True), Axis(f"{score} × 100", zero=True)
        found += [Panel(title, x, left, None, part) for title, part in split(f"{dataset} · {model}", bought)]
        # A method without construction costs the same at any number of queries; it is drawn to be compared with.
        if any(row["requests.built"] for row in known):
            ticks = Axis("queries per document", tuple(map(float, PER_DOCUMENT)), log=True)
            left = Axis("requests a query, with construction", log=True)
            over = [line for row in known if (line := _shared(row)).points]
            found += [Panel(title, ticks, left, None, part) for title, part in split(f"{dataset} · {model}", over)]
    return found


def _shared(row: Mapping[str, Any]) -> Line:
    """Requests a query with its share of the construction; nobody shares a question's own index."""
    index = 0.0 if pd.isna(row["requests.index"]) else float(row["requests.index"])
    alone = row["index of"] == "a question"
    costs = {k: shared(index, float(row["requests"]), 1 if alone else k) for k in PER_DOCUMENT}
    return Line(str(row["method"]), [Point(float(k), cost) for k, cost in costs.items() if cost])
