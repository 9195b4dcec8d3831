"""What the harness itself reads of the notes of a record. Notes are JSON values by key: methods, data
sets and other versions may note anything.

    notes = {"flags": {"flashrag.acc": "nan counts as 0"}, "judges": {"judge.llama": {"verdict": "yes"}}}
    flags_of(notes)         -> {"flashrag.acc": "nan counts as 0"}
    judgements_of(notes)    -> {"judge.llama": {"verdict": "yes"}}

Each gives an empty value where the notes hold none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NotRequired, cast

from typing_extensions import TypedDict

from harness.types import COUNTS, JUDGES

Notes = Mapping[str, object]
"""JSON values by key."""


class JudgeNote(TypedDict):
    """What a judge decided of an answer, with the words of its reply where the run keeps texts."""

    verdict: str
    reply: NotRequired[str]


def flags_of(notes: Notes) -> Mapping[str, str]:
    """Score -> why it is odd: left out, or 0 although nothing was found wrong."""
    return cast(Mapping[str, str], notes.get("flags") or {})


def judgements_of(notes: Notes) -> Mapping[str, JudgeNote]:
    """Score of a judge -> what the judge decided."""
    return cast(Mapping[str, JudgeNote], notes.get(JUDGES) or {})


def counts_of(notes: Notes) -> Mapping[str, list[float]]:
    """Score of the whole corpus (BLEU) -> the counts of this answer that it is made of."""
    return cast(Mapping[str, list[float]], notes.get(COUNTS) or {})


def is_joined(notes: Notes) -> bool:
    """Whether the method read the documents of the question joined into one."""
    return bool(notes.get("joined"))
