"""Move supporting paragraphs to a place: the same paragraphs in another order (QRMeM, table 3 and
study of distances).

    place       head  [S][S][ ][ ][ ][ ]     middle  [ ][ ][S][S][ ][ ]     tail  [ ][ ][ ][ ][S][S]
    distance    0.5   [S][ ][ ][S][ ][ ]             [ ][S][ ][ ][S][ ]           [ ][ ][S][ ][ ][S]

    dataset.place=tail            the supporting paragraphs end the text
    dataset.distance=1            the first and the last one stand at its ends; place is "middle" by default

distance is from the first centre to the last, a share of the text, as `harness study position`
measures it. Supporting paragraphs keep their order among themselves, and so do the others; what
stands between more than two is spread evenly. Whole paragraphs are moved, so both numbers are met
as nearly as their sizes allow. Nothing is drawn by chance: the rows of all places hold the same
questions over the same paragraphs.
"""

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple

from harness.datasets.base import parse_options
from harness.datasets.place_options import (
    Place,
    Placement,
    PlaceOptions,
    placement_from_options,
)
from harness.datasets.rows import SEPARATOR, Row


class SplitOptions(NamedTuple):
    """The options of a data set, those that place paragraphs apart from the others.

    Attributes:
        placement: Where the supporting paragraphs are moved; None: nowhere.
        others: The other options.
    """

    placement: Placement | None
    others: dict[str, object]


def split_options(options: Mapping[str, object]) -> SplitOptions:
    """Split the options of a data set into those that place paragraphs and the others.

    {"place": "tail", "files": "a.json"}
        -> SplitOptions(placement=Placement("tail", 0.0), others={"files": "a.json"})

    Raises ConfigError for a placement that cannot be used.
    """
    place_options: dict[str, object] = {}
    other_options: dict[str, object] = {}
    for key, value in options.items():
        if key in PlaceOptions.model_fields:
            place_options[key] = value
        else:
            other_options[key] = value
    checked_options = parse_options(PlaceOptions, place_options)
    return SplitOptions(placement_from_options(checked_options), other_options)


def with_support_moved(row: Row, placement: Placement) -> Row:
    """The row with its supporting paragraphs moved to a placement; `supporting` has their new
    indices.

    Numbers of paragraphs in its `extra` are not changed: they count the original order.

    Args:
        row: The row.
        placement: Where its supporting paragraphs are to be.
    """
    sizes = [_characters_in_document(title, text) for title, text in row.paragraphs]
    old_indices = _new_order(sizes, sorted(set(row.supporting)), placement)
    new_index_by_old = {old: new for new, old in enumerate(old_indices)}
    return replace(
        row,
        paragraphs=tuple(row.paragraphs[old] for old in old_indices),
        supporting=tuple(new_index_by_old[old] for old in row.supporting),
    )


def _characters_in_document(title: str, text: str) -> int:
    """The number of characters that a paragraph takes in the document, its separator included."""
    has_line_break = bool(title) and bool(text)
    return len(title) + len(text) + int(has_line_break) + len(SEPARATOR)


def _new_order(sizes: Sequence[int], supporting: Sequence[int], placement: Placement) -> list[int]:
    """The old indices of all paragraphs in their new order.

    With paragraphs 0 to 3, supporting 1 and 3, at the "head": [1, 3, 0, 2]

    Args:
        sizes: Characters of each paragraph.
        supporting: Old indices of the supporting ones, ascending.
        placement: Where these are to be.
    """
    if not supporting:
        return list(range(len(sizes)))
    fillers = [index for index in range(len(sizes)) if index not in supporting]
    filler_sizes = [sizes[index] for index in fillers]
    supporting_sizes = [sizes[index] for index in supporting]
    split = _best_split(filler_sizes, supporting_sizes, placement)
    fillers_before = fillers[: split.n_before]
    fillers_inside = fillers[split.n_before : split.n_before + split.n_inside]
    fillers_after = fillers[split.n_before + split.n_inside :]
    n_gaps = len(supporting) - 1
    order = [*fillers_before]
    for gap, index in enumerate(supporting):
        order.append(index)
        if gap < n_gaps:  # the fillers inside are spread evenly over the gaps
            start = split.n_inside * gap // n_gaps
            end = split.n_inside * (gap + 1) // n_gaps
            order += fillers_inside[start:end]
    return order + fillers_after


