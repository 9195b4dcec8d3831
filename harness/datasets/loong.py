"""Loong (Wang et al., EMNLP 2024): questions on some eleven papers, financial reports or Chinese
verdicts at once.

    {"id": "13a4..", "level": 3, "set": 1, "type": "paper", "language": "en", "question": "..",
    "instruction": "..",
     "prompt_template": "#Papers:\\n{docs}\\n\\n{instruction}\\n\\n#The paper ..:\\n{question}",
     "answer": {..} or "..",
     "docs": "OpenMoE: ..\\n# OpenMoE ..\\n\\n..."}

`docs` holds the documents' texts, which the authors' file only names: step 1 of their program adds
them. The question is the filled template without them.
"""

from typing import Any

from harness.datasets.rows import Group, StrictRow, clean_answers, refuse_blank, text_with_question

_LEVELS = {1: "spotlight locating", 2: "comparison", 3: "clustering", 4: "chain of reasoning"}


class _Row(StrictRow):
    id: str
    level: int
    type: str
    question: str
    instruction: str
    prompt_template: str
    answer: Any
    docs: str


def parse_row(raw: dict[str, Any]) -> Group:
    """One Loong row. Gold.extra: type (the task), level (the kind of documents). Raises RowError
    naming the field."""
    row = _Row.read(raw)
    refuse_blank({"docs": row.docs, "prompt_template": row.prompt_template})
    asked = row.prompt_template.replace("{docs}", "").replace("{question}", row.question)
    extra = {"type": _LEVELS.get(row.level, str(row.level)), "level": row.type}
    asked = asked.replace("{instruction}", row.instruction).strip()
    return text_with_question(
        "loong", row.docs, (row.id, asked), clean_answers([str(row.answer)], "answer"), extra
    )
