"""HotpotQA answers and supporting facts (Yang et al. 2018; hotpot_evaluate_v1.py, update_answer and update_sp).

    f1("yes, he was", ["yes"])                    -> 0.0   (yes / no / noanswer must be matched whole)
    sp_f1([["A", 0]], [["A", 0], ["B", 1]])       -> 0.667

The published code knows one reference per question; of several, the best counts, each figure on its own.
"""

from collections.abc import Sequence
from typing import Any

from harness.scorers.base import best, published
from harness.scorers.set_overlap import facts, set_overlap
from harness.scorers.squad import exact, yes_no_overlap

scorer = published("hotpotqa/hotpot hotpot_evaluate_v1.py")

Facts = Sequence[Sequence[Any]]


@scorer("hotpotqa.em", "exact match")
def em(prediction: str, references: Sequence[str]) -> float:
    """Exact match of the normalised answer."""
    return best(exact, prediction, references)


@scorer("hotpotqa.f1", "token F1 with the yes/no rule")
def f1(prediction: str, references: Sequence[str]) -> float:
    """Token F1 with the yes/no rule."""
    return best(lambda p, g: yes_no_overlap(p, g).f1, prediction, references)


@scorer("hotpotqa.prec", "token precision with the yes/no rule")
def prec(prediction: str, references: Sequence[str]) -> float:
    """Token precision with the yes/no rule."""
    return best(lambda p, g: yes_no_overlap(p, g).precision, prediction, references)


@scorer("hotpotqa.recall", "token recall with the yes/no rule")
def recall(prediction: str, references: Sequence[str]) -> float:
    """Token recall with the yes/no rule."""
    return best(lambda p, g: yes_no_overlap(p, g).recall, prediction, references)


@scorer("hotpotqa.sp_em", "exact match of supporting facts", "facts")
def sp_em(prediction: Facts, references: Facts) -> float:
    """Exact match of the sets of [title, sentence index]."""
    return set_overlap(facts(prediction), facts(references)).em


@scorer("hotpotqa.sp_f1", "F1 of supporting facts", "facts")
def sp_f1(prediction: Facts, references: Facts) -> float:
    """F1 of the sets of [title, sentence index]."""
    return set_overlap(facts(prediction), facts(references)).f1


@scorer("hotpotqa.sp_prec", "precision of supporting facts", "facts")
def sp_prec(prediction: Facts, references: Facts) -> float:
    """Precision of the sets of [title, sentence index]."""
    return set_overlap(facts(prediction), facts(references)).precision


@scorer("hotpotqa.sp_recall", "recall of supporting facts", "facts")
def sp_recall(prediction: Facts, references: Facts) -> float:
    """Recall of the sets of [title, sentence index]."""
    return set_overlap(facts(prediction), facts(references)).recall
