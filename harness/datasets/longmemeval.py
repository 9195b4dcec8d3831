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
    assemble,
    refuse_blank,
    type_name,
)
from harness.types import Document, Support

PROMPTS = {  # type of question -> its prompt in configs/judges/longmemeval.yaml
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
    dates = {f"haystack_dates[{n}]": date for n, date in enumerate(row.haystack_dates)}
    asked = {
        "question": row.question,
        "answer": str(row.answer),
        "question_date": row.question_date,
    }
    refuse_blank({**asked, **dates})
    n_sessions = len(row.haystack_sessions)
    if n_sessions != len(dates):
        raise RowError(
            "haystack_dates",
            f"should be a date for each of {n_sessions} sessions, are {len(dates)}",
        )
    if row.question_type not in PROMPTS:
        raise RowError(
            "question_type", f"should be one of {', '.join(PROMPTS)}, is '{row.question_type}'"
        )
    return row


def _session_text(date: str, turns: list[_Turn]) -> tuple[str, list[tuple[int, int]]]:
    """Write a session as the authors' prompt does.

    Args:
        date: The session's date.
        turns: Its turns.

    Returns:
        The text; and the spans (start, end) in it of the turns with evidence.
    """
    text = f"Session Date: {date}\nSession Content:\n"
    marked: list[tuple[int, int]] = []
    for turn in turns:
        text += "\n\n"
        start = len(text)
        text += f"{turn.role}: {turn.content.strip()}"
        if turn.has_answer:
            marked.append((start, len(text)))
    return text, marked


def parse_row(raw: RawRow) -> Group:
    """Parse one question with its history, {"question", "answer", "haystack_sessions", ..}.

    The history of sessions is its document. Gold.supporting: the turns with evidence, none of a
    question to be declined. Gold.extra: type; question without its date; declined;
    evidence_sessions, the number of each supporting turn's session; judge, the published prompt.
    Raises RowError, which names the field.
    """
    row = _checked_row(raw)
    dated = zip(row.haystack_dates, row.haystack_sessions, strict=True)
    oldest_first = sorted(dated, key=itemgetter(0))  # by date
    sessions = [_session_text(date, turns) for date, turns in oldest_first]
    declined = "_abs" in row.question_id
    texts = [text for text, _ in sessions]
    paragraphs = [(f"### Session {number}:", text) for number, text in enumerate(texts, start=1)]
    example, document = assemble(
        Row(
            id=row.question_id,
            question=f"{row.question} (Current Date: {row.question_date})",
            paragraphs=tuple(paragraphs),
            answers=(str(row.answer),),
        )
    )
    evidence: list[_EvidenceTurn] = []
    judge_prompt = "abstention"
    if not declined:
        judge_prompt = PROMPTS[row.question_type]
        evidence = _evidence(document, sessions)
    extra = {
        "type": row.question_type,
        "question": row.question,
        "declined": declined,
        "evidence_sessions": [turn.session for turn in evidence],
        "judge": f"longmemeval/{judge_prompt}",
    }
    supporting = tuple(turn.span for turn in evidence)
    gold = replace(example.gold, supporting=supporting, extra=extra)
    return Group(document, (replace(example, gold=gold),))


class _EvidenceTurn(NamedTuple):
    """The number of a session, from 1, and the span in the document of a turn with evidence."""

    session: int
    span: Support


def _evidence(
    document: Document, sessions: Sequence[tuple[str, list[tuple[int, int]]]]
) -> list[_EvidenceTurn]:
    """The turns with evidence in a question's history, in order.

    Args:
        document: The history, with a passage for each session.
        sessions: The text of each session, and the spans (start, end) in it of these turns.
    """
    evidence = []
    for place, (text, spans) in enumerate(sessions):
        # A passage ends where its session's text ends.
        text_start = document.passages[place].end - len(text)
        for start, end in spans:
            span = Support(document.id, text_start + start, text_start + end)
            evidence.append(_EvidenceTurn(place + 1, span))
    return evidence


def parse_row_of_430(raw: RawRow) -> Group | Skip:
    """Parse a row as `parse_row`; the 70 rows of "single-session-user" are left out (Skip).

    On these the heads of QRHead were found.
    """
    row = parse_row(raw)
    if row.examples[0].gold.extra["type"] == "single-session-user":
        return Skip("of single-session-user, on which QRHead's heads were found")
    return row
