"""Quality against cost: which methods no other method beats at no higher cost.

    points(means)  ─►  dataset method score[.low .high] tflops[.low .high] convention ceiling apart dominated_by

Cost is search + answer per question, without the index. A method is dominated when another one costs no more, scores
no less, and is better in one of the two. A run that was shown the supporting passages (oracle-evidence) is a ceiling:
it takes no part, because nobody can run it without the answers. Nor does one that is apart: it was asked other
questions than most runs of its data set.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pandas as pd

from reports import stored as facts
from reports.basis import Asked, asked, main

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


def points(means: pd.DataFrame, runs: Sequence[StoredRun], score: str | None = None) -> list[dict[str, Any]]:
    """Return the table above, a dict a row, for those rows of `means` (reports.tables.frame) that have both numbers.

    score: by default each data set's headline. `runs` say which rows are ceilings or apart. Rows keep their order.
    """
    ceilings = {facts.key(run) for run in runs if facts.is_ceiling(run)}
    apart = _apart(runs)
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
                "convention": row["convention"],
                "ceiling": (row["dataset"], row["run"]) in ceilings,
                "apart": (row["dataset"], row["run"]) in apart,
            }
        )
    for row in rows:
        row["dominated_by"] = tuple(other["method"] for other in rows if _dominates(other, row))
    return rows


def _apart(runs: Sequence[StoredRun]) -> set[tuple[str, str]]:
    """The runs that were asked other questions, or other rows, than most runs of their data set."""
    by_dataset: dict[str, dict[tuple[str, str], Asked]] = {}
    for run in runs:
        by_dataset.setdefault(facts.key(run)[0], {})[facts.key(run)] = asked(run)
    usual = {name: main(list(keys.values())) for name, keys in by_dataset.items()}
    return {key for name, keys in by_dataset.items() for key, own in keys.items() if own != usual[name]}


def _dominates(other: dict[str, Any], row: dict[str, Any]) -> bool:
    if other["dataset"] != row["dataset"] or any(r["ceiling"] or r["apart"] for r in (other, row)):
        return False
    dearer, better = float(other["tflops"] - row["tflops"]), float(other["score"] - row["score"])
    return dearer <= 0 <= better and (dearer, better) != (0, 0)
