"""How surprising each unit is: -log p (nats) under the compressor, a mean over the unit's tokens.

    measure_surprise(session, model, units)      of units after what the session holds, in one
    request

A window of a text is encoded on its own, so its first tokens may be cut otherwise than in the whole
text; what a token costs is then shared out by characters.

A text as units: tokens of the compressor, where those that only together make a character are one
unit.

"The Ré" ──► "The" | " R" | "é" (two tokens)          units tile the text, so that any of them can be left out
spans_of_kept_units(units, is_kept) ──► runs of kept units as spans of characters
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
    """A text in units: unit i is text[boundaries[i]:boundaries[i + 1]], and has token_counts[i]
    tokens."""

    text: str
    boundaries: tuple[int, ...]
    token_counts: tuple[int, ...]

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.token_counts)

    def text_of_unit(self, unit: int) -> str:
        """The text of a unit, given by its number."""
        return self.text[self.boundaries[unit] : self.boundaries[unit + 1]]

    def unit_at(self, character: int) -> int:
        """The number of the first unit that begins at `character` or after it."""
        return min(bisect_left(self.boundaries, character), len(self))

    def part(self, first_unit: int, end_unit: int) -> Units:
        """The units first_unit to end_unit - 1 as units of a text of their own."""
        start = self.boundaries[first_unit]
        boundaries = tuple(
            boundary - start for boundary in self.boundaries[first_unit : end_unit + 1]
        )
        return Units(
            text=self.text[start : self.boundaries[end_unit]],
            boundaries=boundaries,
            token_counts=self.token_counts[first_unit:end_unit],
        )


def cut_into_units(text: str, model: MeteredModel) -> Units:
    """The units of a text: its tokens, of which those that share a character are one unit.

    White space of no token goes with the unit before it, or with the first one.

        "a  bc" with tokens at (0, 1), (3, 4), (4, 5) -> units "a  ", "b", "c" (boundaries 0, 3, 4, 5)

    Args:
        text: The text.
        model: The model whose tokens count.
    """
    unit_starts: list[int] = []
    token_counts: list[int] = []
    end_so_far = 0
    for token_start, token_end in model.offsets(text):
        shares_a_character = token_start < end_so_far or token_start == token_end
        if unit_starts and shares_a_character:
            token_counts[-1] += 1
        else:
            unit_starts.append(token_start)
            token_counts.append(1)
        end_so_far = max(end_so_far, token_end)
    if not unit_starts:
        return Units(text=text, boundaries=(0,), token_counts=())
    return Units(
        text=text, boundaries=(0, *unit_starts[1:], len(text)), token_counts=tuple(token_counts)
    )


def spans_of_kept_units(units: Units, is_kept: np.ndarray) -> list[Span]:
    """The runs of units that are kept, as spans of characters.

        units "a ", "b", "c" with [True, True, False] -> [(0, 3)]

    Args:
        units: The units of a text.
        is_kept: Whether each unit is kept [units].
    """
    padded = np.concatenate([[0], is_kept.astype(np.int8), [0]])
    # The start of a run, its end, the start of the next one, and so on.
    run_edges = np.flatnonzero(np.diff(padded)).tolist()
    spans: list[Span] = []
    for first_unit, end_unit in zip(run_edges[::2], run_edges[1::2], strict=True):
        spans.append((units.boundaries[first_unit], units.boundaries[end_unit]))
    return spans


SLACK_TOKENS = 8  # tokens that a window may have more when it is encoded on its own
_MAX_NATS = 1e4  # nats, instead of infinity for a token of probability 0


def open_context(model: MeteredModel, with_first_token: bool = False) -> Session:
    """A session with nothing but the beginning of a turn (BOS and the template's head, where there
    are such).

    Args:
        model: The model.
        with_first_token: Whether, where there are none, as with GPT-2, the token that ends a text
            is fed, so that a first token can be scored.
    """
    session = model.session()
    if with_first_token:
        session.begin_text()
    session.user()
    return session


def measure_surprise(session: Session, model: MeteredModel, units: Units) -> np.ndarray:
    """-log p of each unit [units] after the context of a session, per token of the unit.

    Of a token of probability 0 it is _MAX_NATS instead of infinity. Without a context the first
    unit cannot be scored: it is fed, and the others are scored after it.

    Args:
        session: The session; its context is the same afterwards.
        model: The session's model.
        units: The units of the text that follows.

    Returns:
        The surprise of each unit; NaN for the first unit of an empty context.

    Raises:
        ModelOutputError: The model gave NaN log-probabilities.
    """
    if not len(units):
        return np.zeros(0)
    if session.length() == 0:
        if len(units) == 1:
            return np.full(1, np.nan)
        with session.branch():
            session.feed(units.text_of_unit(0))
            later_units = measure_surprise(session, model, units.part(1, len(units)))
        return np.concatenate([[np.nan], later_units])
    log_probabilities = np.asarray(session.score(units.text), dtype=float)
    if np.isnan(log_probabilities).any():
        raise ModelOutputError(
            f"the compressor '{model.name}' gave NaN log-probabilities; try --set "
            "model.dtype=float32 or check its weights"
        )
    costs_of_units = _share_costs_among_units(
        units, model.offsets(units.text), np.minimum(-log_probabilities, _MAX_NATS)
    )
    return np.asarray(costs_of_units / np.array(units.token_counts))


def _share_costs_among_units(
    units: Units, offsets: list[tuple[int, int]], token_costs: np.ndarray
) -> np.ndarray:
    """Share the cost of each token among the units that it lies in, by characters.

        units "a" and "bc", one token "abc" that costs 3 -> [1, 2]

    Args:
        units: The units of a text.
        offsets: (start, end) of each token in the text.
        token_costs: -log p of each token [tokens].

    Returns:
        -log p of each unit [units].
    """
    unit_costs = np.zeros(len(units))
    first_unit = 0
    for (token_start, token_end), cost in zip(offsets, token_costs.tolist(), strict=True):
        while first_unit + 1 < len(units) and units.boundaries[first_unit + 1] <= token_start:
            first_unit += 1
        last_unit = first_unit
        while last_unit + 1 < len(units) and units.boundaries[last_unit + 1] < token_end:
            last_unit += 1
        if first_unit == last_unit:
            unit_costs[first_unit] += cost
            continue
        for unit in range(first_unit, last_unit + 1):
            unit_start = units.boundaries[unit]
            unit_end = units.boundaries[unit + 1]
            characters_in_unit = min(token_end, unit_end) - max(token_start, unit_start)
            unit_costs[unit] += cost * characters_in_unit / (token_end - token_start)
    return unit_costs
