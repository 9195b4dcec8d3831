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
        """The cheapest method that keeps at least half of the best score, and scores more than
        every floor; None where there is none."""
        return _first(self._better_than_floors(self._keeping_half))

    @cached_property
    def risky(self) -> Ranked | None:
        """The cheapest method that may lose more than half of the best score, and scores more than
        every floor; None where there is none, or it is not cheaper than the proposed one."""
        risky = _first(self._better_than_floors(self._may_lose_half))
        if risky is None:
            return None
        if self.proposed is not None and not self.group.is_cheaper(risky, self.proposed):
            return None
        return risky

    @property
    def first_named_rival(self) -> Ranked:
        """Of many methods that the data cannot separate from the best one, the one to name: the
        proposed one, else the risky one, else the one with the highest score."""
        rival_with_highest_score = self.tests.rivals[0]
        return self.proposed or self.risky or rival_with_highest_score

    @cached_property
    def without_right_answer(self) -> list[Ranked]:
        """The cheaper methods whose score is 0, cheapest first."""
        return [rival for rival in self._cheaper_rivals if rival.is_zero]

    @cached_property
    def below_floor(self) -> list[Ranked]:
        """The cheaper methods with a score above 0 that are not shown to score more than every floor;
        first those that keep half of the best score, then the others, each cheapest first."""
        scoring = [*self._keeping_half, *self._may_lose_half]
        return [rival for rival in scoring if self.tests.floors_not_beaten(rival)]

    @cached_property
    def _cheaper_rivals(self) -> list[Ranked]:
        """The methods that the data cannot separate from the best one and that are cheaper than it,
        cheapest first."""
        best = self.group.best
        cheaper = [rival for rival in self.tests.rivals if self.group.is_cheaper(rival, best)]
        return self.group.cheapest_first(cheaper)

    @cached_property
    def _keeping_half(self) -> list[Ranked]:
        """The cheaper methods that keep at least half of the best score, cheapest first."""
        return [rival for rival in self._cheaper_rivals if self._keeps_half(rival)]

    @cached_property
    def _may_lose_half(self) -> list[Ranked]:
        """The cheaper methods with a score above 0 that may lose more than half of the best score,
        cheapest first."""
        scoring = [rival for rival in self._cheaper_rivals if not rival.is_zero]
        return [rival for rival in scoring if not self._keeps_half(rival)]

    def _keeps_half(self, rival: Ranked) -> bool:
        """Whether a method keeps at least half of the best score even if it loses as much as the
        interval of the difference allows."""
        best_minus_rival = self.tests.from_best[rival.run_name]
        return best_minus_rival.leaves_half_of(self.group.best.score)

    def _better_than_floors(self, rivals: Sequence[Ranked]) -> list[Ranked]:
        """Those that score more than every floor, as far as the data separate them from it."""
        return [rival for rival in rivals if not self.tests.floors_not_beaten(rival)]


def _first(rivals: Sequence[Ranked]) -> Ranked | None:
    """The first of some methods; None where there is none."""
    if not rivals:
        return None
    return rivals[0]
