"""TriviaQA answers (Joshi et al. 2017; evaluation/triviaqa_evaluation.py).

    normalize_answer("Sunset_Boulevard, (1950)")    -> "sunset boulevard 1950"

Unlike SQuAD, punctuation (the marks ‘ ’ ´ ` too) and underscores become spaces.
"""

import re
import string
from collections.abc import Sequence

from harness.scorers.base import best, published
from harness.scorers.squad import overlap

scorer = published("mandarjoshi90/triviaqa evaluation/triviaqa_evaluation.py")

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_SPACE_OUT = str.maketrans(dict.fromkeys(string.punctuation + "‘’´`", " "))


@scorer("triviaqa.normalize_answer", "the normalised text", "text")
def normalize_answer(text: str) -> str:
    """Lower case; underscores and punctuation to spaces; the words a, an, the deleted; single
    spaces."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_SPACE_OUT)).split())


@scorer("triviaqa.em", "exact match, punctuation to spaces")
def em(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the normalised answer equals a normalised reference, else 0.0."""
    return best(
        lambda p, g: float(normalize_answer(p) == normalize_answer(g)), prediction, references
    )


@scorer("triviaqa.f1", "token F1, punctuation to spaces")
def f1(prediction: str, references: Sequence[str]) -> float:
    """Token F1 of the normalised answer, best over the references."""
    tokens = normalize_answer(prediction).split()
    return max(
        (overlap(tokens, normalize_answer(reference).split()).f1 for reference in references),
        default=0.0,
    )
