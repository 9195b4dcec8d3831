"""LongMemEval (Wu et al., ICLR 2025): questions on the sessions of a user with a chat assistant,
each with its date.

    {"question_id": "e1", "question_type": "multi-session", "question": "..", "answer": "..", "question_date": "..",
     "haystack_dates": ["2023/05/20 (Sat) 02:21", ..], "haystack_session_ids": [..], "answer_session_ids": [..],
     "haystack_sessions": [[{"role": "user", "content": "..", "has_answer": true}, ..], ..]}

A question's document is its history, oldest session first, as the authors' prompt in plain words
writes it (history_format nl of run_generation). An id with `_abs` is of a question to be declined.
"""

from collections.abc import Sequence
from dataclasses import replace
from operator import itemgetter
from typing import NamedTuple

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    Row,
    RowError,
    Skip,
    StrictRow,
    example_and_document,
    refuse_blank,
    type_name,
)
from harness.types import Document, Support

JUDGE_PROMPTS = {  # type of question -> its prompt in configs/judges/longmemeval.yaml
    "single-session-user": "fact",
    "single-session-assistant": "fact",
    "multi-session": "fact",
    "temporal-reasoning": "temporal-reasoning",
    "knowledge-update": "knowledge-update",
    "single-session-preference": "single-session-preference",
}


class _Turn(StrictRow):
    role: str
    content: str
    has_answer: bool | None = None


class _Row(StrictRow):
    question_id: str
    question_type: str
    question: str
    answer: object
    question_date: str
    haystack_dates: list[str]
    haystack_sessions: list[list[_Turn]]


def _checked_row(raw: RawRow) -> _Row:
    """Parse a row and check it.

    Raises RowError for a field that is missing or of another type, a blank text, an unknown type of
    question, and where there is not one date for each session.
    """
    row = _Row.read(raw)
    if isinstance(row.answer, bool) or not isinstance(row.answer, str | int | float):
        raise RowError("answer", f"should be a string or a number, is {type_name(row.answer)}")
    date_by_field = {f"haystack_dates[{n}]": date for n, date in enumerate(row.haystack_dates)}
    refuse_blank(
        {
            "question": row.question,
            "answer": str(row.answer),
            "question_date": row.question_date,
            **date_by_field,
        }
    )
    n_sessions = len(row.haystack_sessions)
    n_dates = len(row.haystack_dates)
    if n_sessions != n_dates:
        raise RowError(
            "haystack_dates",
            f"should be a date for each of {n_sessions} sessions, are {n_dates}",
        )
    if row.question_type not in JUDGE_PROMPTS:
        known = ", ".join(JUDGE_PROMPTS)
        raise RowError("question_type", f"should be one of {known}, is '{row.question_type}'")
    return row


class _CharacterSpan(NamedTuple):
    """A part of a text: the index of its first character, and of the character after its last."""

    start: int
    end: int


class _Session(NamedTuple):
    """A session as text, and the spans in this text of the turns with evidence."""

    text: str
    evidence_spans: list[_CharacterSpan]


def _session_as_text(date: str, turns: list[_Turn]) -> _Session:
    """Write a session as the authors' prompt does.

    Args:
        date: The session's date.
        turns: Its turns.
    """
    text = f"Session Date: {date}\nSession Content:\n"
    evidence_spans: list[_CharacterSpan] = []
    for turn in turns:
        text += "\n\n"
        start = len(text)
        text += f"{turn.role}: {turn.content.strip()}"
        if turn.has_answer:
            evidence_spans.append(_CharacterSpan(start, len(text)))
    return _Session(text, evidence_spans)


def parse_row(raw: RawRow) -> Group:
    """Parse one question with its history, {"question", "answer", "haystack_sessions", ..}.

    The history of sessions is its document. Gold.supporting: the turns with evidence, none of a
    question to be declined. Gold.extra: type; question without its date; declined;
    evidence_sessions, the number of each supporting turn's session; judge, the published prompt.
    Raises RowError, which names the field.
    """
    row = _checked_row(raw)
    dates_and_turns = zip(row.haystack_dates, row.haystack_sessions, strict=True)
    oldest_first = sorted(dates_and_turns, key=itemgetter(0))  # by date
    sessions = [_session_as_text(date, turns) for date, turns in oldest_first]
    declined = "_abs" in row.question_id  # how the authors mark questions without an answer
    paragraphs = []
    for number, session in enumerate(sessions, start=1):
        paragraphs.append((f"### Session {number}:", session.text))
    example, document = example_and_document(
        Row(
            id=row.question_id,
            question=f"{row.question} (Current Date: {row.question_date})",
            paragraphs=tuple(paragraphs),
            answers=(str(row.answer),),
        )
    )
    evidence_turns: list[_EvidenceTurn] = []
    judge_prompt = "abstention"
    if not declined:
        judge_prompt = JUDGE_PROMPTS[row.question_type]
        evidence_turns = _find_evidence_turns(document, sessions)
    extra = {
        "type": row.question_type,
        "question": row.question,
        "declined": declined,
        "evidence_sessions": [turn.session_number for turn in evidence_turns],
        "judge": f"longmemeval/{judge_prompt}",
    }
    supporting = tuple(turn.span for turn in evidence_turns)
    gold = replace(example.gold, supporting=supporting, extra=extra)
    return Group(document, (replace(example, gold=gold),))


class _EvidenceTurn(NamedTuple):
    """The number of a session, from 1, and the span in the document of a turn with evidence."""

    session_number: int
    span: Support


def _find_evidence_turns(document: Document, sessions: Sequence[_Session]) -> list[_EvidenceTurn]:
    """The turns with evidence in a question's history, in order.

    Args:
        document: The history, with a passage for each session.
        sessions: The sessions, in the order of the passages.
    """
    turns = []
    pairs = zip(document.passages, sessions, strict=True)
    for session_number, (passage, session) in enumerate(pairs, start=1):
        # A passage ends where its session's text ends.
        text_start = passage.end - len(session.text)
        for start, end in session.evidence_spans:
            span = Support(document.id, text_start + start, text_start + end)
            turns.append(_EvidenceTurn(session_number, span))
    return turns


def parse_row_of_430(raw: RawRow) -> Group | Skip:
    """Parse a row as `parse_row`; the 70 rows of "single-session-user" are left out (Skip).

    On these the heads of QRHead were found.
    """
    row = parse_row(raw)
    if row.examples[0].gold.extra["type"] == "single-session-user":
        return Skip("of single-session-user, on which QRHead's heads were found")
    return row
