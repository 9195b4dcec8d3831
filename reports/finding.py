"""The sentence with which a page opens: what the runs of a data set say about quality and cost, for
who reads no table.

    "bm25 k=2 cannot be told from bm25 k=5, the best of 3 (60.1 and 61.2 points), and takes 45 % of
    its money; 20 questions settle no difference below 11.8 points."

It follows from the tables alone: the best by the headline, and the cheapest run that is not really
worse (Holm's p of the paired differences from the best, 0.05), where the questions can settle a
difference at all. Ceilings and runs of other questions take no part.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import pandas as pd

from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.compare import compare

_COST_NAMES = {"money": "money", "tflops.whole": "FLOPs", "tokens": "tokens"}
_SIGNIFICANT = 0.05


def finding(means: pd.DataFrame, runs: Sequence[StoredRun], comparable: bool) -> str:
    """The sentence.

    Args:
        means: The rows of reports.main_table.frame for `runs`, which are of one data set.
        runs: The runs.
        comparable: Whether their differences may be tested (reports.compare.compare).
    """
    rows = [
        row for row in facts.records(means) if not (row["ceiling"] or row["apart"])
    ] or facts.records(means)
    score = rows[0]["headline"]
    if not (rows := [row for row in rows if pd.notna(row[score])]):
        return f"No answer has a score ({score})."
    cost = next(
        (
            name
            for name in _COST_NAMES
            if all(pd.notna(row[name]) and row[name] > 0 for row in rows)
        ),
        "",
    )
    rows.sort(key=lambda row: (-row[score], row[cost] if cost else 0.0))
    best = rows[0]
    failed = f", of which {best['failed']:.0f} failed and count 0" if best["failed"] else ""
    asked = f"{best['n']:.0f} questions{failed}"
    if len(rows) == 1:
        return f"{best['method']} scores {_points(best, score)} ({score}) on {asked}."
    names, tested = {row["run"] for row in rows}, dict[str, dict[str, Any]]()
    with suppress(UserError):  # where they cannot be tested
        if comparable:
            table = compare([run for run in runs if run.name in names], reference=best["run"])
            tested = {row["run"]: row for row in facts.records(table)}
    settled = {run: row["detectable"] for run, row in tested.items() if pd.notna(row["detectable"])}
    least = (
        f"no difference below {100 * max(settled.values()):.1f} points"
        if settled
        else "no difference"
    )
    end = f"; {asked} settle {least}." if tested else f" on {asked}."
    head = f"the best of {len(rows)} ({_points(best, score)}, {score})"
    if not cost:
        return f"{best['method']} is {head}{end}"
    cheapest, clearly = min(rows, key=lambda row: row[cost]), 0.995 * best[cost]
    if cheapest[cost] > clearly:
        return f"{best['method']} is {head} and {'' if cheapest is best else 'within 1 % of '}the cheapest{end}"
    equal = [
        row
        for row in rows[1:]
        if row["run"] in settled and not tested[row["run"]]["p_holm"] < _SIGNIFICANT
    ]
    cheap = min(
        [row for row in equal if row[cost] < clearly], key=lambda row: row[cost], default=cheapest
    )
    share = f"takes {100 * cheap[cost] / best[cost]:.0f} % of its {_COST_NAMES[cost]}"
    if cheap not in equal:
        less = f"scores {100 * (best[score] - cheap[score]):.1f} points less"
        return (
            f"{best['method']} is {head}; {cheap['method']}, the cheapest, {share} and {less}{end}"
        )
    both = f"{100 * cheap[score]:.1f} and {_points(best, score)}, {score}"
    return f"{cheap['method']} cannot be told from {best['method']}, the best of {len(rows)} ({both}), and {share}{end}"


def _points(row: Mapping[str, Any], score: str) -> str:
    return f"{100 * row[score]:.1f} points"
