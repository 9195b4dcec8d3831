"""Compare sets of supporting facts: exact match, precision, recall and F1, as the multi-hop data sets do.

set_overlap({7, 12}, {7})  -> SetOverlap(em=0.0, precision=0.5, recall=1.0, f1=0.667)
"""

from collections.abc import Collection, Hashable, Iterable, Sequence
from typing import Any, NamedTuple

from harness.scorers.base import ScoreError


class SetOverlap(NamedTuple):
    """Exact match (0 or 1), precision, recall and F1 of a predicted set."""

    em: float
    precision: float
    recall: float
    f1: float


def set_overlap(predicted: Collection[Hashable], gold: Collection[Hashable]) -> SetOverlap:
    """Compare two sets. Both empty: em = 1 and the rest 0, as HotpotQA's script counts it."""
    predicted, gold = set(predicted), set(gold)
    hits = len(predicted & gold)
    precision = hits / len(predicted) if predicted else 0.0
    recall = hits / len(gold) if gold else 0.0
    f1 = 2 * precision * recall / (precision + recall) if hits else 0.0
    return SetOverlap(float(predicted == gold), precision, recall, f1)


def facts(items: Iterable[Sequence[Any]]) -> set[tuple[str, int]]:
    """[[title, sentence index], ...] as a set of pairs; ScoreError for an item of another shape."""
    pairs = set()
    for item in items:
        if isinstance(item, str) or len(item) != 2:
            raise ScoreError(f"a supporting fact must be [title, sentence index], got {item!r}")
        pairs.add((item[0], item[1]))
    return pairs
