"""A table of stop rules: score and cost of each, out of runs that recorded other stops
(reports/figures/replay.py).

dataset method model <rule>               one row a run and rule
score mean mean.low mean.high             the score's name, its mean in [0, 1], 95 % interval clustered by document
<costs>                                   the figure's own columns
n failed covered own                      questions; answers that failed; questions whose search went far enough;
                                          whether this is the rule that the run itself stopped by
convention notes run                      how FLOPs are counted

A row is empty, and says so, where even one question did not search far enough: a mean over the
others would be one over easier questions. Failed questions count as in the table of the run.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.cost.flops import DEFAULT_CONVENTION
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.costs import check_convention, notes_on_steps_without_convention
from reports.figures.replay import R, Scored, Stop
from reports.run_notes import run_notes
from reports.run_records import count_failed
from reports.search_steps import STUDY_ACTION
from reports.table_cell import Row

STOP_SETTINGS = tuple(
    f"method.{name}" for name in ("t_n", "t_p", "max_trials", "record_stops", "record_t_p")
)
"""Settings in which runs of one curve differ."""


@dataclass(frozen=True)
class ReachedStop:
    """A record, where a rule stops in it, and the cluster of its question."""

    record: StoredRecord
    stop: Stop
    cluster: int


CostColumns = Callable[[Sequence[ReachedStop], int, str], dict[str, float | None]]
"""Gives the cost columns of a rule from its stops, the run's seed and the FLOPs convention."""


def frame(
    parts: Sequence[Scored[R]],
    costs: CostColumns,
    score: str | None = None,
    convention: str = DEFAULT_CONVENTION,
) -> pd.DataFrame:
    """Score and cost of each stop rule, a row a run and rule; the columns are at the head of this
    file.

    Args:
        parts: Runs with the rules to show and the scores of their answers.
        costs: Gives the figure's own columns; without stops all of them are missing.
        score: Name of a score; by default each run's headline.
        convention: How FLOPs are counted.

    Raises:
        UnknownName: There is no such convention.
    """
    check_convention(convention)
    rows: list[Row] = []
    labels = facts.run_labels([scored_run.run for scored_run in parts], STOP_SETTINGS)
    for scored_run, label in zip(parts, labels, strict=True):
        score_of_run = score or facts.headline_score(scored_run.run)
        run_rules = _RunRules(scored_run, label, score_of_run, convention, costs)
        rows += run_rules.rows()
    return facts.as_floats(pd.DataFrame(rows))


@dataclass
class _RuleOutcome:
    """What a rule makes of the questions of a run: their scores, and where their searches stop."""

    scores: list[float] = field(default_factory=list)
    clusters: list[int] = field(default_factory=list)
    """The cluster of each score."""
    reached: list[ReachedStop] = field(default_factory=list)
    n_ended_at_error: int = 0
    """Questions whose recording ended at an error before the rule stops."""
    n_without_score: int = 0
    """Answered questions without the score."""

    def add_score(self, value: float, cluster: int) -> None:
        """Add the score of a question, and its cluster."""
        self.scores.append(value)
        self.clusters.append(cluster)


