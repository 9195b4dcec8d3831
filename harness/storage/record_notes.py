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

from harness.types import JUDGES, SCORE_COUNTS

Notes = Mapping[str, object]
"""JSON values by key."""


class JudgeNote(TypedDict):
    """What a judge decided of an answer, with the words of its reply where the run keeps texts, and
    the answer's confidence in percent where a published judge extracts it."""

    verdict: str
    reply: NotRequired[str]
    confidence: NotRequired[float]


def flags_of(notes: Notes) -> Mapping[str, str]:
    """The flags in a record's notes: score -> why it is odd (left out, or 0 with nothing wrong).

    {"flags": {"flashrag.acc": "nan counts as 0"}} -> {"flashrag.acc": "nan counts as 0"}
    """
    return cast(Mapping[str, str], notes.get("flags") or {})


def judgements_of(notes: Notes) -> Mapping[str, JudgeNote]:
    """The judgements in a record's notes: name of a judge's score -> what the judge decided.

    {"judges": {"judge.llama": {"verdict": "yes"}}} -> {"judge.llama": {"verdict": "yes"}}
    """
    return cast(Mapping[str, JudgeNote], notes.get(JUDGES) or {})


def score_counts_of(notes: Notes) -> Mapping[str, list[float]]:
    """The counts in a record's notes for scores of the whole corpus (BLEU): score -> this answer's
    counts, from which the score of all answers is computed.
    """
    return cast(Mapping[str, list[float]], notes.get(SCORE_COUNTS) or {})


def is_joined(notes: Notes) -> bool:
    """Whether a record's notes say that the method read the question's documents joined into
    one.
    """
    return bool(notes.get("joined"))
