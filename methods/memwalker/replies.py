"""Parsers of the replies. A reply in any other form gives None, and the walk asks again.

parse_choice("Action: 2", 4)                   2
parse_verdict("Action: -1")                     Verdict(None)
parse_verdict("Action: -2\\nAnswer: Kelford")   Verdict("Kelford")
"""

import re
from typing import NamedTuple

from methods.retry import LABEL

BACK = -1
ANSWER = -2

_EACH_LINE_ANY_CASE = re.MULTILINE | re.IGNORECASE
_ACTION = re.compile(
    LABEL.format("Action") + r"[^\w\n-]*(-?[0-9]{1,9})[^\w\n]*$", _EACH_LINE_ANY_CASE
)
_ANSWER_LINE = re.compile(LABEL.format("Answer") + "(.*)", _EACH_LINE_ANY_CASE | re.DOTALL)


class Verdict(NamedTuple):
    """What a reply says of a segment.

    Attributes:
        answer: The answer that it gives; None: go back.
    """

    answer: str | None


class _Action(NamedTuple):
    """The action line of a reply.

    Attributes:
        number: The number in it.
        rest: The text after it.
    """

    number: int
    rest: str


def _parse_action(reply: str) -> _Action | None:
    r"""The action line of a reply; None without such a line, or with several numbers.

    "Reasoning: ...\nAction: -2\nAnswer: Brem" -> _Action(-2, "\nAnswer: Brem")
    """
    matches = list(_ACTION.finditer(reply))
    numbers = {int(match.group(1)) for match in matches}
    if len(numbers) != 1:
        return None
    first = matches[0]
    return _Action(int(first.group(1)), reply[first.end() :])


def parse_choice(reply: str, n_parts: int, may_go_back: bool = False) -> int | None:
    r"""The number that a reply chooses.

    Args:
        reply: "Reasoning: ...\nAction: 2".
        n_parts: How many parts there are; 0 to n_parts - 1 are allowed.
        may_go_back: Whether BACK is allowed too.

    Returns:
        The number; None for any other reply.
    """
    action = _parse_action(reply)
    if action is None:
        return None
    is_part = 0 <= action.number < n_parts
    goes_back = may_go_back and action.number == BACK
    if is_part or goes_back:
        return action.number
    return None


def parse_verdict(reply: str) -> Verdict | None:
    r"""What a reply says of a segment: an answer (-2), or to go back (-1); None for any other
    reply.

        "Action: -2\nAnswer: Kelford" -> Verdict("Kelford")        "Action: -1" -> Verdict(None)
    """
    action = _parse_action(reply)
    if action is None:
        return None
    if action.number == BACK:
        return Verdict(None)
    match = _ANSWER_LINE.search(action.rest)
    if action.number != ANSWER or match is None:
        return None
    answer = match.group(1).strip()
    if not answer:
        return None
    return Verdict(answer)
