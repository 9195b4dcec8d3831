"""What a question cost: its search and answer, and its share of the indexes that it needed.

    share of an index = what building it cost / questions of this run that were asked of its document

A question with a document of its own pays the whole index. One that was found in the cache costs what building it
did. The papers print search and answer alone; that is `whole=False`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from harness.cost.flops import DEFAULT
from harness.engine.document_view import joined_id
from reports.stored import TERA

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from harness.storage.run_folder import StoredRun


def tflops(run: StoredRun, convention: str = DEFAULT, *, whole: bool = True) -> dict[str, float]:
    """1e12 FLOPs by answered question, with its share of indexes where `whole`.

    {} where a model's FLOPs are not known, or the run folder lacks indexes that its summary counts.
    """
    answered = [record for record in run.records if record["error"] is None]
    usages = [record["usage"].get(phase, {}) for record in answered for phase in ("search", "answer")]
    built = {(row["document_id"], row.get("question_id")): row for row in run.documents if row["status"] != "failed"}
    indexes = {key: row["usage"].get("index", {}) for key, row in built.items()} if whole else {}
    if any(usage.get("uncounted") for usage in [*usages, *indexes.values()]):
        return {}
    if whole and len({document for document, _ in built}) < (run.summary.get("index") or {}).get("documents", 0):
        return {}
    asked = Counter(key for record in (run.whole or run).records for key in _indexes(record) if key in indexes)
    price = {key: _flops(indexes[key], convention) / n for key, n in asked.items()}
    return {
        record["question_id"]: sum(_flops(record["usage"].get(phase, {}), convention) for phase in ("search", "answer"))
        + sum(price.get(key, 0.0) for key in _indexes(record))
        for record in answered
    }


def _indexes(record: Mapping[str, Any]) -> list[tuple[str, str | None]]:
    """The indexes that a question may have needed, by document and question; several documents may be joined."""
    ids = record["document_ids"]
    documents = [joined_id(ids)] if (record.get("notes") or {}).get("joined") else ids
    return [(document, question) for document in documents for question in (None, record["question_id"])]


def _flops(usage: Mapping[str, Any], convention: str) -> float:
    return float((usage.get("flops") or {}).get(convention, 0.0)) / TERA
