"""Requests to a model per question, construction of an index apart (QRMeM, table 6), beside the
score they buy.

dataset method model score mean mean.low mean.high     the score's name, its mean in [0, 1], 95 % interval
requests requests.low requests.high                    search + answer per question, interval clustered by document
requests.search requests.answer                        the same by phase
requests.index index of                                construction of one index, and what it belongs to
requests.built                                         all construction of this run, per question answered
retries                                                tries beyond the first that servers made necessary, in all; no
                                                       requests of the method, so they are in none
                                                       of the columns above
n failed notes run

A request is one prompt that a language model reads and replies to; texts that an encoder or
reranker reads are none. Costs are those of questions answered and indexes built, as everywhere: a
cached index still knows what it cost.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.costs import request_counts, requests_of
from reports.figures import plot
from reports.figures.figure import SAME, Figure, by_score
from reports.figures.plot import Axis, Panel
from reports.run_notes import run_notes


def figure(runs: Sequence[StoredRun], *, score: str | None) -> Figure:
    """The figure of the runs; arguments and errors are those of `frame`."""
    table = frame(runs, score)
    sections = by_score(table, "requests a question", ["run"], best_first=True)
    return Figure("Requests a question", table, sections, panels(table))


def frame(runs: Sequence[StoredRun], score: str | None = None) -> pd.DataFrame:
    """Requests a question and the score, a row a run (columns: see the module). score: default each
    run's headline.

    Raises UserError for no runs or a run without records, UnknownName for a score that a run does
    not have.
    """
    facts.check_runs(runs)
    named = zip(runs, facts.labels(runs), strict=True)
    rows = [_run_row(run, label, score or facts.headline(run)) for run, label in named]
    return facts.as_floats(
        pd.DataFrame(rows).sort_values("dataset", kind="stable", ignore_index=True)
    )


def _run_row(run: StoredRun, label: str, score: str) -> dict[str, Any]:
    """The row of a run, by the columns of the module; of another tool's run what it does not tell
    is None."""
    seed = int(run.config["seed"])
    scored = facts.scored(run, score)
    answered = [record for record in run.records if record.error is None]
    # Usage of each index, by its document and question; one that a resumed run met again counts
    # once.
    indexes = {line.place: line.usage for line in run.documents if not line.failed}
    built = [requests_of(usage, "index") for usage in indexes.values()]
    usages = [*(record.usage for record in run.records), *indexes.values()]
    totals = {
        phase: sum(requests_of(r.usage, phase) for r in answered) for phase in ("search", "answer")
    }
    row = {
        **facts.head_columns(run, label),
        "score": score,
        **facts.mean_columns("mean", scored.values, scored.clusters, seed=seed),
        **facts.mean_columns(
            "requests", request_counts(run), facts.answered_clusters(run), seed=seed, bounds=None
        ),
        **{
            f"requests.{phase}": totals[phase] / len(answered) if answered else None
            for phase in ("search", "answer")
        },
        "requests.index": sum(built) / len(built) if built else None,
        "index of": ("a question" if any(q for _, q in indexes) else "a document")
        if indexes
        else "",
        "requests.built": sum(built) / len(answered) if answered else None,
        "retries": sum(
            int(phase.get("retries", 0)) for usage in usages for phase in usage.values()
        ),
        "n": len(run.records),
        "failed": len(run.records) - len(answered),
        "notes": run_notes(run),
        "run": run.name,
    }
    not_told = [name for name in row if name.startswith("requests") and name != "requests.index"]
    return row | (dict.fromkeys(not_told) if facts.made_elsewhere(run) else {})


def panels(table: pd.DataFrame) -> list[Panel]:
    """For each data set and model: the score over the requests."""
    panel_list = []
    for (dataset, model, score), rows in table.groupby(SAME, sort=False):
        title, measured = (
            f"{dataset} · {model}",
            rows[rows["requests"].notna() & rows["mean"].notna()],
        )
        x, left = (
            Axis("requests a question, construction apart", zero=True),
            Axis(f"{score} × 100", zero=True),
        )
        panel_list += plot.panels(
            title, x, left, plot.lines(measured, "requests", "mean", 100), aside=False
        )
    return panel_list
