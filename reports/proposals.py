"""Which cheaper methods may be proposed in place of the best one.

    proposals = Proposals(group, tests)
    proposals.proposed      bm25: within reach of the best, and sure to keep half of its score
    proposals.risky         lead: within reach, but it may lose more than half

Neither has a score of 0, and the data separate both from every floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reports.ranked import Ranked
from reports.ranking import Group, PairTests


@dataclass(frozen=True)
class Proposals:
    """The cheaper methods that the data cannot separate from the best one.

    Args:
        group: The ranked runs.
        tests: Their tests.
    """

    group: Group
    tests: PairTests

    @cached_property
    def proposed(self) -> Ranked | None:
        """The cheapest that may be proposed; None for none."""
        return next(iter(self._above_floors(self._safe)), None)

    @cached_property
    def risky(self) -> Ranked | None:
        """The cheapest that may lose more than half of the best score, if it is cheaper than the
        proposed one; None for none."""
        risky = next(iter(self._above_floors(self._may_lose_half)), None)
        if risky is None or self.proposed is None or self.group.is_cheaper(risky, self.proposed):
            return risky
        return None

    @property
    def first_named_rival(self) -> Ranked:
        """Of many rivals the one to name: the proposed one, else the risky one, else the best."""
        return self.proposed or self.risky or self.tests.rivals[0]

    @cached_property
    def without_right_answer(self) -> list[Ranked]:
        """The cheaper rivals whose score is 0."""
        return [each for each in self._cheaper_rivals if each.is_zero]

    @cached_property
    def below_floor(self) -> list[Ranked]:
        """The cheaper rivals, cheapest first, that are not shown to score more than every floor."""
        scoring = [*self._safe, *self._may_lose_half]
        return [each for each in scoring if self.tests.floors_not_beaten(each)]

    @cached_property
    def _cheaper_rivals(self) -> list[Ranked]:
        """The rivals that are cheaper than the best one, cheapest first."""
        best = self.group.best
        remaining = [each for each in self.tests.rivals if self.group.is_cheaper(each, best)]
        in_order = []
        while remaining:
            cheapest = self.group.cheapest(remaining)
            remaining.remove(cheapest)
            in_order.append(cheapest)
        return in_order

    @cached_property
    def _safe(self) -> list[Ranked]:
        """The cheaper rivals that keep at least half of the best score, cheapest first."""
        return [each for each in self._cheaper_rivals if self._keeps_half(each)]

    @cached_property
    def _may_lose_half(self) -> list[Ranked]:
        """The cheaper rivals with a score above 0 that may lose more than half of the best score,
        cheapest first."""
        risky = [each for each in self._cheaper_rivals if not self._keeps_half(each)]
        return [each for each in risky if not each.is_zero]

    def _keeps_half(self, rival: Ranked) -> bool:
        """Whether a rival keeps at least half of the best score even if it loses as much as the
        interval allows."""
        return self.tests.from_best[rival.run_name].leaves_half_of(self.group.best.score)

    def _above_floors(self, runs: Sequence[Ranked]) -> list[Ranked]:
        """Those of the runs that the data separate from every floor."""
        return [each for each in runs if not self.tests.floors_not_beaten(each)]
