"""Quality against cost: which methods no other method beats at no higher cost.

    points(means)  ─►  dataset method score score.low score.high tflops tflops.low tflops.high ceiling dominated_by

Cost is search + answer per question, without the index. A method is dominated when another one costs no more, scores
no less, and is better in one of the two. A run that was shown the supporting passages (oracle-evidence) is a ceiling:
it takes no part, because nobody can run it without the answers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from reports import facts

if TYPE_CHECKING:
    from harness.store import StoredRun

__all__ = ["points"]


def points(means: pd.DataFrame, runs: Sequence[StoredRun], score: str | None = None) -> list[dict[str, Any]]:
    """Return the table above, a dict a row, for those rows of `means` (reports.tables.frame) that have both numbers.

    score: by default each data set's headline. `runs` say which rows are ceilings. Rows keep their order.
    """
    ceilings = {facts.key(run) for run in runs if facts.is_ceiling(run)}
    rows: list[dict[str, Any]] = []
    for row in facts.records(means):
        name = score or str(row["headline"])
        values = {part: row.get(f"{name}{part}") for part in ("", ".low", ".high")}
        if pd.isna(values[""]) or pd.isna(row["tflops"]) or row["tflops"] <= 0:
            continue
        rows.append(
            {
                "dataset": row["dataset"],
                "method": row["method"],
                "model": row["model"],
                **{f"score{part}": value for part, value in values.items()},
                **{f"tflops{part}": row[f"tflops{part}"] for part in ("", ".low", ".high")},
                "ceiling": (row["dataset"], row["run"]) in ceilings,
            }
        )
    for row in rows:
        row["dominated_by"] = tuple(other["method"] for other in rows if _dominates(other, row))
    return rows


def _dominates(other: dict[str, Any], row: dict[str, Any]) -> bool:
    if other["dataset"] != row["dataset"] or other["ceiling"] or row["ceiling"]:
        return False
    dearer, better = float(other["tflops"] - row["tflops"]), float(other["score"] - row["score"])
    return dearer <= 0 <= better and (dearer, better) != (0, 0)
