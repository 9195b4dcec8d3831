"""Runs over texts that are made for a length (dataset.tokens): their curve, and the mean of several data sets.

    made_lengths(runs)          {run folder: 4096, ...} of data sets with runs at several lengths
    family_means(rows, made)    rows of the mean over ruler/vt, ruler/cwe, ... at each length that all of them have

The data sets are samples of their own, so the errors of their means add in quadrature, as in reports/paper/measured.py.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun

MADE = "tokens"
"""The option of a data set whose texts are made for a length."""
_INTERVALS = ("mean", "answer_recall", "answer_recall_substring")


def made_lengths(runs: Sequence[StoredRun]) -> dict[str, int]:
    """Run folder -> length in tokens, of data sets that one model read at several lengths."""
    found: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for run in runs:
        tokens = (run.config["dataset"].get("options") or {}).get(MADE)
        if isinstance(tokens, int):
            found[run.config["dataset"]["name"], run.config["model"]["name"]][str(run.path)] = tokens
    return {path: tokens for own in found.values() if len(set(own.values())) > 1 for path, tokens in own.items()}


def family_means(rows: Sequence[Mapping[str, Any]], made: Mapping[str, int]) -> list[dict[str, Any]]:
    """The mean of each family's data sets, by model, method and length; rows: those of harness study length."""
    families: dict[str, set[str]] = defaultdict(set)
    cells: dict[tuple[str, str, str, int], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        family, slash, _ = row["dataset"].partition("/")
        if slash and row["run"] in made:
            families[family].add(row["dataset"])
            cells[family, row["model"], row["method"], made[row["run"]]][row["dataset"]] = row
    return [
        _mean(f"{family}, mean of {len(own)}", list(own.values()))
        for (family, *_), own in sorted(cells.items())
        if len(own) > 1 and own.keys() == families[family]
    ]


def _mean(dataset: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    scores = {row["score"] for row in rows}
    tokens = sum(row["tokens.mean"] for row in rows) / len(rows)
    return {
        **rows[0],
        "dataset": dataset,
        "tokens.from": min(row["tokens.from"] for row in rows),
        "tokens.mean": tokens,
        "tokens.to": max(row["tokens.to"] for row in rows),
        "score": scores.pop() if len(scores) == 1 else "score",
        **{key: value for name in _INTERVALS for key, value in _joint(name, rows).items()},
        "n": sum(row["n"] for row in rows),
        "failed": sum(row["failed"] for row in rows),
        "notes": tuple(dict.fromkeys(note for row in rows for note in row["notes"])),
        "run": None,
    }


def _joint(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The mean of a column with its interval; without a value where a row has none, without an interval likewise."""
    keys = [f"{name}{end}" for end in ("", ".low", ".high")]
    columns = [[row[key] for row in rows] for key in keys]
    if None in columns[0]:
        return dict.fromkeys(keys)
    values, lows, highs = columns
    middle, size = sum(values) / len(values), len(values)
    if None in (*lows, *highs):
        return dict(zip(keys, (middle, None, None), strict=True))
    below = math.hypot(*(value - low for value, low in zip(values, lows, strict=True))) / size
    above = math.hypot(*(high - value for value, high in zip(values, highs, strict=True))) / size
    return dict(zip(keys, (middle, middle - below, middle + above), strict=True))
