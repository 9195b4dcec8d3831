"""L-Eval's exact matches of its closed tasks (An et al., ACL 2024; Evaluation/auto_eval.py and em.py
of its repository).

option("I think B", ["(B) The mill"])             -> 1.0   (the first letter of A to D)
options("A and C.", ["AC"])                       -> 1.0   (all letters; 0.25 for some of them and no other)
number("The answer is $1,200.", ["so 1200"])      -> 1.0
output("the final output is [1, 2]", ["[1,2]"])   -> 1.0   (the last words of the reply)
"""

import re
from collections.abc import Sequence

from harness.scorers.base import published
from harness.scorers.longbench import qa_f1_score

scorer = published("OpenLMLab/LEval Evaluation/auto_eval.py and em.py")
scorer("leval.f1", "token F1, SQuAD rules")(qa_f1_score)

_LETTERS = "ABCD"
_DEFAULT_LETTER = "A"  # their reading of a reply without a letter
_PARTLY_RIGHT = 0.25
_OPTION = re.compile(r"\s*[A-Z](?=[\s.)])")
_RUN_OF_LETTERS = re.compile(r"[ABCD]+")
_LEADING_LETTERS = re.compile(r"[ABCD]*")
_NOT_A_LETTER = re.compile(r"[^A-D]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_ANSWER_IS = re.compile(r"The answer is (\S+)")
_CODE_MARKS = re.compile(r",|'|\\|\.0")
_IGNORED_PHRASES = (
    "will be",
    "of the code",
    "is",
    "would be",
    "the value of",
    "the result of",
    "printed",
)
_FINAL_OUTPUT = "the final output"
_EXTRA_WORDS = 3  # of the reply than the answer has, for code


def _without_marks_and_articles(text: str) -> str:
    """The text without punctuation and articles, its case unchanged: "The mill, (B)." -> "The
    mill B".
    """
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub("", text)).split())


def _letters_score(prediction: str, gold: str) -> float:
    """1.0 for the same letters, 0.25 for some of them and no other, else 0.0.

    ("AC", "AC") -> 1.0, ("A", "AC") -> 0.25, ("AB", "AC") -> 0.0
    """
    if prediction == gold:
        return 1.0
    if set(prediction) <= set(gold):
        return _PARTLY_RIGHT
    return 0.0


def _text_score(prediction: str, gold: str) -> float:
    """1.0 for equal numbers, or where the gold answer stands in the reply, else 0.0.

    Case and spaces do not count: ("It is The Mill", "the mill") -> 1.0
    """
    try:
        return float(float(prediction) == float(gold))
    except ValueError:
        return float(_lower_without_spaces(gold) in _lower_without_spaces(prediction))


def _lower_without_spaces(text: str) -> str:
    """The text in small letters without spaces."""
    return text.lower().replace(" ", "")


def _match_score(prediction: str, gold: str) -> float:
    """Score a reply against the gold answer: by letters where the latter is nothing but letters A
    to D, else as numbers or texts.

    ("AC", "AC") -> 1.0; ("A", "AC") -> 0.25; ("12.0", "12") -> 1.0; ("at the mill", "Mill") -> 1.0
    """
    if set(_without_marks_and_articles(gold)) <= set(_LETTERS):
        return _letters_score(
            _without_marks_and_articles(prediction), _without_marks_and_articles(gold)
        )
    return _text_score(prediction, gold)


def _sorted_letters(letters: str) -> str:
    """Each letter once, in the order of the alphabet: "CAA" -> "AC"."""
    return "".join(sorted(set(letters)))


def _chosen_letters(reply: str) -> str:
    """The letters of A to D that a reply chooses, each once, in order.

    Those it begins with, where these are several; else those that stand alone; else the first ones,
    which may be of a word; "A" where there is none.

        "CA, as ..." -> "AC"        "A and C." -> "AC"        "I think (B)" -> "B"        "no idea" -> "A"

    A blank reply is "None", which is no answer.
    """
    if not reply.strip():
        return "None"
    if reply in _LETTERS:  # a letter, or neighbouring ones: "BC"
        return reply
    leading_match = _LEADING_LETTERS.match(reply)
    assert leading_match is not None  # it may match nothing
    leading_letters = leading_match.group()
    if len(leading_letters) > 1:
        return _sorted_letters(leading_letters)
    rest = reply[len(leading_letters) :].partition("Question")[0]  # up to a further question
    letters_alone = leading_letters + "".join(_OPTION.findall(rest))
    letters = _sorted_letters(_NOT_A_LETTER.sub("", letters_alone))
    letters_in_rest = _RUN_OF_LETTERS.search(rest)
    if not letters and letters_in_rest is not None:
        return letters_in_rest.group()
    return letters or _DEFAULT_LETTER


