"""LongBench (Bai et al., ACL 2024): one row a question, its long text as one string.

    {"input": "Who ...?", "context": "...", "answers": ["Ada"], "length": 18409, "dataset": "narrativeqa",
     "language": "en", "all_classes": null, "_id": "5a.."}

The text is shown as it is; questions on the same text share a document, named after the sha256 of the text. Nothing is
marked as supporting. Fields that are not named here are left alone. LongBench-E's files ("qasper_e.jsonl") have the
same rows; its scores are given apart by `length` (harness.scorers.groups).
"""

from __future__ import annotations

import hashlib
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from harness.datasets.rows import Group, RowError, explain
from harness.types import Document, Example, Gold, Question


class _LongBenchRow(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")

    id: str
    input: str
    context: str
    answers: list[str]
    length: int | None = None
    dataset: str | None = None
    language: str | None = None
    all_classes: list[str] | None = None


def parse_row(raw: dict[str, Any], *, subset: str | None = None, question: str | None = None) -> Group:
    """One LongBench row. Gold.extra: length, language and, where there are any, all_classes (inputs of its scorers).

    subset: the data set that the row must be of, where it says; "qasper" and "qasper_e" each take the other's rows too.
    question: asked where the row asks nothing (summaries, code). Raises RowError naming the field.
    """
    if "_id" not in raw:
        raise RowError("_id", "is missing")
    try:
        row = _LongBenchRow.model_validate({**raw, "id": raw["_id"]})
    except ValidationError as error:
        wrong = explain(error)
        raise RowError("_id" if wrong.field == "id" else wrong.field, wrong.problem) from None
    if subset is not None and row.dataset is not None and row.dataset.removesuffix("_e") != subset.removesuffix("_e"):
        raise RowError("dataset", f"the row is of '{row.dataset}', not of '{subset}'; give the file of '{subset}'")
    asked = row.input if row.input.strip() else question or ""
    for name, value in (("_id", row.id), ("input", asked), ("context", row.context)):
        if not value.strip():
            raise RowError(name, "is empty")
    answers = tuple(dict.fromkeys(a for a in row.answers if a.strip()))
    if not answers:
        raise RowError("answers", "the row has no answer")
    extra = {"length": row.length, "language": row.language, "all_classes": row.all_classes}
    text = hashlib.sha256(row.context.encode(errors="surrogatepass")).hexdigest()[:12]
    document = Document(f"{row.dataset or subset or 'longbench'}-{text}", row.context)
    gold = Gold(answers, extra={key: value for key, value in extra.items() if value is not None})
    return Group(document, (Example(Question(row.id, asked, (document.id,)), gold),))
