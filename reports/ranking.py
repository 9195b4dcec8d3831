"""The runs of one data set as the opening sentences of a page see them: what is ranked, what only
marks the range, what is not ranked, and how far each run is from the best one.

    group = rank_runs(rows)              methods best first, floors, upper bounds
    group.leaders                        [Ranked(method="pecan", score=0.95, ...)]
    PairTests(group, checks).minus_others(group.best)
                                         {"bm25--3f": Difference("pecan", "bm25", 0.05, ...)}
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from harness.scorers import is_of_project
from reports import facts, run_records
from reports.best import bias_of_highest_score, compare_runs_with_best
from reports.checks import Checks
from reports.compared_costs import ComparableCosts, CostShare, comparable_costs
from reports.number_formats import points_of_100
from reports.one_text import OneText, one_text
from reports.ranked import Ranked, ranked_run
from reports.ranked_questions import RankedQuestions, choose_questions, scored_ids
from reports.run_pairs import RunPair, comparison_problems
from reports.table_row import TableRow

OTHER_MODEL = "another model"
"""Why a run is not tested against the best one, in words."""
MIN_TESTED_CLUSTERS = 6
"""Documents: with fewer a sign-flip test cannot reach its level."""
INTERVAL = "95 % interval: "
"""What stands before an interval of a difference."""
INTERVAL_OF_ALL_PAIRS = "95 % joint interval: "
"""What stands before an interval that holds for several pairs at once."""


@dataclass(frozen=True)
class Difference:
    """How a run differs from another one, mostly the best.

    Args:
        base: What the run is compared with.
        other: The run's method.
        separated: Whether the data separate the two.
        difference: Base minus run, in [-1, 1].
        low: Lower end of the interval of the difference, or None.
        high: Upper end, or None.
        for_all_pairs: Whether the interval holds for several pairs at once.
    """

    base: str
    other: str
    separated: bool
    difference: float
    low: float | None
    high: float | None
    for_all_pairs: bool

    @property
    def amount(self) -> str:
        """What the run scores less than the base, in words: "5.0 points less; 95 % interval: between
        15.7 less and 5.7 more", or "5.0 points less, no interval can be given"."""
        if self.interval is None:
            return f"{self.points_less}, no interval can be given"
        return f"{self.points_less}; {self.interval}"

    @property
    def points_less(self) -> str:
        """What the run scores less than the base: "5.0 points less"."""
        return f"{100 * self.difference:z.1f} points less"

    @property
    def interval(self) -> str | None:
        """The interval in words, "95 % interval: between 15.7 less and 5.7 more"; None where there is
        none."""
        if self.low is None or self.high is None:
            return None
        label = INTERVAL
        if self.for_all_pairs:
            label = INTERVAL_OF_ALL_PAIRS
        return f"{label}{ends_in_words(self.low, self.high)}"

    @property
    def is_above(self) -> bool:
        """Whether the base scores more than the run, and the data separate the two."""
        return self.separated and self.difference > 0

    def leaves_half_of(self, score: float) -> bool:
        """Whether the run keeps at least half of the base's score even if it loses as much as the
        interval allows; False without an interval.

        Args:
            score: The base's score.
        """
        if self.high is None:
            return False
        least_score_of_run = score - self.high
        return least_score_of_run >= score / 2


def ends_in_words(low: float, high: float) -> str:
    """How much less a run scores than another one, from the ends of an interval: "between 15.7 less
    and 5.7 more", "between 1.2 and 9.0 less".

    Args:
        low: The smallest loss, in [-1, 1]; below 0 it is a gain.
        high: The largest loss.
    """
    least = f"{abs(100 * low):.1f}"
    most = f"{abs(100 * high):.1f}"
    if low >= 0:
        return f"between {least} and {most} less"
    if high < 0:
        return f"between {most} and {least} more"
    return f"between {most} less and {least} more"


@dataclass(frozen=True)
class NotRankedRuns:
    """Runs that are not ranked for one reason.

    Args:
        reason: "Not ranked, as scored on other questions".
        names: "pecan (2 of 20)".
    """

    reason: str
    names: Sequence[str]


