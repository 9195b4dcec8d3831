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
from typing import Any

from harness.config.yaml_tree import Tree, build
from harness.datasets.place_options import Placement, PlaceOptions, placement
from harness.datasets.rows import SEPARATOR, Row


def split_options(options: Mapping[str, Any]) -> tuple[Placement | None, dict[str, Any]]:
    """(placement that dataset.options ask for, None: no move; the other options). Raises
    ConfigError."""
    values = {key: value for key, value in options.items() if key in PlaceOptions.model_fields}
    other_options = {key: value for key, value in options.items() if key not in values}
    return placement(build(PlaceOptions, Tree([("", values)]), "dataset")), other_options


def rearrange(row: Row, placement: Placement) -> Row:
    """The row with supporting paragraphs moved to `placement`; numbers in `extra` still count the
    original order."""
    sizes = [sum(map(len, part)) + all(part) + len(SEPARATOR) for part in row.paragraphs]
    order = _new_order(sizes, sorted(set(row.supporting)), placement)
    at = {old: new for new, old in enumerate(order)}
    return replace(
        row,
        paragraphs=tuple(row.paragraphs[old] for old in order),
        supporting=tuple(at[old] for old in row.supporting),
    )


def _new_order(sizes: Sequence[int], supporting: Sequence[int], placement: Placement) -> list[int]:
    """The old positions of all paragraphs in their new order. sizes: characters of each;
    supporting: old positions."""
    if not supporting:
        return [*range(len(sizes))]
    fillers = [index for index in range(len(sizes)) if index not in set(supporting)]
    n_before, n_between = _best_split(
        [sizes[index] for index in fillers], [sizes[index] for index in supporting], placement
    )
    between, gaps = fillers[n_before : n_before + n_between], len(supporting) - 1
    order = fillers[:n_before]
    for gap, index in enumerate(supporting):
        order.append(index)
        if gap < gaps:
            order += between[n_between * gap // gaps : n_between * (gap + 1) // gaps]
    return order + fillers[n_before + n_between :]


def _best_split(
    fillers: Sequence[int], supporting: Sequence[int], placement: Placement
) -> tuple[int, int]:
    """How many other paragraphs to put before the first supporting one, and how many between it and
    the last.

    fillers, supporting: characters of each paragraph that is not supporting and that is.
    """
    ends = [0, *accumulate(fillers)]
    total_size, supporting_size = ends[-1] + sum(supporting), sum(supporting)
    apart = (
        supporting_size - (supporting[0] + supporting[-1]) / 2
    )  # from centre to centre with nothing in between
    between = max(0.0, placement.distance * total_size - apart) if len(supporting) > 1 else 0.0

    def misplacement(choice: tuple[int, int]) -> float:
        """Characters by which a (before, inside) misses the wanted distance and, for "middle", the
        centre."""
        before, inside = choice
        span = ends[before + inside] - ends[before]
        centre = ends[before] + (supporting[0] + apart + span) / 2
        return abs(span - between) + (
            abs(centre - total_size / 2) if placement.place == "middle" else 0.0
        )

    return min(_candidate_splits(ends, between, placement.place), key=misplacement)


def _candidate_splits(ends: Sequence[int], between: float, place: str) -> Iterator[tuple[int, int]]:
    """Yield the (before, inside) to try. ends[i]: characters of the first i fillers; between: those
    wanted inside."""
    last = len(ends) - 1
    for before in range(last + 1):
        if place == "head" and before:
            return
        if place == "tail":
            stops = [last]
        else:
            near = bisect_left(ends, ends[before] + between, before)
            stops = [end for end in (near - 1, near) if before <= end <= last]
        for end in stops:
            yield before, end - before
