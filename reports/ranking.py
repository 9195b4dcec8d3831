"""The runs of one data set as the opening sentences of a page see them: what is ranked, what only
marks the range, and how far each run is from the best one.

    group = rank_runs(rows)              methods best first, floors, upper bounds
    group.leaders                        [Ranked(method="pecan", score=0.95, ...)]
    best_minus_others(group, runs)       {"bm25--3f": BestMinusRun("pecan", "bm25", 0.05, ...)}
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.best import compare_runs_with_best
from reports.compare import paired_rows
from reports.table_row import TableRow


def _tflops(row: TableRow) -> float | None:
    """Mean TFLOPs of a question with its share of the indexes; None where unknown."""
    return row.numbers.tflops_total.mean


_COSTS: Mapping[str, Callable[[TableRow], float | None]] = {
    "money": lambda row: row.money,
    "FLOPs": _tflops,
    "tokens": lambda row: row.tokens,
}
"""By what methods are compared: the first one that is known for all of them."""


@dataclass(frozen=True)
class Ranked:
    """A run as the opening sentences of a page see it.

    Args:
        method: Its name, with the model where the runs have several.
        run_name: Name of its folder.
        score: Mean in [0, 1].
        low: Lower end of its 95 % interval, or None.
        high: Upper end, or None.
        n_questions: The number of questions that the mean is taken over.
        n_clusters: The number of clusters of these questions.
        cluster_noun: What a cluster is: "document", or "question" where all pages of a folder are
            one document.
        cost: Its mean cost, of the kind Group.cost; 0 where that is None.
    """

    method: str
    run_name: str
    score: float
    low: float | None
    high: float | None
    n_questions: int
    n_clusters: int
    cluster_noun: str
    cost: float

    @property
    def points(self) -> str:
        """The score as the tables write it, 0.95 -> "95.0"; methods with the same text are called
        equal."""
        return f"{100 * self.score:.1f}"

    @property
    def is_zero(self) -> bool:
        """Whether the tables write its score as 0.0."""
        return float(self.points) == 0


@dataclass(frozen=True)
class BestMinusRun:
    """How a run differs from the best one.

    Args:
        best: The best method.
        other: The run's method.
        separated: Whether the data separate the two.
        difference: Best minus run, in [-1, 1].
        low: Lower end of the interval of the difference, or None.
        high: Upper end, or None.
        for_all_pairs: Whether the interval holds for several pairs at once.
    """

    best: str
    other: str
    separated: bool
    difference: float
    low: float | None
    high: float | None
    for_all_pairs: bool

    def __str__(self) -> str:
        """The difference in a sentence: "pecan minus bm25: 5.0 points, 95 % interval -5.7 to 15.7";
        where there is none, "5.0 points, no interval can be given"."""
        return f"{self.best} minus {self.other}: {self.amount}"

    @property
    def amount(self) -> str:
        """The difference in words, "5.0 points, 95 % interval -5.7 to 15.7" or "5.0 points, no
        interval can be given"."""
        points = f"{100 * self.difference:.1f} points"
        if self.interval is None:
            return f"{points}, no interval can be given"
        return f"{points}, {self.interval}"

    @property
    def interval(self) -> str | None:
        """The interval in words, "95 % interval -5.7 to 15.7"; None where there is none."""
        if self.low is None or self.high is None:
            return None
        kind = "95 % interval"
        if self.for_all_pairs:
            kind = "95 % interval for all pairs at once"
        return f"{kind} {100 * self.low:.1f} to {100 * self.high:.1f}"

    def leaves_half_of(self, best_score: float) -> bool:
        """Whether the run keeps at least half of the best score even if it loses as much as the
        interval allows; False without an interval."""
        return self.high is not None and best_score - self.high >= best_score / 2


