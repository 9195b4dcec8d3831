"""The sentences with which a page opens: what the runs of a data set say about quality and cost, for
who reads no table.

    "pecan scores highest of 3 methods, 95.0 of 100 points (longbench.qa_f1), on 20 questions about
    20 documents. The data cannot separate bm25 from it (pecan minus bm25: 5.0 points, 95 % interval
    for all pairs at once -5.7 to 15.7). bm25 takes 25 % of the FLOPs of pecan, indexes included."

They follow from the tables alone. Methods with a score for the same questions are ranked. A floor
(closed-book) and an upper bound (oracle-evidence) mark the range and are never proposed. Nor is a
cheaper method where the best one is not better than a floor, where nothing could be tested, or where
the data leave open that it loses more than half of the best score.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.stats.bootstrap import FEWEST
from harness.storage.run_folder import StoredRun
from reports.best import bias_of_highest_score
from reports.number_formats import with_noun
from reports.ranking import (
    BestMinusRun,
    Group,
    Ranked,
    best_minus_others,
    comparable_rows,
    rank_runs,
)
from reports.table_row import TableRow

_REMARK_ON_INDEXES = {
    "money": "indexes included",
    "FLOPs": "indexes included",
    "tokens": "without those of indexes",
}
_MAX_NAMES = 4  # names of methods; the others are counted
_MIN_TESTED_CLUSTERS = 6  # documents: with fewer a sign-flip test cannot reach its level
_MIN_BIAS = 0.001  # of a score that is too high: the tables write one digit of a point
_MAY_LOSE_HALF = "though it may lose more than half of the points"
_MAX_SHARE_OF_CHEAPER = 0.995  # of another cost: a smaller difference is not worth a sentence


def finding_text(rows: Sequence[TableRow]) -> str:
    """The sentences on one data set, joined by spaces: who is best, what separates the others,
    costs, and caveats.

    Args:
        rows: The rows of one data set, best first (main_table.best_first).
    """
    runs = [row.run for row in rows]
    group = rank_runs(rows)
    sentences = []
    if _none_is_finished(rows):
        sentences.append(
            "No run is finished yet: what follows is about the questions answered so far."
        )
    if not group.methods:
        sentences.append(_only_floors_and_bounds(group))
    elif len(group.methods) == 1 and not group.floors:
        sentences += _sentences_on_only_method(group)
    else:
        sentences += _sentences_on_several_methods(group, runs)
    if group.methods and group.upper_bounds:
        sentences.append(_why_bounds_are_not_proposed(group.upper_bounds))
        sentences += _bounds_below_best(group)
    if group.on_other_questions:
        names = _join_names(group.on_other_questions)
        sentences.append(f"Not ranked, as scored on other questions: {names}.")
    sentences += _caveats(rows)
    return " ".join(sentences)


def _none_is_finished(rows: Sequence[TableRow]) -> bool:
    """Whether questions may be missing in every run, so that the first sentence says so."""
    return all(row.is_unfinished for row in rows)


def _only_floors_and_bounds(group: Group) -> str:
    """The sentence for runs that are only floors and upper bounds, or have no score."""
    runs_in_words = []
    for kind, runs in (("floor", group.floors), ("upper bound", group.upper_bounds)):
        runs_in_words += [f"{each.method} ({kind}, {each.points} points)" for each in runs]
    if not runs_in_words:
        return f"No answer has a score ({group.score})."
    return f"No method to choose was run yet, only {_join_names(runs_in_words)} by {group.score}."


def _why_bounds_are_not_proposed(bounds: Sequence[Ranked]) -> str:
    """The sentence that upper bounds are not proposed, and why."""
    names = _join_names([f"{each.method} ({each.points} points)" for each in bounds])
    reason = "shown the passages that hold the answer"
    if len(bounds) == 1:
        return f"The upper bound {names} is no method to choose: it was {reason}."
    return f"The upper bounds {names} are no methods to choose: they were {reason}."


def _bounds_below_best(group: Group) -> list[str]:
    """One sentence on the upper bounds that score less than the best method; [] for none."""
    below = [each.method for each in group.upper_bounds if each.score < group.best.score]
    if not below:
        return []
    return [f"{group.best.method} scores more than {_join_names(below)}, so it is no bound here."]


def _sentences_on_only_method(group: Group) -> list[str]:
    """The sentences on the only method, where no floor was run beside it: its score, and that no
    interval can be given for few clusters."""
    method = group.best
    scores = _score_in_words(method)
    extent = _questions_and_documents(method)
    sentences = [f"{method.method} {scores} ({group.score}), {extent}."]
    if method.n_clusters < FEWEST:
        sentences.append(f"With so few {method.cluster_noun}s no interval can be given.")
    return sentences


def _score_in_words(run: Ranked) -> str:
    """What a method that was not chosen among several scores: "scores 95.0 of 100 points [74.2,
    99.2]", without the interval where there is none."""
    interval = ""
    if run.low is not None and run.high is not None:
        interval = f" [{100 * run.low:.1f}, {100 * run.high:.1f}]"
    return f"scores {run.points} of 100 points{interval}"


