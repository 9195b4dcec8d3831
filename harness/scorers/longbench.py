"""LongBench's metrics (Bai et al. 2023; LongBench/metrics.py), each the best over the references
and never below 0.

qa_f1_score("The Beatles", ["Beatles"])                     -> 1.0
retrieval_score("3.5", ["Paragraph 3"])                     -> 0.5   (numbers as strings)
code_sim_score("return y", ["return x"])                    -> 0.88
classification_score("City", ["City"], all_classes=[...])   -> 1 / number of classes named
"""

import difflib
import re
import reprlib
from collections.abc import Sequence

from harness.scorers.base import ScoreError, best_score, common_subsequence_length, published
from harness.scorers.rouge import rouge_l
from harness.scorers.squad import normalize_answer, token_f1

scorer = published("THUDM/LongBench LongBench/metrics.py")
scorer("longbench.normalize_answer", "the normalised text, SQuAD rules", "text")(normalize_answer)

_NUMBER = re.compile(r"\d+")
_PARAGRAPH = re.compile(r"Paragraph (\d+)")
_COMMENT_MARKS = ("`", "#", "//")


@scorer("longbench.qa_f1_score", "token F1, SQuAD rules")
def qa_f1_score(prediction: str, references: Sequence[str]) -> float:
    """SQuAD token F1, the best over the references.

    Yes and no are words as any other; an empty text against an empty one gives 0.
    """
    return best_score(token_f1, prediction, references)


@scorer("longbench.rouge_score", "ROUGE-L of the rouge package", packages=("rouge",))
def rouge_score(prediction: str, references: Sequence[str]) -> float:
    """ROUGE-L of the `rouge` package (harness.scorers.rouge), best over the references."""
    return best_score(rouge_l, prediction, references)


def share_of_number(prediction: str, number: str) -> float:
    """The share of the numbers in the prediction that are written as `number`; 0.0 without a
    number.

    ("3 or 5", "3") -> 0.5
    """
    numbers = _NUMBER.findall(prediction)
    if not numbers:
        return 0.0
    return numbers.count(number) / len(numbers)


def share_of_reference_number(
    prediction: str, references: Sequence[str], pattern: re.Pattern[str]
) -> float:
    """The share of the numbers in the prediction that equal a reference's number, best over these.

    ("3 or 5", ["Paragraph 3"], "Paragraph (digits)") -> 0.5

    Args:
        prediction: The reply.
        references: Texts with a number each.
        pattern: Finds that number in a reference, as its group 1.

    Raises:
        ScoreError: A reference has no such number.
    """
    numbers: list[str] = []
    for reference in references:
        match = pattern.search(reference)
        if match is None:
            got = reprlib.repr(list(references))
            raise ScoreError(f"a reference must read like '{pattern.pattern}', got {got}")
        numbers.append(match.group(1))
    return best_score(share_of_number, prediction, numbers)


@scorer("longbench.retrieval_score", "share of numbers that name the paragraph")
def retrieval_score(prediction: str, references: Sequence[str]) -> float:
    """The share of the numbers in the prediction that equal the number in "Paragraph 3", the
    reference.
    """
    return share_of_reference_number(prediction, references, _PARAGRAPH)


@scorer("longbench.count_score", "share of numbers that equal the reference")
def count_score(prediction: str, references: Sequence[str]) -> float:
    """The share of the numbers in the prediction that are written as the reference, best over
    these.
    """
    return best_score(share_of_number, prediction, references)


def _score_of_class(prediction: str, gold: str, all_classes: Sequence[str]) -> float:
    """Score a reply that names classes against one right class: 1 / the number of classes it
    names.

    0.0 where the right one is not named. A class whose name is part of the right one's should not
    count; the published loop misses some of these, and so does this, as the papers have its values.

    Args:
        prediction: The reply.
        gold: The right class.
        all_classes: The names of all classes.
    """
    named_classes = [name for name in all_classes if name in prediction]
    # It removes from the list it walks over, so the name after a removed one is skipped: `index`
    # moves on all the same.
    index = 0
    while index < len(named_classes):
        class_name = named_classes[index]
        if class_name in gold and class_name != gold:
            named_classes.remove(class_name)
        index += 1
    if gold not in named_classes:
        return 0.0
    return 1.0 / len(named_classes)


@scorer(
    "longbench.classification_score",
    "1 / number of class names in the text, if the gold one is there",
)
def classification_score(
    prediction: str, references: Sequence[str], *, all_classes: Sequence[str]
) -> float:
    """1 / the number of classes that the reply names, if the right one is among them, else 0.

    A class whose name is within that of the right one should not count; the published code, and so
    this, misses some of these.

    Args:
        prediction: The reply.
        references: The right class; the best score over them counts.
        all_classes: The names of all classes.
    """
    return best_score(
        lambda text, gold: _score_of_class(text, gold, all_classes), prediction, references
    )


def _likeness_in_percent(a: str, b: str, backend: str) -> float:
    """The likeness of two texts in whole percent, as fuzzywuzzy's `fuzz.ratio`: 100 for equal
    texts.

    Args:
        a: A text.
        b: The other.
        backend: "difflib" or "python-Levenshtein", see `code_sim_score`.
    """
    if a == b:
        return 100.0
    if backend == "difflib":
        return round(100 * difflib.SequenceMatcher(None, a, b).ratio())
    return round(100 * 2 * common_subsequence_length(a, b) / (len(a) + len(b)))


@scorer("longbench.code_sim_score", "similarity of the first line of code")
def code_sim_score(
    prediction: str, references: Sequence[str], *, backend: str = "difflib"
) -> float:
    """The likeness of the reply's first line of code to a reference, 0..1 in steps of a hundredth.

    It is the first line without a back-tick, "#" or "//".

    Args:
        prediction: The reply.
        references: Lines of code, of which the most similar counts.
        backend: "difflib", LongBench's own requirement, or "python-Levenshtein", with which
            fuzzywuzzy gives other values: 2 x longest common subsequence / total length.

    Raises:
        ScoreError: There is no such backend.
    """
    if backend not in ("difflib", "python-Levenshtein"):
        raise ScoreError(f"backend must be 'difflib' or 'python-Levenshtein', got {backend!r}")
    line = _first_line_of_code(prediction)
    return best_score(
        lambda text, gold: _likeness_in_percent(text, gold, backend) / 100, line, references
    )


def _first_line_of_code(text: str) -> str:
    """The first line without a back-tick, "#" or "//"; "" where there is none."""
    for line in text.lstrip("\n").split("\n"):
        if not any(mark in line for mark in _COMMENT_MARKS):
            return line
    return ""
