"""How surprising each unit is: -log p (nats) under the compressor, a mean over the unit's tokens.

    surprise(s, model, units)      of units after what session `s` holds, in one request

A window of a text is encoded on its own, so its first tokens may be cut otherwise than in the whole
text; what a token costs is then shared out by characters.

A text as units: tokens of the compressor, where those that only together make a character are one
unit.

"The Ré" ──► "The" | " R" | "é" (two tokens)          units tile the text, so that any of them can be left out
spans_of_kept(units, mask) ──► runs of kept units as spans of characters
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass

import numpy as np

from harness.errors import ModelOutputError
from harness.models import MeteredModel, Session
from methods.chunks import Span


@dataclass(frozen=True)
class Units:
    """Unit i is text[cuts[i]:cuts[i + 1]] and has sizes[i] tokens."""

    text: str
    cuts: tuple[int, ...]
    sizes: tuple[int, ...]

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.sizes)

    def piece(self, i: int) -> str:
        """The text of unit i."""
        return self.text[self.cuts[i] : self.cuts[i + 1]]

    def unit_at(self, character: int) -> int:
        """The number of the first unit that begins at `character` or after it."""
        return min(bisect_left(self.cuts, character), len(self))

    def part(self, first: int, last: int) -> Units:
        """The units [first, last) as units of a text of their own."""
        start = self.cuts[first]
        cuts = tuple(cut - start for cut in self.cuts[first : last + 1])
        return Units(self.text[start : self.cuts[last]], cuts, self.sizes[first:last])


def units_of(text: str, model: MeteredModel) -> Units:
    """The units of a text: its tokens, of which those that share a character are one unit.

    White space of no token goes with the unit before it.

    Args:
        text: The text.
        model: The model whose tokens count.
    """
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
    if not starts:
        return Units(text, (0,), ())
    return Units(text, (0, *starts[1:], len(text)), tuple(sizes))


def spans_of_kept(units: Units, mask: np.ndarray) -> list[Span]:
    """The runs of units that are kept, as spans of characters.

    Args:
        units: The units of a text.
        mask: Whether each unit is kept [units].
    """
    padded = np.concatenate([[0], mask.astype(np.int8), [0]])
    edges = np.flatnonzero(np.diff(padded)).tolist()  # start of a run, its end, start of the next
    spans: list[Span] = []
    for first, last in zip(edges[::2], edges[1::2], strict=True):
        spans.append((units.cuts[first], units.cuts[last]))
    return spans


SLACK = 8  # tokens that a window may have more when it is encoded on its own
_MAX_NATS = 1e4  # nats, instead of infinity for a token of probability 0


def open_context(model: MeteredModel, begun: bool = False) -> Session:
    """A session with nothing but the beginning of a turn (BOS and the template's head, where there
    are such).

    Args:
        model: The model.
        begun: Whether, where there are none, as with GPT-2, the token that ends a text is fed, so
            that a first token can be scored.
    """
    s = model.session()
    if begun:
        s.begin_text()
    s.user()
    return s


def surprise(s: Session, model: MeteredModel, units: Units) -> np.ndarray:
    """-log p of each unit [units] after the context of a session, per token of the unit.

    Args:
        s: The session; its context is the same afterwards.
        model: The session's model.
        units: The units of the text that follows.

    Returns:
        The surprise of each unit; NaN for the first unit of an empty context.

    Raises:
        ModelOutputError: The model gave NaN log-probabilities.
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
            "model.dtype=float32 or check its weights"
        )
    costs = _costs_of_units(units, model.offsets(units.text), np.minimum(-logs, _MAX_NATS))
    return np.asarray(costs / np.array(units.sizes))


def _costs_of_units(units: Units, offsets: list[tuple[int, int]], costs: np.ndarray) -> np.ndarray:
    """Share the cost of each token among the units that it lies in, by characters.

    Args:
        units: The units of a text.
        offsets: (start, end) of each token in the text.
        costs: -log p of each token [tokens].

    Returns:
        -log p of each unit [units].
    """
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
            inside = min(b, units.cuts[k + 1]) - max(a, units.cuts[k])  # characters of it in unit k
            shares[k] += cost * inside / (b - a)
    return shares
