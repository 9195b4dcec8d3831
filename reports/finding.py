"""The sentences with which a page opens: what the runs of a data set say about quality and cost, for
who reads no table.

    "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 questions about
    20 documents. The data cannot separate bm25 (pecan minus bm25: 5.0 points, 95 % interval for all
    pairs at once -5.7 to 15.7) from it; they separate it from lead. bm25 takes 25 % of the FLOPs of
    pecan, indexes included."

They follow from the tables alone. Methods are ranked on the questions that all of them have a score
for (ranked_questions.py). A floor (closed-book) and an upper bound (oracle-evidence) mark the range
and are never proposed. Nor is a cheaper method where the best one is not better than a floor, where
nothing could be tested, or where it is itself no better than a floor (finding_costs.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.stats.bootstrap import FEWEST
from reports.checks import Checks
from reports.finding_caveats import caveats, no_method_is_finished
from reports.finding_costs import CostSentences, cost_in_brackets
from reports.finding_tests import TestedDifferences, floors_in_words
from reports.number_formats import with_noun
from reports.ranked import Extent, Ranked
from reports.ranking import MIN_TESTED_CLUSTERS, OTHER_MODEL, Group, PairTests, rank_runs
from reports.sentences import join_names
from reports.table_row import TableRow

_MIN_BIAS = 0.001  # of a score that is too high: the tables write one digit of a point
_MAX_OTHER_MODELS = 2  # whose runs are tested in a sentence of their own


def finding_text(rows: Sequence[TableRow]) -> str:
    """The sentences on one data set, joined by spaces: that nothing is finished, who is best, what
    separates the others, costs, upper bounds, what a judge judged, and caveats.

    Args:
        rows: The rows of one data set, best first (main_table.best_first).
    """
    group = rank_runs(rows)
    tests = PairTests(group, Checks())  # Checks() reads the records of the runs when asked
    sentences = no_method_is_finished(rows)
    if not group.methods:
        sentences.append(_no_method_is_ranked(group, rows))
    elif len(group.methods) == 1 and not group.floors:
        sentences += _sentences_on_only_method(group)
    else:
        sentences += _SeveralMethods(group, tests).sentences()
    if group.methods and group.upper_bounds:
        sentences.append(_why_bounds_are_not_proposed(group.upper_bounds))
        sentences += _bounds_below_best(group, tests)
    if group.methods:
        sentences += _what_the_judge_judged(group)
    sentences += caveats(rows, group)
    return " ".join(sentences)


def _no_method_is_ranked(group: Group, rows: Sequence[TableRow]) -> str:
    """The sentence for runs of which none is a method that can be ranked.

    They are only floors and upper bounds, have no score, or are not ranked for a reason that a
    later sentence says (caveats):

    -> "No method to choose was run yet, only closed-book (floor, 5.0 points) by em.squad."

    Args:
        group: The ranked runs, without a method.
        rows: All rows.
    """
    runs_in_words = []
    for kind, runs in (("floor", group.floors), ("upper bound", group.upper_bounds)):
        runs_in_words += [f"{each.method} ({kind}, {each.points} points)" for each in runs]
    some_have_score = any(row.score(group.score).mean is not None for row in rows)
    if not some_have_score:
        return f"No answer has a score ({group.score})."
    if not runs_in_words:
        return f"No run is ranked by {group.score}."
    only = f"only {join_names(runs_in_words)} by {group.score}"
    if all(row.is_floor or row.is_upper_bound for row in rows):
        return f"No method to choose was run yet, {only}."
    return f"No method to choose is ranked, {only}."


def _why_bounds_are_not_proposed(bounds: Sequence[Ranked]) -> str:
    """The sentence that upper bounds are not proposed, and why."""
    names = join_names([f"{each.method} ({each.points_in_words})" for each in bounds])
    reason = "shown the passages that hold the answer"
    if len(bounds) == 1:
        return f"The upper bound {names} is no method to choose: it was {reason}."
    return f"The upper bounds {names} are no methods to choose: they were {reason}."


def _bounds_below_best(group: Group, tests: PairTests) -> list[str]:
    """One sentence on the upper bounds that score less than the best method, where the data
    separate the two; [] for none.

    Args:
        group: The ranked runs.
        tests: Their tests.
    """
    below = []
    for bound in group.upper_bounds:
        difference = tests.minus_bound(bound)
        if difference is not None and difference.is_above:
            below.append(bound.method)
    if not below:
        return []
    return [f"{group.best.method} scores more than {join_names(below)}, so it is no bound here."]


def _what_the_judge_judged(group: Group) -> list[str]:
    """One sentence where the score is a model's judgement of something else than correctness; [] where
    it is of correctness, or no judge gave the score.

    -> ["This score is a judgement of claim-faithfulness, not of right answers."]
    """
    judge = group.best.row.run.manifest.judges.get(group.score)
    if judge is None or judge.kind == "correctness":
        return []
    return [f"This score is a judgement of {judge.kind}, not of right answers."]


def _sentences_on_only_method(group: Group) -> list[str]:
    """The sentences on the only method, where no floor was run beside it: its score, and that no
    interval can be given for few clusters.

    -> ["pecan scores 95.0 of 100 points (em.squad), on 20 questions about 2 documents.",
        "With so few documents no interval can be given."]
    """
    run = group.best
    extent = run.extent
    scores = _score_in_words(run)
    sentences = [f"{run.method} {scores} ({group.score}), {_extent_in_words(extent)}."]
    if extent.n_clusters < FEWEST:
        sentences.append(f"With {extent.few_clusters_in_words()} no interval can be given.")
    return sentences


def _score_in_words(run: Ranked) -> str:
    """What a method that was not chosen among several scores: "scores 95.0 of 100 points [74.2,
    99.2]", without the interval where there is none."""
    interval = ""
    if run.low is not None and run.high is not None:
        interval = f" [{100 * run.low:z.1f}, {100 * run.high:.1f}]"
    return f"scores {run.points} of 100 points{interval}"