@dataclass(frozen=True)
class Group:
    """The runs of one data set.

    Args:
        methods: The runs that are ranked, best and then cheapest first.
        floors: Runs that only mark what others must beat.
        upper_bounds: Runs that were shown the evidence alone.
        score: Name of the score.
        cost: The kind of cost that all methods have ("FLOPs"), or None.
        without_flops: Names of the methods whose FLOPs are unknown.
        without_money: Names of the methods whose money is unknown, where that of others is known.
        several_models: Whether the runs differ in their model, applications aside.
        on_other_questions: Runs that are not ranked, as they have a score for other questions than
            most: "pecan (2 of 20)".
    """

    methods: Sequence[Ranked]
    floors: Sequence[Ranked]
    upper_bounds: Sequence[Ranked]
    score: str
    cost: str | None
    without_flops: Sequence[str]
    without_money: Sequence[str]
    several_models: bool
    on_other_questions: Sequence[str]

    @property
    def best(self) -> Ranked:
        """The cheapest of the methods with the highest score."""
        return self.methods[0]

    @property
    def leaders(self) -> list[Ranked]:
        """The methods with the highest score, as the tables write it; the cheapest first."""
        return [each for each in self.methods if each.points == self.best.points]

    @property
    def others(self) -> Sequence[Ranked]:
        """The methods with a lower score than the leaders."""
        return self.methods[len(self.leaders) :]


def comparable_rows(rows: Sequence[TableRow]) -> list[TableRow]:
    """The rows that were asked the same as most; all rows where each was asked something else."""
    comparable = [row for row in rows if not row.asked_otherwise]
    if not comparable:
        return list(rows)
    return comparable


def rank_runs(rows: Sequence[TableRow]) -> Group:
    """Sort the rows of one data set into methods (best first), floors and upper bounds.

    Rows that were asked other questions than most, or have no score, are left out. So are those
    whose score is over other questions than that of the run with the most: two means over
    different questions say nothing of two methods.
    """
    comparable = comparable_rows(rows)
    score = comparable[0].headline
    comparable, elsewhere = _split_by_questions(comparable, score)
    methods: list[TableRow] = []
    floors: list[TableRow] = []
    upper_bounds: list[TableRow] = []
    models = set()
    for row in comparable:
        if row.score(score).mean is None:
            continue
        if not facts.is_application(row.run):
            models.add(row.model)
        if row.is_floor:
            floors.append(row)
        elif row.is_upper_bound:
            upper_bounds.append(row)
        else:
            methods.append(row)
    entries = _Entries(score, _known_cost(methods), with_model=len(models) > 1)
    return Group(
        methods=sorted(entries.of_rows(methods), key=_best_then_cheapest),
        floors=entries.of_rows(floors),
        upper_bounds=entries.of_rows(upper_bounds),
        score=score,
        cost=entries.cost,
        without_flops=entries.without_flops(methods),
        without_money=entries.without_money(methods),
        several_models=entries.with_model,
        on_other_questions=[
            f"{entries.name(row)} ({_count_scored(row, score).questions} of {row.n_questions})"
            for row in elsewhere
        ],
    )


def _split_by_questions(
    rows: Sequence[TableRow], score: str
) -> tuple[list[TableRow], list[TableRow]]:
    """Two lists: the rows that have the score for the same questions as the row with the most, and
    those that have it for others. Rows without the score, and upper bounds, are in the first.

    Args:
        rows: The rows of one data set.
        score: Name of the score.
    """
    questions: dict[str, frozenset[str]] = {}
    for row in rows:
        has_mean = row.score(score).mean is not None
        if has_mean and not row.is_upper_bound and score not in facts.corpus_score_sources(row.run):
            questions[row.run.name] = frozenset(facts.score_values(row.run, score).ids)
    most_questions = max(questions.values(), key=len, default=frozenset())
    same_questions: list[TableRow] = []
    other_questions: list[TableRow] = []
    for row in rows:
        if questions.get(row.run.name, most_questions) == most_questions:
            same_questions.append(row)
        else:
            other_questions.append(row)
    return same_questions, other_questions


def _best_then_cheapest(entry: Ranked) -> tuple[float, float]:
    """A sort key of an entry: the highest score comes first, of equal ones the lowest cost."""
    return -float(entry.points), entry.cost


