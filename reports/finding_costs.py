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
        """The sentences; only why costs are not compared where they are unknown, [] for a single
        method."""
        group = self.group
        tested = [*self.tests.rivals, *self.tests.separated, *self._tested_equals]
        if len(group.methods) == 1:
            return []
        compared = group.costs.compared
        if compared is None or not tested:
            return list(group.costs.remarks)
        sentences = self._proposals() or self._equals() or self._worse() or self._best(tested)
        return [*sentences, *self._dominating_questions(compared, tested), *group.costs.remarks]

    @cached_property
    def _tested_equals(self) -> list[Ranked]:
        """The tested methods with the score of the best one."""
        return [each for each in self.group.leaders[1:] if each.run_name in self.tests.from_best]

    def _proposals(self) -> list[str]:
        """Sentences on cheaper methods that the data cannot separate from the best one; [] for
        none.

        Where none may be proposed: that the cheapest has no right answer, or is no better than a
        floor.
        """
        best = self.group.best
        proposals = Proposals(self.group, self.tests)
        sentences = []
        if proposals.proposed is not None:
            sentences.append(self._takes(proposals.proposed, best, "."))
        if proposals.risky is not None:
            sentences.append(self._takes(proposals.risky, best, f", {_MAY_LOSE_HALF}."))
        if sentences:
            return sentences
        if proposals.below_floor:
            cheap = proposals.below_floor[0]
            floors = join_names([floor.method for floor in self.tests.floors_not_beaten(cheap)])
            end = f", but the data do not show that it scores more than {floors}."
            return [self._takes(cheap, best, end)]
        if proposals.without_right_answer:
            names = join_names([each.method for each in proposals.without_right_answer])
            verb = "have"
            if len(proposals.without_right_answer) == 1:
                verb = "has"
            return [f"{names} {verb} no right answer."]
        return []

    def _equals(self) -> list[str]:
        """One sentence on what the best method takes of the dearest one with the same score, and
        whether it may lose more than half of the score; [] where none is dearer.

        The next cheapest of them is named too:

            -> ["a takes 10 % of the FLOPs of c, indexes included, and b 20 %."]
        """
        best = self.group.best
        if not self._tested_equals:
            return []
        dearest = self._tested_equals[-1]
        if not self.group.is_cheaper(best, dearest):
            return []
        end = "."
        next_cheapest = self._tested_equals[0]
        if self.group.is_cheaper(next_cheapest, dearest):
            end = f", and {next_cheapest.method} {self._percent(next_cheapest, dearest)}."
        difference = self.tests.from_best[dearest.run_name]
        if difference.low is None or -difference.low > best.score / 2:
            end = f"{end[:-1]}, {_MAY_LOSE_HALF}."
        return [self._takes(best, dearest, end)]

    def _worse(self) -> list[str]:
        """Sentences on what cheaper methods lose that the data separate from the best one: the one
        with the highest score, and the cheapest; [] for none."""
        best = self.group.best
        cheaper = [each for each in self.tests.separated if self.group.is_cheaper(each, best)]
        if not cheaper:
            return []
        nearest = cheaper[0]
        cheapest = self.group.cheapest(cheaper)
        sentences = [self._loses(nearest)]
        if self.group.is_cheaper(cheapest, nearest):
            sentences.append(self._loses(cheapest))
        return sentences

    def _loses(self, cheap: Ranked) -> str:
        """The sentence on what a worse method loses and saves against the best one.

        -> "bm25 scores 5.0 points less (95 % interval 1.2 to 9.0) and takes 25 % of the FLOPs
            of pecan, indexes included."
        """
        difference: Difference = self.tests.from_best[cheap.run_name]
        fewer = f"{100 * difference.difference:.1f} points less"
        if difference.interval is not None:
            fewer = f"{fewer} ({difference.interval})"
        takes = self._takes(cheap, self.group.best, ".").removeprefix(f"{cheap.method} ")
        return f"{cheap.method} scores {fewer} and {takes}"

    def _best(self, others: Sequence[Ranked]) -> list[str]:
        """One sentence on what the best method costs beside the cheapest other one; [] where an
        untested one is cheaper, or nothing is known of the others.

        Args:
            others: The other tested methods.
        """
        best = self.group.best
        if any(self.group.is_cheaper(each, best) for each in self.group.methods):
            return []
        cheapest = self.group.cheapest(others)
        if self.group.share(best, cheapest) is None:
            return []
        name = cheapest.method
        if self.tests.untested and len(others) > 1:
            name = f"{name}, the cheapest of those that were tested"
        elif len(others) > 1:
            name = f"{name}, the cheapest of the others"
        if self.group.is_cheaper(best, cheapest):
            return [self._takes(best, cheapest, ".", name)]
        return [
            f"{best.method} costs about the same as {name}, by {self._kind_and_extent(cheapest)}."
        ]

    def _takes(self, run: Ranked, other: Ranked, end: str, name: str | None = None) -> str:
        """The sentence on the cost of a method as a part of another's: "bm25 takes 12.5 % of the
        FLOPs of pecan, indexes included."

        Args:
            run: The method that is spoken of.
            other: The method that it is compared with.
            end: How the sentence ends.
            name: What the other is called; None: its method.
        """
        share = self.group.share(run, other)
        compared = self.group.costs.compared
        assert share is not None
        assert compared is not None
        of_other = f"{share.percent} of the {compared.kind} of {name or other.method}"
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
        """By which cost the best one and another were compared: "FLOPs, indexes included"."""
        share = self.group.share(self.group.best, other)
        compared = self.group.costs.compared
        assert share is not None
        assert compared is not None
        return f"{compared.kind}, {compared.remark}{share.coverage}"

    def _dominating_questions(self, compared: ComparedCost, tested: Sequence[Ranked]) -> list[str]:
        """A sentence on each of the best and the cheapest method of whose cost one question takes
        half or more; [] for none.

        -> ["One question takes 91 % of the FLOPs of pecan."]

        Args:
            compared: The cost by which methods are compared.
            tested: The other tested methods.
        """
        sentences = []
        for run in (self.group.best, self.group.cheapest(tested)):
            share = compared.dominating_question(run.row)
            if share is not None:
                taken = f"{100 * share:.0f} % of the {compared.kind} of {run.method}"
                sentences.append(f"One question takes {taken}.")
        return sentences
