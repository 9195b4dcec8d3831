"""Runs by the kind of their questions: each becomes several, one a kind, which every table and test takes as it is.

    parts(runs, "hops") ─► runs named "musique, hops 2", "musique, hops 3", ...

hops, type, level   in the data set's own words (harness.datasets.kinds)
length              tokens of the question's documents, characters / 4, in powers of two: "2k to 4k"
answer              the gold answer: yes/no, unanswerable, number (one with a digit) or text
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.datasets.kinds import KINDS, answer_kind, kinds
from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun

BY = (*KINDS, "length", "answer")
_CHARACTERS = 4  # a token, about


def kind(record: Mapping[str, Any], by: str) -> str | None:
    """The kind of a record's question; None where the data set, or a run without texts, does not tell."""
    if by == "length":
        thousands = int(sum(record.get("document_characters") or ()) / _CHARACTERS / 1000)
        if not record.get("document_characters"):
            return None
        return f"{1 << thousands.bit_length() - 1}k to {1 << thousands.bit_length()}k" if thousands else "below 1k"
    gold = record.get("gold")
    if gold is None:
        return None
    return answer_kind(gold["answers"]) if by == "answer" else kinds(gold.get("extra") or {}).get(by)


def parts(runs: Sequence[StoredRun], by: str) -> list[StoredRun]:
    """The runs, each divided by the kind of its questions; those whose kind is unknown are left out.

    Raises UnknownName for a `by` that is none of BY, UserError where no question has a kind.
    """
    if by not in BY:
        raise UnknownName("way to divide questions", by, BY)
    found = []
    for run in runs:
        groups: dict[str, list[dict[str, Any]]] = {}
        for record in run.records:
            if (own := kind(record, by)) is not None:
                groups.setdefault(own, []).append(record)
        left = len(run.records) - sum(map(len, groups.values()))
        notes = (f"{left} of {len(run.records)} questions tell no {by} and are in no table",) if left else ()
        for own, records in sorted(groups.items(), key=lambda group: (len(group[0]), group[0])):
            name = f"{run.config['dataset']['name']}, {by} {own}"
            config = {**run.config, "dataset": {**run.config["dataset"], "name": name}}
            found.append(replace(run, config=config, records=records, whole=run, notes=(*run.notes, *notes)))
    if not found:
        known = [name for name in BY if any(kind(r, name) is not None for run in runs for r in run.records)]
        raise UserError(f"no question of these runs tells its {by}; they tell: {', '.join(known) or 'nothing'}")
    return found
