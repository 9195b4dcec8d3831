"""LongBench Pro's scores (Chen et al. 2026; modules of its repository): one metric a task.

score("[Answer]\\nBo\\nCy", ..., lines=["Bo", "Cy"], type="T5.1 ..")     -> 1.0   (F1 of the sets of lines)
score("Cy\\nBo", ..., lines=["Bo", "Cy"], type="T2.1 ..")               -> 0.0   (share of the pairs in order)

The answer is what stands after the last "[Answer]" or "[答案]", a line an item, without case and
double spaces. A value above 1, which pairs of repeated gold lines can give, counts 0 as in theirs
(evaluation.py, calculate_metric). Summaries (T4) are not scored: theirs is half the similarity of an
embedding model of 8 billion parameters.
"""

import itertools
import math
from collections.abc import Iterable, Sequence
from itertools import combinations

from harness.scorers.base import published

scorer = published("caskcsg/longcontext LongBench-Pro/modules")

_RANKING_TASKS = ("T1.1", "T1.2")
_PAIR_ORDER_TASKS = ("T2.1", "T2.2", "T6.3")
_FIRST_LINE_TASKS = ("T3.1", "T3.2", "T11.1", "T11.2")
_RECALL_TASKS = ("T6.1", "T8.1", "T8.2", "T8.3", "T10.1", "T10.2")


def _normalised_line(line: str) -> str:
    """The line in small letters with single spaces: " Ada  Bo" -> "ada bo"."""
    return " ".join(line.lower().split())


def _answer_lines(text: str) -> list[str]:
    r"""The lines after a reply's last "[Answer]" or "[答案]", in small letters with single spaces.

    "So:\n[Answer]\nBo\nCy" -> ["bo", "cy"]; all lines of a reply without such a mark.
    """
    mark = "[答案]"
    if "[Answer]" in text:
        mark = "[Answer]"
    _, _, answer = text.rpartition(mark)
    return list(map(_normalised_line, answer.strip().lower().split("\n")))


def _discounted_gain(gains: Iterable[float], n_gains: int) -> float:
    """The sum of the first `n_gains` gains, each divided by log2(place + 1), places from 1 (DCG)."""
    total = 0.0
    for index, gain in enumerate(itertools.islice(gains, n_gains)):
        total += gain / math.log2(index + 2)
    return total


def _last_index_by_line(lines: Sequence[str]) -> dict[str, int]:
    """Map each line to the last index (from 0) that it stands at: ["a", "b", "a"] -> {"a": 2,
    "b": 1}.
    """
    return {line: index for index, line in enumerate(lines)}


def _ndcg(gold: Sequence[str], answered: Sequence[str]) -> float:
    """NDCG of a ranking, an item a line, cut at the number of gold lines.

    The first of n gold lines has the gain n, the next n - 1, down to 1, any other line 0. A line
    that the reply repeats counts at its last place.

    Args:
        gold: The gold lines, the best first.
        answered: The reply's lines in order.
    """
    gain_by_line: dict[str, int] = {}
    for index, line in enumerate(gold):
        gain_by_line[line] = len(gold) - index
    last_index_by_line = _last_index_by_line(answered)
    ranked_lines = sorted(last_index_by_line, key=last_index_by_line.__getitem__)
    gains = [gain_by_line.get(line, 0) for line in ranked_lines]
    best_gains = sorted(gain_by_line.values(), reverse=True)
    return _discounted_gain(gains, len(gold)) / _discounted_gain(best_gains, len(gold))


def _share_of_pairs_in_order(gold: Sequence[str], answered: Sequence[str]) -> float:
    """Pairs of gold lines that the reply has in the gold order, over all pairs of the reply's
    lines; 0.0 where either has fewer than two. A line that the reply repeats stands at its last
    place.

    ["a", "b", "c"], ["a", "c", "b"] -> 2 / 3
    """
    if min(len(gold), len(answered)) < 2:
        return 0.0
    last_index_by_line = _last_index_by_line(answered)
    n_in_order = 0
    for first, second in combinations(gold, 2):
        both_answered = first in last_index_by_line and second in last_index_by_line
        if both_answered and last_index_by_line[first] < last_index_by_line[second]:
            n_in_order += 1
    return n_in_order / math.comb(len(answered), 2)


def _score_of_task(task: str, gold: Sequence[str], answered: Sequence[str]) -> float:
    """The score of a reply by the metric of its task: NDCG, pairs in order, first line, recall or
    F1.

    Args:
        task: The number of the task, "T3.2".
        gold: The lines of the gold answer.
        answered: The lines of the reply.
    """
    if task in _RANKING_TASKS:
        return _ndcg(gold, answered)
    if task in _PAIR_ORDER_TASKS:
        return _share_of_pairs_in_order(gold, answered)
    if task in _FIRST_LINE_TASKS:
        return float(gold[0] == answered[0])
    if task in _RECALL_TASKS:
        return sum(line in answered for line in gold) / len(gold)
    common_lines = set(gold) & set(answered)
    return 2 * len(common_lines) / (len(set(gold)) + len(set(answered)))


@scorer("longbench_pro.score", "the metric of the question's task; no summaries", version="2")
def score(
    prediction: str,
    _references: Sequence[str],
    *,
    lines: Sequence[str],
    type: str,  # noqa: A002
) -> float | None:
    """Score a reply by the metric of its task; None for summaries, 0.0 for an empty reply.

    The metrics are NDCG, accuracy of pairs, accuracy, the share of lines found, and F1.

    Args:
        prediction: The reply.
        lines: The lines of the gold answer.
        type: The secondary task, such as "T3.2 Single-Hop Fact QA".
    """
    task = type.partition(" ")[0]
    if task.startswith("T4."):
        return None
    if prediction == "" or not lines:
        return 0.0
    gold_lines = list(map(_normalised_line, lines))
    task_score = _score_of_task(task, gold_lines, _answer_lines(prediction))
    # The authors' code takes a value above 1 for an error and scores 0 (docs/methods/scoring.md).
    # Only pairs in order have one: where the gold answer repeats a line.
    if task_score > 1.0:
        return 0.0
    return task_score
