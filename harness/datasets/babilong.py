"""BABILong (Kuratov et al., NeurIPS 2024): facts of bAbI tasks hidden in pages of books.

    {"input": "Mary went to the mill. [pages of a book] ..", "question": "Where is Mary? ", "target": "mill"}

The layout of data/TASK/LENGTH.json of RMT-team/babilong; fields as the authors'
run_model_on_babilong.py reads them. The ten tasks are those of their table of models
(collect_results.py). Nothing says which sentences are the facts, so nothing
is marked as supporting.
"""

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    QuestionText,
    RowError,
    StrictRow,
    clean_answers,
    group_of_one_question,
    id_from_text,
    refuse_blank,
)

_PLACES = ("bathroom", "bedroom", "garden", "hallway", "kitchen", "office")
_YES_NO = ("no", "yes")
# Task -> the answers that it can have (babilong/metrics.py, TASK_LABELS).
LABELS = {
    "qa1": _PLACES,
    "qa2": _PLACES,
    "qa3": _PLACES,
    "qa4": _PLACES,
    "qa5": ("bill", "fred", "jeff", "mary", "apple", "football", "milk"),
    "qa6": _YES_NO,
    "qa7": ("none", "one", "three", "two"),
    "qa8": ("apple", "football", "milk", "nothing"),
    "qa9": _YES_NO,
    "qa10": ("maybe", *_YES_NO),
}


class _Row(StrictRow):
    input: str
    question: str
    target: str


def parse_row(raw: RawRow, *, subset: str | None = None) -> Group:
    """Parse one row of a task, {"input": text, "question", "target": answer}.

    Gold.extra: labels, the answers that the task can have without those that the question names.

    Args:
        raw: The row.
        subset: The task, "qa1" to "qa10".

    Raises:
        RowError: A field is missing or cannot be used; the error names it.
    """
    row = _Row.read(raw)
    if subset not in LABELS:
        raise RowError(None, f"dataset.subset should be one of {', '.join(LABELS)}, is {subset}")
    refuse_blank({"question": row.question, "input": row.input})
    words = row.question.strip()
    labels_not_in_question = [label for label in LABELS[subset] if label not in words.lower()]
    question = QuestionText(id_from_text(subset, f"{row.input}\n{words}"), words)
    answers = clean_answers([row.target], "target")
    extra = {"labels": labels_not_in_question}
    return group_of_one_question("babilong", row.input.strip(), question, answers, extra)
