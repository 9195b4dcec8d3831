"""InfiniteBench (Zhang et al., ACL 2024): questions on novels of some 190,000 tokens whose names
were replaced.

    En.QA    {"id": 0, "context": "..", "input": "..", "answer": ["..", ".."], "options": []}
    En.MC    {.., "answer": ["Ada"], "options": ["Ada", "Bo", "Cy", "Di"]}
    En.Dia   {.., "answer": ["ADA"]}       a script in which one name is masked
    En.Sum, Zh.QA                          as En.QA

A row with options is of En.MC. An answer may also be a string or, in En.MC, end with its letter.
Questions on the same text share a document.
"""

from harness.datasets.longbench_v2 import LETTERS, four_options
from harness.datasets.raw_rows import RawRow
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


ASKED = {  # in place of the row's input, as the authors' templates do
    "longdialogue_qa_eng": 'Which character is most likely "$$MASK$$"?',
    "longbook_sum_eng": "Summarize the book.",
}


def parse_row(raw: RawRow, *, subset: str | None = None) -> Group:
    """Parse one row of En.QA, En.MC, En.Dia, En.Sum or Zh.QA, {"context": text, "input": question,
    "answer", "options"}.

    Gold.extra of En.MC: gold_label (from 1) and all_classes.

    Args:
        raw: The row.
        subset: The file's name. Of one with "choice" in it every row must have four options; of
            En.Dia and En.Sum every row is asked the same.

    Raises:
        RowError: A field is missing or cannot be used; the error names it.
    """
    row = _Row.read(raw)
    question = ASKED.get(subset or "", row.input)
    refuse_blank({"input": question, "context": row.context})
    answers = clean_answers(_listed(row.answer), "answer")
    asked = (str(row.id), question)
    if not row.options and "choice" not in (subset or ""):
        return text_with_question("infinitebench", row.context, asked, answers, {})
    return _with_options(row, asked, answers)


def _listed(answer: list[str] | str) -> list[str]:
    """The accepted answers of a row as a list; a single one may be given without: "a" -> ["a"]."""
    if isinstance(answer, str):
        return [answer]
    return answer


def _with_options(row: _Row, asked: tuple[str, str], answers: tuple[str, ...]) -> Group:
    """Make a question of En.MC, with its four options.

    Args:
        row: The row.
        asked: The id and the words of its question.
        answers: The right option, and its letter where the row has that too.

    Raises:
        RowError: The answer is none of the options, or these are not four.
    """
    options = row.options or []
    if options and answers[0] not in options:
        raise RowError("answer", f"'{answers[0]}' is none of the options")
    label = 0
    if options:
        label = options.index(answers[0])
    extra = four_options(options, label)
    if answers[1:] not in ((), (LETTERS[label],)):
        raise RowError(
            "answer", "should be one of the options, with nothing or its letter behind it"
        )
    gold = (options[label],)
    return text_with_question("infinitebench", row.context, asked, gold, extra, *options)
