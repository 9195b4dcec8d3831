"""The sentence level: the sentences of the chosen contexts with the highest priority, up to a budget.

Source: docs/methods/compression.md#lingua-sentences.

Sentences are those of methods.chunks (released: nltk's). White space behind a sentence goes with it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from harness.method import Tools
from methods.chunks import Span, sentences
from methods.compression.config import LinguaConfig
from methods.compression.ranking import priorities


def choose_sentences(
    text: str, contexts: list[Span], question: str, target: float, config: LinguaConfig, tools: Tools
) -> list[list[Span]]:
    """For each context, spans of text that are kept; the sentence that passes the budget is still in it."""
    groups = [_tiles(text, *span) for span in contexts]
    spans = [span for group in groups for span in group]
    model = tools.model("compressor")
    priority = priorities([text[a:b] for a, b in spans], question, config, tools)
    first = _preferred(groups, priority, config)
    order = sorted(range(len(spans)), key=lambda i: (i not in first, -priority[i]))
    left = (100.0 if target < 0 else target) * config.token_budget_ratio
    kept: set[int] = set()
    for i in order:
        left -= model.count(text[slice(*spans[i])])
        kept.add(i)
        if left < 0:
            break
    numbers = iter(range(len(spans)))
    return [[span for span in group if next(numbers) in kept] for group in groups]


def _tiles(text: str, start: int, end: int) -> list[Span]:
    """Sentences of a context, each up to the beginning of the next."""
    starts = [start, *(start + a for a, _ in sentences(text[start:end])[1:]), end]
    return [(a, b) for a, b in pairwise(starts) if a < b]


def _preferred(groups: list[list[Span]], priority: np.ndarray, config: LinguaConfig) -> set[int]:
    """Sentences that come before all others: at both ends, and the best of each context."""
    total = len(priority)
    numbers = set(range(min(config.keep_first_sentence, total)))
    numbers |= set(range(max(total - config.keep_last_sentence, 0), total))
    at = 0
    for group in groups:
        inside = sorted(range(at, at + len(group)), key=lambda i: -priority[i])
        numbers |= set(inside[: config.keep_sentence_number])
        at += len(group)
    return numbers
