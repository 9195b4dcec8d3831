"""The numbers of a run, from its records alone, so that they can be computed again at any time.

summarise(records, documents) -> {
    "n_total": 200, "n_scored": 198, "n_failed": 2, "n_truncated": 31, "failed_count_as": "zero",
    "n_without_prefix": 12,                     only if the task asks for one: replies without it, scored whole
    "scores": {"longbench-f1": {"mean": 0.41, "low": 0.36, "high": 0.46, "n": 200}},
                                                95 % interval by cluster; n: questions that have this score
    "usage": {"search": {...}, "answer": {...}},                              mean an answered question
    "index": {"documents": 40, "built": 12, "hit": 28, "failed": 0, "usage": {...}, "usage_per_document": {...}},
    "texts_cut": {"texts": 412, "cut": 260},    only where an encoder cut texts: all that it was given, and those cut
    "errors": {"WindowExceeded": 2}}              built and hit alike know what building cost
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Literal

from harness.cost.meter import add_usage, texts_of
from harness.stats.bootstrap import interval
from harness.stats.clusters import question_labels
from harness.storage.shapes import MISSING, PREFIX

KEPT = ("state", "n_asked", "stopped_early")
"""The keys of a summary.json that its records do not determine: who computes the numbers again keeps them."""


def summarise(
    records: Iterable[dict[str, Any]],
    documents: Iterable[dict[str, Any]],
    *,
    failed: Literal["zero", "skip"] = "zero",
    seed: int = 0,
    form: str = "",
) -> dict[str, Any]:
    """Return the table above. A failed question scores 0, as its record says, or is left out with failed="skip".

    n_scored + n_failed = n_total always. Where a question comes twice its last record counts. Costs are those of
    questions answered and indexes built: half-spent ones say nothing about what an answer costs. form: the data set's
    format, which says what questions are resampled as one (harness.stats.clusters).
    """
    rows = {row["question_id"]: _needed(row) for row in records}
    errors = Counter(row["error"] for row in rows.values() if row["error"] is not None)
    counted = [row for row in rows.values() if row["error"] is None or failed == "zero"]
    n_failed = sum(errors.values())
    documents = list(documents)
    built = [row["usage"] for row in documents if row["status"] != "failed"]
    texts, cut = texts_of([*built, *(row["usage"] for row in rows.values())])
    prefixes = [row["prefix"] for row in rows.values() if row["prefix"] is not None]
    return {
        "n_total": len(rows),
        "n_scored": len(rows) - n_failed,
        "n_failed": n_failed,
        "n_truncated": sum(row["truncated"] for row in rows.values()),
        **({} if not prefixes else {"n_without_prefix": prefixes.count(MISSING)}),
        "failed_count_as": failed,
        "scores": _scores(counted, seed, form),
        "usage": _mean([row["usage"] for row in rows.values() if row["error"] is None]),
        "index": _index(documents),
        **({"texts_cut": {"texts": texts, "cut": cut}} if cut else {}),
        "errors": dict(sorted(errors.items())),
    }


def _needed(row: dict[str, Any]) -> dict[str, Any]:
    """The few values of a record that the numbers need: a run of 100,000 questions must fit in memory."""
    return {
        "question": row["question_id"],
        "documents": row["document_ids"],
        "scores": row["scores"],
        "usage": row["usage"],
        "truncated": row["truncated"] is not None,
        "prefix": (row.get("notes") or {}).get(PREFIX),
        "error": None if row["error"] is None else row["error"]["type"],
    }


def _scores(rows: list[dict[str, Any]], seed: int, form: str) -> dict[str, dict[str, float | None]]:
    clusters = question_labels(form, [row["question"] for row in rows], [row["documents"] for row in rows])
    names = list(dict.fromkeys(name for row in rows for name in row["scores"]))
    scores: dict[str, dict[str, float | None]] = {}
    for name in names:
        held = [n for n, row in enumerate(rows) if name in row["scores"]]
        i = interval([rows[n]["scores"][name] for n in held], [clusters[n] for n in held], seed=seed)
        scores[name] = {"mean": i.mean, "low": i.low, "high": i.high, "n": i.n}
    return scores


def _mean(usages: list[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, dict[str, Any]] = {}
    for usage in usages:
        add_usage(total, usage)
    mean: dict[str, Any] = _divided(total, len(usages))
    return mean


def _divided(value: Any, by: int) -> Any:
    if isinstance(value, dict):
        return {k: _divided(v, by) for k, v in value.items()}
    return value / by if by else value


def _index(documents: Iterable[dict[str, Any]]) -> dict[str, Any]:
    total: dict[str, dict[str, Any]] = {}
    counts = {"built": 0, "hit": 0, "failed": 0}
    ids = set()
    for row in documents:
        counts[row["status"]] += 1
        if row["status"] != "failed":
            ids.add(row["document_id"])
            add_usage(total, row["usage"])
    return {"documents": len(ids), **counts, "usage": total, "usage_per_document": _divided(total, len(ids))}
