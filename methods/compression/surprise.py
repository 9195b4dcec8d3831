"""How surprising each unit is: -log p (nats) under the compressor, a mean over the unit's tokens.

    surprise(s, model, units)      of units behind what session `s` holds, in one request
    Context                        a session that grows by the units that are kept, and forgets when its window is full

A window of a text is encoded on its own, so its first tokens may be cut otherwise than in the whole
text; what a token costs is then shared out by characters.

A text as units: tokens of the compressor, where those that only together make a character are one
unit.

"The Ré" ──► "The" | " R" | "é" (two tokens)          units tile the text, so that any of them can be left out
spans_of_kept(units, mask) ──► runs of kept units as spans of characters
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Self

import numpy as np

from harness.errors import ModelOutputError, WindowExceeded
from harness.models import MeteredModel, Session
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

    def unit_at(self, character: int) -> int:
        """The first unit that begins at `character` or behind it."""
        return min(bisect_left(self.cuts, character), len(self))

    def part(self, first: int, last: int) -> Units:
        """Units [first, last) as a text of their own."""
        start = self.cuts[first]
        cuts = tuple(cut - start for cut in self.cuts[first : last + 1])
        return Units(self.text[start : self.cuts[last]], cuts, self.sizes[first:last])


def units_of(text: str, model: MeteredModel) -> Units:
    """The units of `text` by `model`'s tokenizer; white space of no token goes with the unit before
    it."""
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


def spans_of_kept(units: Units, mask: np.ndarray) -> list[Span]:
    """Runs of units with mask [units] true, as spans of characters."""
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.astype(np.int8), [0]])))
    return [(units.cuts[a], units.cuts[b]) for a, b in list(pairwise(edges.tolist()))[::2]]


SLACK = 8  # tokens that a window may have more when it is encoded on its own
ANCHOR = 10  # units at the beginning that are never forgotten, as in the released code
_MAX_NATS = 1e4  # nats, instead of infinity for a token of probability 0


def open_context(model: MeteredModel, begun: bool = False) -> Session:
    """A context with nothing but the beginning of a turn (BOS and the template's head, where there
    are such).

    begun: where there are none, as with GPT-2, the token that ends a text, so that a first token
    can be scored.
    """
    s = model.session()
    if begun:
        s.begin_text()
    s.user()
    return s


def surprise(s: Session, model: MeteredModel, units: Units) -> np.ndarray:
    """-log p of each unit [units] after the context of `s`, which does not change.

    NaN for the first unit of an empty context. Raises ModelOutputError for NaN log-probabilities.
    """
    if not len(units):
        return np.zeros(0)
    if s.length() == 0:
        if len(units) == 1:
            return np.full(1, np.nan)
        with s.branch():
            s.feed(units.piece(0))
            later_units = surprise(s, model, units.part(1, len(units)))
        return np.concatenate([[np.nan], later_units])
    logs = np.asarray(s.score(units.text), dtype=float)
    if np.isnan(logs).any():
        raise ModelOutputError(
            f"the compressor '{model.name}' gave NaN log-probabilities; try --set "
            "model.dtype=float32 or check its "
            "weights"
        )
    costs = _costs_of_units(units, model.offsets(units.text), np.minimum(-logs, _MAX_NATS))
    return np.asarray(costs / np.array(units.sizes))


def _costs_of_units(units: Units, offsets: list[tuple[int, int]], costs: np.ndarray) -> np.ndarray:
    """-log p [units]: each token's cost, shared by characters among the units it lies in; offsets,
    costs: of tokens."""
    shares = np.zeros(len(units))
    i = 0
    for (a, b), cost in zip(offsets, costs.tolist(), strict=True):
        while i + 1 < len(units) and units.cuts[i + 1] <= a:
            i += 1
        j = i
        while j + 1 < len(units) and units.cuts[j + 1] < b:
            j += 1
        if i == j:
            shares[i] += cost
            continue
        for k in range(i, j + 1):
            shares[k] += cost * (min(b, units.cuts[k + 1]) - max(a, units.cuts[k])) / (b - a)
    return shares


class Context:
    """Units [0, start) of a text, then those that were kept, token by token as they stood in the
    whole text.

    Where the window is full, a new context begins: the same start, ANCHOR of the kept units, and
    the latest ones that half of the window holds. (The released code cuts old entries out of the
    cache, whose positions then have a gap.)
    """

    def __init__(self, model: MeteredModel, units: Units, start: int) -> None:
        self._model, self._units, self._start = model, units, start
        self._kept: list[int] = []
        self.session = open_context(model)
        self._feed(range(start))

    def _feed(self, units: Iterable[int]) -> None:
        for i in units:
            self.session.feed(self._units.piece(i))

    def room(self) -> int:
        """Tokens that can be scored now."""
        return self.session.room() - SLACK

    def score(self, first: int, last: int) -> np.ndarray:
        """-log p of units [first, last); raises WindowExceeded where they do not fit beside the
        start."""
        need = sum(self._units.sizes[first:last])
        if need > self.room():
            self._make_room(need)
        return surprise(self.session, self._model, self._units.part(first, last))

    def append(self, units: list[int]) -> None:
        """Append units (by number) to what later ones are scored behind; makes room where the
        window is full."""
        self._kept += units
        sizes = self._units.sizes
        if sum(sizes[i] for i in units) > self.session.room():
            self._make_room(0)
        else:
            self._feed(units)

    def _make_room(self, need: int) -> None:
        """Begin a new context with the first units kept and as many of the last as leave `need`
        tokens free."""
        self.session.close()
        self.session = open_context(self._model)
        self._feed(range(self._start))
        anchor = self._kept[:ANCHOR]
        sizes = self._units.sizes
        spare = self.room() - need - sum(sizes[i] for i in anchor)
        if spare < 0:
            raise WindowExceeded(
                f"the window of the compressor '{self._model.name}' ({self._model.window} tokens) "
                "does not hold a "
                f"window of {need} tokens beside the question; lower method.iterative_size or "
                "raise model.window"
            )
        latest: list[int] = []
        for i in reversed(self._kept[ANCHOR:]):
            spare -= (
                2 * sizes[i]
            )  # half of the room stays free, or every window would begin a context
            if spare < 0:
                break
            latest.append(i)
        self._feed([*anchor, *reversed(latest)])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.session.close()
