"""FlashRAG's evaluator (Jin et al. 2024; flashrag/evaluator/metrics.py).

    acc("It was Paris.", ["Paris", "Rome"])      -> 1.0   (containment as a character string)
    f1("no", ["No one"])                         -> 0.0   (the yes/no rule of HotpotQA)
    dataset_em(["a", "b"], [["a"], ["c"]])       -> mean over the items
    retrieval_recall([["text", ...]], [["gold"]], k=2)   texts per item; one that contains a reference is a hit

F1, precision and recall take their maximum over the references each on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from harness.scorers.base import ScoreError, mean
from harness.scorers.hotpotqa import em, f1
from harness.scorers.hotpotqa import prec as precision
from harness.scorers.hotpotqa import recall as recall
from harness.scorers.squad import normalize_answer

Items = Sequence[str]
Golds = Sequence[Sequence[str]]


def acc(prediction: str, references: Sequence[str]) -> float:
    """1.0 where some normalised reference is a substring of the normalised prediction (an empty one always is)."""
    text = normalize_answer(prediction)
    return float(any(normalize_answer(reference) in text for reference in references))


def _over_items(measure: Callable[[str, Sequence[str]], float], prediction: Items, references: Golds) -> float:
    return mean([measure(p, r) for p, r in zip(prediction, references, strict=True)])


dataset_em = partial(_over_items, em)
dataset_acc = partial(_over_items, acc)
dataset_f1 = partial(_over_items, f1)
dataset_precision = partial(_over_items, precision)
dataset_recall = partial(_over_items, recall)


def _hits(texts: Sequence[str], golds: Sequence[str], k: int) -> list[bool]:
    answers = [normalize_answer(gold) for gold in golds]
    return [any(gold in text for gold in answers) for text in map(normalize_answer, texts[:k])]


def retrieval_recall(prediction: Sequence[Sequence[str]], references: Golds, *, k: int) -> float:
    """Share of the items with a hit among the first k texts."""
    return mean([float(any(_hits(texts, golds, k))) for texts, golds in zip(prediction, references, strict=True)])


def retrieval_precision(prediction: Sequence[Sequence[str]], references: Golds, *, k: int) -> float:
    """Hits among the first k texts / number of texts considered, averaged; ScoreError for an item without texts."""
    shares = []
    for texts, golds in zip(prediction, references, strict=True):
        hits = _hits(texts, golds, k)
        if not hits:
            raise ScoreError("retrieval precision is undefined for an item without a retrieved text")
        shares.append(sum(hits) / len(hits))
    return mean(shares)


retrieval_recall_top1 = partial(retrieval_recall, k=1)
retrieval_recall_top2 = partial(retrieval_recall, k=2)
retrieval_recall_top3 = partial(retrieval_recall, k=3)
retrieval_recall_top5 = partial(retrieval_recall, k=5)
retrieval_recall_top10 = partial(retrieval_recall, k=10)
retrieval_precision_top1 = partial(retrieval_precision, k=1)
retrieval_precision_top2 = partial(retrieval_precision, k=2)
retrieval_precision_top3 = partial(retrieval_precision, k=3)
retrieval_precision_top5 = partial(retrieval_precision, k=5)
retrieval_precision_top10 = partial(retrieval_precision, k=10)
