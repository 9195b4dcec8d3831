"""The opening sentences on cost: which cheaper method may stand in for the best one, or what the
best one costs beside the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reports.compared_costs import ComparedCost, CostShare
from reports.finding_tests import named_separated
from reports.number_formats import with_noun
from reports.proposals import Proposals
from reports.ranked import Ranked
from reports.ranking import Difference, Group, PairTests
from reports.sentences import join_names

_MAY_LOSE_HALF = "but may score less than half as much"


def cost_in_brackets(group: Group, run: Ranked) -> str:
    """What a run takes of the best one's cost, for a list in brackets: ", 12.5 % of the FLOPs of
    pecan"; "" where that is unknown.

    Args:
        group: The ranked runs.
        run: The run.
    """
    share = group.share(run, group.best)
    if share is None or group.costs.compared is None:
        return ""
    return f", {share.percent} of the {group.costs.compared.kind} of {group.best.method}"


@dataclass(frozen=True)
class CostSentences:
    """The sentences on cost of methods that were tested.

    Args:
        group: The ranked runs.
        tests: Their tests.
    """

    group: Group
    tests: PairTests

    def sentences(self) -> list[str]:
        """The sentences on the cost of the best method and of cheaper ones; [] for a single method.

        Only why costs are not compared where they are unknown, or no other method was tested.
        """
        group = self.group
        if len(group.methods) == 1:
            return []
        compared = group.costs.compared
        tested_others = [*self.tests.rivals, *self.tests.separated, *self._tested_equals]
        if compared is None or not tested_others:
            return list(group.costs.remarks)
        return [
            *self._first_that_applies(tested_others),
            *self._failed_dear_questions(compared, tested_others),
            *self._dominating_questions(compared, tested_others),
            *group.costs.remarks,
        ]

    def _first_that_applies(self, tested_others: Sequence[Ranked]) -> list[str]:
        """The first of these that can be said: cheaper methods that may be as good, what the best one
        saves against equal ones, what it saves against dearer ones that may be as good and what
        cheaper worse ones lose, what the best one costs.

        Args:
            tested_others: The tested methods but the best one.
        """
        return (
            self._proposals()
            or self._equals()
            or [*self._saved_beside_rivals(), *self._worse()]
            or self._cost_of_best_beside(tested_others)
        )

    @cached_property
    def _tested_equals(self) -> list[Ranked]:
        """The tested methods with the same score as the best one, which is the cheapest of them."""
        equals = self.group.leaders[1:]
        return [method for method in equals if method.run_name in self.tests.from_best]

    def _proposals(self) -> list[str]:
        """Sentences on cheaper methods that the best one is not shown to be better than: one that is
        nearly as good, the cheapest, and one that may be much worse; [] for none.

        Where none may be proposed: that the first of them is not shown to beat a floor; where there
        is none of these either, which have no right answer.
        """
        best = self.group.best
        proposals = Proposals(self.group, self.tests)
        sentences = []
        if proposals.safe:
            sentences += self._take(proposals.safe)
        if proposals.risky is not None:
            sentences.append(self._takes(proposals.risky, best, end=f", {_MAY_LOSE_HALF}."))
        if sentences:
            return sentences
        if proposals.below_floor:
            cheap = proposals.below_floor[0]
            floors = [floor.method for floor in self.tests.floors_not_beaten(cheap)]
            end = f", but is not shown to be better than {join_names(floors)}."
            return [self._takes(cheap, best, end=end)]
        if proposals.without_right_answer:
            names = join_names([each.method for each in proposals.without_right_answer])
            verb = "have"
            if len(proposals.without_right_answer) == 1:
                verb = "has"
            return [f"{names} {verb} no right answer."]
        return []

    def _equals(self) -> list[str]:
        """One sentence on what the best method takes of the dearest one with the same score; [] where
        none is dearer.

        The next cheapest of them is named too, and that the best one may lose more than half of the
        score, as the interval of the difference reaches so far or cannot be given:

            -> ["a takes 10 % of the FLOPs of c, indexes included, and b 20 %."]
        """
        best = self.group.best
        cheapest_first = self._tested_equals
        if not cheapest_first:
            return []
        dearest = cheapest_first[-1]
        if not self.group.is_cheaper(best, dearest):
            return []
        also = ""
        next_cheapest = cheapest_first[0]
        if self.group.is_cheaper(next_cheapest, dearest):
            also = f", and {next_cheapest.method} {self._percent(next_cheapest, dearest)}"
        if any(self._best_may_lose_half_to(equal) for equal in cheapest_first):
            also = f"{also}, {_MAY_LOSE_HALF}"
        return [self._takes(best, dearest, end=f"{also}.")]

    def _best_may_lose_half_to(self, equal: Ranked) -> bool:
        """Whether the best method may score half as much as one with the same score, as the interval
        of the difference reaches so far or cannot be given."""
        best_minus_equal = self.tests.from_best[equal.run_name]
        if best_minus_equal.low is None:
            return True
        return -best_minus_equal.low > self.group.best.score / 2

    def _saved_beside_rivals(self) -> list[str]:
        """One sentence on what the best method takes of the cheapest of the dearer methods that it is
        not shown to be better than; [] where there is none.

        -> ["mid takes 10 % of the FLOPs of big, indexes included."]
        """
        best = self.group.best
        dearer = [rival for rival in self.tests.rivals if self.group.is_cheaper(best, rival)]
        if not dearer:
            return []
        cheapest = self.group.cheapest(dearer)
        name = cheapest.method
        if len(dearer) > 1:
            name = f"{name}, the cheapest of these"
        return [self._takes(best, cheapest, end=".", name_of_other=name)]

    def _worse(self) -> list[str]:
        """Sentences on what cheaper methods lose and save that the best one is shown to be better
        than: the one with the highest score, and the cheapest; [] for none."""
        best = self.group.best
        separated = self.tests.separated  # highest score first
        cheaper = [method for method in separated if self.group.is_cheaper(method, best)]
        if not cheaper:
            return []
        highest_score = cheaper[0]
        cheapest = self.group.cheapest(cheaper)
        named = [highest_score]
        if self.group.is_cheaper(cheapest, highest_score):
            named.append(cheapest)
        if named_separated(self.tests):  # what these lose was said with their names
            return self._take(named)
        return [self._loses(method) for method in named]

    def _loses(self, cheap: Ranked) -> str:
        """The sentence on what a worse method loses and saves against the best one.

        -> "bm25 scores 5.0 points less (95 % interval: between 1.2 and 9.0 less) and takes 25 % of
            the FLOPs of pecan, indexes included."
        """
        best_minus_cheap: Difference = self.tests.from_best[cheap.run_name]
        less = best_minus_cheap.points_less
        if best_minus_cheap.interval is not None:
            less = f"{less} ({best_minus_cheap.interval})"
        name_takes = self._takes(cheap, self.group.best, end=".")
        takes = name_takes.removeprefix(f"{cheap.method} ")
        return f"{cheap.method} scores {less} and {takes}"

    def _cost_of_best_beside(self, tested_others: Sequence[Ranked]) -> list[str]:
        """One sentence on what the best method costs beside the cheapest other tested one.

        [] where any method is cheaper than the best one, tested or not, or the costs of the two
        have no question in common.

        Args:
            tested_others: The tested methods but the best one.
        """
        best = self.group.best
        one_is_cheaper = any(self.group.is_cheaper(method, best) for method in self.group.methods)
        if one_is_cheaper:
            return []
        cheapest = self.group.cheapest(tested_others)
        if self.group.share(best, cheapest) is None:
            return []
        n_dearer = sum(self.group.is_cheaper(best, method) for method in tested_others)
        cost = self._kind_and_extent(cheapest)
        if n_dearer == 0 and len(tested_others) > 1:
            methods = "All methods"
            if self.tests.untested:
                methods = "All tested methods"
            return [f"{methods} cost about the same, by {cost}."]
        name = self._name_of_cheapest(cheapest, tested_others)
        if n_dearer == len(tested_others):
            return [self._takes(best, cheapest, end=".", name_of_other=name)]
        return [f"{best.method} costs about the same as {name}, by {cost}."]

    def _name_of_cheapest(self, cheapest: Ranked, tested_others: Sequence[Ranked]) -> str:
        """The cheapest of several tested methods in a sentence: "bm25, the cheapest of the others",
        or "bm25, one of the cheapest of the others" where another one costs about the same.

        Args:
            cheapest: The method.
            tested_others: The tested methods but the best one.
        """
        if len(tested_others) == 1:
            return cheapest.method
        rank = "the cheapest"
        dearer = [other for other in tested_others if self.group.is_cheaper(cheapest, other)]
        if len(dearer) < len(tested_others) - 1:
            rank = "one of the cheapest"
        which = "the others"
        if self.tests.untested:
            which = "those that were tested"
        return f"{cheapest.method}, {rank} of {which}"

    def _take(self, runs: Sequence[Ranked]) -> list[str]:
        """The sentences on what one or two methods take of the best one's cost, as one where they were
        compared alike: "sbert takes 25 % of the FLOPs of pecan, indexes included, and bm25 5 %."

        Args:
            runs: The methods; their costs are known.
        """
        best = self.group.best
        first, *others = runs
        if not others:
            return [self._takes(first, best, end=".")]
        (second,) = others
        if self._limits(first) or self._limits(second):
            return [self._takes(run, best, end=".") for run in runs]
        also = f", and {second.method} {self._percent(second, best)}."
        return [self._takes(first, best, end=also)]

    def _limits(self, run: Ranked) -> str:
        """What limits the comparison of a method's cost with that of the best one: the questions that
        both answered, and other ways of counting that turn it round; "" for nothing."""
        share = self.group.share(run, self.group.best)
        compared = self.group.costs.compared
        assert share is not None
        assert compared is not None
        return f"{self._coverage(share)}{self._contrary(run, self.group.best)}"

    def _takes(
        self, run: Ranked, other: Ranked, *, end: str, name_of_other: str | None = None
    ) -> str:
        """The sentence on the cost of a method as a part of another's: "bm25 takes 12.5 % of the
        FLOPs of pecan, indexes included."

        Before its end it says over which questions, if not all, and the share under a way of
        counting that turns the comparison round: ", but 150 % under the convention full".

        Args:
            run: The method that is spoken of.
            other: The method that it is compared with; their costs are known.
            end: How the sentence ends: "."
            name_of_other: What the other is called; None: its method.
        """
        share = self.group.share(run, other)
        compared = self.group.costs.compared
        assert share is not None
        assert compared is not None
        of_other = f"{share.percent} of the {compared.kind} of {name_of_other or other.method}"
        limits = f"{self._coverage(share)}{self._contrary(run, other)}"
        return f"{run.method} takes {of_other}, {compared.remark}{limits}{end}"

    def _contrary(self, run: Ranked, other: Ranked) -> str:
        """The share of one cost in another under the ways of counting that turn the comparison round,
        ", but 150 % under the convention full"; "" for none."""
        compared = self.group.costs.compared
        assert compared is not None
        contrary = [
            compared.contrary_convention(run.row, other.row),
            compared.contrary_without_index(run.row, other.row),
        ]
        found = [each for each in contrary if each]
        if not found:
            return ""
        return f", but {join_names(found)}"

    def _coverage(self, share: CostShare) -> str:
        """Over which questions a share is, ", over the 18 of 20 questions that both answered"; "" where
        these are all, or as many as the first sentence says."""
        if share.n_shared == self.group.best.extent.n_questions:
            return ""
        return share.coverage

    def _percent(self, run: Ranked, other: Ranked) -> str:
        """The cost of a method as a part of another's: "12.5 %"."""
        share = self.group.share(run, other)
        assert share is not None
        return share.percent

    def _kind_and_extent(self, other: Ranked) -> str:
        """By which cost the best one and another were compared, "FLOPs, indexes included", and over
        which questions if not all."""
        share = self.group.share(self.group.best, other)
        compared = self.group.costs.compared
        assert share is not None
        assert compared is not None
        return f"{compared.kind}, {compared.remark}{self._coverage(share)}"

    def _failed_dear_questions(
        self, compared: ComparedCost, tested_others: Sequence[Ranked]
    ) -> list[str]:
        """One sentence on the questions that only one of the best and the cheapest method answered,
        where they take half or more of its cost; [] otherwise.

        -> ["The 2 questions that bm25 failed on take 92 % of the FLOPs of pecan."]

        Args:
            compared: The cost by which methods are compared.
            tested_others: The tested methods but the best one.
        """
        best = self.group.best
        cheapest = self.group.cheapest(tested_others)
        for run, other in ((best, cheapest), (cheapest, best)):
            unshared = compared.unshared_questions(run.row, other.row)
            if unshared is None:
                continue
            questions = with_noun(unshared.n_questions, "question")
            taken = f"{100 * unshared.share:.0f} % of the {compared.kind} of {run.method}"
            verb = "take"
            if unshared.n_questions == 1:
                verb = "takes"
            return [f"The {questions} that {other.method} failed on {verb} {taken}."]
        return []

    def _dominating_questions(
        self, compared: ComparedCost, tested_others: Sequence[Ranked]
    ) -> list[str]:
        """A sentence on each of the best and the cheapest method of whose cost a few questions take
        half or more; [] for none.

        -> ["One question takes 91 % of the FLOPs of pecan."]
           ["2 of 200 questions take 60 % of the FLOPs of agent."]
           ["One question takes 91 % of the FLOPs of pecan; without it bm25 takes 300 %."]

        Args:
            compared: The cost by which methods are compared.
            tested_others: The tested methods but the best one.
        """
        sentences = []
        best = self.group.best
        cheapest = self.group.cheapest(tested_others)
        for run, other in ((best, cheapest), (cheapest, best)):
            dear = compared.dominating_questions(run.row)
            if dear is None:
                continue
            taken = f"{100 * dear.share:.0f} % of the {compared.kind} of {run.method}"
            questions = f"{dear.n_questions} of {run.row.n_questions} questions take"
            without = "without them"
            if dear.n_questions == 1:
                questions = "One question takes"
                without = "without it"
            turned = compared.contrary_without_questions(other.row, run.row, dear.ids)
            if turned:
                taken = f"{taken}; {without} {other.method} takes {turned}"
            sentences.append(f"{questions} {taken}.")
        return sentences
