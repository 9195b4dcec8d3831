"""What the page of an application opens with: each application beside the best of the other methods.

    "wiki minus bm25, the best of the others: 11.1 points (95 % interval -24.5 to 44.7, p 0.500).
    These questions do not show which is better. If the difference is as large as it seems, about
    150 more questions would mostly show it."

It is the pair that a buyer asks about. Floors and upper bounds are not among the others. The best of
the others was chosen by the data, so intervals and p hold for all pairs at once, those with floors
among them (reports/best.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from harness.stats.best_of_several import FromBest
from harness.stats.paired_tests import questions_to_show
from reports import facts
from reports.best import common_scores, compare_runs_with_best
from reports.checks import Checks
from reports.number_formats import p_value_text
from reports.ranked import Ranked
from reports.ranking import Group, PairTests, rank_runs
from reports.table_row import TableRow


def application_sentences(rows: Sequence[TableRow]) -> list[str]:
    """A paragraph for each application on how it differs from the best of the other methods.

    The tests are those of the verdict (ranking.py), floors among the pairs, so that the two never
    contradict each other. [] where there is no application or no other method, and for an
    application that must not be compared.

    Args:
        rows: The rows of one data set, best first.
    """
    group = rank_runs(rows)
    has_application = any(facts.is_application(method.row.run) for method in group.methods)
    if not has_application:
        return []
    jointly_tested = PairTests(group, Checks()).jointly_tested  # methods and floors, best first
    methods = [ranked for ranked in jointly_tested if ranked in group.methods]
    if len(methods) < 2:
        return []
    comparison = compare_runs_with_best(
        [ranked.row.run for ranked in jointly_tested],
        group.score,
        best=group.best.run_name,
        among=group.questions,
    )
    pairs = _ApplicationPairs(group, methods, comparison.by_name())
    applications = [method for method in methods if facts.is_application(method.row.run)]
    return [pairs.sentences_on(application) for application in applications]


@dataclass(frozen=True)
class _ApplicationPairs:
    """Applications beside the best of the other methods.

    Args:
        group: The ranked runs.
        methods: The methods that are tested, the best of all first.
        from_best: Name of each tested run -> how it differs from the best one.
    """

    group: Group
    methods: Sequence[Ranked]
    from_best: dict[str, FromBest]

    def sentences_on(self, application: Ranked) -> str:
        """The sentences on one application: its difference to the best other method, whether these
        questions show it, and if not, how many more questions would.

            -> "wiki minus bm25: 11.1 points (95 % interval -24.5 to 44.7, p 0.500). These ..."
        """
        other = self._best_other(application)
        test = self._test(application, other)
        difference_name = f"{application.method} minus {other.method}"
        if len(self.methods) > 2:
            difference_name = f"{difference_name}, {self._rank_among_others(application, other)}"
        difference = f"{100 * test.difference:.1f} points ({self._interval(test)})"
        finding = f"{difference_name}: {difference}."
        if test.p < facts.ALPHA:
            return f"{finding} These questions show the difference."
        needed_questions = self._needed_questions(application, other)
        return f"{finding} These questions do not show which is better. {needed_questions}"

    def _rank_among_others(self, application: Ranked, other: Ranked) -> str:
        """What the best of the other methods is called: "the best of the others", or "one of 3 with
        the best score of the others".

        Args:
            application: The application.
            other: The best of the other methods.
        """
        others = [method for method in self.methods if method != application]
        n_equal = sum(method.points == other.points for method in others)
        if n_equal == 1:
            return "the best of the others"
        return f"one of {n_equal} with the best score of the others"

    def _best_other(self, application: Ranked) -> Ranked:
        """The best of the methods other than the application."""
        if self.group.best == application:
            return self.methods[1]
        return self.group.best

    def _test(self, application: Ranked, other: Ranked) -> FromBest:
        """The test of the application minus the other method; one of the two is the best of all."""
        if self.group.best == other:
            return self.from_best[application.run_name]
        return self.from_best[other.run_name].reversed()

    def _interval(self, test: FromBest) -> str:
        """Interval and p of a difference in words: "95 % interval -24.5 to 44.7, p 0.500"."""
        p = f"p {p_value_text(test.p)}"
        if test.low is None or test.high is None:
            return f"too few questions for an interval, {p}"
        interval_name = "95 % interval"
        if len(self.from_best) > 2:
            interval_name = "95 % joint interval"
        return f"{interval_name} {100 * test.low:.1f} to {100 * test.high:.1f}, {p}"

    def _needed_questions(self, application: Ranked, other: Ranked) -> str:
        """The sentence on how many more questions would show the difference, if it is as large as
        it seems."""
        pair = [application.row.run, other.row.run]
        common = common_scores(pair, self.group.score, self.group.questions)
        application_scores = common.scores[application.run_name]
        other_scores = common.scores[other.run_name]
        n_tests = len(self.from_best) - 1  # the best one is not tested against itself
        n_needed = questions_to_show(application_scores, other_scores, common.clusters, n_tests)
        if n_needed is None:  # the two scores are equal
            return "They score alike, so that no number of questions can be named that would."
        n_more = max(n_needed - len(application_scores), 1)
        return (
            "If the difference is as large as it seems, about "
            f"{_round_to_two_digits(n_more):,} more questions would mostly show it."
        )


def _round_to_two_digits(number: int) -> int:
    """A number rounded to two digits: 1234 -> 1200."""
    n_zeros = max(len(str(number)) - 2, 0)
    unit = int(10**n_zeros)
    return round(number / unit) * unit
