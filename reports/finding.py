"""The sentences with which a page opens: what the runs of a data set say about quality and cost, for
who reads no table.

    "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 questions about
    20 documents. These questions do not show that pecan is better than bm25 (5.0 points less; 95 %
    joint interval: between 15.7 less and 5.7 more), only that it is better than lead (90.0 points
    less). bm25 takes 25 % of the FLOPs of pecan, indexes included."

They follow from the tables alone. Methods are ranked on the questions that all of them have a score
for (ranked_questions.py). A floor (closed-book) and an upper bound (oracle-evidence) mark the range
and are never proposed. Nor is a cheaper method where the best one is not better than a floor, where
nothing could be tested, or where it is itself no better than a floor (finding_costs.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from harness.stats.bootstrap import FEWEST
from reports import facts
from reports.checks import Checks
from reports.finding_caveats import caveats, no_method_is_finished, scores_in_place_of
from reports.finding_costs import CostSentences, cost_in_brackets
from reports.finding_seeds import ranges_over_seeds, rows_over_seeds, seeds_of_methods
from reports.finding_tests import TestedDifferences, floors_in_words
from reports.number_formats import with_noun
from reports.ranked import Extent, Ranked
from reports.ranking import (
    INTERVAL,
    INTERVAL_OF_ALL_PAIRS,
    MIN_TESTED_CLUSTERS,
    OTHER_MODEL,
    Group,
    PairTests,
    rank_runs,
)
from reports.sentences import join_names, say_once
from reports.table_row import TableRow

_MIN_BIAS = 0.005  # of a score that is too high: less is not worth a sentence
_MAX_OTHER_MODELS = 2  # whose runs are tested in a sentence of their own
_MAX_COSTS_OF_UNTESTED = 2  # runs: of more, only the scores are said


def finding_text(rows: Sequence[TableRow], checks: Checks | None = None) -> str:
    """The sentences on one data set, joined by spaces: that nothing is finished, who is best, what
    it is shown to be better than, costs, upper bounds, what a judge judged, and caveats.

    How an interval is made and what costs include is said once.

    Args:
        rows: The rows of one data set, best first (main_table.best_first).
        checks: What was found in the records of the runs; None: they are read when asked.
    """
    seeds = seeds_of_methods(rows)
    rows = rows_over_seeds(rows, seeds)
    group = rank_runs(rows)
    tests = PairTests(group, checks or Checks())
    sentences = no_method_is_finished(rows)
    if not group.methods:
        sentences.append(_no_method_is_ranked(group, rows))
    elif len(group.methods) == 1 and not group.floors:
        sentences += _sentences_on_only_method(group)
    else:
        sentences += _SeveralMethods(group, tests).sentences()
    sentences += ranges_over_seeds(seeds)
    if group.methods and group.upper_bounds:
        sentences.append(_why_bounds_are_not_proposed(group.upper_bounds))
        sentences += _bounds_below_best(group, tests)
    if group.methods:
        sentences += _what_the_judge_judged(group)
    sentences += caveats(rows, group)
    text = " ".join(sentences)
    remarks = [INTERVAL, INTERVAL_OF_ALL_PAIRS]
    if group.costs.compared is not None:
        remarks.append(f", {group.costs.compared.remark}")
    for remark in remarks:
        text = say_once(text, remark)
    return text


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
    scored_otherwise = scores_in_place_of(group.score, rows)
    if scored_otherwise:
        return f"No run is ranked, as they have no score in common: {join_names(scored_otherwise)}."
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
    """The sentence that upper bounds are not proposed, and why.

    -> "The upper bound oracle (80.0 points) was shown the passages that hold the answer."
    """
    names = join_names([f"{each.method} ({_points_of_bound(each)})" for each in bounds])
    noun = "bounds"
    verb = "were"
    if len(bounds) == 1:
        noun = "bound"
        verb = "was"
    return f"The upper {noun} {names} {verb} shown the passages that hold the answer."


def _points_of_bound(bound: Ranked) -> str:
    """The score of an upper bound, which counts only where it answered: "100.0 points on the 4 of 20
    questions that it answered"."""
    if bound.row.n_failed == 0:
        return bound.points_in_words
    extent = bound.extent
    questions = f"{extent.n_questions} of {with_noun(extent.n_asked, 'question')}"
    return f"{bound.points} points on the {questions} that it answered"


