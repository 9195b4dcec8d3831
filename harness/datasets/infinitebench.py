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
    QuestionText,
    RowError,
    StrictRow,
    clean_answers,
    group_of_one_question,
    refuse_blank,
)


class _Row(StrictRow):
    id: int | str
    context: str
    input: str
    answer: list[str] | str
    options: list[str] | None = None


# Subset -> the question in place of the row's input, as in the authors' templates.
QUESTION_OF_ALL_ROWS = {
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
    words = QUESTION_OF_ALL_ROWS.get(subset or "", row.input)
    refuse_blank({"input": words, "context": row.context})
    answers = clean_answers(_answer_list(row.answer), "answer")
    question = QuestionText(str(row.id), words)
    needs_options = "choice" in (subset or "")
    if row.options or needs_options:
        return _multiple_choice_group(row, question, answers)
    return group_of_one_question("infinitebench", row.context, question, answers, {})


def _answer_list(answer: list[str] | str) -> list[str]:
    """The accepted answers of a row as a list; a single one may be given without: "a" -> ["a"]."""
    if isinstance(answer, str):
        return [answer]
    return answer


def _multiple_choice_group(
    row: _Row, question: QuestionText, right_option_and_letter: tuple[str, ...]
) -> Group:
    """Make the text and the question of a row of En.MC, with its four options.

    Args:
        row: The row.
        question: Its question.
        right_option_and_letter: ("Ada",), or ("Ada", "A") where the row has the letter too.

    Raises:
        RowError: The answer is none of the options, or these are not four.
    """
    options = row.options or []
    right_option, *further_answers = right_option_and_letter
    right_index = 0
    if options:  # a row without any is refused by `four_options`
        if right_option not in options:
            raise RowError("answer", f"'{right_option}' is none of the options")
        right_index = options.index(right_option)
    extra = four_options(options, right_index)
    right_letter = LETTERS[right_index]
    if further_answers not in ([], [right_letter]):
        raise RowError(
            "answer", "should be one of the options, with nothing or its letter behind it"
        )
    gold_answers = (options[right_index],)
    return group_of_one_question(
        "infinitebench", row.context, question, gold_answers, extra, options
    )
