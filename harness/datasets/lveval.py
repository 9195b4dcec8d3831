"""LV-Eval (Yuan et al., 2024): eleven sets of questions in English and Chinese at five lengths, up to
256,000 words.

    {"input": "Who built it?", "context": "### Passage 1 ..", "answers": ["Ada"], "length": 16000,
     "dataset": "hotpotwikiqa_mixup", "language": "en", "answer_keywords": "Ada", "confusing_facts": ".."}

The layout of SET_16k.jsonl in SET.zip (README of infinigence/LVEval, load_LVEval_dataset). Only the
first answer counts, as in the authors' evaluation.py.
"""

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    QuestionText,
    StrictRow,
    clean_answers,
    group_of_one_question,
    id_from_text,
    refuse_blank,
)


class _Row(StrictRow):
    input: str
    context: str
    answers: list[str]
    length: int | None = None
    dataset: str | None = None
    language: str | None = None
    answer_keywords: str | None = None


def parse_row(raw: RawRow) -> Group:
    """Parse one row, {"input": question, "context": text, "answers", ..}; only its first answer
    counts.

    Gold.extra: keywords (None where the set has none), length, language. Raises RowError, which
    names the field.
    """
    row = _Row.read(raw)
    refuse_blank({"input": row.input, "context": row.context})
    first_answer = clean_answers(row.answers, "answers")[:1]
    question_id = id_from_text(row.dataset or "lveval", f"{row.context}\n{row.input}")
    question = QuestionText(question_id, row.input)
    extra = {"keywords": row.answer_keywords, "length": row.length, "language": row.language}
    return group_of_one_question("lveval", row.context, question, first_answer, extra)