def _bounds_below_best(group: Group, tests: PairTests) -> list[str]:
    """A sentence on the upper bounds that the best method is shown to be better than, and one on those
    that score no more than it; [] for none.

    Args:
        group: The ranked runs.
        tests: Their tests.
    """
    best = group.best.method
    below = []
    no_higher = []
    for bound in group.upper_bounds:
        difference = tests.minus_bound(bound)
        if difference is None:
            continue
        if difference.is_above:
            below.append(bound.method)
        elif difference.difference > 0:
            no_higher.append(bound.method)
    sentences = []
    if below:
        is_better = f"{best} {group.is_better} than {join_names(below)}"
        sentences.append(f"{is_better}, so that is no bound here.")
    if no_higher:
        score = "scores"
        if len(no_higher) > 1:
            score = "score"
        less = f"no more than {best}, which may be chance"
        sentences.append(f"{join_names(no_higher)} {score} {less}.")
    return sentences


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
    score_name = _score_name(group)
    sentences = [f"{run.method} {scores} ({score_name}), {_extent_in_words(extent)}."]
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
        """Who is best, what it is shown to be better than, and what the others cost.

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
        tested = TestedDifferences(self.group, self.tests)
        sentences += tested.sentences()
        if not tested.floors_not_beaten:
            sentences += CostSentences(self.group, self.tests).sentences()
        sentences += self._same_text_to_all()
        sentences += self._selection_bias()
        sentences += self._own_models_of_applications()
        if self._best_is_alone_with_its_model:
            return [
                *sentences,
                *self._sentences_on_untested(),
                *self._sentences_on_other_models(with_scores=False),
            ]
        sentences += self._sentences_on_other_models(with_scores=True)
        return [*sentences, *self._sentences_on_untested()]

    @property
    def _best_is_alone_with_its_model(self) -> bool:
        """Whether every other method has another model, so that none is tested against the best."""
        others = self.group.methods[1:]
        return all(self.tests.untested.get(each.run_name) == OTHER_MODEL for each in others)

    def _same_text_to_all(self) -> list[str]:
        """A sentence on each method that gave almost the same text to all questions; [] for none.

        -> ["yesman gave one text to 100 of 100 questions."]
        """
        sentences = []
        for method in self.group.methods:
            same = self.tests.one_texts.get(method.run_name)
            if same is not None:
                questions = f"{same.n_same} of {with_noun(same.n_answered, 'question')}"
                sentences.append(f"{method.method} gave one text to {questions}.")
        return sentences

    def _own_models_of_applications(self) -> list[str]:
        """One sentence on applications that are ranked beside methods with a model of the harness; []
        where all are applications, or none.

        -> ["wiki answers with a model of its own."]
        """
        applications = [each for each in self.group.methods if facts.is_application(each.row.run)]
        names = [each.method for each in applications]
        if len(names) in (0, len(self.group.methods)):
            return []
        if len(names) == 1:
            return [f"{names[0]} answers with a model of its own."]
        return [f"{join_names(names)} answer with models of their own."]

    def _floors_as_good(self) -> list[Ranked]:
        """The tested floors that score no less than the best method, or to the digit of the tables the
        same on all questions."""
        found = []
        for floor in self.group.floors:
            best_minus_floor = self.tests.from_best.get(floor.run_name)
            if best_minus_floor is None:  # not tested
                continue
            same_points = floor.points == self.group.best.points
            n_questions = self.group.best.extent.n_questions
            seems_equal = same_points and floor.extent.n_questions == n_questions
            if best_minus_floor.difference <= 0 or seems_equal:
                found.append(floor)
        return found

    def _selection_bias(self) -> list[str]:
        """One sentence on how much the best method will score less on new questions; [] where that is
        little.

        The best one was chosen by the same questions that give its score:

            -> ["Expect about 1.2 points less of pecan on new questions, as the best of 3 was picked
                on these."]
        """
        bias = self.tests.bias_of_best()
        if bias < _MIN_BIAS:
            return []
        less = f"Expect about {100 * bias:.1f} points less of {self.group.best.method}"
        picked = f"the best of {len(self.group.methods)} was picked on these"
        return [f"{less} on new questions, as {picked}."]

    def _sentences_on_untested(self) -> list[str]:
        """A sentence for each reason why runs are not tested against the best one, with their
        scores, and of few also their costs.

        -> ["Not tested, as with another model: bm25 with tiny (5.0 points, 12.5 % of the FLOPs of
            bm25 with large)."]
        """
        models_with_sentence = {each.best.row.model for each in self._groups_with_sentence}
        runs_by_reason: dict[str, list[Ranked]] = {}
        for run in (*self.group.methods, *self.group.floors):
            reason = self.tests.untested.get(run.run_name)
            if reason is None:
                continue
            has_sentence = reason == OTHER_MODEL and run.row.model in models_with_sentence
            has_scores_there = has_sentence and not self._best_is_alone_with_its_model
            if has_scores_there and run in self.group.methods:
                continue
            runs_by_reason.setdefault(reason, []).append(run)
        sentences = []
        for reason, runs in runs_by_reason.items():
            with_costs = len(runs) <= _MAX_COSTS_OF_UNTESTED
            names = [self._untested_in_words(run, with_cost=with_costs) for run in runs]
            sentences.append(f"Not tested, as with {reason}: {join_names(names)}.")
        return sentences

    def _untested_in_words(self, run: Ranked, *, with_cost: bool) -> str:
        """A run that is not tested, with its score: "bm25 with tiny (5.0 points, 12.5 % of the FLOPs
        of bm25 with large)", "closed-book with tiny (5.0 points, a floor)".

        Args:
            run: The run.
            with_cost: Whether its cost is said.
        """
        in_brackets = run.points_in_words
        if run in self.group.floors:
            in_brackets = f"{in_brackets}, a floor"
        elif with_cost:
            in_brackets += cost_in_brackets(self.group, run)
        return f"{run.method} ({in_brackets})"

    def _sentences_on_other_models(self, *, with_scores: bool) -> list[str]:
        """For each of the first two other models, a sentence on what its methods score and which its
        best one is shown to be better than.

        Args:
            with_scores: Whether the scores are said.
        """
        sentences = []
        for group in self._groups_with_sentence:
            tests = PairTests(group, self.tests.checks)
            sentences.append(_on_other_model(group, tests, with_scores=with_scores))
        return sentences

    @property
    def _groups_with_sentence(self) -> list[Group]:
        """The methods of the first two other models."""
        return self._groups_of_other_models[:_MAX_OTHER_MODELS]

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


def _on_other_model(group: Group, tests: PairTests, *, with_scores: bool) -> str:
    """What the methods of another model score, and which of them its best one is shown to be better
    than.

    -> "With the model small, rag scores 55.8 points, bm25 50.0 and full 40.0; these questions do not
        show that rag is better than bm25, only that it is better than full."

    Args:
        group: The ranked runs of one model.
        tests: Their tests.
        with_scores: Whether the scores are said.
    """
    best, *others = group.methods
    start = f"With the model {best.row.model}, "
    if with_scores:
        scores = join_names([f"{each.row.label} {each.points}" for each in others])
        start += f"{best.row.label} scores {best.points} points, {scores}; "
    rivals = [each.row.label for each in (*group.leaders[1:], *tests.rivals)]
    separated = [each.row.label for each in tests.separated]
    better = f"that {best.row.label} {group.is_better} than"
    if not rivals:
        return f"{start}these questions show {better} {join_names(separated)}."
    not_shown = f"these questions do not show {better} {join_names(rivals, 'or')}"
    if not separated:
        return f"{start}{not_shown}."
    return f"{start}{not_shown}, only that it {group.is_better} than {join_names(separated)}."


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
    score_name = _score_name(group)
    if is_only_one:
        scores = _score_in_words(best)
        if best.is_zero:
            scores = f"does not score above {_zero_in_words(best)}"
        return f"{best.method} {scores} ({score_name}), {extent}."
    if best.is_zero:
        above = _zero_in_words(best)
        methods = _count_ranked_in_words(group)
        return f"None of {methods} scores above {above} ({score_name}), {extent}."
    return f"{_leaders_in_words(group)} ({score_name}), {extent}."


def _score_name(group: Group) -> str:
    """The name of the score by which methods are ranked, "em.squad"; of one that is neither of this
    project nor of a judge, that it was taken for one where more is better: "wer, where higher is
    taken as better"."""
    if group.higher_is_better:
        return group.score
    return f"{group.score}, where higher is taken as better"


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
