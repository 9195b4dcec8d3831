"""Loong (Wang et al., EMNLP 2024): questions on some eleven papers, financial reports or Chinese
verdicts at once.

    {"id": "13a4..", "level": 3, "set": 1, "type": "paper", "language": "en", "question": "..", "instruction": "..",
     "prompt_template": "#Papers:\\n{docs}\\n\\n{instruction}\\n\\n#The paper ..:\\n{question}", "answer": {..} or "..",
     "docs": "OpenMoE: ..\\n# OpenMoE ..\\n\\n..."}

`docs` holds the documents' texts, which the authors' file only names: step 1 of their program adds
them. The question is the filled template without them. A model rates the answers, by the prompt of
configs/judges/loong.yaml; it sees the question as the authors' code fills it (get_evaluate_prompts),
where papers keep the placeholder of the documents.
"""

from harness.datasets.raw_rows import RawRow
from harness.datasets.rows import (
    Group,
    QuestionText,
    Skip,
    StrictRow,
    clean_answers,
    group_of_one_question,
    refuse_blank,
)

_TASK_OF_LEVEL = {
    1: "spotlight locating",
    2: "comparison",
    3: "clustering",
    4: "chain of reasoning",
}


class _Row(StrictRow):
    id: str
    level: int
    set: int | None = None
    type: str
    language: str | None = None
    question: str
    instruction: str
    prompt_template: str
    answer: object
    docs: str

    def filled_template(self) -> str:
        """The prompt's template with question and instruction filled in; the "{docs}" in it
        stays.
        """
        with_question = self.prompt_template.replace("{question}", self.question)
        return with_question.replace("{instruction}", self.instruction)


def parse_row(raw: RawRow, *, subset: str | None = None) -> Group | Skip:
    """Parse one Loong row.

    Gold.extra: type (the task), level (the kind of documents), set (the length of the documents, 1
    to 4), judge (its published prompt) and question, as the judge sees it: of papers with the
    placeholder "{docs}" in it, as in the authors' code.

    Args:
        raw: The row.
        subset: The kind of documents that is asked, of the authors' one file of all kinds:
            "legal", or with its language, "financial_zh"; rows of others are left out. None: all
            are asked.

    Raises:
        RowError: A field is missing or cannot be used; the error names it.
    """
    row = _Row.read(raw)
    if subset not in (None, row.type, f"{row.type}_{row.language}"):
        return Skip(f"not of '{subset}'")
    refuse_blank({"docs": row.docs, "prompt_template": row.prompt_template})
    prompt = row.filled_template()
    prompt_without_documents = prompt.replace("{docs}", "")
    question_for_judge = prompt_without_documents
    if row.type == "paper":
        question_for_judge = prompt
    extra: dict[str, object] = {
        "type": _TASK_OF_LEVEL.get(row.level, str(row.level)),
        "level": row.type,
        "judge": "loong/rating",
        "question": question_for_judge,
    }
    if row.set is not None:
        extra["set"] = row.set
    question = QuestionText(row.id, prompt_without_documents.strip())
    answers = clean_answers([str(row.answer)], "answer")
    return group_of_one_question("loong", row.docs, question, answers, extra)