class _FillerSplit(NamedTuple):
    """How many of the paragraphs that are not supporting ("fillers") stand where.

    Attributes:
        n_before: How many stand before the first supporting paragraph.
        n_inside: How many stand between it and the last one; the rest stand after that.
    """

    n_before: int
    n_inside: int


def _best_split(
    filler_sizes: Sequence[int], supporting_sizes: Sequence[int], placement: Placement
) -> _FillerSplit:
    """The split of the other paragraphs ("fillers") that comes nearest to the placement.

    Args:
        filler_sizes: Characters of each paragraph that is not supporting.
        supporting_sizes: Characters of each supporting one.
        placement: The place and the distance that are wanted.
    """
    total_size = sum(filler_sizes) + sum(supporting_sizes)
    # From the centre of the first supporting paragraph to that of the last, without fillers.
    least_distance = sum(supporting_sizes) - (supporting_sizes[0] + supporting_sizes[-1]) / 2
    wanted_inside = 0.0  # size of the fillers between these two
    if len(supporting_sizes) > 1:
        wanted_inside = max(0.0, placement.distance * total_size - least_distance)
    layout = _Layout(
        filler_size_up_to=[0, *accumulate(filler_sizes)],
        first_supporting_size=supporting_sizes[0],
        least_distance=least_distance,
        wanted_inside=wanted_inside,
        text_centre=total_size / 2,
        place=placement.place,
    )
    return min(layout.candidate_splits(), key=layout.misplacement)


@dataclass(frozen=True)
class _Layout:
    """The sizes of a text's paragraphs, and where the supporting ones should be; all in characters.

    Attributes:
        filler_size_up_to: filler_size_up_to[i] is the size of the first i fillers, the paragraphs
            that are not supporting.
        first_supporting_size: The size of the first supporting paragraph.
        least_distance: From the centre of the first supporting paragraph to that of the last where
            no filler stands inside.
        wanted_inside: The size of the fillers that are wanted between these two.
        text_centre: The middle of the text.
        place: "head" (no filler before the first), "middle" or "tail" (no filler after the last).
    """

    filler_size_up_to: Sequence[int]
    first_supporting_size: int
    least_distance: float
    wanted_inside: float
    text_centre: float
    place: Place

    def misplacement(self, split: _FillerSplit) -> float:
        """Characters by which a split misses the wanted distance and, for "middle", the centre."""
        size_before = self.filler_size_up_to[split.n_before]
        size_inside = self.filler_size_up_to[split.n_before + split.n_inside] - size_before
        missed = abs(size_inside - self.wanted_inside)
        if self.place == "middle":
            # Half way from the centre of the first supporting paragraph to that of the last.
            first_centre = size_before + self.first_supporting_size / 2
            centre = first_centre + (self.least_distance + size_inside) / 2
            missed += abs(centre - self.text_centre)
        return missed

    def candidate_splits(self) -> Iterator[_FillerSplit]:
        """Yield the splits to try: for each number of fillers before the first supporting
        paragraph, those with about `wanted_inside` characters of fillers between it and the last.

        At the "head" no filler stands before the first; at the "tail" all others stand inside, none
        after the last.
        """
        n_fillers = len(self.filler_size_up_to) - 1
        for n_before in range(n_fillers + 1):
            if self.place == "head" and n_before > 0:
                return
            if self.place == "tail":
                yield _FillerSplit(n_before, n_inside=n_fillers - n_before)
                continue
            wanted_up_to_last = self.filler_size_up_to[n_before] + self.wanted_inside
            n_enough = bisect_left(self.filler_size_up_to, wanted_up_to_last, lo=n_before)
            for n_up_to_last in (n_enough - 1, n_enough):  # just too few fillers, and just enough
                if n_before <= n_up_to_last <= n_fillers:
                    yield _FillerSplit(n_before, n_inside=n_up_to_last - n_before)
