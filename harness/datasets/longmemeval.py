"""LongMemEval (Wu et al., ICLR 2025): questions on the sessions of a user with a chat assistant,
each with its date.

    {"question_id": "e1", "question_type": "multi-session", "question": "..", "answer": "..",
    "question_date": "..",
     "haystack_dates": ["2023/05/20 (Sat) 02:21", ..], "haystack_session_ids": [..],
     "answer_session_ids": [..],
     "haystack_sessions": [[{"role": "user", "content": "..", "has_answer": true}, ..], ..]}

A question's document is its history, oldest session first, as the authors' prompt in plain words
writes it (history_format nl of run_generation). An id with `_abs` is of a question to be declined.
"""

from dataclasses import replace

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
from harness.types import Support

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
    """Parse a row. Raises RowError: a blank text, an unknown type, more or fewer dates than
    sessions."""
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
    """The text of a session, and the spans (start, end) in it of the turns with evidence."""
    text, marked = f"Session Date: {date}\nSession Content:\n", []
    for turn in turns:
        text += "\n\n"
        start = len(text)
        text += f"{turn.role}: {turn.content.strip()}"
        if turn.has_answer:
            marked.append((start, len(text)))
    return text, marked


def parse_row(raw: RawRow) -> Group:
    """One question with its history. Gold.supporting: the turns with evidence, none of a question
    to be declined.

    Gold.extra: type; question without its date; declined; evidence_sessions, the number of each
    supporting turn's session; judge, the published prompt. Raises RowError naming the field.
    """
    row = _checked_row(raw)
    dated = sorted(
        zip(row.haystack_dates, row.haystack_sessions, strict=True), key=lambda pair: pair[0]
    )
    sessions = [_session_text(date, turns) for date, turns in dated]
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
    evidence_sessions: list[int] = []
    supporting: list[Support] = []
    judge_prompt = "abstention"
    if not declined:
        judge_prompt = PROMPTS[row.question_type]
        for number, (passage, session) in enumerate(
            zip(document.passages, sessions, strict=True), start=1
        ):
            text, spans = session
            text_start = passage.end - len(text)  # a passage ends where its session's text ends
            for start, end in spans:
                evidence_sessions.append(number)
                supporting.append(Support(document.id, text_start + start, text_start + end))
    extra = {
        "type": row.question_type,
        "question": row.question,
        "declined": declined,
        "evidence_sessions": evidence_sessions,
        "judge": f"longmemeval/{judge_prompt}",
    }
    gold = replace(example.gold, supporting=tuple(supporting), extra=extra)
    return Group(document, (replace(example, gold=gold),))


def parse_row_of_430(raw: RawRow) -> Group | Skip:
    """As `parse_row`, but the 70 rows of "single-session-user", on which QRHead's heads were found,
    are left out."""
    row = parse_row(raw)
    if row.examples[0].gold.extra["type"] == "single-session-user":
        return Skip("of single-session-user, on which QRHead's heads were found")
    return row
