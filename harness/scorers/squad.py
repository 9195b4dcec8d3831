"""The SQuAD answer rules that nearly all projects share: normalise, compare, count common tokens.

    normalize_answer("The  Beatles!")                       -> "beatles"
    overlap(["the", "cat"], ["cat"])                        -> Overlap(precision=0.5, recall=1.0, f1=0.667)

Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine Comprehension of Text",
section 6.1; the order of the steps and the yes/no rule as in the official scripts of SQuAD 1.1 and
HotpotQA.
"""

import re
import string
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from harness.words import words

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_DELETE_PUNCTUATION = str.maketrans("", "", string.punctuation)
_CLOSED_ANSWERS = frozenset({"yes", "no", "noanswer"})


class Overlap(NamedTuple):
    """Precision, recall and F1 of a prediction's tokens, each in 0..1."""

    precision: float
    recall: float
    f1: float


_NO_OVERLAP = Overlap(0.0, 0.0, 0.0)


def normalize_answer(text: str) -> str:
    """Normalise an answer as SQuAD's script does: "The  Beatles!" -> "beatles".

    Lower case; ASCII punctuation deleted (no space in its place); the words a, an, the deleted;
    single spaces. Works on code points: typographic quotes stay, and composed and decomposed
    letters differ.
    """
    without_marks = text.lower().translate(_DELETE_PUNCTUATION)
    without_articles = _ARTICLES.sub(" ", without_marks)
    return " ".join(without_articles.split())


def spaced_words(text: str) -> str:
    """The words of a text, normalised, with a space before and after each: "The mill!" -> " mill
    ".

    So `spaced_words(answer) in spaced_words(text)` finds an answer in whole words.
    """
    return f" {' '.join(words(normalize_answer(text)))} "


def overlap(prediction: Sequence[str], gold: Sequence[str]) -> Overlap:
    """The overlap of two lists of tokens, each counted as often as it stands in both.

    c common tokens give P = c / |prediction|, R = c / |gold| and F1 = 2PR / (P + R). All three are
    0 where nothing is common, empty lists included.

    Args:
        prediction: The tokens of the reply.
        gold: The tokens of the gold answer.
    """
    n_common = sum((Counter(prediction) & Counter(gold)).values())
    if n_common == 0:
        return _NO_OVERLAP
    precision = n_common / len(prediction)
    recall = n_common / len(gold)
    f1 = 2 * precision * recall / (precision + recall)
    return Overlap(precision, recall, f1)


def token_f1(prediction: str, gold: str) -> float:
    """F1 over the tokens of the normalised texts; empty against empty is 0."""
    return overlap(normalize_answer(prediction).split(), normalize_answer(gold).split()).f1


def exact(prediction: str, gold: str) -> float:
    """1.0 where the normalised texts are equal, else 0.0."""
    return float(normalize_answer(prediction) == normalize_answer(gold))


def yes_no_overlap(prediction: str, gold: str) -> Overlap:
    """The overlap of the tokens of two normalised texts, with HotpotQA's rule for yes and no.

    Where one text reads yes, no or noanswer and the other is not equal to it, all is 0.
    """
    predicted = normalize_answer(prediction)
    wanted = normalize_answer(gold)
    is_closed = predicted in _CLOSED_ANSWERS or wanted in _CLOSED_ANSWERS
    if is_closed and predicted != wanted:
        return _NO_OVERLAP
    return overlap(predicted.split(), wanted.split())