@dataclass(frozen=True)
class Group:
    """The runs of one data set.

    Args:
        methods: The runs that are ranked, best and then cheapest first.
        floors: Runs that only mark what others must beat.
        upper_bounds: Runs that were shown the evidence alone.
        score: Name of the score.
        questions: The ids of the questions on which methods are ranked.
        costs: By which cost the methods are compared, and why not by another.
        several_models: Whether the methods differ in their model, applications aside.
        ranked_rows: The rows of all these runs, in the order of the table.
        not_ranked: The others, by reason.
    """

    methods: Sequence[Ranked]
    floors: Sequence[Ranked]
    upper_bounds: Sequence[Ranked]
    score: str
    questions: Collection[str]
    costs: ComparableCosts
    several_models: bool
    ranked_rows: Sequence[TableRow]
    not_ranked: Sequence[NotRankedRuns]

    @property
    def best(self) -> Ranked:
        """The cheapest of the methods with the highest score."""
        return self.methods[0]

    @property
    def higher_is_better(self) -> bool:
        """Whether the score is known to be one where higher is better: one of this project, or of a
        judge."""
        is_of_judge = self.score in self.best.row.run.manifest.judges
        return is_of_judge or is_of_project(self.score)

    @property
    def is_better(self) -> str:
        """What is said of a method that scores more than another one beyond chance: "is better", or
        "scores higher" where that may be worse."""
        if self.higher_is_better:
            return "is better"
        return "scores higher"

    @property
    def leaders(self) -> list[Ranked]:
        """The methods with the highest score, as the tables write it; the cheapest first."""
        return [each for each in self.methods if each.points == self.best.points]

    @property
    def others(self) -> Sequence[Ranked]:
        """The methods with a lower score than the leaders."""
        return self.methods[len(self.leaders) :]

    @property
    def are_runs(self) -> bool:
        """Whether one method was run several times, with other models, settings or seeds, so that
        runs are ranked and not methods."""
        methods = {each.row.run.config.method.name for each in self.methods}
        return self.several_models or len(methods) < len(self.methods)

    def share(self, run: Ranked, other: Ranked) -> CostShare | None:
        """The cost of a run divided by that of another one; None where that is not known."""
        if self.costs.compared is None:
            return None
        return self.costs.compared.share(run.row, other.row)

    def is_cheaper(self, run: Ranked, other: Ranked) -> bool:
        """Whether a run costs clearly less than another one."""
        share = self.share(run, other)
        return share is not None and share.is_cheaper

    def cheapest(self, runs: Sequence[Ranked]) -> Ranked:
        """The run that takes the smallest share of the best one's cost; of equal ones the first."""
        return min(runs, key=self._share_of_best)

    def cheapest_first(self, runs: Sequence[Ranked]) -> list[Ranked]:
        """The runs by the share that they take of the best one's cost, the smallest first."""
        return sorted(runs, key=self._share_of_best)

    def _share_of_best(self, run: Ranked) -> float:
        """The cost of a run divided by that of the best one; infinite where it is unknown."""
        share = self.share(run, self.best)
        if share is None:
            return float("inf")
        return share.value


def rank_runs(rows: Sequence[TableRow]) -> Group:
    """Sort the rows of one data set into methods (best first), floors, upper bounds, and those that
    are not ranked.

    Methods are ranked on the questions that all of them have a score for (ranked_questions.py).
    Floors and upper bounds decide nothing of that: they are compared on those of these questions
    that they have a score for.
    """
    return _Ranking(rows, rows[0].headline).group()


class _Candidates(NamedTuple):
    """The rows that may be ranked: methods, and the marks of the range (floors and upper bounds)."""

    methods: list[TableRow]
    marks: list[TableRow]


