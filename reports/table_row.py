"""One run in the main table: its names, scores, costs and notes, before they are columns.

    row = TableRow(run, "musique", "bm25 k=3", numbers=RunNumbers(run, "causal", TflopsCache()))
    row.numbers.tflops          -> Interval(mean=12.5, low=11.0, high=14.1, ...)
    row.notes                   -> ["2 of 20 questions failed (scored 0)"]

reports/run_columns.py makes columns of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from harness.stats.bootstrap import NOTHING, Interval, interval
from harness.storage.record_columns import Floats
from harness.storage.run_folder import StoredRun
from reports import costs, facts
from reports.costs import PhaseCosts
from reports.missing_scores import MissingScores, Shortfall
from reports.table_cell import Row


def known_mean(values: Sequence[float] | None) -> float | None:
    """The mean of the values; None where there are none, which stands for unknown."""
    if not values:
        return None
    return sum(values) / len(values)


class _TflopsKey(NamedTuple):
    """What TFLOPs by question depend on: a run, by its id(), and how FLOPs are counted."""

    run_id: int
    convention: str
    with_index: bool


class TflopsCache:
    """TFLOPs by question of the runs of a table, each computed once."""

    def __init__(self) -> None:
        """Start with nothing computed."""
        self._tflops_by_key: dict[_TflopsKey, Floats | None] = {}

    def tflops(self, run: StoredRun, convention: str, *, with_index: bool) -> Floats | None:
        """TFLOPs of each question of the run, nan for a failed one; None where they are unknown.

        Computed on the first call with these arguments, and kept.

        Args:
            run: The run.
            convention: How FLOPs are counted.
            with_index: Whether a question pays its share of the index.
        """
        key = _TflopsKey(id(run), convention, with_index)
        if key not in self._tflops_by_key:
            self._tflops_by_key[key] = costs.tflops_column(run, convention, with_index=with_index)
        return self._tflops_by_key[key]


@dataclass(frozen=True)
class CostRatio:
    """TFLOPs of a run over those of another one, and the number of questions that both answered."""

    value: float
    n_shared: int


def cost_ratio(
    run: StoredRun,
    reference: StoredRun | None,
    convention: str,
    cache: TflopsCache,
    *,
    with_index: bool,
) -> CostRatio | None:
    """TFLOPs of a run over those of a reference, summed over the questions that both answered.

    Only these count: a reference that fails on the longest texts would look cheap by its mean.

    Args:
        run: The run.
        reference: The run that it is compared with; None for none.
        convention: How FLOPs are counted.
        cache: Computes the TFLOPs of both runs, or has them.
        with_index: Whether a question pays its share of the index.

    Returns:
        The ratio; None without a reference, and where FLOPs are unknown or those of the reference
        0.
    """
    if reference is None:
        return None
    run_tflops = cache.tflops(run, convention, with_index=with_index)
    reference_tflops = cache.tflops(reference, convention, with_index=with_index)
    if run_tflops is None or reference_tflops is None:
        return None
    # the reference's TFLOPs in the order of the run's questions; -1: a question that it lacks
    positions = reference.columns.positions_of(run.columns.ids)
    reference_of_questions = np.where(positions < 0, np.nan, reference_tflops[positions])
    is_shared = ~np.isnan(run_tflops) & ~np.isnan(reference_of_questions)
    run_sum = sum(run_tflops[is_shared].tolist())
    reference_sum = sum(reference_of_questions[is_shared].tolist())
    if reference_sum <= 0:
        return None
    return CostRatio(run_sum / reference_sum, n_shared=int(is_shared.sum()))


@dataclass(frozen=True)
class RunNumbers:
    """What the columns of a run are computed from; each part is computed once, when it is read."""

    run: StoredRun
    convention: str
    cache: TflopsCache

    @cached_property
    def clusters(self) -> NDArray[np.int32]:
        """The cluster of each question, as a number; an interval treats a cluster as one
        observation."""
        return facts.question_clusters(self.run)

    @cached_property
    def index(self) -> PhaseCosts:
        """What the indexes cost, an entry for each document."""
        return costs.phase_costs(self.run, "index", self.convention)

    @cached_property
    def search(self) -> PhaseCosts:
        """What the search cost, an entry for each answered question."""
        return costs.phase_costs(self.run, "search", self.convention)

    @cached_property
    def answer(self) -> PhaseCosts:
        """What the answer cost, an entry for each answered question."""
        return costs.phase_costs(self.run, "answer", self.convention)

    @cached_property
    def probes(self) -> PhaseCosts:
        """The part of `search` that probes took, an entry for each answered question."""
        return costs.part_costs(self.run, "probes", ("search",), self.convention)

    @cached_property
    def thinking(self) -> PhaseCosts:
        """The part of search and answer that a reasoning model thought, for each answered
        question."""
        return costs.part_costs(self.run, "thinking", ("search", "answer"), self.convention)

    @cached_property
    def tokens(self) -> Sequence[float]:
        """Tokens read and written in search and answer, for each answered question."""
        return costs.sum_search_and_answer(self.search.tokens, self.answer.tokens)

    @cached_property
    def tokens_in(self) -> Sequence[float]:
        """Tokens read in search and answer, for each answered question."""
        return costs.sum_search_and_answer(self.search.tokens_in, self.answer.tokens_in)

    @cached_property
    def tokens_out(self) -> Sequence[float]:
        """Tokens written in search and answer, for each answered question."""
        return costs.sum_search_and_answer(self.search.tokens_out, self.answer.tokens_out)

    @cached_property
    def seconds(self) -> Sequence[float]:
        """Seconds that the calls of search and answer ran, for each answered question."""
        return costs.sum_search_and_answer(self.search.seconds, self.answer.seconds)

    @cached_property
    def queued(self) -> Sequence[float]:
        """Seconds that these calls waited for others or before a retry, for each answered
        question."""
        return costs.sum_search_and_answer(self.search.queued, self.answer.queued)

    @cached_property
    def question_money(self) -> Sequence[float]:
        """Money of each answered question with its share of the index; [] where it is unknown."""
        return list(costs.question_money(self.run).values())

    @cached_property
    def tflops(self) -> Interval:
        """Mean TFLOPs of search and answer."""
        return self._mean_tflops(with_index=False)

    @cached_property
    def tflops_total(self) -> Interval:
        """Mean TFLOPs of a question with its share of the index."""
        return self._mean_tflops(with_index=True)

    def _mean_tflops(self, *, with_index: bool) -> Interval:
        """Mean TFLOPs of the answered questions with their interval; NOTHING where they are
        unknown."""
        column = self.cache.tflops(self.run, self.convention, with_index=with_index)
        if column is None:
            return NOTHING
        answered = self.run.columns.answered
        seed = self.run.config.seed
        return interval(column[answered], self.clusters[answered], seed=seed, bounds=None)

    def latency(self, percent: int) -> float | None:
        """A percentile of the seconds of the answers: `percent` of 100 answers took no longer.

        None where no seconds are known, or they hold time in a queue.
        """
        if not costs.is_latency(self.run, self.queued) or not self.seconds:
            return None
        return float(np.percentile(self.seconds, percent))


@dataclass(eq=False)
class TableRow:
    """A run in the main table."""

    run: StoredRun
    dataset: str
    label: str
    """The method, with the settings in which runs of it differ: "bm25 k=3"."""
    numbers: RunNumbers
    headline: str
    """The name of the score that the runs of its data set are known by."""
    base: str = ""
    """The method without these settings."""
    settings: Row = field(default_factory=dict)
    """The settings in which runs of the table differ, by name; None for one that this run lacks."""
    scores: dict[str, Interval] = field(default_factory=dict)
    """In [0, 1]; NOTHING for a score that other runs have."""
    ratio: CostRatio | None = None
    """TFLOPs with the index over those of the reference."""
    ratio_search: CostRatio | None = None
    """The same without the index, as the papers print it."""
    asked_otherwise: bool = False
    """Whether it has other questions than most runs, or another task; it is not ranked then."""
    reasons_not_to_rank: Sequence[str] = ()
    """In what it differs from most runs, a phrase each: "another seed (0 and 1)"."""
    only_other_questions: bool = False
    """Whether it has other questions of the same rows, and is asked like most runs otherwise."""
    has_copied_answers: bool = False
    """Whether some of its answers have the costs of another run's, seconds included."""
    has_misfits: bool = False
    """Whether its files or records do not fit, so that its scores may be wrong."""
    notes: list[str] = field(default_factory=list)
    """Sentences to print below the table."""
    warnings: list[str] = field(default_factory=list)
    """Those notes that say why its numbers may be wrong, or not comparable with the others'."""

    @property
    def model(self) -> str:
        """The name of the model that wrote the answers; a dash for an application."""
        return facts.model_name(self.run)

    @property
    def label_with_model(self) -> str:
        """The label with the model's name, "bm25 with llama-8b"; the label alone for an
        application, which is method and model in one."""
        if facts.is_application(self.run):
            return self.label
        return f"{self.label} with {self.model}"

    @property
    def differs_in_seed_alone(self) -> bool:
        """Whether nothing but another seed speaks against ranking it with most runs."""
        reasons = self.reasons_not_to_rank
        return len(reasons) == 1 and reasons[0].startswith("another seed (")

    @property
    def is_floor(self) -> bool:
        """Whether the method is a floor, which only marks what others must beat."""
        return facts.is_floor(self.run)

    @property
    def is_upper_bound(self) -> bool:
        """Whether the method was shown the supporting passages alone."""
        return facts.is_upper_bound(self.run)

    @property
    def is_unfinished(self) -> bool:
        """Whether questions may be missing."""
        return facts.is_unfinished(self.run)

    @property
    def n_questions(self) -> int:
        """The number of questions that have a record, failed ones too."""
        return len(self.run.records)

    @cached_property
    def n_clusters(self) -> int:
        """The number of clusters of the run's questions; an interval treats a cluster as one
        observation."""
        return len(np.unique(self.numbers.clusters))

    @cached_property
    def n_documents(self) -> int | None:
        """The number of documents of the run's questions; of a folder that is asked as a whole, the
        number of all in it. None where an older version did not count those."""
        return facts.count_documents(self.run, self.n_clusters)

    @property
    def asks_whole_folder(self) -> bool:
        """Whether each question is about all pages of a folder."""
        return facts.asks_whole_folder(self.run)

    @cached_property
    def n_failed(self) -> int:
        """The number of questions that failed."""
        return int(self.run.columns.failed.sum())

    @cached_property
    def tokens(self) -> float | None:
        """Mean tokens of search and answer per answered question; None where unknown."""
        return known_mean(self.numbers.tokens)

    @cached_property
    def money(self) -> float | None:
        """Mean money per answered question with its share of the index; None where unknown."""
        return known_mean(self.numbers.question_money)

    def score(self, name: str) -> Interval:
        """The score of this name; NOTHING where the run lacks it."""
        return self.scores.get(name, NOTHING)

    def settings_cells(self) -> Row:
        """The cells for settings: {"base": "bm25", "method.k": 3}; {} where the runs differ in
        none."""
        if not self.settings:
            return {}
        return {"base": self.base, **self.settings}

    def add_scores(self, names: Sequence[str]) -> None:
        """Set `scores` for these names, and add to `notes` which scores some answered questions lack;
        scores that as many lack are in one note.

        Args:
            names: Scores of any run of the table; one that this run lacks becomes NOTHING.
        """
        own_scores = facts.score_names(self.run)
        corpus_scores = facts.corpus_score_sources(self.run)
        names_by_shortfall: dict[Shortfall, list[str]] = {}
        for name in names:
            self.scores[name] = NOTHING
            if name in own_scores:
                values = facts.score_values(self.run, name, self.numbers.clusters)
                self.scores[name] = self._mean_score(values)
                if values.n_missing:
                    shortfall = Shortfall(values.n_missing, len(values.ids), self.n_questions)
                    names_by_shortfall.setdefault(shortfall, []).append(name)
            elif name in corpus_scores:
                self.scores[name] = facts.corpus_score_interval(self.run, name)
        for shortfall, missing_names in names_by_shortfall.items():
            self.notes.append(MissingScores.from_names(missing_names, shortfall))

    def _mean_score(self, values: facts.ScoreValues) -> Interval:
        """The mean of a score with its interval, which treats questions of one cluster as one
        observation."""
        seed = self.run.config.seed
        return interval(values.values, values.clusters, seed=seed, bounds=(0.0, 1.0))

    def note_unknown_index(self) -> None:
        """Add a note where the FLOPs of questions are known and those of an index are not, so that
        there is no ratio."""
        numbers = self.numbers
        if numbers.tflops.mean is not None and numbers.tflops_total.mean is None:
            self.notes.append("what an index cost is not known, so ratio is not")
