"""Which cheaper methods may be proposed in place of the best one.

    proposals = Proposals(group, tests)
    proposals.nearly_as_good     sbert: scores 95 % of the best or more
    proposals.proposed           bm25: cheaper than that, and sure to keep half of the best score
    proposals.risky              lead: cheaper still, but it may lose more than half

The best one is not shown to be better than any of them. None has a score of 0 or gave one text to
all questions, and each is shown to be better than every floor.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from reports.ranked import Ranked
from reports.ranking import Group, PairTests

_NEARLY_AS_GOOD = 0.95
"""Of the best score: a method with so much is nearly as good."""


@dataclass(frozen=True)
class Proposals:
    """The cheaper methods that the best one is not shown to be better than.

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

    @cached_property
    def nearly_as_good(self) -> Ranked | None:
        """The cheapest of the methods that may be proposed and score nearly as much as the best one;
        None where there is none."""
        least_score = _NEARLY_AS_GOOD * self.group.best.score
        near = [rival for rival in self._keeping_half if rival.score >= least_score]
        return _first(self._better_than_floors(near))

    @property
    def safe(self) -> list[Ranked]:
        """The method that is nearly as good and the cheapest one, or the one that is both; [] for
        none."""
        safe = []
        if self.nearly_as_good is not None:
            safe.append(self.nearly_as_good)
        if self.proposed is not None and self.proposed is not self.nearly_as_good:
            safe.append(self.proposed)
        return safe

    @property
    def named_rivals(self) -> list[Ranked]:
        """Of many methods that the best one is not shown to be better than, those to name: one that is
        nearly as good and cheaper, else the one with the highest score; and the cheapest that may be
        proposed, else the risky one."""
        nearest = self.nearly_as_good or self.tests.rivals[0]
        cheapest = self.proposed or self.risky
        if cheapest is None or cheapest is nearest:
            return [nearest]
        return [nearest, cheapest]

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
        """The methods that the best one is not shown to be better than and that are cheaper than it,
        cheapest first; without those that gave one text to all questions."""
        best = self.group.best
        cheaper = [rival for rival in self.tests.rivals if self.group.is_cheaper(rival, best)]
        reading = [rival for rival in cheaper if rival.run_name not in self.tests.one_texts]
        return self.group.cheapest_first(reading)

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
        """Those that are shown to be better than every floor."""
        return [rival for rival in rivals if not self.tests.floors_not_beaten(rival)]


def _first(rivals: Sequence[Ranked]) -> Ranked | None:
    """The first of some methods; None where there is none."""
    if not rivals:
        return None
    return rivals[0]
