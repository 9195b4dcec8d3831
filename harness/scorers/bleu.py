"""BLEU as Hugging Face `evaluate` prints it: mteval's 13a tokens, corpus counts, all references of
an item at once.

    bleu4("the cat sat on the mat", ["the cat sat on the mat"])      -> 1.0     a corpus of one
    corpus_bleu4([text, ...], [[reference, ...], ...])               -> not the mean of the items
    bleu_from_sums(sum of counts(text, references) over the items)      -> the same: BLEU needs the sums alone

    BLEU = BP exp(1/N sum_{n<=N} log p_n),  p_n = clipped matches / n-grams,  BP = min(1, exp(1 - r/c))

with c the prediction's length and r that of the shortest reference, both summed over the corpus
(Papineni et al. 2002; `compute_bleu` of tensorflow/nmt takes the shortest, not the closest).
Smoothing adds one to both counts of every p_n (Lin and Och 2004). 0.0 as soon as one p_n is 0, so
without smoothing every prediction under N tokens scores 0. Written here because
`evaluate.load("bleu")` fetches its script from the hub. Without a token on one side: ScoreError.
"""

import math
import re
from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from harness.scorers.base import ScoreError, published

scorer = published("huggingface/evaluate metrics/bleu")

MAX_ORDER = 4
_UNDEFINED = (
    "BLEU is undefined: the {side} has no token (the published code raises ZeroDivisionError)"
)

_MARKS_BY_ENTITY = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
_SPLITTING_RULES = (
    # every ASCII punctuation mark but the apostrophe, comma, hyphen and full stop stands alone
    (re.compile(r"([{-~\[-` -&(-+:-@/])"), r" \1 "),
    # a full stop or comma is cut off unless it stands between digits
    (re.compile(r"([^0-9])([.,])"), r"\1 \2 "),
    (re.compile(r"([.,])([^0-9])"), r" \1 \2"),
    # a hyphen is cut off after a digit
    (re.compile(r"([0-9])(-)"), r"\1 \2 "),
)


def tokenize_13a(text: str) -> list[str]:
    """Split a text into the tokens of mteval-v13a, the tokeniser of the WMT evaluations.

    "A cat, 3.5 m." -> ["A", "cat", ",", "3.5", "m", "."]
    """
    text = text.replace("<skipped>", "").replace("-\n", "").replace("\n", " ")
    for entity, mark in _MARKS_BY_ENTITY:
        text = text.replace(entity, mark)
    # The rules look at a mark's neighbours, so the first and last character need one too.
    text = f" {text} "
    for pattern, replacement in _SPLITTING_RULES:
        text = pattern.sub(replacement, text)
    return text.split()


def ngrams(tokens: Sequence[str], order: int) -> Counter[tuple[str, ...]]:
    """Count each sequence of `order` tokens: (["a", "b", "a", "b"], 2) -> ("a", "b"): 2, ("b",
    "a"): 1.
    """
    return Counter(tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1))


def bleu_counts(prediction: str, references: Sequence[str]) -> tuple[int, ...]:
    """The counts of one item, which BLEU sums over a corpus: (m_1 .. m_4, t_1 .. t_4, c, r).

    m_n is the number of the prediction's n-grams that a reference has too; an n-gram counts at most
    as often as in the reference that has it most. t_n is the number of n-grams of the prediction, c
    that of its tokens, and r that of the tokens of the shortest reference.

    Args:
        prediction: The text.
        references: Its references.

    Raises:
        ScoreError: There is no reference.
    """
    if not references:
        raise ScoreError("BLEU is undefined for an item without a reference")
    tokens = tokenize_13a(prediction)
    gold_tokens = [tokenize_13a(text) for text in references]
    n_matches_by_order, n_ngrams_by_order = [], []
    for order in range(1, MAX_ORDER + 1):
        reference_ngrams: Counter[tuple[str, ...]] = Counter()
        for gold in gold_tokens:
            reference_ngrams |= ngrams(gold, order)
        prediction_ngrams = ngrams(tokens, order)
        n_matches_by_order.append(sum((prediction_ngrams & reference_ngrams).values()))
        n_ngrams_by_order.append(sum(prediction_ngrams.values()))
    return (*n_matches_by_order, *n_ngrams_by_order, len(tokens), min(map(len, gold_tokens)))


