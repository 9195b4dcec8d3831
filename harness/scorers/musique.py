"""MuSiQue answers and supporting paragraphs (Trivedi et al. 2022; metrics/answer.py and
metrics/support.py).

answer_f1("the Beatles", ["Beatles", "Fab Four"])   -> 1.0
answer_f1("", [""])                                 -> 1.0   (SQuAD 2: no tokens on either side agree)
support_f1([8], [8, 12])                            -> 0.667
"""

from collections.abc import Sequence

from harness.scorers.base import best_score, published, set_overlap
from harness.scorers.squad import exact, normalize_answer, overlap

scorer = published("StonyBrookNLP/musique metrics")


def _token_f1(prediction: str, gold: str) -> float:
    """Token F1 of the normalised texts; 1.0 if both are empty, 0.0 if one is."""
    words = normalize_answer(prediction).split()
    gold_words = normalize_answer(gold).split()
    if not words or not gold_words:
        return float(words == gold_words)
    return overlap(words, gold_words).f1


@scorer("musique.answer_em", "exact match")
def answer_em(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the normalised answer equals a normalised reference, else 0.0."""
    return best_score(exact, prediction, references)


@scorer("musique.answer_f1", "token F1, SQuAD 2 rules")
def answer_f1(prediction: str, references: Sequence[str]) -> float:
    """Token F1 by SQuAD 2's rules, best over the references; two empty texts agree (1.0)."""
    return best_score(_token_f1, prediction, references)


@scorer("musique.answer_f1.answerable", "the same of questions with an answer (MuSiQue-Full)")
def answer_f1_of_answerable(
    prediction: str, references: Sequence[str], *, declined: bool
) -> float | None:
    """`answer_f1` of a question that has an answer; None for one that has not.

    Args:
        prediction: The reply.
        references: The accepted answers.
        declined: Whether the question has no answer, so that a reply should decline.
    """
    if declined:
        return None
    return answer_f1(prediction, references)


@scorer("musique.support_em", "exact match of supporting paragraphs", "indices")
def support_em(prediction: Sequence[int], references: Sequence[int]) -> float:
    """1.0 where the predicted and the gold paragraph indices are the same set, else 0.0."""
    return set_overlap(prediction, references).em


@scorer("musique.support_f1", "F1 of supporting paragraphs", "indices")
def support_f1(prediction: Sequence[int], references: Sequence[int]) -> float:
    """F1 of the set of predicted paragraph indices; two empty sets agree (1.0)."""
    if not prediction and not references:
        return 1.0
    return set_overlap(prediction, references).f1
