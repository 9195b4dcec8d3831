"""Runs by the kind of their questions: each becomes several, one a kind, which every table and test
takes as it is.

    split_by_kind(runs, "hops") ─► runs named "musique, hops 2", "musique, hops 3", ...
    kinds_by_criterion(run)       ─► {"hops": ["2", "3", ...], "type": [...], ...}

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

CRITERIA = (*KINDS, "length", "answer")
_CHARACTERS_PER_TOKEN = 4


def kind_of_question(record: StoredRecord, criterion: str) -> str | None:
    """The kind of a record's question by a criterion; None where the record does not tell.

        by "hops" -> "2", by "length" -> "2k to 4k", by "answer" -> "yes/no"

    Args:
        record: The record.
        criterion: One of CRITERIA, or a column that the rows carry.
    """
    if criterion == "length":
        return _length_kind(record)
    gold = record.gold
    if gold is None:
        return None
    if criterion == "answer":
        return answer_kind(gold["answers"])
    carried_columns = gold.get("extra") or {}
    value = carried_columns.get(criterion)
    is_own_column = criterion not in KINDS
    if is_own_column and isinstance(value, str | int):
        return str(value)
    return question_kinds(carried_columns).get(criterion)


def _length_kind(record: StoredRecord) -> str | None:
    """The range of the length of a question's documents: "2k to 4k" tokens.

    For an imported run "2k to 4k words", which rows of LongBench bring; None where neither is
    known.
    """
    characters = record.document_characters
    if characters:
        return _power_of_two_range(sum(characters) / _CHARACTERS_PER_TOKEN)
    words = record.gold_extra.get("length")
    if not isinstance(words, int):
        return None
    return f"{_power_of_two_range(words)} words"


def _power_of_two_range(tokens: float) -> str:
    """The range between powers of two that holds a number of tokens: 2500 -> "2k to 4k", 800 ->
    "below 1k"."""
    thousands = int(tokens / 1000)
    if not thousands:
        return "below 1k"
    lower = 1 << thousands.bit_length() - 1  # the greatest power of two up to it
    return f"{lower}k to {2 * lower}k"


def kinds_by_criterion(
    run: StoredRun, criteria: Sequence[str] = CRITERIA
) -> dict[str, list[str | None]]:
    """Criterion -> the kind of each of the run's questions, in the order of its records.

    -> {"hops": ["2", "3", None], "length": ["2k to 4k", ...], ...}
    """
    kinds_found: dict[str, list[str | None]] = {criterion: [] for criterion in criteria}
    for record in run.records_with_texts:
        for criterion in criteria:
            kind = kind_of_question(record, criterion)
            if kind is not None:
                kind = sys.intern(kind)  # a few texts, not one a question
            kinds_found[criterion].append(kind)
    return kinds_found


def split_by_kind(
    runs: Sequence[StoredRun],
    criterion: str,
    kinds_by_run: Sequence[Mapping[str, Sequence[str | None]]] = (),
) -> list[StoredRun]:
    """The runs, each divided by the kind of its questions; those whose kind is unknown are left
    out.

    Args:
        runs: Stored runs.
        criterion: One of CRITERIA, or a column of the rows.
        kinds_by_run: What `kinds_by_criterion` gives for each run, where the caller has it already.

    Raises:
        UnknownName: There is no such way to divide questions.
        UserError: No question has a kind.
    """
    if criterion not in CRITERIA:
        _check_column_is_carried(runs, criterion)
    if not kinds_by_run:
        kinds_by_run = [kinds_by_criterion(run, [criterion]) for run in runs]
    parts = []
    for run, kinds_of_run in zip(runs, kinds_by_run, strict=True):
        parts += _split_run(run, criterion, kinds_of_run[criterion])
    if not parts:
        known_criteria = ", ".join(_criteria_with_kinds(runs)) or "nothing"
        raise UserError(
            f"no question of these runs tells its {criterion}; they tell: {known_criteria}"
        )
    return parts


def _check_column_is_carried(runs: Sequence[StoredRun], column: str) -> None:
    """Raise UnknownName where no row of the runs carries a column of this name."""
    carried_columns: set[str] = set()
    for run in runs:
        for record in run.records_with_texts:
            carried_columns.update(record.gold_extra)
    if column not in carried_columns:
        raise UnknownName("way to divide questions", column, (*CRITERIA, *sorted(carried_columns)))


def _split_run(
    run: StoredRun, criterion: str, kinds_of_questions: Sequence[str | None]
) -> list[StoredRun]:
    """A run for each kind of the run's questions, named as a data set "musique, hops 2".

    A note of each says how many questions tell no kind.

    Args:
        run: The run.
        criterion: The criterion.
        kinds_of_questions: The kind of each question, in the order of the records.
    """
    records_by_kind: dict[str, list[StoredRecord]] = {}
    for record, kind in zip(run.records, kinds_of_questions, strict=True):
        if kind is not None:
            records_by_kind.setdefault(kind, []).append(record)
    notes = run.notes
    n_records = len(run.records)
    n_known = sum(len(records) for records in records_by_kind.values())
    if n_known < n_records:
        n_unknown = n_records - n_known
        note = f"{n_unknown} of {n_records} questions tell no {criterion} and are in no table"
        notes = (*notes, note)
    parts = []
    for kind in sorted(records_by_kind, key=_shortest_first):
        name = f"{run.config.dataset.name}, {criterion} {kind}"
        part = replace(
            run,
            config=run.config.with_dataset(name=name),
            records=records_by_kind[kind],
            # The kind of what the loader left out is not known.
            summary=run.summary.with_values(n_left_out=0),
            whole_run=run,
            notes=notes,
        )
        parts.append(part)
    return parts


def _shortest_first(kind: str) -> tuple[int, str]:
    """A sort key that puts "2" before "10": by length, then by text."""
    return len(kind), kind


def _criteria_with_kinds(runs: Sequence[StoredRun]) -> list[str]:
    """The criteria of CRITERIA by which at least one question of the runs has a kind."""
    criteria = []
    for criterion in CRITERIA:
        kinds_found: set[str | None] = set()
        for run in runs:
            kinds_found.update(kinds_by_criterion(run, [criterion])[criterion])
        if kinds_found - {None}:
            criteria.append(criterion)
    return criteria