class _Ranking:
    """Sorts the rows of one data set."""

    def __init__(self, rows: Sequence[TableRow], score: str) -> None:
        """Start with nothing ranked.

        Args:
            rows: The rows, best first.
            score: Name of the score.
        """
        self._rows = rows
        self._score = score
        self._not_ranked: dict[str, list[str]] = {}  # reason -> names of runs

    def group(self) -> Group:
        """The rows as methods, floors and upper bounds, and why the others are none of them."""
        candidates = self._rows_that_may_be_ranked()
        chosen = choose_questions(candidates.methods, self._score)
        several_models = len(_models(chosen.ranked)) > 1
        for row in chosen.too_few:
            n_scored = len(scored_ids(row, self._score))
            name = _name(row, candidates.methods, several_models=several_models)
            scored = f"{name} ({n_scored} of {row.n_questions})"
            self._note_not_ranked(scored, "Not ranked, as scored on other questions")
        methods = []
        for row in chosen.ranked:
            name = _name(row, chosen.ranked, several_models=several_models)
            methods.append(ranked_run(name, row, self._score, chosen.ids, chosen.n_asked))
        costs = comparable_costs({method.method: method.row for method in methods})
        marks = self._ranked_marks(candidates.marks, chosen)
        names_of_ranked = {each.run_name for each in (*methods, *marks)}
        not_ranked = []
        for reason, names in self._not_ranked.items():
            not_ranked.append(NotRankedRuns(reason, names))
        return Group(
            methods=_best_then_cheapest(methods, costs),
            floors=[mark for mark in marks if mark.row.is_floor],
            upper_bounds=[mark for mark in marks if not mark.row.is_floor],
            score=self._score,
            questions=chosen.ids,
            costs=costs,
            several_models=several_models,
            ranked_rows=[row for row in self._rows if row.run.name in names_of_ranked],
            not_ranked=not_ranked,
        )

    def _rows_that_may_be_ranked(self) -> _Candidates:
        """The rows that have the score and nothing that speaks against ranking them.

        The others are noted with the reason; where no run has the score, without one.
        """
        methods: list[TableRow] = []
        marks: list[TableRow] = []
        for row in self._rows:
            reason = self._why_not_ranked(row)
            if reason is not None:
                self._note_not_ranked(self._name_of_not_ranked(row), reason)
            elif row.n_failed == row.n_questions:
                self._note_not_ranked(self._name_among_all(row), "Failed on all questions")
            elif row.score(self._score).mean is None:
                continue
            elif row.is_floor or row.is_upper_bound:
                marks.append(row)
            else:
                methods.append(row)
        return _Candidates(methods, marks)

    def _ranked_marks(self, rows: Sequence[TableRow], chosen: RankedQuestions) -> list[Ranked]:
        """The floors and upper bounds that have a score for some of the chosen questions; the others
        are noted as not compared.

        Args:
            rows: The rows of floors and upper bounds.
            chosen: The questions on which methods are ranked.
        """
        marks = []
        for row in rows:
            mark = self._ranked_mark(row, chosen)
            if mark is None:
                self._note_not_ranked(row.label, "Not compared, as scored on other questions")
            else:
                marks.append(mark)
        return marks

    def _note_not_ranked(self, name: str, reason: str) -> None:
        """Note a run that is not ranked.

        Args:
            name: What it is called.
            reason: The start of the sentence that names all such runs.
        """
        self._not_ranked.setdefault(reason, []).append(name)

    def _why_not_ranked(self, row: TableRow) -> str | None:
        """Why a row is not ranked, as the start of a sentence; None where it may be.

        A floor or an upper bound that was asked other questions is compared on those in common, and a
        run with another seed is listed (PairTests). A row without the score is no reason where no row
        has it, or where all its questions failed.
        """
        if self._has_scores_outside(row):
            return "Not ranked, as scores lie outside 0 to 1"
        if row.has_misfits:
            return "Not ranked, as files or records do not fit (see below)"
        if row.has_copied_answers:
            return "Not ranked, as answers are copies of another run's"
        if row.asked_otherwise and row.is_unfinished:
            if self._some_method_is_finished:
                return "Not finished, so not ranked"
            return "Not ranked, as scored on other questions so far"
        only_marks_range = row.is_floor or row.is_upper_bound
        is_comparable = only_marks_range and row.only_other_questions
        if row.asked_otherwise and not is_comparable and not row.differs_in_seed_alone:
            return _why_asked_otherwise(row)
        lacks_score = row.score(self._score).mean is None
        some_answered = row.n_failed < row.n_questions
        if lacks_score and self._some_have_score and some_answered:
            return "Without this score, so not ranked"
        return None

    def _name_of_not_ranked(self, row: TableRow) -> str:
        """The name of a run that is not ranked, with its score where it has one: "b (50.0 points)";
        with the failed questions that it leaves out, "b (50.0 points, 33 of 100 failed)"."""
        mean = row.score(self._score).mean
        is_scored_well = not row.has_misfits and not row.has_copied_answers
        if mean is None or not is_scored_well or not row.asked_otherwise or row.is_unfinished:
            return row.label
        in_brackets = f"{points_of_100(mean)} points"
        if row.n_failed:
            in_brackets = f"{in_brackets}, {row.n_failed} of {row.n_questions} failed"
        return f"{row.label} ({in_brackets})"

    def _name_among_all(self, row: TableRow) -> str:
        """The name of a row, with its model where the table has several: "bm25 with llama-8b"."""
        if len(_models(self._rows)) > 1:
            return row.label_with_model
        return row.label

    @cached_property
    def _some_method_is_finished(self) -> bool:
        """Whether the run of any method is finished."""
        methods = [row for row in self._rows if not row.is_floor and not row.is_upper_bound]
        return any(not row.is_unfinished for row in methods)

    def _has_scores_outside(self, row: TableRow) -> bool:
        """Whether a run has a score below 0 or above 1, which no mean in points can hold."""
        if row.score(self._score).mean is None:
            return False
        values = facts.score_values(row.run, self._score).values
        return min(values) < 0 or max(values) > 1

    @cached_property
    def _some_have_score(self) -> bool:
        """Whether any run has the score."""
        return any(row.score(self._score).mean is not None for row in self._rows)

    def _ranked_mark(self, row: TableRow, chosen: RankedQuestions) -> Ranked | None:
        """A floor or an upper bound on the questions of the ranking that it has a score for; None
        where there is no such question.

        An upper bound counts where it answered: a failed answer bounds nothing. Where no method is
        ranked, all questions of the row count.

        Args:
            row: Its row.
            chosen: The questions on which methods are ranked.
        """
        methods = chosen.ranked
        questions = scored_ids(row, self._score)
        if row.is_upper_bound:
            questions -= run_records.failed_ids(row.run)
        n_asked = row.n_questions
        if methods:
            questions &= chosen.ids
            n_asked = max(chosen.n_asked, row.n_questions)
        if not questions:
            return None
        name = _name(row, methods, several_models=len(_models(methods)) > 1)
        return ranked_run(name, row, self._score, questions, n_asked)