def _extent_in_words(extent: Extent, *, several: bool = False) -> str:
    """What a mean is over: "on 20 questions about 7 documents", or "on the 18 of 20 questions for
    which all have a score, about 7 documents".

    Args:
        extent: The questions.
        several: Whether several methods are ranked on them.
    """
    if not extent.lacks_questions:
        return f"on {with_noun(extent.n_questions, 'question')}{extent.about()}"
    asked = with_noun(extent.n_asked, "question")
    which = "that have a score"
    if several:
        which = "for which all have a score"
    about = extent.about()
    if about:
        about = f",{about}"
    return f"on the {extent.n_questions} of {asked} {which}{about}"


@dataclass(frozen=True)
class _SeveralMethods:
    """The sentences on several methods, or one beside a floor: who is best, what separates the
    others, and what they cost.

    Args:
        group: The ranked runs.
        tests: Their tests.
    """

    group: Group
    tests: PairTests

    def sentences(self) -> list[str]:
        """Who is best, what the data separate from it, and what the others cost.

        They end early where nothing scores above 0, too few documents were asked about for a test,
        or a floor is as good. Costs are left out where the best one is not shown to beat a floor.
        """
        best = self.group.best
        sentences = [_who_is_best(self.group)]
        if best.is_zero:
            return [*sentences, *_floors_above_zero(self.group)]
        if best.extent.n_clusters < MIN_TESTED_CLUSTERS:
            return [*sentences, *_too_few_clusters(self.group)]
        floors_as_good = self._floors_as_good()
        if floors_as_good:
            return [*sentences, f"That is no more than {floors_in_words(floors_as_good)}."]
        sentences += self._selection_bias()
        tested = TestedDifferences(self.group, self.tests)
        sentences += tested.sentences()
        if not tested.floors_not_beaten:
            sentences += CostSentences(self.group, self.tests).sentences()
        sentences += self._sentences_on_other_models()
        return [*sentences, *self._sentences_on_untested()]

    def _floors_as_good(self) -> list[Ranked]:
        """The tested floors that score no less than the best method, or to the digit of the tables the
        same on all questions."""
        found = []
        for floor in self.group.floors:
            best_minus_floor = self.tests.from_best.get(floor.run_name)
            if best_minus_floor is None:  # not tested
                continue
            same_points = floor.points == self.group.best.points
            seems_equal = same_points and not floor.extent.lacks_questions
            if best_minus_floor.difference <= 0 or seems_equal:
                found.append(floor)
        return found

    def _selection_bias(self) -> list[str]:
        """One sentence on how much the highest score is too high by chance; [] where that is
        little.

        The methods were ranked by the same questions that give the score:

            -> ["The highest of 3 scores is too high by chance, on average by about 1.2 points."]
        """
        bias = self.tests.bias_of_best()
        if bias < _MIN_BIAS:
            return []
        start = f"The highest of {len(self.group.methods)} scores is too high by chance"
        return [f"{start}, on average by about {100 * bias:.1f} points."]

    def _sentences_on_untested(self) -> list[str]:
        """A sentence for each reason why runs are not tested against the best one, with their
        scores and costs.

        -> ["Not tested, as with another model: bm25 with tiny (5.0 points, 12.5 % of the FLOPs of
            bm25 with large)."]
        """
        names_by_reason: dict[str, list[str]] = {}
        for run in (*self.group.methods, *self.group.floors):
            reason = self.tests.untested.get(run.run_name)
            if reason is not None:
                cost = cost_in_brackets(self.group, run)
                name = f"{run.method} ({run.points_in_words}{cost})"
                names_by_reason.setdefault(reason, []).append(name)
        sentences = []
        for reason, names in names_by_reason.items():
            sentences.append(f"Not tested, as with {reason}: {join_names(names)}.")
        return sentences

    def _sentences_on_other_models(self) -> list[str]:
        """For each of the first two other models, a sentence on which of its methods the data separate
        from its best one."""
        sentences = []
        for group in self._groups_of_other_models[:_MAX_OTHER_MODELS]:
            tests = PairTests(group, self.tests.checks)
            sentences += TestedDifferences(group, tests).separation_by_name()
        return sentences

    @cached_property
    def _groups_of_other_models(self) -> list[Group]:
        """The methods of each model other than that of the best one, to be tested among themselves.

        A model with a single method, or with no score above 0, has nothing to test. Floors and
        upper bounds are those of the first model, and left out.
        """
        methods_by_model: dict[str, list[Ranked]] = {}
        for method in self.group.methods:
            if self.tests.untested.get(method.run_name) == OTHER_MODEL:
                methods_by_model.setdefault(method.row.model, []).append(method)
        groups = []
        for methods in methods_by_model.values():
            best_of_model = methods[0]
            if len(methods) > 1 and not best_of_model.is_zero:
                groups.append(replace(self.group, methods=methods, floors=[], upper_bounds=[]))
        return groups