def _questions_and_documents(run: Ranked) -> str:
    """What the mean of a run is over: "on 20 questions about 7 documents", or "on 20 questions
    about the folder" where all pages of a folder are one document."""
    questions = with_noun(run.n_questions, "question")
    if run.cluster_noun == "question":
        return f"on {questions} about the folder"
    return f"on {questions} about {with_noun(run.n_clusters, 'document')}"


def _sentences_on_several_methods(group: Group, runs: Sequence[StoredRun]) -> list[str]:
    """The sentences on several methods, or one beside a floor: who is best, what separates the
    others, and what they cost.

    They end early where nothing scores above 0, a floor is as good, or nothing can be tested.

    Args:
        group: The ranked runs.
        runs: The stored runs, for the tests.
    """
    best = group.best
    sentences = [_who_is_best(group)]
    if best.is_zero:
        return [*sentences, *_floors_above_zero(group)]
    floors_as_good = [floor for floor in group.floors if float(floor.points) >= float(best.points)]
    if floors_as_good:
        return [*sentences, f"That is no more than {_floors_in_words(floors_as_good)}."]
    differences = best_minus_others(group, runs)
    if differences is None:
        return [*sentences, _why_untested(group)]
    if best.n_clusters < _MIN_TESTED_CLUSTERS:
        too_few = (
            f"With so few {best.cluster_noun}s this test cannot separate any two runs; "
            f"{_MIN_TESTED_CLUSTERS} are the fewest with which it can."
        )
        return [*sentences, too_few]
    sentences += _selection_bias_sentence(group, runs)
    return [*sentences, *_TestedDifferences(group, differences).sentences()]


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
    return [f"Only {_floors_in_words(above)}, {verb} above 0."]


def _who_is_best(group: Group) -> str:
    """The first sentence: "pecan scores highest of 3 methods, 95.0 of 100 points (em.squad), on 20
    questions about 20 documents."
    """
    best = group.best
    extent = _questions_and_documents(best)
    if len(group.methods) == 1:
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
    """What a score that the tables write as 0.0 is not above: "0", or where it is a little more,
    "0.05 points"."""
    if run.score == 0:
        return "0"
    return "0.05 points"


def _leaders_in_words(group: Group) -> str:
    """Who scores highest, "pecan scores highest of 3 methods, 95.0 of 100 points"; of several with
    one score, "pecan and bm25 score highest of 3 methods, 95.0 of 100 points each"."""
    leaders = group.leaders
    names = _join_names([each.method for each in leaders])
    rank = f" highest of {_count_ranked_in_words(group)},"
    if len(leaders) == len(group.methods):
        rank = ""
    if len(leaders) == 1:
        return f"{names} scores{rank} {group.best.points} of 100 points"
    return f"{names} score{rank} {group.best.points} of 100 points each"


def _count_ranked_in_words(group: Group) -> str:
    """How many runs are ranked: "3 methods", "3 runs" where models differ, and "the 3 methods that
    are no floor" where the table has more rows."""
    count = f"{len(group.methods)} methods"
    if group.several_models:
        count = f"{len(group.methods)} runs"
    other_kinds = []
    if group.floors:
        other_kinds.append("floor")
    if group.upper_bounds:
        other_kinds.append("upper bound")
    if not other_kinds:
        return count
    return f"the {count} that are no {' or '.join(other_kinds)}"


def _why_untested(group: Group) -> str:
    """The sentence on why differences are not tested."""
    if group.several_models:
        return "Differences are not tested, as these runs differ in the model."
    return "Differences are not tested, as these runs differ in more than the method."


def _selection_bias_sentence(group: Group, runs: Sequence[StoredRun]) -> list[str]:
    """One sentence on how much the highest score is too high by chance; [] where that is little.

    The methods were ranked by the same questions that give the score:

        -> ["The highest of 3 scores is too high by chance, on average by about 1.2 points."]
    """
    run_names = {each.run_name for each in group.methods}
    if len(run_names) < 2:
        return []
    bias = bias_of_highest_score([run for run in runs if run.name in run_names], group.score)
    if bias < _MIN_BIAS:
        return []
    start = f"The highest of {len(run_names)} scores is too high by chance"
    return [f"{start}, on average by about {100 * bias:.1f} points."]


