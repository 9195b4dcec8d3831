"""OOLONG (Bertsch et al. 2025): questions on counts, frequencies and dates over all of a long text.

    synth   {"id": 1, "context_window_text": "..", "question": "..", "answer": "['spam']", "dataset": "spam",
             "answer_type": "ANSWER_TYPE.LABEL", "task_group": "counting"}    or "[datetime.date(2023, 5, 1)]"
    real    {"id": "1", "context_window_text": "..", "question": "..", "answer": "84"}    or names: "Ada, Bo"

Fields as the authors' program reads them (abertsch72/oolong, src/eval). Questions on the same text
share a document.
"""

import ast
import re

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    QuestionText,
    RowError,
    StrictRow,
    clean_answers,
    group_of_one_question,
    refuse_blank,
)

_DATE = re.compile(r"\[datetime\.date\((\d+), (\d+), (\d+)\)\]")


class _Row(StrictRow):
    id: int | str
    context_window_text: str
    question: str
    answer: str
    answer_type: str | None = None
    task_group: str = ""


def _answer_in_list(written_list: str) -> str:
    """The first entry of a list that is written as Python does: "['spam']" -> "spam".

    A date becomes ISO: "[datetime.date(2023, 5, 1)]" -> "2023-05-01". Raises RowError.
    """
    date = _DATE.fullmatch(written_list)
    if date is not None:
        year, month, day = map(int, date.groups())
        return f"{year:04}-{month:02}-{day:02}"
    try:
        return str(ast.literal_eval(written_list)[0])
    except (ValueError, SyntaxError, TypeError, LookupError):
        raise RowError("answer", "should be a list in Python's form, such as ['spam']") from None


def parse_row(raw: RawRow) -> Group:
    """Parse one row, {"context_window_text": text, "question", "answer", ..}.

    Gold.extra of a synthetic one: answer_type, type. Raises RowError, which names the field.
    """
    row = _Row.read(raw)
    refuse_blank({"question": row.question, "context_window_text": row.context_window_text})
    answer = row.answer
    extra: dict[str, object] = {}
    is_synthetic = row.answer_type is not None
    if is_synthetic:
        answer = _answer_in_list(row.answer)
        extra = {"answer_type": row.answer_type, "type": row.task_group}
    answers = clean_answers([answer], "answer")
    question = QuestionText(str(row.id), row.question)
    return group_of_one_question("oolong", row.context_window_text, question, answers, extra)
