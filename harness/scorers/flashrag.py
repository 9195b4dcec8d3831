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
from harness.scorers.hotpotqa import OverlapPart, answer_overlap, em
from harness.scorers.squad import normalize_answer

scorer = published("RUC-NLPIR/FlashRAG flashrag/evaluator/metrics.py")

Predictions = Sequence[str]  # a prediction per item
AcceptedAnswers = Sequence[Sequence[str]]  # the accepted answers of each item


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


ItemScore = Callable[[str, Sequence[str]], float]
"""A score of one item: of its prediction and its accepted answers."""


def _mean_over_items(
    item_score: ItemScore, prediction: Predictions, references: AcceptedAnswers
) -> float:
    """The mean of a measure over the items of a data set.

    Args:
        item_score: Scores one item.
        prediction: The prediction of each item.
        references: The accepted answers of each item.
    """
    items = zip(prediction, references, strict=True)
    return mean([item_score(text, answers) for text, answers in items])


def _register_mean(name: str, item_score: ItemScore) -> None:
    """Register the scorer flashrag.dataset_NAME, the mean of `item_score` over the items of a data
    set.
    """
    mean_score = partial(_mean_over_items, item_score)
    scorer(f"flashrag.dataset_{name}", f"mean {name}", "corpus")(mean_score)


scorer("flashrag.em", "exact match")(em)
_register_mean("em", em)
_register_mean("acc", acc)
_WORD_OF_PART: dict[OverlapPart, str] = {"f1": "F1", "precision": "precision", "recall": "recall"}
for _part, _word in _WORD_OF_PART.items():
    _overlap = partial(answer_overlap, part=_part)
    scorer(f"flashrag.{_part}", f"token {_word} with the yes/no rule")(_overlap)
    _register_mean(_part, _overlap)


def _which_contain_answer(texts: Sequence[str], golds: Sequence[str], k: int) -> list[bool]:
    """For each of the first `k` texts, whether it contains one of the accepted answers."""
    return [_contains_any(text, golds) for text in texts[:k]]


def retrieval_recall(
    prediction: Sequence[Sequence[str]], references: AcceptedAnswers, *, k: int
) -> float:
    """The share of items for which one of the first k texts contains an answer.

    Args:
        prediction: The texts of each item, best first.
        references: The accepted answers of each item.
        k: How many texts count.
    """
    items = zip(prediction, references, strict=True)
    return mean([any(_which_contain_answer(texts, golds, k)) for texts, golds in items])


def retrieval_precision(
    prediction: Sequence[Sequence[str]], references: AcceptedAnswers, *, k: int
) -> float:
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
        text_contains_answer = _which_contain_answer(texts, golds, k)
        if not text_contains_answer:
            raise ScoreError(
                "retrieval precision is undefined for an item without a retrieved text"
            )
        shares.append(sum(text_contains_answer) / len(text_contains_answer))
    return mean(shares)


for _k in (1, 2, 3, 5, 10):
    scorer(f"flashrag.retrieval_recall_top{_k}", f"a hit among {_k} texts", "retrieval")(
        partial(retrieval_recall, k=_k)
    )
    scorer(f"flashrag.retrieval_precision_top{_k}", f"hits among {_k} texts", "retrieval")(
        partial(retrieval_precision, k=_k)
    )
