"""TriviaQA answers (Joshi et al. 2017; evaluation/triviaqa_evaluation.py).

    normalize_answer("Sunset_Boulevard, (1950)")    -> "sunset boulevard 1950"

Unlike SQuAD, punctuation (the marks ‘ ’ ´ ` too) and underscores become spaces.
"""

import re
import string
from collections.abc import Sequence

from harness.scorers.base import best_score, published
from harness.scorers.squad import overlap

scorer = published("mandarjoshi90/triviaqa evaluation/triviaqa_evaluation.py")

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_SPACE_OUT = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))


@scorer("triviaqa.normalize_answer", "the normalised text", "text")
def normalize_answer(text: str) -> str:
    """Normalise an answer as TriviaQA's script does: "Sunset_Boulevard, (1950)" -> "sunset
    boulevard 1950".

    Lower case; underscores and punctuation to spaces; the words a, an, the deleted; single spaces.
    """
    without_marks = text.lower().translate(_SPACE_OUT)
    without_articles = _ARTICLES.sub(" ", without_marks)
    return " ".join(without_articles.split())


@scorer("triviaqa.em", "exact match, punctuation to spaces")
def em(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the normalised answer equals a normalised reference, else 0.0."""
    return best_score(_exact, prediction, references)


def _exact(prediction: str, reference: str) -> float:
    """1.0 where the normalised texts are equal, else 0.0."""
    return float(normalize_answer(prediction) == normalize_answer(reference))


@scorer("triviaqa.f1", "token F1, punctuation to spaces")
def f1(prediction: str, references: Sequence[str]) -> float:
    """Token F1 of the normalised answer, best over the references."""
    return best_score(_token_f1, prediction, references)


def _token_f1(prediction: str, reference: str) -> float:
    """F1 of the words of two normalised texts."""
    words = normalize_answer(prediction).split()
    return overlap(words, normalize_answer(reference).split()).f1
