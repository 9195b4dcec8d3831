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
_GUESS = "A"  # their reading of a reply without a letter
_PARTLY_RIGHT = 0.25
_OPTION = re.compile(r"\s*[A-Z](?=[\s.)])")
_RUN = re.compile(r"[ABCD]+")
_LEADING = re.compile(r"[ABCD]*")
_NOT_A_LETTER = re.compile(r"[^A-D]")
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_PUNCTUATION = re.compile(r"[!-/:-@\[-`{-~]")
_ANSWER_IS = re.compile(r"The answer is (\S+)")
_CODE_MARKS = re.compile(r",|'|\\|\.0")
_FILLERS = ("will be", "of the code", "is", "would be", "the value of", "the result of", "printed")
_FINAL_OUTPUT = "the final output"
_MORE_WORDS = 3  # of the reply than the answer has, for code


def _bare(text: str) -> str:
    """A text without punctuation and articles, in its case."""
    return " ".join(_ARTICLES.sub(" ", _PUNCTUATION.sub("", text)).split())


def _letters_score(prediction: str, gold: str) -> float:
    """1 for the same letters, 0.25 for some of them and no other, else 0."""
    if prediction == gold:
        return 1.0
    if set(prediction) <= set(gold):
        return _PARTLY_RIGHT
    return 0.0


def _text_score(prediction: str, gold: str) -> float:
    """1 for equal numbers, or where the gold answer stands in the reply, without regard to case and
    spaces; else 0."""
    try:
        return float(float(prediction) == float(gold))
    except ValueError:
        return float(_squeezed(gold) in _squeezed(prediction))


def _squeezed(text: str) -> str:
    return text.lower().replace(" ", "")


def _exact(prediction: str, gold: str) -> float:
    """The exact match of a reply and an answer; where the answer is letters of options, of those
    letters."""
    if set(_bare(gold)) <= set(_LETTERS):
        return _letters_score(_bare(prediction), _bare(gold))
    return _text_score(prediction, gold)


def _in_order(letters: str) -> str:
    return "".join(sorted(set(letters)))


def _chosen(reply: str) -> str:
    """All letters that a reply chooses: those it begins with, else those that stand alone, else the
    first of A to D."""
    if not reply.strip():
        return "None"
    if reply in _LETTERS:
        return reply
    leading = _LEADING.match(reply)
    assert leading is not None  # it may match nothing
    first = leading.group()
    if len(first) > 1:
        return _in_order(first)
    rest = reply[len(first) :].partition("Question")[0]
    alone = first + "".join(_OPTION.findall(rest))
    letters = _in_order(_NOT_A_LETTER.sub("", alone))
    run = _RUN.search(rest)
    if not letters and run is not None:
        return run.group()
    return letters or _GUESS


def _gold_letters(answer: str) -> str:
    """The letters of the answer's first word."""
    return _NOT_A_LETTER.sub("", answer.split()[0]) or _GUESS


@scorer("leval.options", "the letters that the reply chooses; 0.25 for some of them")
def options(prediction: str, references: Sequence[str]) -> float:
    """1.0 for the right letters, 0.25 for some of them and no other, else 0.0 (Coursera)."""
    return _exact(_chosen(prediction), _gold_letters(references[0]))


@scorer("leval.option", "the first letter of A to D is the right one")
def option(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the first letter of A to D in the reply is right, else 0.0 (TOEFL, QuALITY)."""
    first = _RUN.search(prediction)
    if first is not None and prediction not in _LETTERS:
        prediction = first.group()[0]
    return options(prediction, references)


def _number(text: str) -> str:
    """The digits of the number after "The answer is", or of the last word with a digit, up to its
    first full stop."""
    found = _ANSWER_IS.search(text)
    word = ""
    if found is not None:
        word = found.group(1)
    else:
        words = text.partition("\n\n")[0].split(" ")
        word = "".join(list(filter(_has_digit, words))[-1:])
    return "".join(filter(str.isdigit, word.partition(".")[0]))


def _has_digit(text: str) -> bool:
    return any(map(str.isdigit, text))


@scorer("leval.number", "the number behind 'The answer is', else the last one")
def number(prediction: str, references: Sequence[str]) -> float:
    """1.0 for the right number, else 0.0 (GSM)."""
    return _exact(_number(prediction), _number(references[0]))


def _code(text: str) -> str:
    """A text as their program compares outputs of code."""
    text = _CODE_MARKS.sub("", re.sub(r"\s+", " ", text))
    return text.replace("] [", "][").replace("[ [", "[[").replace("] ]", "]]")


@scorer("leval.output", "the output of code, in the reply's last words")
def output(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the output stands in the words after "the final output", else in the last ones
    (CodeU)."""
    most = len(references[0].split()) + _MORE_WORDS
    text = _code(prediction)
    for filler in _FILLERS:
        text = text.replace(filler, "")
    _, found, after = text.rpartition(_FINAL_OUTPUT)
    words = re.split(r"\s+", after)
    part = words[-most:]
    if found:
        part = words[:most]
    return _exact(" ".join(part), _code(references[0]))


@scorer("leval.contains", "the answer stands in the reply, without regard to case and spaces")
def contains(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the answer stands in the reply, else 0.0 (topics)."""
    return _exact(prediction, references[0])


def _truth(text: str) -> str:
    """ "true" or "false", whichever the first word with one of them has; "" without one."""
    for word in text.split():
        for truth in ("true", "false"):
            if truth in word:
                return truth
    return ""


@scorer("leval.loyalty", "the first true or false of the reply is the text's")
def loyalty(prediction: str, references: Sequence[str]) -> float:
    """1.0 where the first word with "true" or "false" in the reply agrees with the answer before
    its "[fact: ..]", else 0.0 (science fiction)."""
    gold = _truth(references[0].lower().partition("[fact:")[0])
    return float(_truth(prediction.lower().partition("[fact:")[0]) == gold)
