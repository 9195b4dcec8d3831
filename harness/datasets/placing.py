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
from dataclasses import replace
from itertools import accumulate
from typing import NamedTuple

from harness.config.yaml_tree import Tree, validate_tree
from harness.datasets.place_options import Placement, PlaceOptions, placement
from harness.datasets.rows import SEPARATOR, Row


def split_options(options: Mapping[str, object]) -> tuple[Placement | None, dict[str, object]]:
    """Split the options of a data set into those that place paragraphs and the others.

    {"place": "tail", "files": "a.json"} -> (Placement("tail", 0.0), {"files": "a.json"})

    Args:
        options: dataset.options.

    Returns:
        The placement that they ask for, None where nothing is moved; and the other options.

    Raises:
        ConfigError: A placement cannot be used.
    """
    values: dict[str, object] = {}
    other_options: dict[str, object] = {}
    for key, value in options.items():
        if key in PlaceOptions.model_fields:
            values[key] = value
        else:
            other_options[key] = value
    return placement(validate_tree(PlaceOptions, Tree([("", values)]), "dataset")), other_options


def rearrange(row: Row, placement: Placement) -> Row:
    """Move the supporting paragraphs of a row to a placement; `supporting` gets their new indices.

    Numbers of paragraphs in its `extra` are not changed: they count the original order.

    Args:
        row: The row.
        placement: Where its supporting paragraphs are to be.
    """
    sizes = [_size(title, text) for title, text in row.paragraphs]
    order = _new_order(sizes, sorted(set(row.supporting)), placement)
    new_places = {old: new for new, old in enumerate(order)}
    return replace(
        row,
        paragraphs=tuple(row.paragraphs[old] for old in order),
        supporting=tuple(new_places[old] for old in row.supporting),
    )


def _size(title: str, text: str) -> int:
    """The number of characters that a paragraph takes in the document, its separator included."""
    line_break = int(bool(title) and bool(text))
    return len(title) + len(text) + line_break + len(SEPARATOR)


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
    between = fillers[split.before : split.before + split.inside]
    gaps = len(supporting) - 1
    order = fillers[: split.before]
    for gap, index in enumerate(supporting):
        order.append(index)
        if gap < gaps:
            start = split.inside * gap // gaps
            end = split.inside * (gap + 1) // gaps
            order += between[start:end]
    return order + fillers[split.before + split.inside :]


class _Split(NamedTuple):
    """Where the paragraphs that are not supporting ("fillers") stand.

    Attributes:
        before: How many stand before the first supporting paragraph.
        inside: How many stand between it and the last one.
    """

    before: int
    inside: int


def _best_split(fillers: Sequence[int], supporting: Sequence[int], placement: Placement) -> _Split:
    """The split of the other paragraphs ("fillers") that comes nearest to the placement.

    Args:
        fillers: Characters of each paragraph that is not supporting.
        supporting: Characters of each supporting one.
        placement: The place and the distance that are wanted.
    """
    ends = [0, *accumulate(fillers)]
    supporting_size = sum(supporting)
    total_size = ends[-1] + supporting_size
    # From centre to centre with nothing in between.
    nearest = supporting_size - (supporting[0] + supporting[-1]) / 2
    between = 0.0
    if len(supporting) > 1:
        between = max(0.0, placement.distance * total_size - nearest)

    def misplacement(split: _Split) -> float:
        """Characters by which a split misses the wanted distance and, for "middle", the centre."""
        span = ends[split.before + split.inside] - ends[split.before]
        missed = abs(span - between)
        if placement.place == "middle":
            centre = ends[split.before] + (supporting[0] + nearest + span) / 2
            missed += abs(centre - total_size / 2)
        return missed

    return min(_candidate_splits(ends, between, placement.place), key=misplacement)


def _candidate_splits(ends: Sequence[int], between: float, place: str) -> Iterator[_Split]:
    """Yield the splits to try: for each number of fillers before, those with about `between`
    inside.

    Args:
        ends: ends[i] is the number of characters of the first i fillers.
        between: The characters of fillers wanted inside.
        place: "head" (no filler before), "middle" or "tail" (no filler after).
    """
    last = len(ends) - 1
    for before in range(last + 1):
        if place == "head" and before:
            return
        for end in _candidate_ends(ends, between, before, place):
            yield _Split(before, end - before)


def _candidate_ends(ends: Sequence[int], between: float, before: int, place: str) -> list[int]:
    """How many fillers may stand before the last supporting paragraph.

    The two numbers that come nearest to what is wanted inside; for the tail, all fillers.

    Args:
        ends: ends[i] is the number of characters of the first i fillers.
        between: The characters of fillers wanted inside.
        before: How many fillers stand before the first supporting paragraph.
        place: "head", "middle" or "tail".
    """
    last = len(ends) - 1
    if place == "tail":
        return [last]
    near = bisect_left(ends, ends[before] + between, before)
    return [end for end in (near - 1, near) if before <= end <= last]