def _floors_in_words(
    floors: Sequence[Ranked], differences: Mapping[str, BestMinusRun] | None = None
) -> str:
    """Floors in a sentence: "closed-book (5.0 points), a floor that methods must beat".

    Args:
        floors: One or more.
        differences: By run, how it differs from the best method; None where that is not said.
    """
    names = []
    for floor in floors:
        score = f"{floor.points} points"
        if differences is not None and floor.run_name in differences:
            score = f"{score}; {differences[floor.run_name]}"
        names.append(f"{floor.method} ({score})")
    noun = "floors"
    if len(floors) == 1:
        noun = "a floor"
    return f"{_join_names(names)}, {noun} that methods must beat"


@dataclass(frozen=True)
class _TestedDifferences:
    """The sentences that rest on a test of each method against the best one.

    Args:
        group: The ranked runs.
        differences: Name of a run -> how it differs from the best method.
    """

    group: Group
    differences: Mapping[str, BestMinusRun]

    def sentences(self) -> list[str]:
        """The sentences on floors, quality and cost.

        Only one, and no method proposed, where a floor may be as good as the best.
        """
        floors = self.group.floors
        floors_as_good = self._not_separated(floors)
        if floors_as_good:
            floors_in_words = _floors_in_words(floors_as_good, self.differences)
            return [f"The data cannot separate {self._best_in_words} from {floors_in_words}."]
        sentences = []
        if floors:
            floors_in_words = _floors_in_words(floors, self.differences)
            sentences.append(f"The data separate {self._best_in_words} from {floors_in_words}.")
        sentences += self._equality_sentence()
        sentences += self._separation_sentence()
        sentences += self._cost_sentences()
        return sentences

    def _not_separated(self, runs: Sequence[Ranked]) -> list[Ranked]:
        """The runs that the data cannot separate from the best one."""
        return [run for run in runs if not self.differences[run.run_name].separated]

    @property
    def _best_in_words(self) -> str:
        """What stands for the method that is tested against each other one: "it", or its name where
        several have the highest score, as the others of them are not tested."""
        if len(self.group.leaders) == 1:
            return "it"
        return self.group.best.method

    @property
    def _rivals(self) -> list[Ranked]:
        """The methods below the best that the data cannot separate from it."""
        return self._not_separated(self.group.others)

    def _equality_sentence(self) -> list[str]:
        """One sentence on how sure the equality of methods with the same score is; [] for one
        leader.

        It has the interval of the difference, or the ends that lie furthest out where there are
        several.
        """
        best, *equals = self.group.leaders
        if not equals:
            return []
        lows = []
        highs = []
        for each in equals:
            difference = self.differences[each.run_name]
            if difference.low is None or difference.high is None:
                return ["No interval of their difference can be given."]
            lows.append(difference.low)
            highs.append(difference.high)
        if len(equals) == 1:
            interval = f"{best.method} minus {equals[0].method}, {difference.interval}"
            return [f"Equal scores leave a difference open ({interval})."]
        widest = f"{100 * min(lows):.1f} to {100 * max(highs):.1f}"
        differences = (
            f"{best.method} minus each of the others, 95 % intervals for all pairs at once"
        )
        return [f"Equal scores leave differences open ({differences} within {widest})."]

    def _separation_sentence(self) -> list[str]:
        """One sentence on the methods that the data cannot separate from the best one, or that they
        separate all; [] where every method has the highest score."""
        if self._rivals:
            return [self._rivals_sentence()]
        if not self.group.others:
            return []
        others = "every other method"
        if len(self.group.leaders) > 1:
            others = "every method that scores less"
        return [f"The data separate {self._best_in_words} from {others}."]

    def _rivals_sentence(self) -> str:
        """The sentence on the methods that the data cannot separate from the best one.

        A difference that all of them have is said once:

            -> "The data cannot separate bm25 and sbert from it (pecan minus each: 5.0 points)."
        """
        differences = [self.differences[each.run_name] for each in self._rivals]
        amounts = {difference.amount for difference in differences}
        if len(differences) > 1 and len(amounts) == 1:
            names = _join_names([each.method for each in self._rivals])
            of_each = f"{differences[0].best} minus each: {differences[0].amount}"
            return f"The data cannot separate {names} from {self._best_in_words} ({of_each})."
        rivals = [f"{each.method} ({self.differences[each.run_name]})" for each in self._rivals]
        return f"The data cannot separate {_join_names(rivals)} from {self._best_in_words}."

    def _cost_sentences(self) -> list[str]:
        """One sentence on cost: what the cheapest method that may be as good as the best takes of
        its cost.

        Without such a method: what the cheapest of all saves and loses, or that the best is
        cheapest; [] for a single method, or where nothing can be said in one sentence.
        """
        group = self.group
        if len(group.methods) == 1:
            return []
        if group.cost is None:
            return [_unknown_cost(group), *_uncompared_money(group)]
        return [*self._sentences_on_known_cost(group.cost), *_uncompared_money(group)]

    def _sentences_on_known_cost(self, cost: str) -> list[str]:
        """The sentences of `_cost_sentences` where all methods have this kind of cost."""
        group = self.group
        costs = _CostSentences(group.best, cost)
        rivals = self._rivals_by_risk()
        cheapest_as_good = _cheapest([*group.leaders, *rivals.as_good])
        if cheapest_as_good is not group.best and _is_cheaper(cheapest_as_good, group.best):
            return [costs.of_method(cheapest_as_good)]
        dearest = group.leaders[-1]
        if len(group.leaders) > 1 and _is_cheaper(group.best, dearest):
            return [costs.of_best(dearest, self.differences[dearest.run_name])]
        if rivals.risky:
            return costs.of_risky(_cheapest(rivals.risky))
        cheapest = _cheapest([group.best, *self._separated_methods()])
        if _is_cheaper(cheapest, group.best):
            return [costs.of_worse(cheapest, self.differences[cheapest.run_name])]
        some_method_is_cheaper = any(_is_cheaper(each, group.best) for each in group.methods)
        if some_method_is_cheaper:
            return []
        return [costs.of_cheapest_best(group.methods[1:])]

    def _rivals_by_risk(self) -> "_Rivals":
        """The rivals in two lists, by whether they may lose more than half of the best score."""
        as_good = []
        risky = []
        for rival in self._rivals:
            if self.differences[rival.run_name].leaves_half_of(self.group.best.score):
                as_good.append(rival)
            else:
                risky.append(rival)
        return _Rivals(as_good, risky)

    def _separated_methods(self) -> list[Ranked]:
        """The methods that the data separate from the best one."""
        worse = []
        for each in self.group.methods:
            difference = self.differences.get(each.run_name)
            if difference is not None and difference.separated:
                worse.append(each)
        return worse


