"""LongBench v2 (Bai et al., ACL 2025): 503 questions with four options on texts of 8,000 to 2
million words.

    {"_id": "66f3..", "domain": "Single-Document QA", "sub_domain": "Literary", "difficulty": "hard", "length": "short",
     "question": "..", "choice_A": "..", "choice_B": "..", "choice_C": "..", "choice_D": "..", "answer": "B",
     "context": ".."}

The answer is the text of the right option, Gold.extra has its number from 1. `difficulty` becomes
the question's level, `domain` its type. Questions on the same text share a document.
"""

from collections.abc import Sequence

from pydantic import Field

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    QuestionText,
    RowError,
    StrictRow,
    group_of_one_question,
    refuse_blank,
)

LETTERS = "ABCD"
_ALLOWED_VALUES = {
    "answer": tuple(LETTERS),
    "difficulty": ("easy", "hard"),
    "length": ("short", "medium", "long"),
}


class _Row(StrictRow):
    id: str = Field(alias="_id")
    domain: str = ""
    sub_domain: str = ""
    difficulty: str
    length: str
    question: str
    options: list[str]
    answer: str
    context: str


def four_options(options: Sequence[str], right_index: int) -> dict[str, object]:
    """What Gold.extra has of a question with four options: {"gold_label": 2, "all_classes": [..]}.

    gold_label counts from 1.

    Args:
        options: The texts of the options.
        right_index: The index of the right option, from 0.

    Raises:
        RowError: There are not four, or one is blank.
    """
    if len(options) != len(LETTERS):
        raise RowError("options", f"should be 4 options, are {len(options)}")
    for letter, option in zip(LETTERS, options, strict=True):
        if not option.strip():
            raise RowError("options", f"option {letter} is empty")
    return {"gold_label": right_index + 1, "all_classes": list(options)}


def parse_row(raw: RawRow) -> Group:
    """Parse one row, {"context": text, "question", "choice_A" to "choice_D", "answer": "B", ..}.

    Gold.extra: gold_label (from 1), all_classes, level, type, sub_domain, length_class. Raises
    RowError, which names the field.
    """
    choice_fields = [f"choice_{letter}" for letter in LETTERS]
    options = [raw[field] for field in choice_fields if field in raw]
    row = _Row.read({**raw, "options": options})
    refuse_blank({"_id": row.id, "question": row.question, "context": row.context})
    for field, values in _ALLOWED_VALUES.items():
        value = getattr(row, field)
        if value not in values:
            raise RowError(
                field, f"should be {', '.join(values[:-1])} or {values[-1]}, is '{value}'"
            )
    kinds = {
        "level": row.difficulty,
        "type": row.domain,
        "sub_domain": row.sub_domain,
        "length_class": row.length,
    }
    right_index = LETTERS.index(row.answer)
    extra = four_options(row.options, right_index) | kinds
    question = QuestionText(row.id, row.question)
    answers = (row.options[right_index],)
    return group_of_one_question("longbench-v2", row.context, question, answers, extra, row.options)