@dataclass(frozen=True)
class _RunRules(Generic[R]):
    """Makes the rows of one run.

    Args:
        scored_run: The run with the rules to show and the scores of their answers.
        label: Its method's name in tables.
        score: The name of the score.
        convention: How FLOPs are counted.
        costs: Gives the figure's own columns.
    """

    scored_run: Scored[R]
    label: str
    score: str
    convention: str
    costs: CostColumns

    def rows(self) -> list[Row]:
        """A row for each rule, in the order of the rules."""
        run: StoredRun = self.scored_run.run
        clusters = facts.question_clusters(run)
        notes_of_run = list(run_notes(run))
        notes_of_run += notes_on_steps_without_convention(run.records, self.convention)
        return [self._row(rule, clusters, notes_of_run) for rule in self.scored_run.rules]

    def _row(self, rule: R, clusters: NDArray[np.int32], notes_of_run: Sequence[str]) -> Row:
        """The row of a rule: its mean score and costs; empty where the recording does not cover it.

        Args:
            rule: The rule.
            clusters: The cluster of each question of the run.
            notes_of_run: Notes of every row of the run.
        """
        outcome = self._outcome(rule, clusters)
        run: StoredRun = self.scored_run.run
        recorded = self.scored_run.recorded
        seed = run.config.seed
        n_questions = len(run.records)
        n_failed = count_failed(run)
        n_covered = n_failed + len(outcome.reached)
        notes: list[str] = self._notes_on_missing_scores(outcome)
        if n_covered < n_questions:
            n_uncovered = n_questions - n_covered
            notes = rule.uncovered(
                recorded.furthest_rule, n_uncovered, outcome.n_ended_at_error, n_questions
            )
            outcome = _RuleOutcome()  # empty: a mean over a part is not the rule's
        is_own_rule = rule == recorded.own_rule
        if not is_own_rule:
            notes += _rounding_note(run)
        return {
            **facts.first_cells(run, self.label),
            **rule.columns(),
            "score": self.score,
            **facts.mean_columns("mean", outcome.scores, outcome.clusters, seed=seed),
            **self.costs(outcome.reached, seed, self.convention),
            "n": n_questions,
            "failed": n_failed,
            "covered": n_covered,
            "own": is_own_rule,
            "convention": self.convention,
            "notes": (*notes, *notes_of_run),
            "run": run.name,
        }

    def _outcome(self, rule: R, clusters: NDArray[np.int32]) -> _RuleOutcome:
        """The scores and stops of all questions of the run under a rule.

        Args:
            rule: The rule.
            clusters: The cluster of each question of the run.
        """
        run = self.scored_run.run
        outcome = _RuleOutcome()
        for record, cluster in zip(run.records, clusters, strict=True):
            if record.error is not None:
                if self._counts_failed(record):
                    outcome.add_score(0.0, int(cluster))
                continue
            stop = self.scored_run.recorded.stop(record, rule, self.convention)
            if stop is None:
                if _ended_at_error(record):
                    outcome.n_ended_at_error += 1
                continue
            outcome.reached.append(ReachedStop(record, stop, int(cluster)))
            value = self._score_at(record, stop)
            if value is None:
                outcome.n_without_score += 1
            else:
                outcome.add_score(float(value), int(cluster))
        return outcome

    def _counts_failed(self, record: StoredRecord) -> bool:
        """Whether this failed question scores 0; else it is left out of the mean."""
        skips_failed = self.scored_run.run.config.skips_failed
        return not skips_failed and self.score in record.scores

    def _score_at(self, record: StoredRecord, stop: Stop) -> float | None:
        """The score of the answer at a stop of a record; None where a scorer left it out."""
        if stop.is_own_stop:
            return record.scores.get(self.score)
        return self.scored_run.values.get((record.question_id, stop.step))

    def _notes_on_missing_scores(self, outcome: _RuleOutcome) -> list[str]:
        """One note on answered questions without the score; [] where all have it."""
        if not outcome.n_without_score:
            return []
        questions = f"{outcome.n_without_score} of the answered questions"
        return [f"{self.score} is missing for {questions} and left out for them"]


def _ended_at_error(record: StoredRecord) -> bool:
    """Whether an error ended the recording of a search: its last step was taken after the stop, and
    has no probe."""
    if not record.steps:
        return False
    last = record.steps[-1]
    return last.get("action") == STUDY_ACTION and last.get("p_yes") is None


def _rounding_note(run: StoredRun) -> list[str]:
    """One note where rounding may make a replayed answer differ from that of a run that stops
    there; else [].

    Questions in flight share forward passes, and a run that stops elsewhere shares them otherwise.
    In half precision the rounding this changes is large enough to change an answer.
    """
    searcher = run.manifest.identity("searcher")
    dtype = str(searcher.get("dtype", "float32"))
    max_in_flight = run.manifest.max_in_flight
    if max_in_flight == 1 or dtype == "float32" or searcher.get("deterministic"):
        return []
    note = f"recorded in {dtype} with up to {max_in_flight} questions in flight, which changes rounding"
    advice = "--deterministic or --parallel 1 records what such a run answers"
    return [f"{note}: a run that stops there may answer otherwise ({advice})"]


@dataclass(frozen=True)
class Curve:
    """The rules of one method with one model over one data set."""

    title: str
    rows: pd.DataFrame
    """All rows of `frame`."""
    best: pd.DataFrame
    """One row a rule: covered ones before empty ones, then a run's own before a replayed one, then
    the first run's."""


def curves(table: pd.DataFrame, rule: Sequence[str]) -> list[Curve]:
    """The curves of a table of `frame`, one for each data set, method and model.

    A row without a value stays, so that a table can say why.

    Args:
        table: The table.
        rule: The columns that make a rule: ["t_n", "t_p"].
    """
    curve_list = []
    names_of_curve = ["dataset", "method", "model"]
    for names, curve_rows in table.groupby(names_of_curve, sort=False):
        # Of the rows of a rule, one with a value comes first, then one that its run stopped by.
        keys = curve_rows.assign(_empty=curve_rows["mean"].isna(), _replayed=~curve_rows["own"])
        first_rows = keys.sort_values(["_empty", "_replayed"]).drop_duplicates(rule)
        best = first_rows.drop(columns=["_empty", "_replayed"]).sort_values(list(reversed(rule)))
        curve_list.append(Curve(" · ".join(map(str, names)), curve_rows, best))
    return curve_list