def _why_asked_otherwise(row: TableRow) -> str:
    """Why a run that differs from most in more than the method is not ranked, as the start of a
    sentence.

    -> "Not ranked, because of other rows of the data set"
    """
    if row.reasons_not_to_rank[0] == "another task (shots)":
        return "Not ranked, because of other examples in the prompt (shots)"
    reason = row.reasons_not_to_rank[0].partition(" (")[0]
    if reason == "another failed":  # the setting of that name
        treatment = "count 0, and are not left out"
        if row.run.config.skips_failed:
            treatment = "are left out, and do not count 0"
        return f"Not ranked, as failed questions {treatment}"
    return f"Not ranked, because of {reason}"


def _models(rows: Sequence[TableRow]) -> set[str]:
    """The names of the models of the rows; applications, which are method and model in one, have
    none."""
    return {row.model for row in rows if not facts.is_application(row.run)}


def _name(row: TableRow, methods: Sequence[TableRow], *, several_models: bool) -> str:
    """The name of a row: "bm25", or "bm25 with llama-8b" where the methods have several models, or
    none of them has that of the row.

    Args:
        row: The row.
        methods: The rows of the methods.
        several_models: Whether these differ in their model.
    """
    models = _models(methods)
    has_other_model = bool(models) and row.model not in models
    if several_models or has_other_model:
        return row.label_with_model
    return row.label


