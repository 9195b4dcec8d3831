"""Scores of one group of questions: a scorer that leaves out the questions of every other group.

    longbench.NAME.0-4k, .4-8k, .8k+            LongBench-E (Bai et al. 2023; LongBench/eval.py, scorer_e): by `length`
    quality.accuracy.easy, .hard                QuALITY: by `difficult` (1 = fewer than half right under time pressure)

What is left out counts in no mean, so a column of a table is the mean of its group, with that
group's interval. A question that does not say where it belongs is in no group.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from operator import eq
from typing import Any

from harness.scorers import longbench, quality
from harness.scorers.base import of_group
from harness.scorers.longbench_eval import BUCKETS, bucket, first_line
from harness.scorers.longbench_eval import scorer as evaluated


def _on_first_line(metric: Callable[..., float]) -> Callable[..., float]:
    """The scorer `metric`, applied to the reply's first line.

    LongBench's rule for triviaqa, samsum, trec and lsht.
    """

    @wraps(metric)
    def scored(prediction: str, references: Sequence[str], **extra: Any) -> float:
        """Score the first line of the prediction."""
        return metric(first_line(prediction), references, **extra)

    return scored


def _packages_of(name: str) -> tuple[str, ...]:
    """The packages that a scorer of LongBench needs: "rouge_score.first_line" -> ("rouge",),
    else ().
    """
    if name.startswith("rouge"):
        return ("rouge",)
    return ()


def _is_of_length(wanted: str, words: int | None) -> bool:
    """Whether a text has the length of a class.

    Args:
        wanted: The class, "0-4k", "4-8k" or "8k+".
        words: The number of words; None where the row has none, which is of no class.
    """
    return words is not None and bucket(words) == wanted


_BY_LENGTH: dict[str, tuple[str, Callable[..., float]]] = {
    "qa_f1_score": ("token F1", longbench.qa_f1_score),
    "rouge_score": ("ROUGE-L", longbench.rouge_score),
    "retrieval_score": ("share of the numbers that are the paragraph's", longbench.retrieval_score),
    "count_score": ("share of the numbers that are the count", longbench.count_score),
    "code_sim_score": ("similarity of the first line of code", longbench.code_sim_score),
}
for _name, _what, _metric in (
    ("qa_f1_score", "token F1 of the first line", longbench.qa_f1_score),
    ("rouge_score", "ROUGE-L of the first line", longbench.rouge_score),
    (
        "classification_score",
        "1 / number of class names in the first line",
        longbench.classification_score,
    ),
):
    _BY_LENGTH[f"{_name}.first_line"] = _what, _on_first_line(_metric)
    evaluated(
        f"longbench.{_name}.first_line", f"{_what} (few-shot sets)", packages=_packages_of(_name)
    )(_on_first_line(_metric))
for _bucket in BUCKETS:
    for _name, (_what, _metric) in _BY_LENGTH.items():
        evaluated(
            f"longbench.{_name}.{_bucket}",
            f"{_what}, of texts of {_bucket} words",
            packages=_packages_of(_name),
        )(of_group(_metric, "length", partial(_is_of_length, _bucket)))
for _level, _name in enumerate(("easy", "hard")):
    quality.scorer(f"quality.accuracy.{_name}", f"accuracy of the {_name} questions")(
        of_group(quality.accuracy, "difficult", partial(eq, _level))
    )
