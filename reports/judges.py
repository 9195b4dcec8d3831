"""How far the judges of a run agree, with each other and with its headline score.

    judge_agreements(run)  ->  [{"a": "judge.m", "b": "musique.answer_f1", "n": 198, "share": 0.92, "kappa": 0.84}, ...]

A score that is no judge's counts as right from RIGHT on. Failed questions, which every score counts as wrong, are left
out: all would agree on them.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

from harness.storage.run_folder import StoredRun
from reports import facts

RIGHT = 0.5


def judge_agreements(run: StoredRun) -> list[dict[str, Any]]:
    """Each judge of the run with its headline score, then each judge with each other: a, b, n, share, kappa."""
    judges, headline = facts.judges(run), facts.headline(run)
    scores = [record["scores"] for record in run.records if record["error"] is None]
    pairs = []
    for a, b in [*((judge, headline) for judge in judges), *combinations(judges, 2)]:
        both = [(row[a] >= RIGHT, row[b] >= RIGHT) for row in scores if a in row and b in row]
        pairs.append({"a": a, "b": b, "n": len(both)} | agreement(both))
    return pairs


def agreement(pairs: Sequence[tuple[bool, bool]]) -> dict[str, float | None]:
    """How far two raters agree on yes or no; pairs: what both say of each item.

    share: of items that both rate alike (None without items); kappa: Cohen's, 1 for full agreement and 0 for that of
    chance, (share - chance) / (1 - chance), where chance is the share expected of independent raters who say yes as
    often as these do (J. Cohen 1960). None where chance alone agrees always: both gave every item the same one rating.

    >>> agreement([(True, True), (True, False), (False, False), (False, False)])
    {'share': 0.75, 'kappa': 0.5}
    """
    n = len(pairs)
    if not n:
        return {"share": None, "kappa": None}
    alike = sum(a == b for a, b in pairs)
    yes_a, yes_b = (sum(own) for own in zip(*pairs, strict=True))
    chance = yes_a * yes_b + (n - yes_a) * (n - yes_b)  # in units of 1 / n^2, so that 1 is met exactly
    return {"share": alike / n, "kappa": None if chance == n * n else (alike * n - chance) / (n * n - chance)}
