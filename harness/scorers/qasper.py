"""Qasper answers and evidence (Dasigi et al. 2021; scripts/evaluator.py).

token_f1_score("blue car", ["a blue car", "red"])            -> 1.0
paragraph_f1_score(["p1", "p2"], ["p1"])                     -> 0.667
paragraph_f1_score(["p1", "p1"], ["p1"])                     -> 0.667   (a repeated paragraph counts in the length)
"""

from collections.abc import Sequence

from harness.scorers.base import best_score, published
from harness.scorers.squad import token_f1

scorer = published("allenai/qasper-led-baseline scripts/evaluator.py")


@scorer("qasper.token_f1_score", "token F1, SQuAD rules")
def token_f1_score(prediction: str, references: Sequence[str]) -> float:
    """SQuAD token F1, best over the references."""
    return best_score(token_f1, prediction, references)


@scorer("qasper.paragraph_f1_score", "F1 of evidence paragraphs", "paragraphs", version="2")
def paragraph_f1_score(prediction: Sequence[str], references: Sequence[str]) -> float:
    """F1 of the paragraphs that stand in both lists; two empty lists agree (1.0).

    As in the published code each common paragraph counts once, but precision and recall divide by
    the lengths of the lists with repeats: (["p1", "p1"], ["p1"]) -> 0.667
    """
    if not prediction and not references:
        return 1.0
    n_common = len(set(prediction) & set(references))
    if n_common == 0:
        return 0.0
    precision = n_common / len(prediction)
    recall = n_common / len(references)
    return 2 * precision * recall / (precision + recall)
