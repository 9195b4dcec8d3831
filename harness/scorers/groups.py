"""Scores of one group of questions: a scorer that leaves out the questions of every other group.

    longbench.NAME.0-4k, .4-8k, .8k+            LongBench-E (Bai et al. 2023; LongBench/eval.py, scorer_e): by `length`
    quality.accuracy.easy, .hard                QuALITY: by `difficult` (1 = fewer than half right under time pressure)

What is left out counts in no mean, so a column of a table is the mean of its group, with that group's interval. A
question that does not say where it belongs is in no group.
"""

from collections.abc import Callable, Sequence
from functools import partial

from harness.scorers import longbench, quality
from harness.scorers.longbench_eval import BUCKETS, bucket, first_line
from harness.scorers.longbench_eval import scorer as evaluated

Scored = Callable[..., float]  # a scorer: prediction, references, more by name


@evaluated("longbench.qa_f1_score.first_line", "token F1 of the first line (few-shot sets)")
def qa_f1_first_line(prediction: str, references: Sequence[str]) -> float:
    """longbench.qa_f1_score of the first line: LongBench's rule for triviaqa."""
    return longbench.qa_f1_score(first_line(prediction), references)


@evaluated("longbench.rouge_score.first_line", "ROUGE-L of the first line (few-shot sets)", packages=("rouge",))
def rouge_first_line(prediction: str, references: Sequence[str]) -> float:
    """longbench.rouge_score of the first line: LongBench's rule for samsum."""
    return longbench.rouge_score(first_line(prediction), references)


@evaluated("longbench.classification_score.first_line", "1 / number of class names in the first line (few-shot sets)")
def classification_first_line(prediction: str, references: Sequence[str], *, all_classes: Sequence[str]) -> float:
    """longbench.classification_score of the first line: LongBench's rule for trec and lsht."""
    return longbench.classification_score(first_line(prediction), references, all_classes=all_classes)


def score_of(
    prediction: str, references: Sequence[str], *, metric: Scored, wanted: str, length: int | None = None
) -> float | None:
    """`metric` where `length`, the words of the row's text, is in the bucket `wanted`; else None."""
    inside = length is not None and bucket(length) == wanted
    return metric(prediction, references) if inside else None


def classification_of(
    prediction: str, references: Sequence[str], *, wanted: str, all_classes: Sequence[str], length: int | None = None
) -> float | None:
    """`score_of` with the class names that the row states."""
    metric = partial(classification_first_line, all_classes=all_classes)
    return score_of(prediction, references, metric=metric, wanted=wanted, length=length)


def accuracy_of(
    prediction: str, references: Sequence[str], *, level: int, all_classes: Sequence[str], difficult: int | None = None
) -> float | None:
    """quality.accuracy where the question's `difficult` is `level` (0 easy, 1 hard), else None."""
    return quality.accuracy(prediction, references, all_classes=all_classes) if difficult == level else None


_BY_LENGTH: dict[str, tuple[str, Scored]] = {
    "qa_f1_score": ("token F1", longbench.qa_f1_score),
    "qa_f1_score.first_line": ("token F1 of the first line", qa_f1_first_line),
    "rouge_score": ("ROUGE-L", longbench.rouge_score),
    "rouge_score.first_line": ("ROUGE-L of the first line", rouge_first_line),
    "retrieval_score": ("share of the numbers that are the paragraph's", longbench.retrieval_score),
    "count_score": ("share of the numbers that are the count", longbench.count_score),
    "code_sim_score": ("similarity of the first line of code", longbench.code_sim_score),
}
for _bucket in BUCKETS:
    _texts = f"of texts of {_bucket} words"
    for _name, (_what, _metric) in _BY_LENGTH.items():
        _packages = ("rouge",) if _name.startswith("rouge") else ()
        evaluated(f"longbench.{_name}.{_bucket}", f"{_what}, {_texts}", packages=_packages)(
            partial(score_of, metric=_metric, wanted=_bucket)
        )
    evaluated(f"longbench.classification_score.first_line.{_bucket}", f"1 / number of class names, {_texts}")(
        partial(classification_of, wanted=_bucket)
    )
for _level, _name in enumerate(("easy", "hard")):
    quality.scorer(f"quality.accuracy.{_name}", f"accuracy of the {_name} questions")(
        partial(accuracy_of, level=_level)
    )
