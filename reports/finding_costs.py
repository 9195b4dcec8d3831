"""The opening sentences on cost: which cheaper method may stand in for the best one, or what the
best one costs beside the others."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reports.compared_costs import ComparedCost
from reports.proposals import Proposals
from reports.ranked import Ranked
from reports.ranking import Difference, Group, PairTests
from reports.sentences import join_names

_MAY_LOSE_HALF = "though it may lose more than half of the points"


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
            *self._dominating_questions(compared, tested_others),
            *group.costs.remarks,
        ]

    def _first_that_applies(self, tested_others: Sequence[Ranked]) -> list[str]:
        """The first of these that can be said: cheaper methods that may be as good, what the best one
        saves against equal ones, what cheaper worse ones lose, what the best one costs.

        Args:
            tested_others: The tested methods but the best one.
        """
        return (
            self._proposals()
            or self._equals()
            or self._worse()
            or self._cost_of_best_beside(tested_others)
        )

    @cached_property
    def _tested_equals(self) -> list[Ranked]:
        """The tested methods with the same score as the best one, which is the cheapest of them."""
        equals = self.group.leaders[1:]
        return [method for method in equals if method.run_name in self.tests.from_best]

    def _proposals(self) -> list[str]:
        """Sentences on cheaper methods that the data cannot separate from the best one; [] for
        none.

        Where none may be proposed: that the first of them is not shown to beat a floor; where there
        is none of these either, which have no right answer.
        """
        best = self.group.best
        proposals = Proposals(self.group, self.tests)
        sentences = []
        if proposals.proposed is not None:
            sentences.append(self._takes(proposals.proposed, best, end="."))
        if proposals.risky is not None:
            sentences.append(self._takes(proposals.risky, best, end=f", {_MAY_LOSE_HALF}."))
        if sentences:
            return sentences
        if proposals.below_floor:
            cheap = proposals.below_floor[0]
            floors = [floor.method for floor in self.tests.floors_not_beaten(cheap)]
            end = f", but the data do not show that it scores more than {join_names(floors)}."
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
        best_minus_dearest = self.tests.from_best[dearest.run_name]
        if best_minus_dearest.low is None or -best_minus_dearest.low > best.score / 2:
            also = f"{also}, {_MAY_LOSE_HALF}"
        return [self._takes(best, dearest, end=f"{also}.")]

    def _worse(self) -> list[str]:
        """Sentences on what cheaper methods lose that the data separate from the best one: the one
        with the highest score, and the cheapest; [] for none."""
        best = self.group.best
        separated = self.tests.separated  # highest score first
        cheaper = [method for method in separated if self.group.is_cheaper(method, best)]
        if not cheaper:
            return []
        highest_score = cheaper[0]
        cheapest = self.group.cheapest(cheaper)
        sentences = [self._loses(highest_score)]
        if self.group.is_cheaper(cheapest, highest_score):
            sentences.append(self._loses(cheapest))
        return sentences

    def _loses(self, cheap: Ranked) -> str:
        """The sentence on what a worse method loses and saves against the best one.

        -> "bm25 scores 5.0 points less (95 % interval 1.2 to 9.0) and takes 25 % of the FLOPs
            of pecan, indexes included."
        """
        best_minus_cheap: Difference = self.tests.from_best[cheap.run_name]
        less = f"{100 * best_minus_cheap.difference:.1f} points less"
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
        name = cheapest.method
        if self.tests.untested and len(tested_others) > 1:
            name = f"{name}, the cheapest of those that were tested"
        elif len(tested_others) > 1:
            name = f"{name}, the cheapest of the others"
        if self.group.is_cheaper(best, cheapest):
            return [self._takes(best, cheapest, end=".", name_of_other=name)]
        return [
            f"{best.method} costs about the same as {name}, by {self._kind_and_extent(cheapest)}."
        ]

    def _takes(
        self, run: Ranked, other: Ranked, *, end: str, name_of_other: str | None = None
    ) -> str:
        """The sentence on the cost of a method as a part of another's: "bm25 takes 12.5 % of the
        FLOPs of pecan, indexes included."

        Before its end it says over which questions, if not all, and the share under a way of
        counting FLOPs that turns the comparison round: " (but 150 % under the convention full)".

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
        contrary = compared.contrary_convention(run.row, other.row)
        if contrary:
            contrary = f" (but {contrary})"
        return f"{run.method} takes {of_other}, {compared.remark}{share.coverage}{contrary}{end}"

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
        return f"{compared.kind}, {compared.remark}{share.coverage}"

    def _dominating_questions(
        self, compared: ComparedCost, tested_others: Sequence[Ranked]
    ) -> list[str]:
        """A sentence on each of the best and the cheapest method of whose cost one question takes
        half or more; [] for none.

        -> ["One question takes 91 % of the FLOPs of pecan."]

        Args:
            compared: The cost by which methods are compared.
            tested_others: The tested methods but the best one.
        """
        sentences = []
        for run in (self.group.best, self.group.cheapest(tested_others)):
            share = compared.dominating_question(run.row)
            if share is not None:
                taken = f"{100 * share:.0f} % of the {compared.kind} of {run.method}"
                sentences.append(f"One question takes {taken}.")
        return sentences
