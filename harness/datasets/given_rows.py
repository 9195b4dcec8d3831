"""Rows that are given as `Row`s from Python: harness.run("bm25", data=[Row(...)]).

    {"id": "q1", "question": "Who?", "paragraphs": [["Title", "Ann did it."]], "answers": ["Ann"],
     "supporting": [0], "extra": {}}

`harness.run` writes each Row with its fields as they are; here they become a Row again.
"""

from pydantic import Field

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Row, RowError, StrictRow, clean_answers, refuse_blank


class _GivenRow(StrictRow):
    id: str
    question: str
    paragraphs: list[list[str]]
    answers: list[str]
    supporting: list[int] = Field(default_factory=list)
    extra: dict[str, object] = Field(default_factory=dict)


def parse_row(raw: RawRow) -> Row:
    """Turn an object with the fields of a `Row` into the Row, and check them.

    {"id": "q1", "question": "Who?", "paragraphs": [["Title", "Ann did it."]], "answers": ["Ann"],
    "supporting": [0], "extra": {}}

    Raises RowError for a field of another type, a blank question, a paragraph that is no pair, an
    index of a paragraph that is not there, and for no answer.
    """
    given = _GivenRow.read(raw)
    refuse_blank({"question": given.question})
    paragraphs: list[tuple[str, str]] = []
    for paragraph in given.paragraphs:
        if len(paragraph) != 2:
            raise RowError("paragraphs", "should be pairs of a title and a text")
        title, text = paragraph
        paragraphs.append((title, text))
    for index in given.supporting:
        if index not in range(len(paragraphs)):
            raise RowError("supporting", f"should be numbers from 0 to {len(paragraphs) - 1}")
    return Row(
        id=given.id,
        question=given.question,
        paragraphs=tuple(paragraphs),
        answers=clean_answers(given.answers, "answers"),
        supporting=tuple(given.supporting),
        extra=given.extra,
    )
