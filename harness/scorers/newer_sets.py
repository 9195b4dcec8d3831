"""Scores of MRCR (openai/mrcr, README) and OOLONG (Bertsch et al. 2025; eval_helpers of its
repository).

match("xY1In a world", ["xY1In a word"], prefix="xY1")                               -> 0.96   (difflib's ratio)
synth("Answer: 7", ["8"], answer_type="ANSWER_TYPE.NUMERIC")                         -> 0.75   (0.75 ** difference)
real(r"So \\boxed{Ada, Bo}", ["Ada, Cy"])                                             -> 0.5    (share of the names)
"""

import re
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from difflib import SequenceMatcher

from dateutil import parser

from harness.scorers.base import published

scorer = published("abertsch72/oolong src/eval/eval_helpers.py")

_COMPARISONS = ("more common", "less common", "same frequency")
_BOXED_PATTERNS = (
    re.compile(r"\\boxed\{\\text\{([^}]*)\}\}"),
    re.compile(r"\\boxed[\{]+([^}]*)[\}]+"),
)
_DEFAULT_DAYS = (datetime(2001, 1, 1), datetime(2002, 2, 2))


@published("openai/mrcr README.md")(
    "mrcr.match", "likeness to the text asked for, 0 without the string before it"
)
def match(prediction: str, references: Sequence[str], *, prefix: str) -> float:
    """The likeness of the reply to the text asked for: difflib's ratio, both without the prefix.

    Args:
        prediction: The reply; 0.0 where it does not start with the prefix.
        references: The first is the text asked for.
        prefix: What the reply must start with.
    """
    if not prediction.startswith(prefix):
        return 0.0
    reply_text = prediction.removeprefix(prefix)
    wanted_text = references[0].removeprefix(prefix)
    return SequenceMatcher(isjunk=None, a=reply_text, b=wanted_text).ratio()


def _read_synth_answer(reply: str) -> str:
    """The answer that the published code reads in a reply.

        "Answer: **7**"                     -> "7"              (after the last colon, without marks)
        "Answer: ham is more common here"   -> "more common"    (of a long answer)
        "I would say that it is Ada"        -> "Ada"            (of a long reply without a colon)
        "Ada Bo"                            -> "Ada Bo"

    A long reply of spaces gives "", where the published code fails.
    """
    if ":" not in reply:
        if len(reply) < 20:
            return reply
        return (reply.split() or [""])[-1]
    answer = reply.split(":")[-1].strip().translate(str.maketrans("", "", "*[]"))
    if len(answer) < 20:
        return answer
    for phrase in _COMPARISONS:
        if phrase in answer:
            return phrase
    return answer


def _same_date(text: str, gold: str) -> bool:
    """Whether a text is the date `gold`: ("May 3, 2020", "2020-05-03") -> True.

    A text without a day, month or year is not (the published code would take today's), nor is one
    that is no date.
    """
    with suppress(ValueError, OverflowError):
        # A missing part is taken from the default, so that two defaults give two dates.
        dates = [parser.parse(text, default=day) for day in _DEFAULT_DAYS]
        gold_date = datetime.fromisoformat(gold)
        return all(date == gold_date for date in dates)
    return False


@scorer("oolong.synth", "the answer behind the last colon is right; numbers by distance")
def synth(prediction: str, references: Sequence[str], *, answer_type: str) -> float:
    """1.0 for the gold answer, 0.75 to the power of the distance for a number, else 0.0.

    Args:
        prediction: The reply.
        references: The first is the gold answer; a date in ISO form.
        answer_type: The kind of answer that the row names, "ANSWER_TYPE.NUMERIC".
    """
    answer = _read_synth_answer(prediction)
    gold = references[0]
    is_gold_comparison = answer in _COMPARISONS and answer in gold
    if answer == gold or is_gold_comparison:
        return 1.0
    if answer_type == "ANSWER_TYPE.NUMERIC" and answer not in _COMPARISONS:
        with suppress(ValueError):
            return float(0.75 ** abs(int(gold) - int(answer)))
    return float(answer_type == "ANSWER_TYPE.DATE" and _same_date(answer, gold))


def _parse_answer(answer: str) -> int | str | list[str]:
    """Read an answer as a number, a list or a text: "84" -> 84, "Ada, Bo" -> ["Ada", "Bo"], "Ada"
    -> "Ada".
    """
    with suppress(ValueError):
        return int(answer)
    if "," not in answer:
        return answer
    items = [item.strip() for item in answer.split(",")]
    return [item for item in items if item]


def _boxed_answer(reply: str) -> str | None:
    r"""What stands in the reply's \boxed{}: "So \boxed{\text{Ada}}" -> "Ada"; None without one."""
    for pattern in _BOXED_PATTERNS:
        boxed = pattern.search(reply)
        if boxed is not None:
            return boxed.group(1)
    return None


@scorer("oolong.real", "the boxed answer is right; numbers by distance, names by share")
def real(prediction: str, references: Sequence[str]) -> float:
    r"""Score the answer in the reply's \boxed{}, or the whole reply without one, by the kind of
    gold.

    A number by 0.75 ** distance, a list of names by the share of them found, a text by equality.
    0.0 where the reply is of another kind.
    """
    boxed_answer = _boxed_answer(prediction)
    answer: int | str | list[str] = prediction
    if boxed_answer is not None:
        answer = _parse_answer(boxed_answer)
    gold_answer = _parse_answer(references[0])
    if isinstance(gold_answer, int) and isinstance(answer, int):
        return float(0.75 ** abs(gold_answer - answer))
    if isinstance(gold_answer, str) and isinstance(answer, str):
        return float(gold_answer.strip().lower() == answer.strip().lower())
    if isinstance(gold_answer, list) and isinstance(answer, list) and gold_answer:
        return len(set(gold_answer) & set(answer)) / len(gold_answer)
    return 0.0
