"""LongBench Pro's scores (Chen et al. 2026; modules of its repository): one metric a task.

score("[Answer]\\nBo\\nCy", ..., lines=["Bo", "Cy"], type="T5.1 ..")     -> 1.0   (F1 of the sets of lines)
score("Cy\\nBo", ..., lines=["Bo", "Cy"], type="T2.1 ..")               -> 0.0   (share of the pairs in order)

The answer is what stands behind the last "[Answer]" or "[答案]", a line an item, without case and
double spaces. Summaries (T4) are not scored: theirs is half the similarity of an embedding model of
8 billion parameters.
"""

import math
from collections.abc import Sequence
from itertools import combinations

from harness.scorers.base import published

scorer = published("caskcsg/longcontext LongBench-Pro/modules")

_RANKING = ("T1.1", "T1.2")
_PAIRS = ("T2.1", "T2.2", "T6.3")
_FIRST_LINE = ("T3.1", "T3.2", "T11.1", "T11.2")
_RECALL = ("T6.1", "T8.1", "T8.2", "T8.3", "T10.1", "T10.2")


def _answer_lines(text: str) -> list[str]:
    """The lines behind a reply's last "[Answer]" or "[答案]", in small letters with single spaces."""
    mark = "[Answer]" if "[Answer]" in text else "[答案]"
    return [" ".join(line.split()) for line in text.rpartition(mark)[2].strip().lower().split("\n")]


def _ndcg(gold: Sequence[str], answered: Sequence[str]) -> float:
    """NDCG at the number of gold items, whose gains fall by one a place; a repeated item has its
    last place."""
    gains = {line: len(gold) - n for n, line in enumerate(gold)}
    ranked = sorted(
        {line: -n for n, line in enumerate(answered)}.items(), key=lambda item: -item[1]
    )
    discounts = [math.log2(n + 2) for n in range(len(gold))]
    at_best = zip(sorted(gains.values(), reverse=True), discounts, strict=False)
    best = sum(gain / discount for gain, discount in at_best)
    return (
        sum(
            gains.get(line, 0) / discount
            for (line, _), discount in zip(ranked, discounts, strict=False)
        )
        / best
    )


def _pairs_in_order(gold: Sequence[str], answered: Sequence[str]) -> float:
    """Pairs of gold items in their order, over all pairs of the reply's items; 0.0 for fewer than
    two."""
    if min(len(gold), len(answered)) < 2:
        return 0.0
    position = {line: n for n, line in enumerate(answered)}
    right = sum(
        a in position and b in position and position[a] < position[b]
        for a, b in combinations(gold, 2)
    )
    return right / math.comb(len(answered), 2)


@scorer("longbench_pro.score", "the metric of the question's task; no summaries")
def score(
    prediction: str,
    _references: Sequence[str],
    *,
    lines: Sequence[str],
    type: str,  # noqa: A002
) -> float | None:
    """NDCG, pairwise accuracy, accuracy, share of lines found or F1, by task; None for summaries,
    0.0 for no reply.

    lines: those of the gold answer; type: the secondary task, such as "T3.2 Single-Hop Fact QA".
    """
    task = type.partition(" ")[0]
    if task.startswith("T4."):
        return None
    if prediction == "" or not lines:
        return 0.0
    gold = [" ".join(line.lower().split()) for line in lines]
    answered = _answer_lines(prediction)
    if task in _RANKING:
        return _ndcg(gold, answered)
    if task in _PAIRS:
        return _pairs_in_order(gold, answered)
    if task in _FIRST_LINE:
        return float(gold[0] == answered[0])
    if task in _RECALL:
        return sum(line in answered for line in gold) / len(gold)
    common = len({*gold} & {*answered})
    return 2 * common / (len({*gold}) + len({*answered}))
