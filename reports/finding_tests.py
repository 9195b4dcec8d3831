"""The opening sentences that rest on a test of each run against the best one: floors, equal scores,
and which methods the data separate from it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from reports.proposals import Proposals
from reports.ranked import Ranked
from reports.ranking import MIN_TESTED_CLUSTERS, Difference, Group, PairTests
from reports.sentences import join_names

_MAX_NAMED_RIVALS = 2
"""Rivals that are named with their difference; of more, one is named and the others are counted."""
_MAX_NAMED_SEPARATED = 2
"""Separated methods that are named; more are counted."""
_MIN_DOMINATING_SHARE = 0.5
"""Of all questions: a document with so many is named where no interval can be given."""


def floors_in_words(
    floors: Sequence[Ranked], differences: Mapping[str, Difference] | None = None
) -> str:
    """Floors in a sentence: "closed-book (5.0 points), a floor that methods must beat".

    Args:
        floors: One or more.
        differences: Name of a run's folder -> how it differs from the best method, which is said
            too: "closed-book (5.0 points; pecan minus closed-book: 90.0 points, ...)". None: not.
    """
    names = []
    for floor in floors:
        in_brackets = floor.points_in_words
        if differences is not None and floor.run_name in differences:
            in_brackets = f"{in_brackets}; {differences[floor.run_name]}"
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
        """Which floors and methods the data separate from the best method, and why not where no
        interval can be given.

        Only that they do not separate it from a floor, where there is such a floor.
        """
        differences = self.tests.from_best
        if self.floors_not_beaten:
            floors = floors_in_words(self.floors_not_beaten, differences)
            sentence = f"The data cannot separate {self._best_in_words} from {floors}."
            return [sentence, *self._why_no_interval(self.floors_not_beaten)]
        sentences = []
        beaten = [floor for floor in self.group.floors if floor.run_name in differences]
        if beaten:
            floors = floors_in_words(beaten, differences)
            sentences.append(f"The data separate {self._best_in_words} from {floors}.")
        sentences += self._floors_with_too_few_questions()
        sentences += self._equality()
        sentences += self._separation(self._best_in_words)
        return [*sentences, *self._why_no_interval(self.tests.rivals)]

    def separation_by_name(self) -> list[str]:
        """One sentence on what the data separate from the best method, which it names; [] where
        nothing was tested."""
        return self._separation(self.group.best.method)

    @cached_property
    def floors_not_beaten(self) -> list[Ranked]:
        """The tested floors that the data cannot separate from the best method."""
        found = []
        for floor in self.group.floors:
            best_minus_floor = self.tests.from_best.get(floor.run_name)
            if best_minus_floor is not None and not best_minus_floor.separated:
                found.append(floor)
        return found

    @property
    def _best_in_words(self) -> str:
        """What stands for the method that is tested against each other one: "it", or its name where
        several have the highest score, as the others of them are not tested."""
        if len(self.group.leaders) == 1:
            return "it"
        return self.group.best.method

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

        One that the data separate all the same is named. The others have the interval of the
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

    def _separation(self, best: str) -> list[str]:
        """One sentence on the methods that the data cannot separate from the best one, and those
        that they separate; [] where no method with a lower score was tested.

        -> ["The data cannot separate bm25 (pecan minus bm25: 5.0 points, ...) from it; they
            separate it from lead."]

        Args:
            best: What stands for the best one: "it", or its name.
        """
        separated = self._separated_in_words()
        if not self.tests.rivals and not separated:
            return []
        if not self.tests.rivals:
            return [f"The data separate {best} from {separated}."]
        cannot = f"The data cannot separate {self._rivals_in_words(best)}"
        if not separated:
            return [f"{cannot}."]
        return [f"{cannot}; they separate {best} from {separated}."]

    def _separated_in_words(self) -> str:
        """The methods that the data separate from the best one, "bm25 and lead"; "" for none.

        More than two are not named: "every other method", "every method that scores less" where
        some score the same as the best one, or "4 others".
        """
        separated = self.tests.separated
        if not separated:
            return ""
        if len(separated) <= _MAX_NAMED_SEPARATED:
            return join_names([each.method for each in separated])
        n_others = len(self.group.methods) - 1
        if len(separated) == n_others:
            return "every other method"
        if len(separated) == len(self.group.others):
            return "every method that scores less"
        return f"{len(separated)} others"

    def _rivals_in_words(self, best: str) -> str:
        """The methods that the data cannot separate from the best one, "bm25 (pecan minus bm25: 5.0
        points, ...) from it".

        A difference that all of them have is said once, "bm25 and sbert from it (pecan minus each:
        5.0 points)". Of many, one is named and the others are counted.

        Args:
            best: What stands for the best one: "it", or its name.
        """
        rivals = self.tests.rivals
        differences = [self.tests.from_best[rival.run_name] for rival in rivals]
        amounts = {difference.amount for difference in differences}
        if len(rivals) > 1 and len(amounts) == 1:
            names = join_names([rival.method for rival in rivals])
            of_each = f"{differences[0].base} minus each: {differences[0].amount}"
            return f"{names} from {best} ({of_each})"
        if len(rivals) > _MAX_NAMED_RIVALS:
            named = Proposals(self.group, self.tests).first_named_rival
            difference = self.tests.from_best[named.run_name]
            return f"{named.method} ({difference}) and {len(rivals) - 1} others from {best}"
        in_words = []
        for rival, difference in zip(rivals, differences, strict=True):
            in_words.append(f"{rival.method} ({difference})")
        return f"{join_names(in_words)} from {best}"

    def _why_no_interval(self, runs: Sequence[Ranked]) -> list[str]:
        """One sentence on the document that at least half of the questions are about, where some of
        the differences have no interval; [] otherwise.

        -> ["This test cannot separate them: 100 of 107 questions are about one document."]

        Args:
            runs: Runs that the data cannot separate from the best one.
        """
        extent = self.group.best.extent
        one_lacks_interval = any(self.tests.from_best[run.run_name].low is None for run in runs)
        share_of_largest = extent.n_in_largest_cluster / extent.n_questions
        if not one_lacks_interval or share_of_largest < _MIN_DOMINATING_SHARE:
            return []
        questions = f"{extent.n_in_largest_cluster} of {extent.n_questions} questions"
        return [f"This test cannot separate them: {questions} are about one {extent.cluster_noun}."]


def _less_than_a_digit(difference: Difference) -> str:
    """The sentence on two methods whose scores the tables write alike, and which the data separate.

    -> "The data separate them: a scores more than b by less than 0.1 points."
    """
    more, less = difference.base, difference.other
    if difference.difference < 0:
        more, less = less, more
    return f"The data separate them: {more} scores more than {less} by less than 0.1 points."


def _open_differences(differences: Sequence[Difference]) -> str:
    """The sentence on methods with the same score that the data cannot separate.

    -> "Equal scores leave a difference open (pecan minus bm25, 95 % interval -9.0 to 9.0)."

    Of several, the widest reach of their intervals is given.

    Args:
        differences: The best method minus each of the others.
    """
    base = differences[0].base
    lows = []
    highs = []
    for difference in differences:
        if difference.low is None or difference.high is None:
            return "No interval of their difference can be given."
        lows.append(difference.low)
        highs.append(difference.high)
    if len(differences) == 1:
        interval = f"{base} minus {differences[0].other}, {differences[0].interval}"
        return f"Equal scores leave a difference open ({interval})."
    widest = f"{100 * min(lows):z.1f} to {100 * max(highs):z.1f}"
    of_all = f"{base} minus each of the others, 95 % intervals for all pairs at once"
    return f"Equal scores leave differences open ({of_all} within {widest})."
