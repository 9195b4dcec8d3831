"""The opening sentences that rest on a test of each run against the best one: floors, equal scores,
and which methods it is shown to be better than.

    "These questions do not show that pecan is better than bm25 (5.0 points less; 95 % interval:
    between 15.7 less and 5.7 more), only that it is better than lead (60.0 points less)."
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean

from reports import facts, run_records
from reports.number_formats import points_of_100
from reports.proposals import Proposals
from reports.ranked import Ranked
from reports.ranking import (
    INTERVAL,
    INTERVAL_OF_ALL_PAIRS,
    MIN_TESTED_CLUSTERS,
    Difference,
    Group,
    PairTests,
    ends_in_words,
)
from reports.sentences import join_names

_MAX_NAMED_RIVALS = 2
"""Rivals that are named with their difference; of more, those to choose are, and the others are
counted."""
_MAX_NAMED_SEPARATED = 2
"""Separated methods that are named; more are counted."""
_MIN_DOMINATING_SHARE = 0.5
"""Of all questions: a document with so many is named where a difference is not shown."""


def floors_in_words(
    floors: Sequence[Ranked], differences: Mapping[str, Difference] | None = None
) -> str:
    """Floors in a sentence: "closed-book (5.0 points), a floor that methods must beat".

    Args:
        floors: One or more.
        differences: Name of a run's folder -> how it differs from the best method, which is said
            too: "closed-book (90.0 points, 5.0 points less; 95 % interval: ...)". None: not.
    """
    names = []
    for floor in floors:
        in_brackets = floor.points_in_words
        if differences is not None and floor.run_name in differences:
            in_brackets = f"{in_brackets}, {differences[floor.run_name].amount}"
        names.append(f"{floor.method} ({in_brackets})")
    noun = "floors"
    if len(floors) == 1:
        noun = "a floor"
    return f"{join_names(names)}, {noun} that methods must beat"


@dataclass(frozen=True)
class TestedDifferences:
    """The sentences on how runs differ from the best one.

    Args:
        group: The ranked runs.
        tests: Their tests.
    """

    group: Group
    tests: PairTests

    def sentences(self) -> list[str]:
        """Which floors and methods the best method is shown to be better than, and why not where no
        interval can be given.

        Only that it is not shown to be better than a floor, where there is such a floor.
        """
        best = self.group.best.method
        if self.floors_not_beaten:
            floors = floors_in_words(self.floors_not_beaten, self.tests.from_best)
            is_better = f"{best} {self.group.is_better}"
            sentence = f"These questions do not show that {is_better} than {floors}."
            return [sentence, *self._document_that_decides(self.floors_not_beaten)]
        return [
            *self._floors_beaten(),
            *self._floors_with_too_few_questions(),
            *self._equality(),
            *self.separation(),
            *self._higher_where_both_answered(),
            *self._document_that_decides(self._rivals_with_interval),
        ]

    def separation(self) -> list[str]:
        """Sentences on the methods that the best one is shown to be better than, and those for which
        that is not shown; [] where no method with a lower score was tested.

        -> ["These questions do not show that pecan is better than bm25 (5.0 points less; ...), only
            that it is better than lead (60.0 points less)."]
        """
        best = self.group.best.method
        rivals = self._rivals_with_interval
        is_better = self.group.is_better
        than = f"than {self._separated_in_words(with_interval=not rivals)}"
        sentences = []
        if rivals:
            sentence = f"These questions do not show that {best} {is_better} than "
            sentence += self._rivals_in_words(rivals)
            if self.tests.separated:
                sentence = f"{sentence}, only that it {is_better} {than}"
            sentences.append(f"{sentence}.")
        elif self.tests.separated:
            sentences.append(f"These questions show that {best} {is_better} {than}.")
        return [*sentences, *self._not_comparable()]

    @cached_property
    def floors_not_beaten(self) -> list[Ranked]:
        """The tested floors that the best method is not shown to be better than."""
        found = []
        for floor in self.group.floors:
            best_minus_floor = self.tests.from_best.get(floor.run_name)
            if best_minus_floor is not None and not best_minus_floor.separated:
                found.append(floor)
        return found

    @cached_property
    def _rivals_with_interval(self) -> list[Ranked]:
        """The rivals but those that this test cannot compare, as one document has most questions."""
        if not self._one_document_dominates:
            return self.tests.rivals
        return [rival for rival in self.tests.rivals if self._has_interval(rival)]

    def _has_interval(self, run: Ranked) -> bool:
        """Whether the difference of a tested run from the best one has an interval."""
        return self.tests.from_best[run.run_name].low is not None

    @property
    def _one_document_dominates(self) -> bool:
        """Whether at least half of the questions are about one document, of several."""
        extent = self.group.best.extent
        share_of_largest = extent.n_in_largest_cluster / extent.n_questions
        return share_of_largest >= _MIN_DOMINATING_SHARE

    def _floors_beaten(self) -> list[str]:
        """One sentence on the floors that the best method is shown to be better than; [] for none.

        -> ["pecan clearly beats the floor closed-book (5.0 points)."]
        """
        beaten = [floor for floor in self.group.floors if floor.run_name in self.tests.from_best]
        if not beaten:
            return []
        noun = "floors"
        if len(beaten) == 1:
            noun = "floor"
        names = join_names([f"{floor.method} ({self._points_of_floor(floor)})" for floor in beaten])
        return [f"{self.group.best.method} clearly beats the {noun} {names}."]

    def _points_of_floor(self, floor: Ranked) -> str:
        """The score of a floor, with the questions that it is over where these are not those of the
        methods: "5.0 points", "5.0 points on 10 of 20 questions"."""
        if floor.extent.n_questions == self.group.best.extent.n_questions:
            return f"{floor.points} points"
        return floor.points_in_words

    def _floors_with_too_few_questions(self) -> list[str]:
        """One sentence on floors that have a score for too few of the questions; [] for none.

        A floor that is not tested for another reason is named elsewhere with it.
        """
        found = []
        for floor in self.group.floors:
            is_tested = floor.run_name in self.tests.from_best
            has_other_reason = floor.run_name in self.tests.untested
            if is_tested or has_other_reason:
                continue
            if floor.extent.n_clusters < MIN_TESTED_CLUSTERS:
                found.append(floor)
        if not found:
            return []
        return [f"Too few questions to test {floors_in_words(found)}."]

    def _equality(self) -> list[str]:
        """Sentences on how sure the equality of methods with the same score is; [] where only one has
        the highest score.

        One that differs all the same is named. The others have the interval of the
        difference, or the ends that lie furthest out where there are several.
        """
        sentences = []
        open_differences = []
        for method in self.group.leaders[1:]:
            difference = self.tests.from_best.get(method.run_name)
            if difference is None:  # not tested
                continue
            if difference.separated:
                sentences.append(_less_than_a_digit(difference))
            else:
                open_differences.append(difference)
        if open_differences:
            sentences.append(_open_differences(open_differences))
        return sentences

    def _separated_in_words(self, *, with_interval: bool) -> str:
        """The methods that the best one is shown to be better than, "bm25 (5.0 points less)"; "" for
        none.

        More than two are not named: "every other method", "every method that scores less" where
        some score the same as the best one, or "4 others".

        Args:
            with_interval: Whether the interval of each difference is said too.
        """
        separated = self.tests.separated
        if not separated:
            return ""
        if named_separated(self.tests):
            in_words = []
            for method in separated:
                difference = self.tests.from_best[method.run_name]
                less = difference.points_less
                if with_interval:
                    less = difference.amount
                in_words.append(f"{method.method} ({less})")
            return join_names(in_words)
        n_others = len(self.group.methods) - 1
        if len(separated) == n_others:
            return "every other method"
        if len(separated) == len(self.group.others):
            return "every method that scores less"
        return f"{len(separated)} others"

    def _rivals_in_words(self, rivals: Sequence[Ranked]) -> str:
        """Methods that the best one is not shown to be better than, "bm25 (5.0 points less; ...)".

        A difference that all of them have is said once, "bm25 or sbert (each 5.0 points less; ...)".
        Of many, those that may be chosen are named and the others are counted.

        Args:
            rivals: The methods, highest score first.
        """
        amounts = {self.tests.from_best[rival.run_name].amount for rival in rivals}
        if len(rivals) > 1 and len(amounts) == 1:
            names = join_names([rival.method for rival in rivals], "or")
            return f"{names} (each {amounts.pop()})"
        named = rivals
        if len(rivals) > _MAX_NAMED_RIVALS:
            named = Proposals(self.group, self.tests).named_rivals
        in_words = []
        for rival in named:
            difference = self.tests.from_best[rival.run_name]
            in_words.append(f"{rival.method} ({difference.amount})")
        n_others = len(rivals) - len(named)
        if n_others == 1:
            in_words.append("1 other")
        elif n_others:
            in_words.append(f"{n_others} others")
        return join_names(in_words, "or")

    def _higher_where_both_answered(self) -> list[str]:
        """One sentence on the methods that score less than the best one only as failed questions count
        0: on those that both answered they score more; [] for none.

        -> ["Failed questions count 0: on the 60 that both answered, full-context scores 90.0 points
            against 66.7 of bm25."]
        """
        best = self.group.best
        in_words = []
        for method in (*self.tests.rivals, *self.tests.separated):
            answered = set(self.group.questions)
            answered -= run_records.failed_ids(best.row.run) | run_records.failed_ids(
                method.row.run
            )
            if not answered:
                continue
            points = self._mean_points(method, answered)
            points_of_best = self._mean_points(best, answered)
            if float(points) > float(points_of_best):
                higher = f"{points} points against {points_of_best} of {best.method}"
                in_words.append(
                    f"on the {len(answered)} that both answered, {method.method} scores {higher}"
                )
        if not in_words:
            return []
        return [f"Failed questions count 0: {join_names(in_words)}."]

    def _mean_points(self, run: Ranked, questions: Collection[str]) -> str:
        """The mean score of a run over some questions, as the tables write it: "90.0".

        Args:
            run: The run.
            questions: The ids of one or more questions that it has the score for.
        """
        value_by_question = facts.score_values(run.row.run, self.group.score).by_question()
        return points_of_100(fmean(value_by_question[question] for question in questions))

    def _not_comparable(self) -> list[str]:
        """One sentence on the rivals that this test cannot compare with the best method, as one
        document has too many of the questions; [] for none.

        -> ["This test cannot compare pecan with bm25 (100.0 points less), as 100 of 107 questions
            are about one document."]
        """
        names = []
        for rival in self.tests.rivals:
            if rival not in self._rivals_with_interval:
                difference = self.tests.from_best[rival.run_name]
                names.append(f"{rival.method} ({difference.points_less})")
        if not names:
            return []
        compare = f"compare {self.group.best.method} with {join_names(names)}"
        return [f"This test cannot {compare}, as {self._questions_of_largest}."]

    def _document_that_decides(self, runs: Sequence[Ranked]) -> list[str]:
        """One sentence on the document that at least half of the questions are about, where there are
        runs that the best one is not shown to be better than; [] otherwise.

        -> ["Note that 50 of 100 questions are about one document."]

        Args:
            runs: Runs that the best one is not shown to be better than.
        """
        if not runs or not self._one_document_dominates:
            return []
        return [f"Note that {self._questions_of_largest}."]

    @property
    def _questions_of_largest(self) -> str:
        """How many questions are about the document that has most: "50 of 100 questions are about one
        document"."""
        extent = self.group.best.extent
        questions = f"{extent.n_in_largest_cluster} of {extent.n_questions} questions"
        return f"{questions} are about one {extent.cluster_noun}"


def named_separated(tests: PairTests) -> list[Ranked]:
    """The methods that the best one is shown to be better than, where they are few enough to be
    named with their differences; else []."""
    if len(tests.separated) > _MAX_NAMED_SEPARATED:
        return []
    return tests.separated


def _less_than_a_digit(difference: Difference) -> str:
    """The sentence on two methods whose scores the tables write alike, and of which one is shown to
    be better.

    -> "These questions show all the same that a is better than b, by less than 0.1 points."
    """
    more, less = difference.base, difference.other
    if difference.difference < 0:
        more, less = less, more
    better = f"{more} is better than {less}"
    return f"These questions show all the same that {better}, by less than 0.1 points."


def _open_differences(differences: Sequence[Difference]) -> str:
    """The sentence on methods with the same score of which none is shown to be better.

    -> "Equal scores do not show that they are equally good (pecan against bm25; 95 % interval:
        between 9.0 less and 9.0 more)."

    Of several, the widest reach of their intervals is given.

    Args:
        differences: The best method minus each of the others.
    """
    lows = []
    highs = []
    for difference in differences:
        if difference.low is None or difference.high is None:
            return "No interval of their difference can be given."
        lows.append(difference.low)
        highs.append(difference.high)
    against = f"{differences[0].other} against {differences[0].base}"
    if len(differences) > 1:
        against = f"the others against {differences[0].base}"
    label = INTERVAL
    if differences[0].for_all_pairs:
        label = INTERVAL_OF_ALL_PAIRS
    interval = f"{label}{ends_in_words(min(lows), max(highs))}"
    return f"Equal scores do not show that they are equally good ({against}; {interval})."