def bleu_from_sums(
    sums: Sequence[float], *, max_order: int = MAX_ORDER, smooth: bool = False
) -> float:
    """BLEU, 0..1, of a corpus from the sums of the counts of its items (Papineni et al. 2002):

        BP exp(sum of log(m_n / t_n) / N), n = 1 .. N = max_order;  BP = exp(1 - r / c) for c <= r, else 1

    0 where an order has no match.

    Args:
        sums: The sums of its items' `bleu_counts`, (m_1 .. m_4, t_1 .. t_4, c, r): n-grams that
            match, all n-grams of the predictions, tokens of these and of the shortest references.
        max_order: The length of the longest n-grams used, up to 4.
        smooth: Whether one is added to both counts of each precision.

    Raises:
        ScoreError: The predictions or the shortest references have no token.
    """
    n_matches_by_order = sums[:MAX_ORDER]
    n_ngrams_by_order = sums[MAX_ORDER : 2 * MAX_ORDER]
    n_tokens, n_reference_tokens = sums[2 * MAX_ORDER :]
    if not n_tokens:
        raise ScoreError(_UNDEFINED.format(side="prediction"))
    if not n_reference_tokens:
        raise ScoreError(_UNDEFINED.format(side="reference"))
    mean_log_precision = 0.0
    added = int(smooth)
    for order in range(max_order):
        n_matches = n_matches_by_order[order] + added
        if not n_matches:
            return 0.0
        mean_log_precision += math.log(n_matches / (n_ngrams_by_order[order] + added)) / max_order
    brevity_penalty = 1.0
    if n_tokens <= n_reference_tokens:
        brevity_penalty = math.exp(1 - n_reference_tokens / n_tokens)
    return brevity_penalty * math.exp(mean_log_precision)


def corpus_bleu(
    prediction: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    max_order: int = MAX_ORDER,
    smooth: bool = False,
) -> float:
    """BLEU, 0..1, of a corpus from its texts.

    Args:
        prediction: A text for each item.
        references: The references of each item.
        max_order: The length of the longest n-grams used, up to 4.
        smooth: Whether one is added to both counts of each precision.

    Raises:
        ScoreError: An item has no reference, or one side has no token.
    """
    counts_by_item = [
        bleu_counts(text, texts) for text, texts in zip(prediction, references, strict=True)
    ]
    sums = [0] * (2 * MAX_ORDER + 2)  # one for each count of an item
    for item_counts in counts_by_item:
        sums = [total + count for total, count in zip(sums, item_counts, strict=True)]
    return bleu_from_sums(sums, max_order=max_order, smooth=smooth)


def bleu(
    prediction: str, references: Sequence[str], *, max_order: int = 4, smooth: bool = False
) -> float:
    """BLEU, 0..1, of one prediction and all its references: a corpus of one item.

    Args:
        prediction: The text.
        references: Its references.
        max_order: Longest n-grams used, up to 4.
        smooth: Whether one is added to both counts of each precision.
    """
    return corpus_bleu([prediction], [references], max_order=max_order, smooth=smooth)


class _Variant(NamedTuple):
    """A BLEU that has a name of its own: the words for it, and the options of `bleu_from_sums`."""

    name: str
    orders: str
    max_order: int
    smooth: bool = False

    def register(self) -> None:
        """Register two scorers: hf_bleu.NAME of one answer, whose counts also give the score of all
        answers, and hf_bleu.corpus_NAME of a list."""
        of_one = partial(bleu, max_order=self.max_order, smooth=self.smooth)
        of_list = partial(corpus_bleu, max_order=self.max_order, smooth=self.smooth)
        # counts: of each answer, summed over all; score_of_sums: the corpus's score from them.
        register_one = scorer(
            name=f"hf_bleu.{self.name}",
            summary=f"BLEU of one text, {self.orders}",
            corpus=f"hf_bleu.corpus_{self.name}",
            counts=bleu_counts,
            score_of_sums=partial(bleu_from_sums, max_order=self.max_order, smooth=self.smooth),
        )
        register_one(of_one)
        register_list = scorer(
            name=f"hf_bleu.corpus_{self.name}",
            summary=f"BLEU of a list, {self.orders}",
            kind="corpus",
        )
        register_list(of_list)


for _variant in (
    _Variant("bleu4", "orders 1-4", max_order=4),
    _Variant("bleu1", "single tokens", max_order=1),
    _Variant("bleu4_smooth", "orders 1-4, add-one smoothing", max_order=4, smooth=True),
):
    _variant.register()
