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
from harness.datasets.rows import Group, RowError, StrictRow, refuse_blank, text_with_question

LETTERS = "ABCD"
_VALUES = {
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


def four_options(options: Sequence[str], label: int) -> dict[str, object]:
    """What Gold.extra has of a question with four options: {"gold_label": 2, "all_classes": [..]}.

    gold_label counts from 1.

    Args:
        options: The texts of the options.
        label: The index of the right option, from 0.

    Raises:
        RowError: There are not four, or one is blank.
    """
    if len(options) != len(LETTERS):
        raise RowError("options", f"should be 4 options, are {len(options)}")
    for letter, option in zip(LETTERS, options, strict=True):
        if not option.strip():
            raise RowError("options", f"option {letter} is empty")
    return {"gold_label": label + 1, "all_classes": list(options)}


def parse_row(raw: RawRow) -> Group:
    """Parse one row, {"context": text, "question", "choice_A" to "choice_D", "answer": "B", ..}.

    Gold.extra: gold_label (from 1), all_classes, level, type, sub_domain, length_class. Raises
    RowError, which names the field.
    """
    names = [f"choice_{letter}" for letter in LETTERS]
    row = _Row.read({**raw, "options": [raw[name] for name in names if name in raw]})
    refuse_blank({"_id": row.id, "question": row.question, "context": row.context})
    for name, values in _VALUES.items():
        value = getattr(row, name)
        if value not in values:
            raise RowError(
                name, f"should be {', '.join(values[:-1])} or {values[-1]}, is '{value}'"
            )
    more = {
        "level": row.difficulty,
        "type": row.domain,
        "sub_domain": row.sub_domain,
        "length_class": row.length,
    }
    right = LETTERS.index(row.answer)
    extra = four_options(row.options, right) | more
    asked = (row.id, row.question)
    return text_with_question(
        "longbench-v2", row.context, asked, (row.options[right],), extra, *row.options
    )
