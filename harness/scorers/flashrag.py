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
    """1.0 where a reference stands in the prediction, both normalised, else 0.0.

    An empty reference stands in any text.
    """
    return float(_contains_any(prediction, references))


def _contains_any(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the answers stands in the text, as a string; both are normalised first."""
    normalised = normalize_answer(text)
    return any(normalize_answer(answer) in normalised for answer in answers)


Measure = Callable[[str, Sequence[str]], float]
"""A score of one item: of its prediction and its accepted answers."""


def _mean_over_items(measure: Measure, prediction: Items, references: Golds) -> float:
    """The mean of a measure over the items of a data set.

    Args:
        measure: Scores one item.
        prediction: The prediction of each item.
        references: The accepted answers of each item.
    """
    items = zip(prediction, references, strict=True)
    return mean([measure(text, answers) for text, answers in items])


def _with_mean(name: str, measure: Measure) -> None:
    """Register the scorer flashrag.dataset_NAME, the mean of `measure` over the items of a data
    set.
    """
    of_data_set = partial(_mean_over_items, measure)
    scorer(f"flashrag.dataset_{name}", f"mean {name}", "corpus")(of_data_set)


scorer("flashrag.em", "exact match")(em)
_with_mean("em", em)
_with_mean("acc", acc)
for _name, _word in (("f1", "F1"), ("precision", "precision"), ("recall", "recall")):
    _overlap = partial(answer_overlap, part=_name)
    scorer(f"flashrag.{_name}", f"token {_word} with the yes/no rule")(_overlap)
    _with_mean(_name, _overlap)


def _hits(texts: Sequence[str], golds: Sequence[str], k: int) -> list[bool]:
    """For each of the first `k` texts, whether it contains one of the accepted answers."""
    return [_contains_any(text, golds) for text in texts[:k]]


def retrieval_recall(prediction: Sequence[Sequence[str]], references: Golds, *, k: int) -> float:
    """The share of items for which one of the first k texts contains an answer.

    Args:
        prediction: The texts of each item, best first.
        references: The accepted answers of each item.
        k: How many texts count.
    """
    items = zip(prediction, references, strict=True)
    return mean([any(_hits(texts, golds, k)) for texts, golds in items])


def retrieval_precision(prediction: Sequence[Sequence[str]], references: Golds, *, k: int) -> float:
    """The share of the first k texts that contain an answer, averaged over the items.

    Args:
        prediction: The texts of each item, best first.
        references: The accepted answers of each item.
        k: How many texts count.

    Raises:
        ScoreError: An item has no texts.
    """
    shares: list[float] = []
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
