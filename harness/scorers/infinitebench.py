"""InfiniteBench's scores of En.QA, En.MC, En.Dia and Zh.QA (Zhang et al. 2024; src/compute_scores of its
repository).

choice("B. Toren", ["Toren"], gold_label=2)                  -> 1.0   (a reply that begins with a letter is that)
choice("I think the answer is: Toren", ..., gold_label=2)    -> 1.0
choice("He said B or C", ..., gold_label=2)                  -> 1.0   (the first letter that stands alone)
name("It is ada.", ["ADA"])                                  -> 1.0   (a word of the reply in capitals)
qa_f1_zh("今天", ["今天好"])                                    -> 0.8   (each character is a token)
"""

from collections.abc import Sequence

from harness.scorers.base import best_score, published
from harness.scorers.longbench import qa_f1_score
from harness.scorers.longbench_zh import normalize_zh_answer
from harness.scorers.squad import overlap

scorer = published("OpenBMB/InfiniteBench src/compute_scores.py")
scorer("infinitebench.qa_f1", "token F1, SQuAD rules")(qa_f1_score)

_LETTERS = "ABCD"
_MARKS_TO_SPACES = str.maketrans(dict.fromkeys("\n\"'.,?!{}", " "))
_NAME_TO_SPACES = str.maketrans(dict.fromkeys("\n:\"'.,?!{}", " "))
_ANSWER_PHRASES = ("answer is:", "answer:", "answer is", "option is")


@scorer(
    "infinitebench.choice",
    "the right letter or option, at the start, behind a phrase or as the first letter",
)
def choice(prediction: str, references: Sequence[str], *, gold_label: int) -> float:
    """1.0 where the reply names the right option, else 0.0, read as the published code reads it.

    A reply that begins with A to D names that letter; one that is an option's text names it. Else
    what follows "answer is" or the like counts, after one character, mostly a space; without such a
    phrase the first word that is a letter.

    Args:
        prediction: The reply.
        references: The first is the text of the right option.
        gold_label: The right option's number, from 1.
    """
    right_answers = (references[0], _LETTERS[gold_label - 1])
    text = prediction.strip()
    if not text:
        return 0.0
    if text[0] in _LETTERS:
        return float(text[0] in right_answers)
    if text in right_answers:
        return 1.0
    text = text.translate(_MARKS_TO_SPACES)
    while "  " in text:
        text = text.replace("  ", " ")
    for phrase in _ANSWER_PHRASES:
        _, phrase_found, text_after = text.partition(phrase)
        if phrase_found:
            return float(text_after[1:].startswith(right_answers))
    # The published test is `word in "ABCD"`, so "AB" and "BCD" count as letters, and as wrong ones.
    first_letter = next((word for word in text.split() if word in _LETTERS), "")
    return float(first_letter in right_answers)


@scorer("infinitebench.name", "a word of the reply, in capitals, is the character's name")
def name(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the first reference, a name in capitals, is one of the reply's words in capitals.

    ("It is ada.", ["ADA"]) -> 1.0
    """
    words = prediction.upper().translate(_NAME_TO_SPACES).split()
    return float(references[0] in words)


def _characters_f1(prediction: str, reference: str) -> float:
    """F1 of the characters of two texts without punctuation: ("今天", "今天好") -> 0.8."""
    characters = list(normalize_zh_answer(prediction))
    gold_characters = list(normalize_zh_answer(reference))
    return overlap(characters, gold_characters).f1


@scorer("infinitebench.qa_f1_zh", "F1 of the characters of Chinese texts")
def qa_f1_zh(prediction: str, references: Sequence[str]) -> float:
    """F1 of the characters without punctuation, best over the references."""
    return best_score(_characters_f1, prediction, references)
