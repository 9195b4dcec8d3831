"""QuALITY's accuracy (Pang et al. 2022, section 5): the share of questions whose right option is
chosen.

    accuracy("(B)", ["Toren"], all_classes=["Kelford", "Toren", "Ardun", "Mirel"])            -> 1.0
    accuracy("It was Toren.", ...)                                                            -> 1.0
    accuracy("(B) or (C)", ...), accuracy("(A) Toren", ...), accuracy("nobody", ...)          -> 0.0

The published code takes the likeliest of four options. A written reply has to be read first, and
that is this project's: letters and option texts are looked for; a reply that names no option, or
more than one, is wrong.
"""

import re
from collections.abc import Sequence

from harness.scorers.base import ScoreError, published
from harness.scorers.squad import normalize_answer

scorer = published(
    "nyu-mll/quality, accuracy over the options; how a reply is read is this project's"
)

# A letter that can be nothing else: alone, in brackets, before a full stop, bracket or colon, or
# after a word for it.
_LETTER_ALONE = re.compile(r"\s*[\"'*]*([A-Za-z])[\"'*.):]*\s*")
_LETTER_FORMS = (
    re.compile(r"[(\[]([A-Za-z])[)\]]"),
    re.compile(r"(?:^|\n)\s*([A-Z])[.):](?=\s)"),
    re.compile(r"\b(?:[Oo]ption|[Cc]hoice|[Aa]nswer(?:\s+is)?:?)\s+([A-Z])\b(?![\w'])"),
)


def _options_in_text(text: str, options: Sequence[str]) -> set[int]:
    """The indices of the options whose words stand in the text, not only inside another option's
    words.

    "It was New York City", ["York", "New York", "Rome"] -> {1}

    Args:
        text: The reply.
        options: The text of each option, in order.
    """
    text_words = f" {normalize_answer(text)} "
    option_phrases = [f" {normalize_answer(option)} " for option in options]
    found_words: set[str] = set()
    # The longest first, each taken out of the text, so that an option inside it does not match
    # again.
    for option_phrase in sorted(option_phrases, key=len, reverse=True):
        if option_phrase.strip() and option_phrase in text_words:
            found_words.add(option_phrase)
            text_words = text_words.replace(option_phrase, " | ")
    return {
        index for index, option_phrase in enumerate(option_phrases) if option_phrase in found_words
    }


def _letters_in_text(text: str) -> list[str]:
    """The letters of options that a reply names, in capitals or not.

    That is the letter that it consists of, else all letters that are marked as an option.

        "B." -> ["B"]        "(A), not option C" -> ["A", "C"]        "A mill" -> []
    """
    alone = _LETTER_ALONE.fullmatch(text)
    if alone is not None:
        return [alone.group(1)]
    letters: list[str] = []
    for form in _LETTER_FORMS:
        letters += form.findall(text)
    return letters


def chosen_option(text: str, options: Sequence[str]) -> int | None:
    """The index (from 0) of the one option that a reply names by letter, text, or both.

    None where it names none or several. A reply that is the text of one option names that one,
    whatever letters are in it.

    Args:
        text: The reply.
        options: The text of each option, in order.
    """
    exact_indices = [
        index for index, option in enumerate(options) if text.strip() == option.strip()
    ]
    if len(exact_indices) == 1:
        return exact_indices[0]
    named_indices = _options_in_text(text, options)
    for letter in _letters_in_text(text):
        index = ord(letter.upper()) - ord("A")
        if index < len(options):
            named_indices.add(index)
    if len(named_indices) != 1:
        return None
    return named_indices.pop()


@scorer("quality.accuracy", "the right option is named, by letter or text, and no other")
def accuracy(prediction: str, references: Sequence[str], *, all_classes: Sequence[str]) -> float:
    """1.0 where the reply names the right option, by letter or text, and no other, else 0.0.

    Args:
        prediction: The reply.
        references: The text of the right option.
        all_classes: The texts of all options, in order.

    Raises:
        ScoreError: The reference is none of the options.
    """
    right_indices = [index for index, option in enumerate(all_classes) if option in references]
    if not right_indices:
        raise ScoreError(
            f"the reference {list(references)} is none of the options {list(all_classes)}"
        )
    return float(chosen_option(prediction, all_classes) in right_indices)