def _best_then_cheapest(runs: Sequence[Ranked], costs: ComparableCosts) -> list[Ranked]:
    """The runs with the highest score first, and of equal ones the cheapest.

    Costs are known for pairs only: each is taken relative to the first run with the same score, and
    an unknown one counts as equal to it.

    Args:
        runs: The runs.
        costs: Their costs.
    """
    first_by_points: dict[str, Ranked] = {}
    for run in runs:
        first_by_points.setdefault(run.points, run)

    def relative_cost(run: Ranked) -> float:
        """The cost of a run divided by that of the first run with the same score; 1 if unknown."""
        if costs.compared is None:
            return 1.0
        share = costs.compared.share(run.row, first_by_points[run.points].row)
        if share is None:
            return 1.0
        return share.value

    def highest_then_cheapest(run: Ranked) -> tuple[float, float]:
        """A sort key: the highest score first, of equal ones the lowest cost."""
        return -float(run.points), relative_cost(run)

    return sorted(runs, key=highest_then_cheapest)


@dataclass(frozen=True)
class PairTests:
    """Tests of the runs of a group.

    The best was chosen by the data: tests and intervals hold for all pairs at once
    (reports/best.py). What must not be compared with the best run is not tested.

    Args:
        group: The ranked runs.
        checks: What was found in the records.
    """

    group: Group
    checks: Checks

    @cached_property
    def untested(self) -> dict[str, str]:
        """Name of each run that must not be compared with the best one -> why, in words: "another
        model", "another seed", or "more than another method (see below)"."""
        reasons = {}
        for run in (*self.group.methods[1:], *self.group.floors, *self.group.upper_bounds):
            reason = self._why_untested(run)
            if reason is not None:
                reasons[run.run_name] = reason
        return reasons

    def _why_untested(self, run: Ranked) -> str | None:
        """Why a run must not be compared with the best one, in words; None where it may be.

        Runs may be compared where they differ in their method alone. Of an application, which
        brings its own model, the model may differ too.
        """
        best = self.group.best
        one_is_application = facts.is_application(run.row.run) or facts.is_application(best.row.run)
        if run.row.model != best.row.model and not one_is_application:
            return OTHER_MODEL
        if run.row.run.config.seed != best.row.run.config.seed:
            return "another seed"
        if run.row.only_other_questions:
            return None  # nothing else speaks against it, and questions in common are compared
        pair = RunPair(run.row.run, run.method, best.row.run, best.method)
        if comparison_problems(pair, self.group.score, self.checks):
            return "more than another method (see below)"
        return None

    @cached_property
    def from_best(self) -> dict[str, Difference]:
        """Name of each tested method and floor -> how the best one differs from it."""
        return self.minus_others(self.group.best)

    @cached_property
    def rivals(self) -> list[Ranked]:
        """The methods with a lower score than the best one that the data cannot separate from
        it."""
        tested = self._tested(self.group.others)
        return [method for method in tested if not self._is_separated(method)]

    @cached_property
    def separated(self) -> list[Ranked]:
        """The methods with a lower score than the best one that the data separate from it."""
        tested = self._tested(self.group.others)
        return [method for method in tested if self._is_separated(method)]

    @cached_property
    def one_texts(self) -> dict[str, OneText]:
        """Name of each method that gave almost the same text to all questions -> to how many."""
        found = {}
        for method in self.group.methods:
            same = one_text(method.row.run)
            if same is not None:
                found[method.run_name] = same
        return found

    def _is_separated(self, run: Ranked) -> bool:
        """Whether the data separate a tested run from the best one."""
        return self.from_best[run.run_name].separated

    def floors_not_beaten(self, method: Ranked) -> list[Ranked]:
        """The floors that a method was tested against and is not shown to score more than."""
        if not self.group.floors:  # spares the test
            return []
        differences = self.minus_others(method)
        found = []
        for floor in self.group.floors:
            method_minus_floor = differences.get(floor.run_name)
            if method_minus_floor is not None and not method_minus_floor.is_above:
                found.append(floor)
        return found

    def minus_others(self, base: Ranked) -> dict[str, Difference]:
        """How one method differs from every other tested method and floor.

        A floor that has a score for a part of the questions is compared on these, if they are
        enough.

        Args:
            base: The method.

        Returns:
            Name of a run's folder -> its difference.
        """
        differences = self._joint_test(base, self._whole_floors, self.group.questions)
        for floor in self._tested(self.group.floors):
            is_large_enough = floor.extent.n_clusters >= MIN_TESTED_CLUSTERS
            if floor not in self._whole_floors and is_large_enough:
                differences[floor.run_name] = self._on_questions_of_mark(base, floor)
        return differences

    @cached_property
    def jointly_tested(self) -> list[Ranked]:
        """The methods and floors whose tests hold for all their pairs at once, the best first."""
        return [*self._tested(self.group.methods), *self._whole_floors]

    @cached_property
    def _whole_floors(self) -> list[Ranked]:
        """The tested floors that have a score for all questions on which methods are ranked."""
        n_questions = self.group.best.extent.n_questions
        floors = self._tested(self.group.floors)
        return [floor for floor in floors if floor.extent.n_questions == n_questions]

    def minus_bound(self, bound: Ranked) -> Difference | None:
        """How the best method differs from an upper bound, on the questions that the bound answered;
        None where that is not tested."""
        if bound.run_name in self.untested or bound.extent.n_clusters < MIN_TESTED_CLUSTERS:
            return None
        return self._on_questions_of_mark(self.group.best, bound)

    def bias_of_best(self) -> float:
        """By how much the best score is too high by chance, in [0, 1], as it was chosen by the same
        questions; 0 for a single method."""
        if len(self.group.methods) < 2:
            return 0.0
        runs = [each.row.run for each in self.group.methods]
        return bias_of_highest_score(runs, self.group.score, self.group.questions)

    def _tested(self, runs: Sequence[Ranked]) -> list[Ranked]:
        """Those of the runs that may be compared with the best one."""
        return [run for run in runs if run.run_name not in self.untested]

    def _on_questions_of_mark(self, base: Ranked, mark: Ranked) -> Difference:
        """How a method differs from a floor or upper bound on the questions that the latter has a score
        for; of an upper bound, without those that it failed on.

        Args:
            base: The method.
            mark: The floor or upper bound.
        """
        questions = scored_ids(mark.row, self.group.score) & frozenset(self.group.questions)
        if mark.row.is_upper_bound:
            questions -= run_records.failed_ids(mark.row.run)
        return self._joint_test(base, [mark], questions)[mark.run_name]

    def _joint_test(
        self, base: Ranked, marks: Sequence[Ranked], questions: Collection[str]
    ) -> dict[str, Difference]:
        """How a method differs from the other tested methods and some floors or upper bounds, by one
        test whose intervals hold for all these pairs at once.

        Args:
            base: The method.
            marks: The floors or upper bounds.
            questions: The ids of the questions that count.

        Returns:
            Name of a run's folder -> its difference; {} where there is no other run.
        """
        tested = [*self._tested(self.group.methods), *marks]
        names = {each.run_name: each.method for each in tested}
        if len(tested) < 2:
            return {}
        runs = [each.row.run for each in tested]
        comparison = compare_runs_with_best(runs, self.group.score, base.run_name, questions)
        differences = {}
        for run_minus_base in comparison.rows:
            if run_minus_base.name == base.run_name:
                continue
            # base minus run: all signs change, and the ends of the interval change places
            differences[run_minus_base.name] = Difference(
                base=base.method,
                other=names[run_minus_base.name],
                separated=run_minus_base.p < facts.ALPHA,
                difference=-run_minus_base.difference,
                low=_negative(run_minus_base.high),
                high=_negative(run_minus_base.low),
                for_all_pairs=len(tested) > 2,
            )
        return differences


def _negative(end: float | None) -> float | None:
    """An end of an interval with the other sign; None where there is no interval."""
    if end is None:
        return None
    return -end