class _Rivals(NamedTuple):
    """The methods that the data cannot separate from the best one.

    Attributes:
        as_good: They keep at least half of the best score even at the end of the interval.
        risky: They may lose more than half of it.
    """

    as_good: list[Ranked]
    risky: list[Ranked]


@dataclass(frozen=True)
class _CostSentences:
    """Sentences that compare costs with that of the best method.

    Args:
        best: The best method.
        cost: The kind of cost: "money", "FLOPs" or "tokens".
    """

    best: Ranked
    cost: str

    def of_method(self, cheap: Ranked) -> str:
        """The sentence on what part of the best method's cost a cheaper one takes."""
        return f"{cheap.method} {self._share_of_cost(cheap, self.best)}."

    def of_best(self, dear: Ranked, difference: BestMinusRun) -> str:
        """The sentence on what part of the cost of a method with the same score the best one takes,
        and whether it may lose more than half of the score.

        Args:
            dear: The method with the same score.
            difference: How the best one differs from it.
        """
        share = f"{self.best.method} {self._share_of_cost(self.best, dear)}"
        may_lose_half = difference.low is None or -difference.low > self.best.score / 2
        if may_lose_half:
            return f"{share}, {_MAY_LOSE_HALF}."
        return f"{share}."

    def of_risky(self, cheap: Ranked) -> list[str]:
        """One sentence on what a method takes that may lose more than half of the best score; []
        where it is not clearly cheaper."""
        if not _is_cheaper(cheap, self.best):
            return []
        return [f"{cheap.method} {self._share_of_cost(cheap, self.best)}, {_MAY_LOSE_HALF}."]

    def of_worse(self, cheap: Ranked, difference: BestMinusRun) -> str:
        """The sentence on what a worse method loses and saves against the best one.

        -> "bm25 scores 5.0 points less (95 % interval 1.2 to 9.0) and takes 25 % of the FLOPs
            of pecan, indexes included."
        """
        fewer = f"{100 * (self.best.score - cheap.score):.1f} points less"
        if difference.interval is not None:
            fewer = f"{fewer} ({difference.interval})"
        return f"{cheap.method} scores {fewer} and {self._share_of_cost(cheap, self.best)}."

    def of_cheapest_best(self, others: Sequence[Ranked]) -> str:
        """The sentence on what the best method costs beside the cheapest other one, where none is
        cheaper."""
        cheapest = _cheapest(others)
        name = cheapest.method
        if len(others) > 1:
            name = f"{name}, the cheapest of the others"
        if _is_cheaper(self.best, cheapest):
            return f"{self.best.method} {self._share_of_cost(self.best, cheapest, name)}."
        same = f"costs about the same as {name}, by {self.cost}, {_REMARK_ON_INDEXES[self.cost]}"
        return f"{self.best.method} {same}."

    def _share_of_cost(self, run: Ranked, other: Ranked, name: str | None = None) -> str:
        """The cost of a method as a part of another's: "takes 12.5 % of the FLOPs of pecan, indexes
        included".

        Args:
            run: The method that is spoken of.
            other: The method that it is compared with.
            name: What the other is called; None: its method.
        """
        share = 100 * run.cost / other.cost
        name = name or other.method
        return f"takes {share:.3g} % of the {self.cost} of {name}, {_REMARK_ON_INDEXES[self.cost]}"


