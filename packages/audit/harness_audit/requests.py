"""Requests to a model per question, without those that build an index (QRMeM, table 6), beside the
score they buy.

dataset method model score mean mean.low mean.high     the score's name, its mean in [0, 1], 95 % interval
requests requests.low requests.high                    search + answer per question, interval clustered by document
requests.search requests.answer                        the same by phase
requests.index index of                                construction of one index, and what it belongs to
requests.built                                         all construction of this run, per question answered
retries                                                tries beyond the first that servers made necessary, in all;
                                                       in none of the columns above
n failed notes run

A request is one prompt that a language model reads and replies to; texts that an encoder or
reranker reads are none. Costs are those of questions answered and indexes built, as everywhere: a
cached index still knows what it cost.
"""

from collections.abc import Sequence
from typing import Any

import pandas as pd

from harness.cost.usage import Usage
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.costs import request_counts, requests_of
from reports.figures import plot
from reports.figures.figure import SAME, Figure, by_score
from reports.figures.plot import Axis, Panel
from reports.run_notes import run_notes

_UNKNOWN_ELSEWHERE = (
    "requests",
    "requests.low",
    "requests.high",
    "requests.search",
    "requests.answer",
    "requests.built",
)
"""Columns that a run of another tool has no values for."""


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
    seed = run.config.seed
    scored = facts.scored(run, score)
    clusters = facts.answered_clusters(run)
    answered = [record.usage for record in run.records if record.error is None]
    row = facts.head_columns(run, label)
    row["score"] = score
    row.update(facts.mean_columns("mean", scored.values, scored.clusters, seed=seed))
    counts = request_counts(run)
    row.update(facts.mean_columns("requests", counts, clusters, seed=seed, bounds=None))
    row["requests.search"] = _mean_requests(answered, "search")
    row["requests.answer"] = _mean_requests(answered, "answer")
    row.update(_index_columns(run, len(answered)))
    row["n"] = len(run.records)
    row["failed"] = len(run.records) - len(answered)
    row["notes"] = run_notes(run)
    row["run"] = run.name
    if facts.made_elsewhere(run):
        row.update(dict.fromkeys(_UNKNOWN_ELSEWHERE))
    return row


def _mean_requests(answered: Sequence[Usage], phase: str) -> float | None:
    """Requests of a phase per answered question; None without answered questions.

    Args:
        answered: What each answered question cost.
        phase: "search" or "answer".
    """
    if not answered:
        return None
    requests = 0
    for usage in answered:
        requests += requests_of(usage, phase)
    return requests / len(answered)


def _index_columns(run: StoredRun, answered: int) -> dict[str, Any]:
    """The columns requests.index, index of, requests.built and retries.

    Args:
        run: The run.
        answered: How many of its questions were answered.
    """
    indexes: dict[tuple[str, str | None], Usage] = {}
    for line in run.documents:
        if not line.failed:  # a resumed run that met the index again counts it once
            indexes[line.place] = line.usage
    built = 0
    for usage in indexes.values():
        built += requests_of(usage, "index")
    columns: dict[str, Any] = {"requests.index": None, "index of": "", "requests.built": None}
    if indexes:
        columns["requests.index"] = built / len(indexes)
        columns["index of"] = "a document"
    if any(question for _, question in indexes):
        columns["index of"] = "a question"
    if answered:
        columns["requests.built"] = built / answered
    columns["retries"] = 0
    for record in run.records:
        columns["retries"] += _retries(record.usage)
    for usage in indexes.values():
        columns["retries"] += _retries(usage)
    return columns


def _retries(usage: Usage) -> int:
    """Tries beyond the first in all phases of a record's or index's usage."""
    return sum(int(phase.get("retries", 0)) for phase in usage.values())


def panels(table: pd.DataFrame) -> list[Panel]:
    """For each data set and model: the score over the requests."""
    x = Axis("requests a question, construction apart", zero=True)
    panel_list = []
    for (dataset, model, score), rows in table.groupby(SAME, sort=False):
        measured = rows[rows["requests"].notna() & rows["mean"].notna()]
        left = Axis(f"{score} × 100", zero=True)
        lines = plot.lines(measured, "requests", "mean", 100)
        panel_list += plot.panels(f"{dataset} · {model}", x, left, lines, aside=False)
    return panel_list
