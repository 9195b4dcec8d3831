"""A text as units: tokens of the compressor, where those that only together make a character are one unit.

"The Ré" ──► "The" | " R" | "é" (two tokens)          units tile the text, so that any of them can be left out
kept(units, mask) ──► runs of kept units as spans of characters
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np

from harness.models import MeteredModel
from methods.chunks import Span


@dataclass(frozen=True)
class Units:
    """Unit i is text[cuts[i]:cuts[i + 1]] and has sizes[i] tokens."""

    text: str
    cuts: tuple[int, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.sizes)

    def piece(self, i: int) -> str:
        """The text of unit i."""
        return self.text[self.cuts[i] : self.cuts[i + 1]]

    def at(self, character: int) -> int:
        """The first unit that begins at `character` or behind it."""
        return min(bisect_left(self.cuts, character), len(self))

    def part(self, first: int, last: int) -> Units:
        """Units [first, last) as a text of their own."""
        start = self.cuts[first]
        cuts = tuple(cut - start for cut in self.cuts[first : last + 1])
        return Units(self.text[start : self.cuts[last]], cuts, self.sizes[first:last])


def units_of(text: str, model: MeteredModel) -> Units:
    """The units of `text` by `model`'s tokenizer; white space that no token covers goes with the unit before it."""
    starts: list[int] = []
    sizes: list[int] = []
    end = 0
    for a, b in model.offsets(text):
        if starts and (a < end or a == b):
            sizes[-1] += 1
        else:
            starts.append(a)
            sizes.append(1)
        end = max(end, b)
    return Units(text, (0, *starts[1:], len(text)) if starts else (0,), tuple(sizes))


def joined(pieces: Sequence[str], sizes: Sequence[int]) -> Units:
    """Units of separate pieces joined into one text."""
    return Units("".join(pieces), (0, *accumulate(map(len, pieces))), tuple(sizes))


def kept(units: Units, mask: np.ndarray) -> list[Span]:
    """Runs of units with mask [units] true, as spans of characters."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(units.cuts[a], units.cuts[b]) for a, b in list(pairwise(edges.tolist()))[::2]]
