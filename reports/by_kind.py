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

from harness.datasets.question_kinds import KINDS, answer_kind, question_kinds
from harness.errors import UnknownName, UserError
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun

BY = (*KINDS, "length", "answer")
_CHARACTERS_PER_TOKEN = 4


def kind_of_question(record: StoredRecord, criterion: str) -> str | None:
    """The kind of a record's question by a criterion; None where the record does not tell.

        by "hops" -> "2", by "length" -> "2k to 4k", by "answer" -> "yes/no"

    Args:
        record: The record.
        criterion: One of BY, or a column that the rows carry.
    """
    if criterion == "length":
        return _length_of(record)
    gold = record.gold
    if gold is None:
        return None
    if criterion == "answer":
        return answer_kind(gold["answers"])
    extra = gold.get("extra") or {}
    value = extra.get(criterion)
    if criterion not in KINDS and isinstance(value, str | int):
        return str(value)
    return question_kinds(extra).get(criterion)


def _length_of(record: StoredRecord) -> str | None:
    """The range of the length of a question's documents: "2k to 4k" tokens.

    For an imported run "2k to 4k words", which rows of LongBench bring; None where neither is
    known.
    """
    characters = record.document_characters
    if characters:
        return _range_of_two(sum(characters) / _CHARACTERS_PER_TOKEN)
    words = record.gold_extra.get("length")
    if not isinstance(words, int):
        return None
    return f"{_range_of_two(words)} words"


def _range_of_two(tokens: float) -> str:
    """The range between powers of two that holds a number of tokens: 2500 -> "2k to 4k", 800 ->
    "below 1k"."""
    thousands = int(tokens / 1000)
    if not thousands:
        return "below 1k"
    lower = 1 << thousands.bit_length() - 1
    return f"{lower}k to {2 * lower}k"


def kinds_of(run: StoredRun, criteria: Sequence[str] = BY) -> dict[str, list[str | None]]:
    """Criterion -> the kind of each of the run's questions, in the order of its records.

    -> {"hops": ["2", "3", None], "length": ["2k to 4k", ...], ...}
    """
    labels: dict[str, list[str | None]] = {criterion: [] for criterion in criteria}
    for record in run.records_with_texts:
        for criterion in criteria:
            label = kind_of_question(record, criterion)
            if label is not None:
                label = sys.intern(label)  # a few texts, not one a question
            labels[criterion].append(label)
    return labels


def split_by_kind(
    runs: Sequence[StoredRun], by: str, known: Sequence[Mapping[str, Sequence[str | None]]] = ()
) -> list[StoredRun]:
    """The runs, each divided by the kind of its questions; those whose kind is unknown are left
    out.

    Args:
        runs: Stored runs.
        by: One of BY, or a column of the rows.
        known: The result of `kinds_of` for each run, where the caller has it already.

    Raises:
        UnknownName: There is no such way to divide questions.
        UserError: No question has a kind.
    """
    if by not in BY:
        _check_column(runs, by)
    if not known:
        known = [kinds_of(run, [by]) for run in runs]
    parts = []
    for run, labels in zip(runs, known, strict=True):
        parts += _parts_of(run, by, labels[by])
    if not parts:
        raise UserError(
            f"no question of these runs tells its {by}; they tell: "
            f"{', '.join(_known_kinds(runs)) or 'nothing'}"
        )
    return parts


def _check_column(runs: Sequence[StoredRun], by: str) -> None:
    """Raise UnknownName where no row of the runs carries a column of this name."""
    carried: set[str] = set()
    for run in runs:
        for record in run.records_with_texts:
            carried.update(record.gold_extra)
    if by not in carried:
        raise UnknownName("way to divide questions", by, (*BY, *sorted(carried)))


def _parts_of(run: StoredRun, by: str, labels: Sequence[str | None]) -> list[StoredRun]:
    """A run for each kind of the run's questions, named as a data set "musique, hops 2".

    A note of each says how many questions tell no kind.

    Args:
        run: The run.
        by: The criterion.
        labels: The kind of each question, in the order of the records.
    """
    groups: dict[str, list[StoredRecord]] = {}
    for record, label in zip(run.records, labels, strict=True):
        if label is not None:
            groups.setdefault(label, []).append(record)
    notes = run.notes
    n_unknown = len(run.records) - sum(map(len, groups.values()))
    if n_unknown:
        total = len(run.records)
        notes = (*notes, f"{n_unknown} of {total} questions tell no {by} and are in no table")
    parts = []
    for label in sorted(groups, key=_shortest_first):
        name = f"{run.config.dataset.name}, {by} {label}"
        part = replace(
            run,
            config=run.config.with_dataset(name=name),
            records=groups[label],
            # The kind of what the loader left out is not known.
            summary=run.summary.with_values(n_left_out=0),
            whole_run=run,
            notes=notes,
        )
        parts.append(part)
    return parts


def _shortest_first(label: str) -> tuple[int, str]:
    """A sort key that puts "2" before "10": by length, then by text."""
    return len(label), label


def _known_kinds(runs: Sequence[StoredRun]) -> list[str]:
    """The criteria of BY by which at least one question of the runs has a kind."""
    known = []
    for criterion in BY:
        labels: set[str | None] = set()
        for run in runs:
            labels.update(kinds_of(run, [criterion])[criterion])
        if labels - {None}:
            known.append(criterion)
    return known
