"""InfiniteBench (Zhang et al., ACL 2024): questions on novels of some 190,000 tokens whose names
were replaced.

    En.QA   {"id": 0, "context": "..", "input": "..", "answer": ["..", ".."], "options": []}
    En.MC   {"id": 0, "context": "..", "input": "..", "answer": ["Ada"], "options": ["Ada", "Bo", "Cy", "Di"]}

A row with options is of En.MC, another one of En.QA; its answer may also be a string or, in En.MC,
end with its letter. Questions on the same novel share a document.
"""

from typing import Any

from harness.datasets.longbench_v2 import LETTERS, four_options
from harness.datasets.rows import (
    Group,
    RowError,
    StrictRow,
    clean_answers,
    refuse_blank,
    text_with_question,
)


class _Row(StrictRow):
    id: int | str
    context: str
    input: str
    answer: list[str] | str
    options: list[str] | None = None


def parse_row(raw: dict[str, Any], *, subset: str | None = None) -> Group:
    """One row of En.QA or En.MC. Gold.extra of En.MC: gold_label (from 1) and all_classes.

    subset: with a name that has "choice" in it, every row must have four options. Raises RowError
    naming the field.
    """
    row = _Row.read(raw)
    refuse_blank({"input": row.input, "context": row.context})
    answers = clean_answers([row.answer] if isinstance(row.answer, str) else row.answer, "answer")
    asked, options = (str(row.id), row.input), row.options or []
    if not options and "choice" not in (subset or ""):
        return text_with_question("infinitebench", row.context, asked, answers, {})
    if options and answers[0] not in options:
        raise RowError("answer", f"'{answers[0]}' is none of the options")
    label = options.index(answers[0]) if options else 0
    extra = four_options(options, label)
    if answers[1:] not in ((), (LETTERS[label],)):
        raise RowError(
            "answer", "should be one of the options, with nothing or its letter behind it"
        )
    return text_with_question(
        "infinitebench", row.context, asked, (options[label],), extra, *options
    )
