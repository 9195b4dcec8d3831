"""Runs by the kind of their questions: each becomes several, one a kind, which every table and test
takes as it is.

    split_by_kind(runs, "hops") ─► runs named "musique, hops 2", "musique, hops 3", ...
    kinds_of(run)       ─► {"hops": ["2", "3", ...], "type": [...], ...}

hops, type, level   in the data set's own words (harness.datasets.question_kinds)
length              tokens of the question's documents, characters / 4, in powers of two: "2k to 4k"
answer              the gold answer: yes/no, unanswerable, number (one with a digit) or text
NAME                any other column that the rows carry (Gold.extra): "domain", "dataset"
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.datasets.question_kinds import KINDS, answer_kind, kinds
from harness.errors import UnknownName, UserError
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun

BY = (*KINDS, "length", "answer")
_CHARACTERS_PER_TOKEN = 4  # a token, about


def kind_of_question(record: StoredRecord, criterion: str) -> str | None:
    """The kind of a record's question by "hops", "length", ...; None if not known."""
    if criterion == "length" and record.document_characters:
        return _range_of_two(sum(record.document_characters) / _CHARACTERS_PER_TOKEN)
    gold = record.gold
    if gold is None:
        return None
    extra = gold.get("extra") or {}
    if criterion == "length":  # of an imported run; rows of LongBench bring it, in words
        words = extra.get("length")
        return f"{_range_of_two(words)} words" if isinstance(words, int) else None
    if criterion == "answer":
        return answer_kind(gold["answers"])
    value = extra.get(criterion) if criterion not in KINDS else None
    return str(value) if isinstance(value, str | int) else kinds(extra).get(criterion)


def _range_of_two(tokens: float) -> str:
    """The range between powers of two that holds a number of tokens: "2k to 4k"."""
    thousands = int(tokens / 1000)
    if not thousands:
        return "below 1k"
    lower = 1 << thousands.bit_length() - 1
    return f"{lower}k to {2 * lower}k"


def kinds_of(run: StoredRun, criteria: Sequence[str] = BY) -> dict[str, list[str | None]]:
    """Criterion ("hops", "length", ...) -> the kind of each of the run's questions, in the order of
    its records."""
    labels: dict[str, list[str | None]] = {criterion: [] for criterion in criteria}
    for record in run.whole_records:
        for criterion in criteria:
            label = kind_of_question(record, criterion)
            labels[criterion].append(label and sys.intern(label))  # a few texts, not one a question
    return labels


def split_by_kind(
    runs: Sequence[StoredRun], by: str, known: Sequence[Mapping[str, Sequence[str | None]]] = ()
) -> list[StoredRun]:
    """The runs, each divided by the kind of its questions; those whose kind is unknown are left
    out.

    known: `kinds_of` each run. Raises UnknownName for a `by` that is none of BY and no column of
    the rows, UserError where no question has a kind.
    """
    if by not in BY:
        carried: set[str] = set()
        for run in runs:
            for record in run.whole_records:
                carried.update(record.gold_extra)
        if by not in carried:
            raise UnknownName("way to divide questions", by, (*BY, *sorted(carried)))
    parts = []
    for run, labels in zip(runs, known or [kinds_of(run, [by]) for run in runs], strict=True):
        groups: dict[str, list[StoredRecord]] = {}
        for record, label in zip(run.records, labels[by], strict=True):
            if label is not None:
                groups.setdefault(label, []).append(record)
        n_unknown = len(run.records) - sum(map(len, groups.values()))
        left = f"{n_unknown} of {len(run.records)} questions tell no {by} and are in no table"
        all_notes = (*run.notes, left) if n_unknown else run.notes
        for label, records in sorted(groups.items(), key=lambda group: (len(group[0]), group[0])):
            name = f"{run.config['dataset']['name']}, {by} {label}"
            config = {**run.config, "dataset": {**run.config["dataset"], "name": name}}
            summary = {
                **run.summary,
                "n_left_out": 0,
            }  # the kind of what the loader left out is not known
            parts.append(
                replace(
                    run, config=config, records=records, summary=summary, whole=run, notes=all_notes
                )
            )
    if not parts:
        known_kinds = [
            name
            for name in BY
            if any(kind_of_question(r, name) is not None for run in runs for r in run.whole_records)
        ]
        raise UserError(
            f"no question of these runs tells its {by}; they tell: "
            f"{', '.join(known_kinds) or 'nothing'}"
        )
    return parts