def _cheapest(runs: Sequence[Ranked]) -> Ranked:
    """The run with the least cost; of equal ones the first."""
    return min(runs, key=lambda each: each.cost)


def _is_cheaper(run: Ranked, other: Ranked) -> bool:
    """Whether a run costs clearly less than another one: less than 99.5 % of it."""
    return run.cost < _MAX_SHARE_OF_CHEAPER * other.cost


def _unknown_cost(group: Group) -> str:
    """The sentence that there is no kind of cost that is known for all methods."""
    if len(group.without_flops) == len(group.methods):
        return "What an answer costs in FLOPs is unknown."
    return f"What an answer costs in FLOPs is unknown for {_join_names(group.without_flops)}."


def _uncompared_money(group: Group) -> list[str]:
    """That money is not compared where it is known of some methods only, and of which it is not."""
    if not group.without_money:
        return []
    unknown = _join_names(group.without_money)
    return [f"Money is not compared, as that of {unknown} is unknown."]


def _caveats(rows: Sequence[TableRow]) -> list[str]:
    """A sentence for each of these that some run has: failed questions (scored 0 or left out), a
    run that is not finished, and one that is not ranked.

        -> ["Failed questions, which count 0: 2 of bm25 and 1 of pecan.", "Not finished: sbert."]
    """
    ranked_rows = comparable_rows(rows)
    unfinished_is_said = _none_is_finished(rows)  # by the first sentence
    count_as_zero: list[str] = []
    left_out: list[str] = []
    unfinished: list[str] = []
    for row in ranked_rows:
        if row.n_failed and _skips_failed(row):
            left_out.append(_count_failed_in_words(row))
        elif row.n_failed:
            count_as_zero.append(_count_failed_in_words(row))
        if row.is_unfinished and not unfinished_is_said:
            unfinished.append(row.label)
    unranked_unfinished: list[str] = []
    unranked_finished: list[str] = []
    for row in rows:
        if row in ranked_rows:
            continue
        if row.is_unfinished:
            unranked_unfinished.append(row.label)
        else:
            unranked_finished.append(row.label)
    names_by_head = {
        "Failed questions, which count 0": count_as_zero,
        "Failed questions, left out": left_out,
        "Not finished": unfinished,
        "Not finished, so not ranked": unranked_unfinished,
        "Asked otherwise, so not ranked": unranked_finished,
    }
    return [f"{head}: {_join_names(names)}." for head, names in names_by_head.items() if names]


def _count_failed_in_words(row: TableRow) -> str:
    """ "1 of 30 of bm25": failed questions of all that were recorded."""
    return f"{row.n_failed} of {row.n_questions} of {row.label}"


def _skips_failed(row: TableRow) -> bool:
    """Whether failed questions are left out of the run's means; else they count 0."""
    return row.run.config.skips_failed


def _join_names(names: Sequence[str]) -> str:
    """Names as a list in a sentence: "a", "a and b", "a, b and c"; of more than four names the
    first three, "a, b, c and 2 more"."""
    if len(names) > _MAX_NAMES:
        n_shown = _MAX_NAMES - 1
        return f"{', '.join(names[:n_shown])} and {len(names) - n_shown} more"
    *before_last, last = names
    if not before_last:
        return last
    return f"{', '.join(before_last)} and {last}"
