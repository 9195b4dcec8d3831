"""FlashRAG's evaluator (Jin et al. 2024; flashrag/evaluator/metrics.py).

    acc("It was Paris.", ["Paris", "Rome"])      -> 1.0   (containment as a character string)
    f1("no", ["No one"])                         -> 0.0   (the yes/no rule of HotpotQA)
    dataset_em: mean over the items
    retrieval_recall([["text", ...]], [["gold"]], k=2)   texts per item; one that contains a reference is a hit

F1, precision and recall take their maximum over the references each on its own.
"""

from collections.abc import Callable, Sequence
from functools import partial

from harness.scorers.base import ScoreError, mean, published
from harness.scorers.hotpotqa import answer_overlap, em
from harness.scorers.squad import normalize_answer

scorer = published("RUC-NLPIR/FlashRAG flashrag/evaluator/metrics.py")

Items = Sequence[str]  # a prediction per item
Golds = Sequence[Sequence[str]]  # the accepted answers of each item


@scorer("flashrag.acc", "a reference is contained in the text")
def acc(prediction: str, references: Sequence[str]) -> float:
    """1.0 where a normalised reference stands in the normalised prediction (an empty one always
    does)."""
    text = normalize_answer(prediction)
    return float(any(normalize_answer(reference) in text for reference in references))


def _mean_over_items(
    measure: Callable[[str, Sequence[str]], float], prediction: Items, references: Golds
) -> float:
    return mean([measure(p, r) for p, r in zip(prediction, references, strict=True)])


scorer("flashrag.em", "exact match")(em)
_MEASURES: dict[str, Callable[[str, Sequence[str]], float]] = {"em": em, "acc": acc}
for _name, _word in (("f1", "F1"), ("precision", "precision"), ("recall", "recall")):
    _MEASURES[_name] = partial(answer_overlap, part=_name)
    scorer(f"flashrag.{_name}", f"token {_word} with the yes/no rule")(_MEASURES[_name])
for _name, _measure in _MEASURES.items():
    scorer(f"flashrag.dataset_{_name}", f"mean {_name}", "corpus")(
        partial(_mean_over_items, _measure)
    )


def _hits(texts: Sequence[str], golds: Sequence[str], k: int) -> list[bool]:
    """Of each of the first k texts, whether it contains one of `golds`; all are normalised."""
    answers = [normalize_answer(gold) for gold in golds]
    return [any(gold in text for gold in answers) for text in map(normalize_answer, texts[:k])]


def retrieval_recall(prediction: Sequence[Sequence[str]], references: Golds, *, k: int) -> float:
    """Share of items of which one of the first k texts has an answer in it.

    Args:
        prediction: The texts of each item, best first.
        references: The accepted answers of each item.
        k: How many texts count.
    """
    found = [
        any(_hits(texts, golds, k)) for texts, golds in zip(prediction, references, strict=True)
    ]
    return mean(found)


def retrieval_precision(prediction: Sequence[Sequence[str]], references: Golds, *, k: int) -> float:
    """Mean share of the first k texts with an answer in them.

    Args:
        prediction: The texts of each item, best first.
        references: The accepted answers of each item.
        k: How many texts count.

    Raises:
        ScoreError: An item has no texts.
    """
    shares = []
    for texts, golds in zip(prediction, references, strict=True):
        hits = _hits(texts, golds, k)
        if not hits:
            raise ScoreError(
                "retrieval precision is undefined for an item without a retrieved text"
            )
        shares.append(sum(hits) / len(hits))
    return mean(shares)


for _k in (1, 2, 3, 5, 10):
    scorer(f"flashrag.retrieval_recall_top{_k}", f"a hit among {_k} texts", "retrieval")(
        partial(retrieval_recall, k=_k)
    )
    scorer(f"flashrag.retrieval_precision_top{_k}", f"hits among {_k} texts", "retrieval")(
        partial(retrieval_precision, k=_k)
    )