@dataclass(frozen=True)
class _Entries:
    """Makes entries of a group from rows of the main table.

    Args:
        score: Name of the score.
        cost: The kind of cost ("money", "FLOPs", "tokens"), or None.
        with_model: Whether a name has the model too.
    """

    score: str
    cost: str | None
    with_model: bool

    def of_rows(self, rows: Sequence[TableRow]) -> list[Ranked]:
        """An entry a row, in their order."""
        return [self._entry(row) for row in rows]

    def without_flops(self, rows: Sequence[TableRow]) -> list[str]:
        """The names of the rows whose FLOPs are unknown."""
        return [self.name(row) for row in rows if _tflops(row) is None]

    def without_money(self, rows: Sequence[TableRow]) -> list[str]:
        """Names of the rows whose money is unknown; [] where it is of all."""
        names = [self.name(row) for row in rows if row.money is None]
        if len(names) == len(rows):
            return []
        return names

    def name(self, row: TableRow) -> str:
        """The name of a row's method: "bm25", or "bm25 with llama-8b" where runs have several
        models."""
        if self.with_model:
            return row.label_with_model
        return row.label

    def _entry(self, row: TableRow) -> Ranked:
        """The entry of a row, which must have the score."""
        estimate = row.score(self.score)
        assert estimate.mean is not None
        counts = _count_scored(row, self.score)
        cluster_noun = "document"
        if row.asks_whole_folder:
            cluster_noun = "question"
        cost = None
        if self.cost is not None:
            cost = _COSTS[self.cost](row)
        return Ranked(
            method=self.name(row),
            run_name=row.run.name,
            score=estimate.mean,
            low=estimate.low,
            high=estimate.high,
            n_questions=counts.questions,
            n_clusters=counts.clusters,
            cluster_noun=cluster_noun,
            cost=cost or 0.0,
        )


class _ScoredCounts(NamedTuple):
    """The number of questions that have a score, and the number of their clusters."""

    questions: int
    clusters: int


def _count_scored(row: TableRow, score: str) -> _ScoredCounts:
    """The number of questions that have a score, and the number of their clusters.

    A score of all answers together (corpus BLEU) is no mean over questions, so all questions and
    clusters of the run count.
    """
    if score in facts.corpus_score_sources(row.run):
        return _ScoredCounts(row.n_questions, row.n_clusters)
    values = facts.score_values(row.run, score)
    return _ScoredCounts(len(values.ids), len(set(values.clusters)))


def _known_cost(rows: Sequence[TableRow]) -> str | None:
    """The first of "money", "FLOPs" and "tokens" that is known for every row; None where none
    is."""
    for name, cost_of in _COSTS.items():
        costs = [cost_of(row) for row in rows]
        if all(map(_is_known, costs)):
            return name
    return None


def _is_known(cost: float | None) -> bool:
    """Whether a cost is known; one of 0 was not measured."""
    return cost is not None and cost > 0


def best_minus_others(group: Group, runs: Sequence[StoredRun]) -> dict[str, BestMinusRun] | None:
    """How every other method and floor differs from the best method.

    The best was chosen by the data: tests and intervals hold for all pairs at once
    (reports/best.py).

    Args:
        group: The ranked runs.
        runs: All runs of the data set.

    Returns:
        Name of a run's folder -> its difference; None where the runs must not be compared.
    """
    names = {each.run_name: each.method for each in (*group.methods, *group.floors)}
    best, *others = names
    compared = [run for run in runs if run.name in names]
    try:
        paired_rows(compared, reference=best)
    except UserError:
        return None
    differences = {}
    for row in compare_runs_with_best(compared, group.score, best).rows:
        differences[row.name] = BestMinusRun(
            best=names[best],
            other=names[row.name],
            separated=row.p < facts.ALPHA,
            difference=-row.difference,
            low=_negative(row.high),
            high=_negative(row.low),
            for_all_pairs=len(others) > 1,
        )
    return differences


def _negative(end: float | None) -> float | None:
    """An end with the other sign, which turns an interval of run minus best into one of best minus
    run; None stays None."""
    if end is None:
        return None
    return -end
