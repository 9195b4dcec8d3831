"""Qasper answers and evidence (Dasigi et al. 2021; scripts/evaluator.py).

token_f1_score("blue car", ["a blue car", "red"])            -> 1.0
paragraph_f1_score(["p1", "p2"], ["p1"])                     -> 0.667
"""

from collections.abc import Sequence

from harness.scorers.base import best, published, set_overlap
from harness.scorers.squad import token_f1

scorer = published("allenai/qasper-led-baseline scripts/evaluator.py")


@scorer("qasper.token_f1_score", "token F1, SQuAD rules")
def token_f1_score(prediction: str, references: Sequence[str]) -> float:
    """SQuAD token F1, best over the references."""
    return best(token_f1, prediction, references)


@scorer("qasper.paragraph_f1_score", "F1 of evidence paragraphs", "paragraphs")
def paragraph_f1_score(prediction: Sequence[str], references: Sequence[str]) -> float:
    """F1 over sets of evidence paragraphs; two empty sets agree (1.0)."""
    return set_overlap(prediction, references).f1 if prediction or references else 1.0
