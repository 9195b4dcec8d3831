"""Parsers of the replies. None stands for a reply that cannot be parsed; the request is repeated.

parse_triples("* Toren | Velindra | Toren wrote it.")                     [("Toren", "Velindra", "Toren wrote it.")]
parse_verdict("Reasoning: no town is named.\\nAction: -1")                Verdict("no town is named.", None)
parse_verdict("Reasoning: it says so.\\nAction: -2\\nAnswer: Kelford")    Verdict("it says so.", "Kelford")
"""

import re
from typing import NamedTuple

from methods.memwalker import replies as memwalker_replies
from methods.retry import LABEL, parse_list

Triple = tuple[str, str, str]

_BEFORE_ACTION = re.compile(
    rf"\A(.*?){LABEL.format('Action')}", re.MULTILINE | re.DOTALL | re.IGNORECASE
)
_AROUND_NAMES = " \t[]\"'“”‘’.,;:*"


class Verdict(NamedTuple):
    """Whether a segment's text answers the question.

    Attributes:
        reason: The reason that the reply gives, on one line.
        answer: The answer; None where the text gives none.
    """

    reason: str
    answer: str | None


def parse_names(reply: str) -> list[str] | None:
    r"""The entities that a reply lists, without brackets, quotes and marks around them; None for a
    reply that is no list.

        "* [Toren]\n* Velindra." -> ["Toren", "Velindra"]
    """
    items = parse_list(reply)
    if items is None:
        return None
    names = [item.strip(_AROUND_NAMES) for item in items]
    return list(filter(None, names))


def parse_triples(reply: str) -> list[Triple] | None:
    """The relations that a reply lists as "entity | entity | relation", other lines left out.

        "* Toren | Velindra | Toren wrote it." -> [("Toren", "Velindra", "Toren wrote it.")]

    None for no list, and where no line of several has that form.
    """
    items = parse_list(reply)
    if items is None:
        return None
    triples: list[Triple] = []
    for item in items:
        triple = _triple_in(item)
        if triple is not None:
            triples.append(triple)
    if items and not triples:
        return None
    return triples


def _triple_in(item: str) -> Triple | None:
    """The relation that a line states, "a | b | text" -> ("a", "b", "text"); None where a part of
    it is missing."""
    parts = [part.strip() for part in item.split("|", 2)]
    if len(parts) < 3:
        return None
    triple = (parts[0].strip(_AROUND_NAMES), parts[1].strip(_AROUND_NAMES), parts[2])
    has_all_parts = all(triple)
    if has_all_parts:
        return triple
    return None


def parse_questions(reply: str) -> list[str] | None:
    r"""The questions that a reply lists, other items left out; [] for "none"; None for no list, or
    for other items only.

        "* Who wrote it?\n* A book." -> ["Who wrote it?"]
    """
    items = parse_list(reply)
    if items is None:
        return None
    questions = [item for item in items if item.endswith(("?", "\uff1f"))]
    if items and not questions:
        return None
    return questions


def parse_sentence(reply: str) -> str | None:
    r"""The first line of a reply that is not blank, without a bullet: "\n* Ann left." -> "Ann
    left."; None where there is none."""
    for line in reply.splitlines():
        sentence = line.strip().removeprefix("*").strip()
        if sentence:
            return sentence
    return None


def parse_verdict(reply: str) -> Verdict | None:
    r"""The reasoning before the action line, and the answer of action -2 (None for action -1); None
    for a reply of another form.

        "Reasoning: it says so.\nAction: -2\nAnswer: Kelford" -> Verdict("it says so.", "Kelford")
    """
    verdict = memwalker_replies.parse_verdict(reply)
    text_before_action = _BEFORE_ACTION.match(reply)
    if verdict is None or text_before_action is None:
        return None
    reason = " ".join(text_before_action.group(1).replace("Reasoning:", " ").split())
    return Verdict(reason, verdict.answer)
