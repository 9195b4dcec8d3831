"""Scores of one group of questions: a scorer that leaves out the questions of every other group.

    longbench.NAME.0-4k, .4-8k, .8k+            LongBench-E (Bai et al. 2023; LongBench/eval.py, scorer_e): by `length`
    quality.accuracy.easy, .hard                QuALITY: by `difficult` (1 = fewer than half right under time pressure)

What is left out counts in no mean, so a column of a table is the mean of its group, with that
group's interval. A question that does not say where it belongs is in no group.
"""

from collections.abc import Callable, Sequence
from functools import partial, wraps
from operator import eq
from typing import Any, NamedTuple

from harness.scorers import longbench, quality
from harness.scorers.base import only_of_group
from harness.scorers.longbench_eval import LENGTH_CLASSES, first_line, length_class
from harness.scorers.longbench_eval import scorer as evaluated


def _on_first_line(metric: Callable[..., float]) -> Callable[..., float]:
    """The scorer `metric`, applied to the reply's first line.

    LongBench's rule for triviaqa, samsum, trec and lsht.
    """

    @wraps(metric)
    def score_first_line(prediction: str, references: Sequence[str], **extra: Any) -> float:
        """Score the first line of the prediction."""
        return metric(first_line(prediction), references, **extra)

    return score_first_line


def _packages_of(name: str) -> tuple[str, ...]:
    """The packages that a scorer of LongBench needs: "rouge_score.first_line" -> ("rouge",),
    else ().
    """
    if name.startswith("rouge"):
        return ("rouge",)
    return ()


def _is_in_length_class(wanted_class: str, n_words: int | None) -> bool:
    """Whether a text has the length of a class.

    Args:
        wanted_class: The class, "0-4k", "4-8k" or "8k+".
        n_words: The number of words; None where the row has none, which is of no class.
    """
    return n_words is not None and length_class(n_words) == wanted_class


class _Metric(NamedTuple):
    """A metric of LongBench: what it measures, in words, and the function."""

    summary: str
    function: Callable[..., float]


_METRICS_BY_LENGTH = {
    "qa_f1_score": _Metric("token F1", longbench.qa_f1_score),
    "rouge_score": _Metric("ROUGE-L", longbench.rouge_score),
    "retrieval_score": _Metric(
        "share of the numbers that are the paragraph's", longbench.retrieval_score
    ),
    "count_score": _Metric("share of the numbers that are the count", longbench.count_score),
    "code_sim_score": _Metric("similarity of the first line of code", longbench.code_sim_score),
}
_FIRST_LINE_METRICS = {
    "qa_f1_score": _Metric("token F1 of the first line", longbench.qa_f1_score),
    "rouge_score": _Metric("ROUGE-L of the first line", longbench.rouge_score),
    "classification_score": _Metric(
        "1 / number of class names in the first line", longbench.classification_score
    ),
}
for _name, _metric in _FIRST_LINE_METRICS.items():
    _function = _on_first_line(_metric.function)
    _METRICS_BY_LENGTH[f"{_name}.first_line"] = _Metric(_metric.summary, _function)
    evaluated(
        f"longbench.{_name}.first_line",
        f"{_metric.summary} (few-shot sets)",
        packages=_packages_of(_name),
    )(_function)
for _length_class in LENGTH_CLASSES:
    for _name, _metric in _METRICS_BY_LENGTH.items():
        evaluated(
            f"longbench.{_name}.{_length_class}",
            f"{_metric.summary}, of texts of {_length_class} words",
            packages=_packages_of(_name),
        )(only_of_group(_metric.function, "length", partial(_is_in_length_class, _length_class)))
for _level, _name in enumerate(("easy", "hard")):
    quality.scorer(f"quality.accuracy.{_name}", f"accuracy of the {_name} questions")(
        only_of_group(quality.accuracy, "difficult", partial(eq, _level))
    )
