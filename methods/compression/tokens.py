"""The token level: window after window, each read behind what was kept of those before it.

Source: docs/methods/compression.md#lingua-tokens.

    first pass    surprise of the whole text, as much of it as the compressor's window holds
    each window   its surprise again, behind the kept tokens (the first window has the first pass's)
                  threshold = the score at the keep ratio of all scores of tokens that are still there
                  tokens with a score above it are kept

With `condition_compare` a score is the surprise without the question less the surprise behind it: two contexts.

A token that was kept keeps the score it was kept for; the released code scores it once more, behind the compressed
text, which moves later thresholds: from the second window on, the texts differ. On one full window both are the same to
the token. (In a text shorter than a window the released code's indices run below zero; here it is one short window.)
Where contexts are read behind the question without `condition_compare`, its own tokens are no part of the threshold.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.errors import WindowExceeded
from harness.models import MeteredModel
from methods.compression.config import LinguaConfig
from methods.compression.surprise import Context
from methods.compression.units import Units

Windows = list[list[tuple[int, float]]]


@dataclass(frozen=True)
class Joined:
    """units: of the whole text, the question before it where it is read too: units [0, start)."""

    units: Units
    start: int
    windows: Windows


def ratios(sizes: Sequence[int], target: float, offsets: Sequence[float]) -> list[float]:
    """The keep ratio of each context: clip(tau + offset), tau = target / (sum(size + 2) + 1)."""
    tau = max(target, 0.0) / (sum(sizes) + 2 * len(sizes) + 1)
    return [min(max(tau + offset, 0.0), 1.0) for offset in offsets]


def windows(sizes: Sequence[int], keep: Sequence[float], size: int) -> Windows:
    """(tokens, keep ratio) of each stretch of each window; a context counts two tokens more, for what separates it."""
    finished: Windows = []
    current: list[tuple[int, float]] = []
    room = size - 1  # the released code begins to count at 1
    for tokens, ratio in zip(sizes, keep, strict=True):
        left = tokens + 2
        while left >= room:
            finished.append([*current, (room, ratio)])
            current, left, room = [], left - room, size
        if left:
            current.append((left, ratio))
            room -= left
    return [*finished, current] if current else finished


def compress(
    text: Joined, config: LinguaConfig, model: MeteredModel, progress: Callable[[int, int, str], None]
) -> np.ndarray:
    """Which units are kept [units], those of the question among them.

    Raises ModelOutputError for NaN log-probabilities, WindowExceeded where a window does not fit beside the question.
    """
    loop = _Loop(text, config)
    with contextlib.ExitStack() as stack:
        contexts = [stack.enter_context(Context(model, text.units, text.start))]
        if config.condition_compare:
            contexts.append(stack.enter_context(Context(model, text.units, 0)))
        loop.first_pass(contexts)
        total = len(text.units)
        for number, window in enumerate(text.windows):
            last = loop.ends(number, window)
            if last is None:
                break
            if number:
                loop.scored(contexts, last)
            fresh = loop.drop(window, total)
            for context in contexts:
                context.keep(fresh)
            progress(loop.at, total, "tokens compressed")
    return loop.alive


class _Loop:
    """The state of all windows: alive [units], score [units] (NaN: not scored yet), the start of the next one."""

    def __init__(self, text: Joined, config: LinguaConfig) -> None:
        self.units, self.start, self.config = text.units, text.start, config
        self.alive = np.ones(len(text.units), dtype=bool)
        self.score = np.full(len(text.units), np.nan)
        self.at = text.start
        self.separators = np.array([not self.units.piece(i).strip("\r\n") for i in range(len(self.units))], dtype=bool)

    def first_pass(self, contexts: list[Context]) -> None:
        """Score the whole text, or what the window holds of it."""
        last = self.start
        room = min(context.room() for context in contexts)
        while last < len(self.units) and self.units.sizes[last] <= room:
            room -= self.units.sizes[last]
            last += 1
        size = min(self.config.iterative_size, len(self.units) - self.start)
        if last - self.start < size:
            raise WindowExceeded(
                f"the compressor's window holds {last - self.start} tokens of text beside the question, less than a "
                f"window of method.iterative_size={size}; lower it or raise model.window"
            )
        self.scored(contexts, last)

    def scored(self, contexts: list[Context], last: int) -> None:
        """Score units [at, last) behind what was kept, and say whose decision that is."""
        first = self.at
        scores = contexts[0].score(first, last)
        if len(contexts) > 1:
            scores = contexts[1].score(first, last) - scores
        if self.config.credit == "own":
            self.score[first:last] = scores
            return
        before = np.flatnonzero(self.alive[self.start : first])
        if len(before):
            self.score[self.start + before[-1]] = scores[0]
        self.score[first : last - 1] = scores[1:]

    def ends(self, number: int, window: list[tuple[int, float]]) -> int | None:
        """The end of the units to score for this window; None at the end of the text."""
        total, size = len(self.units), self.config.iterative_size
        if self.at >= total or (number and self.config.last_window == "kept" and total - self.at < size):
            return None
        last = min(self.at + max(size, sum(tokens for tokens, _ in window)), total)
        # The decision about a window's last unit is that of the unit behind it, which may not be scored yet.
        return min(last + 1, total) if np.isnan(self.score[last - 1]) else last

    def drop(self, window: list[tuple[int, float]], total: int) -> list[int]:
        """Drop units of this window, stretch by stretch; returns those kept."""
        began = self.at
        for tokens, ratio in window:
            last = min(self.at + tokens, total)
            known = self.score[self.start :][self.alive[self.start :]]
            limit = threshold(known[~np.isnan(known)], ratio)
            here = self.score[self.at : last]
            # What has no score (the text's last token, for want of one behind it) is kept, as in the released code.
            self.alive[self.at : last] = np.isnan(here) | (here > limit)
            if self.config.keep_split:
                self.alive[self.at : last] |= self.separators[self.at : last]
            self.at = last
        return (began + np.flatnonzero(self.alive[began : self.at])).tolist()


def threshold(scores: np.ndarray, ratio: float) -> float:
    """The score at the keep ratio, counted from the highest; tokens strictly above it stay. -inf keeps all."""
    if ratio >= 1.0 or not len(scores):
        return float("-inf")
    rank = max(0, min(len(scores) - 1, int(len(scores) * ratio) - 1))
    return float(np.sort(scores)[::-1][rank])
