"""LongBench's whole-list scores (LongBench/eval.py): 100 x mean of the best over the references,
two decimals.

    scorer(["Paris\\nQuestion:"], [["Paris"]], dataset="triviaqa")                       -> 100.0
    scorer_e(predictions, references, dataset="qasper", lengths=[3000, 9000])            -> {"0-4k": .., "8k+": ..}

trec, triviaqa, samsum and lsht are few-shot: leading newlines go and only the first line is scored.
"""

from collections.abc import Callable, Sequence
from functools import partial

from harness.scorers import longbench as en
from harness.scorers import longbench_zh as zh
from harness.scorers.base import ScoreError, mean, published

scorer = published("THUDM/LongBench LongBench/eval.py")

DATASETS: dict[str, Callable[..., float]] = {
    "narrativeqa": en.qa_f1_score,
    "qasper": en.qa_f1_score,
    "multifieldqa_en": en.qa_f1_score,
    "multifieldqa_zh": zh.qa_f1_zh_score,
    "hotpotqa": en.qa_f1_score,
    "2wikimqa": en.qa_f1_score,
    "musique": en.qa_f1_score,
    "dureader": zh.rouge_zh_score,
    "gov_report": en.rouge_score,
    "qmsum": en.rouge_score,
    "multi_news": en.rouge_score,
    "vcsum": zh.rouge_zh_score,
    "trec": en.classification_score,
    "triviaqa": en.qa_f1_score,
    "samsum": en.rouge_score,
    "lsht": en.classification_score,
    "passage_retrieval_en": en.retrieval_score,
    "passage_count": en.count_score,
    "passage_retrieval_zh": zh.retrieval_zh_score,
    "lcc": en.code_sim_score,
    "repobench-p": en.code_sim_score,
}
_SCORED_ON_FIRST_LINE = frozenset({"trec", "triviaqa", "samsum", "lsht"})
LENGTH_CLASSES = ("0-4k", "4-8k", "8k+")


def length_class(length: int) -> str:
    """The class of a text's length in words by LongBench-E: "0-4k", "4-8k" or "8k+".

    3999 -> "0-4k", 4000 -> "4-8k", 8000 -> "8k+"
    """
    if length < 4000:
        return LENGTH_CLASSES[0]
    if length < 8000:
        return LENGTH_CLASSES[1]
    return LENGTH_CLASSES[2]


def _metric_of(
    dataset: str, all_classes: Sequence[str] | None, backend: str
) -> Callable[..., float]:
    """The metric of a data set of LongBench, with its extra inputs filled in.

    Args:
        dataset: LongBench's name for it, a key of DATASETS.
        all_classes: The names of its classes, for trec and lsht; else None.
        backend: For code, see `code_sim_score`.

    Raises:
        ScoreError: There is no such data set, or classes are missing.
    """
    if dataset not in DATASETS:
        raise ScoreError(f"LongBench has no data set {dataset!r}; it has: {', '.join(DATASETS)}")
    metric = DATASETS[dataset]
    if metric is en.code_sim_score:
        return partial(metric, backend=backend)
    if metric is not en.classification_score:
        return metric
    if all_classes is None:
        raise ScoreError(f"LongBench's {dataset} needs all_classes, the list of its class names")
    return partial(metric, all_classes=all_classes)


def first_line(prediction: str) -> str:
    r"""The first line of a reply after leading line breaks, which LongBench scores for few-shot
    sets.

    "\nParis\nQuestion:" -> "Paris"
    """
    return prediction.lstrip("\n").split("\n")[0]


@scorer("longbench.scorer", "score of a list, in percent", "corpus", maximum=100.0)
def mean_score(
    prediction: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    dataset: str,
    all_classes: Sequence[str] | None = None,
    backend: str = "difflib",
) -> float:
    """The score of a list of predictions, 0..100: the mean of the data set's metric, two decimals.

    Args:
        prediction: The replies.
        references: The accepted answers of each.
        dataset: A key of DATASETS, whose metric is used.
        all_classes: The class names of trec or lsht.
        backend: For code, see `code_sim_score`.

    Raises:
        ScoreError: An unknown data set, missing classes, or an empty list.
    """
    metric = _metric_of(dataset, all_classes, backend)
    scored_texts = list(prediction)
    if dataset in _SCORED_ON_FIRST_LINE:
        scored_texts = [first_line(reply) for reply in prediction]
    values = [metric(reply, golds) for reply, golds in zip(scored_texts, references, strict=True)]
    return round(100 * mean(values), 2)


@scorer("longbench.scorer_e", "the same by length", "corpus", maximum=100.0)
def scorer_e(
    prediction: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    dataset: str,
    lengths: Sequence[int],
    all_classes: Sequence[str] | None = None,
    backend: str = "difflib",
) -> dict[str, float | None]:
    """LongBench-E's score by length: {"0-4k": 51.2, "4-8k": 40.0, "8k+": None}.

    Each is the `mean_score` of the items of that length, None where there are none.

    Args:
        prediction: The replies.
        references: The accepted answers of each.
        dataset: A key of DATASETS.
        lengths: The number of words of each item's text.
        all_classes: The class names of trec or lsht.
        backend: For code, see `code_sim_score`.

    Raises:
        ScoreError: As `mean_score`, or there is not one length for each prediction.
    """
    if len(lengths) != len(prediction):
        raise ScoreError(f"{len(prediction)} predictions but {len(lengths)} lengths")
    indices_by_class: dict[str, list[int]] = {class_name: [] for class_name in LENGTH_CLASSES}
    for index, length in enumerate(lengths):
        indices_by_class[length_class(length)].append(index)
    scores: dict[str, float | None] = dict.fromkeys(LENGTH_CLASSES)
    for class_name, indices in indices_by_class.items():
        if indices:
            scores[class_name] = mean_score(
                [prediction[index] for index in indices],
                [references[index] for index in indices],
                dataset=dataset,
                all_classes=all_classes,
                backend=backend,
            )
    return scores
