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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import pandas as pd

from harness.cost.usage import Usage
from harness.stats.bootstrap import NOTHING, Interval, interval
from harness.storage.records import IndexOwner
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.costs import count_requests, request_counts
from reports.figures import plot
from reports.figures.figure import COLUMNS_IN_TITLE, Figure, by_score
from reports.figures.plot import Axis, Panel
from reports.run_notes import run_notes


@dataclass(frozen=True)
class IndexRequests:
    """How many requests built the indexes of a run.

    Args:
        per_index: Requests of one index, the mean; None without indexes.
        index_of: "a document" or "a question", whose index it is; "" without indexes.
        per_question: Requests of all indexes of the run, per question answered; None without
            answers.
        retries: Tries beyond the first.
    """

    per_index: float | None
    index_of: str
    per_question: float | None
    retries: int


@dataclass(frozen=True)
class RequestRow:
    """A row of the table: one run.

    Args:
        head: The first columns: dataset, method, model.
        score: The name of the score.
        mean: The mean of the score.
        requests: Requests of search and answer per question; NOTHING where the run does not tell.
        search: Requests of the search per question; None where the run does not tell.
        answer: Requests of the answer per question; None where the run does not tell.
        index: Requests that built its indexes.
        retries: Tries beyond the first, of questions and indexes.
        n: How many questions.
        failed: How many of them failed.
        notes: What limits the numbers.
        run: The name of the run folder.
    """

    head: Mapping[str, object]
    score: str
    mean: Interval
    requests: Interval
    search: float | None
    answer: float | None
    index: IndexRequests
    retries: int
    n: int
    failed: int
    notes: tuple[str, ...]
    run: str

    def columns(self) -> dict[str, object]:
        """The row as the columns of the table: {"dataset": "musique", "requests": 3.2,
        "requests.low": 2.9, "requests.high": 3.5, "requests.index": 40.0, ...}."""
        return {
            **self.head,
            "score": self.score,
            **facts.interval_columns("mean", self.mean),
            **facts.interval_columns("requests", self.requests),
            "requests.search": self.search,
            "requests.answer": self.answer,
            "requests.index": self.index.per_index,
            "index of": self.index.index_of,
            "requests.built": self.index.per_question,
            "retries": self.retries,
            "n": self.n,
            "failed": self.failed,
            "notes": self.notes,
            "run": self.run,
        }


def figure(runs: Sequence[StoredRun], *, score: str | None) -> Figure:
    """The figure of the score by requests a question.

    Args:
        runs: The runs.
        score: The name of the score; None for each run's headline.

    Raises:
        UserError: There are no runs, or a run has no records.
        UnknownName: A run does not have the score.
    """
    table = frame(runs, score)
    sections = by_score(table, "requests a question", ["run"], best_first=True)
    return Figure("Requests a question", table, sections, panels(table))


def frame(runs: Sequence[StoredRun], score: str | None = None) -> pd.DataFrame:
    """Requests a question and the score: a row for each run, with the columns dataset, method,
    model, score, mean, requests (both with .low and .high), requests.search, requests.answer,
    requests.index, index of, requests.built, retries, n, failed, notes, run.

    Args:
        runs: The runs.
        score: The name of the score; by default each run's headline.

    Raises:
        UserError: There are no runs, or a run has no records.
        UnknownName: A run does not have the score.
    """
    facts.check_runs(runs)
    rows: list[dict[str, object]] = []
    for run, label in zip(runs, facts.run_labels(runs), strict=True):
        row = _request_row(run, label, score or facts.headline_score(run))
        rows.append(row.columns())
    table = pd.DataFrame(rows).sort_values("dataset", kind="stable", ignore_index=True)
    return facts.as_floats(table)


def _request_row(run: StoredRun, label: str, score: str) -> RequestRow:
    """The row of a run: its score, requests a question (all, of the search, of the answer, of the
    indexes), requests sent again, and failures. For a run of another tool, requests a question are
    unknown: NOTHING or None.

    Args:
        run: The run.
        label: The method's name in tables.
        score: The name of the score.
    """
    seed = run.config.seed
    score_values = facts.score_values(run, score)
    clusters = facts.answered_clusters(run)
    answered_usages = [record.usage for record in run.records if record.error is None]
    index_requests = _count_index_requests(run, len(answered_usages))
    requests = interval(request_counts(run), clusters, seed=seed, bounds=None)
    search = _mean_requests(answered_usages, "search")
    answer = _mean_requests(answered_usages, "answer")
    if facts.is_imported(run):
        requests = NOTHING
        search = None
        answer = None
        index_requests = replace(index_requests, per_question=None)
    return RequestRow(
        head=facts.first_cells(run, label),
        score=score,
        mean=interval(score_values.values, score_values.clusters, seed=seed),
        requests=requests,
        search=search,
        answer=answer,
        index=index_requests,
        retries=index_requests.retries
        + sum(_count_retries(record.usage) for record in run.records),
        n=len(run.records),
        failed=len(run.records) - len(answered_usages),
        notes=run_notes(run),
        run=run.name,
    )


def _mean_requests(
    answered_usages: Sequence[Usage], phase: Literal["search", "answer"]
) -> float | None:
    """The mean number of requests of one phase per answered question; None without answered
    questions.

    Args:
        answered_usages: What each answered question cost.
        phase: The phase.
    """
    if not answered_usages:
        return None
    requests = 0
    for usage in answered_usages:
        requests += count_requests(usage, phase)
    return requests / len(answered_usages)


def _count_index_requests(run: StoredRun, n_answered: int) -> IndexRequests:
    """How many requests built the indexes of a run: per index and per answered question (None
    without any), whether an index is of a document or of a question, and requests sent again. An
    index that was met again counts once.

    Args:
        run: The run.
        n_answered: How many of its questions were answered.
    """
    usage_by_owner: dict[IndexOwner, Usage] = {}
    for line in run.index_lines:
        if not line.failed:  # a later line of the same index, of a resumed run, takes its place
            usage_by_owner[line.owner] = line.usage
    construction_requests = 0
    retries = 0
    for usage in usage_by_owner.values():
        construction_requests += count_requests(usage, "index")
        retries += _count_retries(usage)
    per_index: float | None = None
    index_of = ""
    if usage_by_owner:
        per_index = construction_requests / len(usage_by_owner)
        index_of = "a document"
    if any(owner.question_id for owner in usage_by_owner):
        index_of = "a question"
    per_question: float | None = None
    if n_answered:
        per_question = construction_requests / n_answered
    return IndexRequests(per_index, index_of, per_question, retries)


def _count_retries(usage: Usage) -> int:
    """How many tries beyond the first a record or an index took, in all its phases together."""
    return sum(int(phase.get("retries", 0)) for phase in usage.values())


def panels(table: pd.DataFrame) -> list[Panel]:
    """A drawing for each data set, model and score of the table: the mean score × 100 over
    the requests that search and answer took per question, a line for each method.

    Args:
        table: A row for each run and score, with the columns dataset, method, model, score,
            `requests` and `mean`; a row without one of the last two is left out.
    """
    requests_axis = Axis("requests a question, construction apart", starts_at_zero=True)
    panel_list = []
    for (dataset, model, score), rows in table.groupby(COLUMNS_IN_TITLE, sort=False):
        measured = rows[rows["requests"].notna() & rows["mean"].notna()]
        score_axis = Axis(f"{score} × 100", starts_at_zero=True)
        lines = plot.lines(measured, "requests", "mean", scale=100)
        panel_list += plot.panels(
            f"{dataset} · {model}", requests_axis, score_axis, lines, side_by_side=False
        )
    return panel_list