def _floors_above_zero(group: Group) -> list[str]:
    """One sentence on the floors that score above 0, where no method does; [] for none.

    -> ["Only closed-book (50.0 points), a floor that methods must beat, scores above 0."]
    """
    above = [floor for floor in group.floors if not floor.is_zero]
    if not above:
        return []
    verb = "score"
    if len(above) == 1:
        verb = "scores"
    return [f"Only {floors_in_words(above)}, {verb} above {_zero_in_words(group.best)}."]


def _too_few_clusters(group: Group) -> list[str]:
    """Sentences for questions about too few documents: that nothing can be tested, and what the
    floors score.

    -> ["With 4 documents no difference can be tested; 6 are the fewest.",
        "Methods must beat closed-book (0.0 points), a floor."]
    """
    extent = group.best.extent
    untested = f"With {extent.clusters_in_words()} no difference can be tested"
    sentences = [f"{untested}; {MIN_TESTED_CLUSTERS} are the fewest."]
    if group.floors:
        names = [f"{floor.method} ({floor.points_in_words})" for floor in group.floors]
        noun = "floors"
        if len(names) == 1:
            noun = "a floor"
        sentences.append(f"Methods must beat {join_names(names)}, {noun}.")
    return sentences


def _who_is_best(group: Group) -> str:
    """The first sentence: "pecan scores highest of 3 methods, 95.0 of 100 points (em.squad), on 20
    questions about 20 documents."
    """
    best = group.best
    is_only_one = len(group.methods) == 1
    extent = _extent_in_words(best.extent, several=not is_only_one)
    if is_only_one:
        scores = _score_in_words(best)
        if best.is_zero:
            scores = f"does not score above {_zero_in_words(best)}"
        return f"{best.method} {scores} ({group.score}), {extent}."
    if best.is_zero:
        above = _zero_in_words(best)
        methods = _count_ranked_in_words(group)
        return f"None of {methods} scores above {above} ({group.score}), {extent}."
    return f"{_leaders_in_words(group)} ({group.score}), {extent}."


def _zero_in_words(run: Ranked) -> str:
    """What a run whose score the tables write as 0.0 does not score above: "0", or where its score is
    a little more than 0, "0.05 points" (above that they write 0.1)."""
    if run.score == 0:
        return "0"
    return "0.05 points"


def _leaders_in_words(group: Group) -> str:
    """Who scores highest, "pecan scores highest of 3 methods, 95.0 of 100 points"; of several with
    one score, "pecan and bm25 score highest of 3 methods, 95.0 of 100 points each".

    "pecan and bm25 score 95.0 of 100 points each" where these are all.
    """
    leaders = group.leaders
    names = join_names([each.method for each in leaders])
    rank = f" highest of {_count_ranked_in_words(group)},"
    if len(leaders) == len(group.methods):
        rank = ""
    if len(leaders) == 1:
        return f"{names} scores{rank} {group.best.points} of 100 points"
    return f"{names} score{rank} {group.best.points} of 100 points each"


def _count_ranked_in_words(group: Group) -> str:
    """How many methods are ranked: "3 methods"; "3 runs" where one method was run several times; and
    "the 3 methods that are no floor" where the table shows floors too."""
    count = f"{len(group.methods)} methods"
    if group.are_runs:
        count = f"{len(group.methods)} runs"
    kinds_not_ranked = []
    if group.floors:
        kinds_not_ranked.append("floor")
    if group.upper_bounds:
        kinds_not_ranked.append("upper bound")
    if not kinds_not_ranked:
        return count
    return f"the {count} that are no {' or '.join(kinds_not_ranked)}"
