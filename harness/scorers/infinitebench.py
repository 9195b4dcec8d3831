"""InfiniteBench's scores of En.QA and En.MC (Zhang et al. 2024; src/compute_scores of its
repository).

choice("B. Toren", ["Toren"], gold_label=2)                  -> 1.0   (a reply that begins with a letter is that)
choice("I think the answer is: Toren", ..., gold_label=2)    -> 1.0
choice("He said B or C", ..., gold_label=2)                  -> 1.0   (the first letter that stands alone)
"""

from collections.abc import Sequence

from harness.scorers.base import published
from harness.scorers.longbench import qa_f1_score

scorer = published("OpenBMB/InfiniteBench src/compute_scores.py")
scorer("infinitebench.qa_f1", "token F1, SQuAD rules")(qa_f1_score)

_LETTERS = "ABCD"
_TO_SPACES = str.maketrans(dict.fromkeys("\n\"'.,?!{}", " "))
_ANSWER_PHRASES = ("answer is:", "answer:", "answer is", "option is")


@scorer(
    "infinitebench.choice",
    "the right letter or option, at the start, behind a phrase or as the first letter",
)
def choice(prediction: str, references: Sequence[str], *, gold_label: int) -> float:
    """1.0 where the reply, read as the published code reads it, names the right option, else 0.0.

    references: the right option's text, first; gold_label: its number, from 1.
    """
    right = (references[0], _LETTERS[gold_label - 1])
    text = prediction.strip()
    if not text:
        return 0.0
    if text[0] in _LETTERS:
        return float(text[0] in right)
    if text in right:
        return 1.0
    text = text.translate(_TO_SPACES)
    while "  " in text:
        text = text.replace("  ", " ")
    for phrase in _ANSWER_PHRASES:
        if (start := text.find(phrase)) >= 0:
            return float(text[start + len(phrase) + 1 :].startswith(right))
    # The published test is `word in "ABCD"`, so "AB" and "BCD" count as letters, and as wrong ones.
    first = next((word for word in text.split() if word in _LETTERS), "")
    return float(first in right)