def _gold_letters(answer: str) -> str:
    """The letters A to D of the right answer's first word: "(B) The mill" -> "B"."""
    return _NOT_A_LETTER.sub("", answer.split()[0]) or _DEFAULT_LETTER


@scorer("leval.options", "the letters that the reply chooses; 0.25 for some of them")
def options(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the reply chooses the letters of the first reference, else 0.0 (Coursera).

    0.25 where it chooses some of them and no other: ("A", ["AC"]) -> 0.25
    """
    return _match_score(_chosen_letters(prediction), _gold_letters(references[0]))


@scorer("leval.option", "the first letter of A to D is the right one")
def option(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the first letter of A to D in the reply is that of the first reference, else 0.0.

    For TOEFL and QuALITY, whose questions have one right letter; `options` reads one reference
    only. A reply that is a part of "ABCD" ("B", "BC") stays as it is: as in their program, it is
    read as all its letters.
    """
    neighbouring_letters = _RUN_OF_LETTERS.search(prediction)
    if neighbouring_letters is not None and prediction not in _LETTERS:
        prediction = neighbouring_letters.group()[0]
    return options(prediction, references)


def _answered_digits(text: str) -> str:
    """The digits of the number that a text answers, up to the number's first full stop; "" without
    one.

    It is the word after "The answer is", else the last word with a digit in the first paragraph.

        "The answer is $1,200.50" -> "1200"        "so 7 of 12 left" -> "12"
    """
    word = _last_word_with_digit(text.partition("\n\n")[0])
    answer_phrase = _ANSWER_IS.search(text)
    if answer_phrase is not None:
        word = answer_phrase.group(1)
    whole_part = word.partition(".")[0]
    return "".join(filter(str.isdigit, whole_part))


def _last_word_with_digit(text: str) -> str:
    """The last of the words, divided by spaces, that has a digit in it: "so 7 of 12 left" -> "12".

    "" where none has.
    """
    words = list(filter(_has_digit, text.split(" ")))
    if not words:
        return ""
    return words[-1]


def _has_digit(text: str) -> bool:
    """Whether a digit is in the text."""
    return any(map(str.isdigit, text))


@scorer("leval.number", "the number behind 'The answer is', else the last one")
def number(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the number that the reply answers is that of the first reference, else 0.0 (GSM).

    ("The answer is $1,200.", ["so 1200"]) -> 1.0
    """
    return _match_score(_answered_digits(prediction), _answered_digits(references[0]))


def _normalised_output(text: str) -> str:
    r"""Normalise the output of code as their program does before it compares: commas, quotes, ".0"
    and the space between brackets go.

    "[ [1.0,\n'a'] ]" -> "[[1 a]]"
    """
    text = _CODE_MARKS.sub("", re.sub(r"\s+", " ", text))
    return text.replace("] [", "][").replace("[ [", "[[").replace("] ]", "]]")


@scorer("leval.output", "the output of code, in the reply's last words")
def output(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the gold output stands in the words after the reply's last "the final output", or
    without that in its last words; else 0.0 (CodeU).

    As many words as the gold output has, and three more, are compared.
    """
    n_words = len(references[0].split()) + _EXTRA_WORDS
    text = _normalised_output(prediction)
    for phrase in _IGNORED_PHRASES:
        text = text.replace(phrase, "")
    _, final_output, last_part = text.rpartition(_FINAL_OUTPUT)
    words = re.split(r"\s+", last_part)
    compared_words = words[-n_words:]
    if final_output:
        compared_words = words[:n_words]
    return _match_score(" ".join(compared_words), _normalised_output(references[0]))


@scorer("leval.contains", "the answer stands in the reply, without regard to case and spaces")
def contains(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the first reference stands in the reply, case and spaces ignored, else 0.0
    (topics).
    """
    return _match_score(prediction, references[0])


def _first_truth_value(text: str) -> str:
    """ "true" or "false": which of them the first word with one of them in it has; "" without such.

    "it is untrue, not false" -> "true"
    """
    for word in text.split():
        for truth in ("true", "false"):
            if truth in word:
                return truth
    return ""


@scorer("leval.loyalty", "the first true or false of the reply is the text's")
def loyalty(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the reply's first "true" or "false" is that of the gold answer, else 0.0.

    In both, what stands after "[fact:" does not count (science fiction).
    """
    gold_value = _first_truth_value(references[0].lower().partition("[fact:")[0])
    return float(_first_truth_value(prediction.lower().partition("[fact:")[0]) == gold_value)
