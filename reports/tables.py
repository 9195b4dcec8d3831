"""One row a run: scores with intervals, what it cost, what went wrong.

    runs = [store.read_run(folder) for folder in store.find_runs("results")]
    print(render(frame(runs), "markdown"))

Columns of `frame`, in order:

    dataset method model hash8          the run; method has the hash where two runs would read the same
    headline                            name of the data set's first score
    n failed truncated                  questions recorded, failed (scored 0 unless the run says skip), with cut context
    <score> <score>.low <score>.high    mean in [0, 1] and its 95 % interval, bootstrap clustered by document
    tokens.index / .search / .answer    tokens through a model: per document; per question in each phase
    tokens                              search + answer per question
    tflops.index / .search / .answer    1e12 FLOPs likewise
    tflops tflops.low tflops.high       search + answer per question, with its interval
    ratio                               tflops over those of the reference method (same data set and model)
    seconds                             search + answer per question
    scorers notes run                   versions; sentences to print below the table; the folder's name
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.stats import interval
from reports import facts
from reports.render import FORMATS, render

if TYPE_CHECKING:
    from harness.store import StoredRun

__all__ = ["FORMATS", "REFERENCE", "frame", "render"]

REFERENCE = "full-context"


def frame(
    runs: Sequence[StoredRun], *, convention: str = "full", reference: str = REFERENCE, seed: int | None = None
) -> pd.DataFrame:
    """Return the table described above, rows sorted by data set and kept in the given order within one.

    convention: one of harness.flops.CONVENTIONS; reference: what `ratio` refers to, a preset's name or a run folder's
    name or hash (missing where no such run is there); seed: of the bootstrap, by default each run's own, so that the
    table equals summary.json. Means come from the records, so they hold for an unfinished run too; costs are means
    over answered questions. Raises UserError for no runs or a run without records, UnknownName for a convention.
    """
    facts.check_runs(runs)
    facts.check_convention(convention)
    names = list(dict.fromkeys(name for run in runs for name in facts.score_names(run)))
    rows = [_row(run, label, names, convention, seed) for run, label in zip(runs, facts.labels(runs), strict=True)]
    table = pd.DataFrame(rows).sort_values("dataset", kind="stable", ignore_index=True)
    table["ratio"] = _ratios(table, [reference in facts.names(run) for run in _sorted(runs)])
    table["notes"] = [tuple(n) for n in table["notes"]]
    return facts.numbers(table)


def _sorted(runs: Sequence[StoredRun]) -> list[StoredRun]:
    return sorted(runs, key=lambda run: str(run.config["dataset"]["name"]))


def _row(run: StoredRun, label: str, names: Sequence[str], convention: str, seed: int | None) -> dict[str, Any]:
    notes = list(facts.notes(run))
    seed = int(run.config["seed"]) if seed is None else seed
    row: dict[str, Any] = {
        "dataset": run.config["dataset"]["name"],
        "method": label,
        "model": run.config["model"]["name"],
        "hash8": facts.hash8(run),
        "headline": facts.headline(run),
        "n": len(run.records),
        "failed": sum(r["error"] is not None for r in run.records),
        "truncated": sum(r["truncated"] is not None for r in run.records),
    }
    row.update(_scores(run, names, seed, notes))
    row.update(_costs(run, convention, seed))
    row.update(scorers=(facts.versions(run),), notes=notes, run=run.path.name)
    return row


def _scores(run: StoredRun, names: Sequence[str], seed: int, notes: list[str]) -> dict[str, float | None]:
    """Mean, low and high of every score; a score this run does not have is missing, not 0. Appends to `notes`."""
    out: dict[str, float | None] = {}
    clusters = facts.question_clusters(run)
    own = facts.score_names(run)
    for name in names:
        out[name] = out[f"{name}.low"] = out[f"{name}.high"] = None
        if name not in own:
            continue
        column = facts.scored(run, name, clusters)
        found = interval(column.values, column.clusters, seed=seed)
        out[name], out[f"{name}.low"], out[f"{name}.high"] = found.mean, found.low, found.high
        if column.missing:
            notes.append(f"{name} is missing for {column.missing} answered questions and left out for them")
    if len(set(clusters)) == 1:
        notes.append("all questions share one document: no interval")
    return out


def _costs(run: StoredRun, convention: str, seed: int) -> dict[str, float | None]:
    phases = {phase: facts.costs(run, phase, convention) for phase in ("index", "search", "answer")}
    row: dict[str, float | None] = {f"tokens.{name}": _mean(c.tokens) for name, c in phases.items()}
    row.update({f"tflops.{name}": _mean(c.tflops) for name, c in phases.items()})
    search, answer = phases["search"], phases["answer"]
    row["tokens"] = _mean([s + a for s, a in zip(search.tokens, answer.tokens, strict=True)])
    row["tflops"] = row["tflops.low"] = row["tflops.high"] = None
    if search.tflops is not None and answer.tflops is not None and answer.tflops:
        both = [s + a for s, a in zip(search.tflops, answer.tflops, strict=True)]
        answered = [c for c, r in zip(facts.question_clusters(run), run.records, strict=True) if r["error"] is None]
        found = interval(both, answered, seed=seed, bounds=None)
        row["tflops"], row["tflops.low"], row["tflops.high"] = found.mean, found.low, found.high
    row["ratio"] = None
    row["seconds"] = _mean([s + a for s, a in zip(search.seconds, answer.seconds, strict=True)])
    return row


def _mean(values: list[float] | None) -> float | None:
    return sum(values) / len(values) if values else None


def _ratios(table: pd.DataFrame, is_reference: Sequence[bool]) -> list[float | None]:
    """TFLOPs over the reference's of the same data set and model; missing where there are several or none."""
    keys = list(zip(table["dataset"], table["model"], strict=True))
    found: dict[tuple[str, str], list[float]] = {}
    for key, chosen, value in zip(keys, is_reference, table["tflops"], strict=True):
        if chosen and not pd.isna(value) and value > 0:
            found.setdefault(key, []).append(float(value))
    bases = [found.get(key, []) for key in keys]
    return [
        float(value) / base[0] if len(base) == 1 and not pd.isna(value) else None
        for value, base in zip(table["tflops"], bases, strict=True)
    ]
