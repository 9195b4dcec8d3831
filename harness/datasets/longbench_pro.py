"""LongBench Pro (Chen et al. 2026): 25 tasks on English and Chinese texts of 8,000 to 256,000
tokens.

    {"id": "..", "context": "..", "language": "English", "token_length": "8k", "difficulty": "Easy",
     "primary_task": "T3. Evidence-Grounded QA", "secondary_task": "T3.2 Single-Hop Fact QA",
     "question_nonthinking": "..", "question_thinking": "..", "answer": ["..", ".."]}

The question is `question_nonthinking`. `answer` lists the lines of one answer; of a summary (T4)
several answers.
"""

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    QuestionText,
    StrictRow,
    clean_answers,
    group_of_one_question,
    refuse_blank,
)


class _Row(StrictRow):
    id: str
    context: str
    secondary_task: str
    difficulty: str
    question_nonthinking: str
    answer: list[str]


def parse_row(raw: RawRow) -> Group:
    """Parse one row, {"question_nonthinking": question, "context": text, "answer": its lines, ..}.

    Gold.extra: lines (those of the answer), type (the secondary task), level. Raises RowError,
    which names the field.
    """
    row = _Row.read(raw)
    refuse_blank(
        {"id": row.id, "context": row.context, "question_nonthinking": row.question_nonthinking}
    )
    extra = {"lines": row.answer, "type": row.secondary_task, "level": row.difficulty.lower()}
    question = QuestionText(row.id, row.question_nonthinking)
    answers = clean_answers(row.answer, "answer")
    return group_of_one_question("longbench-pro", row.context, question, answers, extra)
