"""How far the judges of a run agree, with each other and with its headline score.

    agreements(run)  ->  [{"a": "judge.m", "b": "musique.answer_f1", "n": 198, "share": 0.92, "kappa": 0.84}, ...]

A score that is no judge's counts as right from RIGHT on. Failed questions, which every score counts as wrong, are left
out: all would agree on them.
"""

from __future__ import annotations

from dataclasses import asdict
from itertools import combinations
from typing import TYPE_CHECKING, Any

from harness.stats.agreement import agreement
from reports import facts

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun

RIGHT = 0.5


def agreements(run: StoredRun) -> list[dict[str, Any]]:
    """Each judge of the run with its headline score, then each judge with each other: a, b, n, share, kappa."""
    judges, headline = facts.judges(run), facts.headline(run)
    scores = [record["scores"] for record in run.records if record["error"] is None]
    pairs = []
    for a, b in [*((judge, headline) for judge in judges), *combinations(judges, 2)]:
        both = [(row[a] >= RIGHT, row[b] >= RIGHT) for row in scores if a in row and b in row]
        pairs.append({"a": a, "b": b, **asdict(agreement([x for x, _ in both], [y for _, y in both]))})
    return pairs
