"""MuSiQue (Trivedi et al., TACL 2022): 20 paragraphs a question, 2 to 4 hops.

    {"id": "2hop__1_2", "question": "...", "answer": "...", "answer_aliases": ["..."], "answerable": true,
     "paragraphs": [{"idx": 0, "title": "...", "paragraph_text": "...", "is_supporting": false}, ...],
     "question_decomposition": [{"id": 1, "question": "...", "answer": "...", "paragraph_support_idx": 0}, ...]}

The official schema (StonyBrookNLP/musique), and the same with `paragraphs` and
`question_decomposition` stored column-wise, as Hugging Face `datasets` may do. Unknown fields are
left alone.
"""

from collections.abc import Collection
from dataclasses import replace

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import Records, Row, RowError, Skip, StrictRow, gold_answers

UNANSWERABLE = "unanswerable (answerable is false)"


class _Paragraph(StrictRow):
    idx: int
    title: str
    paragraph_text: str
    is_supporting: bool


class _Hop(StrictRow):
    id: int | str | None = None
    question: str
    answer: str | None = None
    paragraph_support_idx: int | None = None


class _MusiqueRow(StrictRow):
    id: str
    question: str
    paragraphs: Records[_Paragraph]
    answer: str | None = None
    answer_aliases: list[str] | None = None
    answerable: bool = True
    question_decomposition: Records[_Hop] | None = None


def parse_row(raw: RawRow) -> Row | Skip:
    """Parse one MuSiQue row; Skip for one with `answerable` false (MuSiQue-Full).

    Its `extra` becomes Gold.extra:

        answer_aliases            other right answers
        supporting_paragraphs     `idx` of each, as the official scorer needs them
        question_decomposition    the hops: question, answer, `idx` of the paragraph that supports it
        hops                      how many: 2
        type                      the start of the id: "2hop"

    Raises:
        RowError: A field is missing or cannot be used; the error names it.
    """
    row = _MusiqueRow.read(raw)
    if not row.answerable:
        return Skip(UNANSWERABLE)
    return _checked_row(row)


def _checked_row(row: _MusiqueRow) -> Row:
    """The question of a row with its paragraphs, whether it is answerable or not.

    Raises RowError, which names the field.
    """
    position_by_idx = _position_by_idx(row)
    _check_hops(row, position_by_idx)
    aliases = row.answer_aliases or []
    supporting_idx = [p.idx for p in row.paragraphs if p.is_supporting]
    hops = [hop.model_dump() for hop in row.question_decomposition or ()]
    extra: dict[str, object] = {
        "answer_aliases": aliases,
        "supporting_paragraphs": supporting_idx,
        "question_decomposition": hops,
        "hops": len(hops) or len(supporting_idx),
        "type": row.id.partition("__")[0],
    }
    return Row(
        id=row.id,
        question=row.question,
        paragraphs=tuple((p.title, p.paragraph_text) for p in row.paragraphs),
        answers=gold_answers(row.answer, aliases),
        supporting=tuple(position_by_idx[idx] for idx in supporting_idx),
        extra=extra,
    )


def _position_by_idx(row: _MusiqueRow) -> dict[int, int]:
    """Map the `idx` of each paragraph to its position in the row, from 0.

    Raises RowError where two paragraphs have one `idx`.
    """
    position_by_idx: dict[int, int] = {}
    for position, paragraph in enumerate(row.paragraphs):
        if paragraph.idx in position_by_idx:
            raise RowError("paragraphs", f"idx {paragraph.idx} is used twice")
        position_by_idx[paragraph.idx] = position
    return position_by_idx


def _check_hops(row: _MusiqueRow, known_idx: Collection[int]) -> None:
    """Raise RowError for a hop whose supporting paragraph is not in the row.

    Args:
        row: The row with its hops.
        known_idx: The `idx` of each paragraph of the row.
    """
    for number, hop in enumerate(row.question_decomposition or ()):
        idx = hop.paragraph_support_idx
        if idx is not None and idx not in known_idx:
            field = f"question_decomposition[{number}].paragraph_support_idx"
            raise RowError(field, f"{idx} is not the idx of one of the paragraphs")


def parse_row_of_full(raw: RawRow) -> Row:
    """Parse one row of MuSiQue-Full: as `parse_row`, with Gold.extra `declined`.

    Of the two rows of a question one lacks a supporting paragraph: its id gets the ending
    "~unanswerable", and its answer is "unanswerable". Raises RowError, which names the field.
    """
    declined = raw.get("answerable") is False
    if declined:
        raw = {**raw, "answer": "unanswerable", "answer_aliases": []}
    row = _checked_row(_MusiqueRow.read(raw))
    row = replace(row, extra={**row.extra, "declined": declined})
    if declined:
        row = replace(row, id=f"{row.id}~unanswerable", supporting=())
    return row
