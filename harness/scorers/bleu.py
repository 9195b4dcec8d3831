"""BLEU as Hugging Face `evaluate` prints it: mteval's 13a tokens, corpus counts, all references of an item at once.

    bleu4("the cat sat on the mat", ["the cat sat on the mat"])      -> 1.0     a corpus of one
    corpus_bleu4([text, ...], [[reference, ...], ...])               -> not the mean of the items

    BLEU = BP exp(1/N sum_{n<=N} log p_n),  p_n = clipped matches / n-grams,  BP = min(1, exp(1 - r/c))

with c the prediction's length and r that of the shortest reference, both summed over the corpus (Papineni et al. 2002;
`compute_bleu` of tensorflow/nmt takes the shortest, not the closest). Smoothing adds one to both counts of every p_n
(Lin and Och 2004). 0.0 as soon as one p_n is 0, so without smoothing every prediction under N tokens scores 0. Written
here because `evaluate.load("bleu")` fetches its script from the hub. Without a token on one side: ScoreError.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial

from harness.scorers.base import ScoreError

__all__ = ["bleu", "corpus_bleu", "tokenize_13a"]

_ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_RULES = (
    # every ASCII punctuation mark but the apostrophe, comma, hyphen and full stop stands alone
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    # a full stop or comma is cut off unless it stands between digits
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    # a hyphen is cut off after a digit
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def tokenize_13a(text: str) -> list[str]:
    """The tokens of mteval-v13a, the tokeniser of the WMT evaluations."""
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, mark in _ENTITIES:
        text = text.replace(entity, mark)
    text = f" {text} "  # the rules look at a mark's neighbours, so the first and last character need one too
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.split()


def _ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def _counts(prediction: Sequence[str], references: Sequence[Sequence[str]], order: int) -> tuple[int, int]:
    """Clipped matches and number of n-grams of one item; a reference n-gram counts as often as in its richest text."""
    allowed: Counter[tuple[str, ...]] = Counter()
    for reference in references:
        allowed |= _ngrams(reference, order)
    found = _ngrams(prediction, order)
    return sum((found & allowed).values()), sum(found.values())


def corpus_bleu(
    prediction: Sequence[str], references: Sequence[Sequence[str]], *, max_order: int = 4, smooth: bool = False
) -> float:
    """BLEU of a corpus, 0..1: one prediction and one list of references an item; see the module for the formula.

    Raises ScoreError where the predictions or the shortest references have no token, and for an item without reference.
    """
    tokens = [tokenize_13a(text) for text in prediction]
    golds = [[tokenize_13a(text) for text in texts] for texts in references]
    if not all(golds):
        raise ScoreError("BLEU is undefined for an item without a reference")
    length, shortest = sum(map(len, tokens)), sum(min(map(len, texts)) for texts in golds)
    if not length or not shortest:
        side = "reference" if length else "prediction"
        raise ScoreError(f"BLEU is undefined: the {side} has no token (the published code raises ZeroDivisionError)")
    logs = 0.0
    for order in range(1, max_order + 1):
        pairs = [_counts(text, texts, order) for text, texts in zip(tokens, golds, strict=True)]
        matches, possible = sum(pair[0] for pair in pairs) + smooth, sum(pair[1] for pair in pairs) + smooth
        if not matches:
            return 0.0
        logs += math.log(matches / possible) / max_order
    penalty = 1.0 if length > shortest else math.exp(1 - shortest / length)
    return penalty * math.exp(logs)


def bleu(prediction: str, references: Sequence[str], *, max_order: int = 4, smooth: bool = False) -> float:
    """BLEU of one prediction against all its references together: a corpus of one item."""
    return corpus_bleu([prediction], [references], max_order=max_order, smooth=smooth)


bleu4 = partial(bleu, max_order=4)
bleu1 = partial(bleu, max_order=1)
bleu4_smooth = partial(bleu, max_order=4, smooth=True)
corpus_bleu4 = partial(corpus_bleu, max_order=4)
corpus_bleu1 = partial(corpus_bleu, max_order=1)
corpus_bleu4_smooth = partial(corpus_bleu, max_order=4, smooth=True)
