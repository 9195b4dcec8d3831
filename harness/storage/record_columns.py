"""What tables count of a run's records, a column each: records are read once, then arrays alone.

    columns = columns_of(records, "longbench")
    columns.scores["longbench-f1"]            array([1.0, 0.4, nan])      nan: the record has no such score
    columns.usage["search", "tokens_in"]      array([812.0, 790.0, nan])
    columns.notes.of_record(2)                       {"flags": {...}}

A million records with forty columns take 350 MB; texts are in none of them.
"""

from __future__ import annotations

import functools
import json
from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Generic, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from harness.cost.usage import Usage
from harness.stats.question_clusters import cluster_numbers
from harness.storage.record_notes import Notes
from harness.storage.records import StoredRecord, StoredStep

Floats = NDArray[np.float64]
CostPath = tuple[str, ...]
"""The place of a cost in a record's usage: ("search", "flops", "causal")."""
_Value = TypeVar("_Value")


@dataclass(frozen=True)
class SearchSummary:
    """What tables count of the steps of one search.

    Attributes:
        stop_reason: Why it ended; "" of a ranking, which visits no nodes.
        probes: How many steps have a P(Yes).
        ties: How many of these are 0.5.
        is_accepted: Whether a step is called "accept".
        is_declined: Whether a step is called "decline".
        notes: The notes of all steps, joined by spaces.
        nodes: A hash of the nodes that it visited; "" for none.
    """

    stop_reason: str
    probes: int
    ties: int
    is_accepted: bool
    is_declined: bool
    notes: str
    nodes: str


@dataclass(frozen=True)
class SharedValues(Generic[_Value]):
    """A value for each record, where many records share one.

    Attributes:
        values: Each different value once.
        positions: For each record, the position of its value in `values`; shape (records,).
    """

    values: list[_Value]
    positions: NDArray[np.int32]

    def of_record(self, record_position: int) -> _Value:
        """The value of the record at this position among the run's records."""
        return self.values[int(self.positions[record_position])]

    def count(self, is_true_of: Callable[[_Value], Any]) -> int:
        """Count the records for whose value `is_true_of` gives a true result."""
        return int(self.where(is_true_of).sum())

    def where(self, is_true_of: Callable[[_Value], Any]) -> NDArray[np.bool_]:
        """An array of shape (records,): whether `is_true_of` gives a true result for the record's
        value. It is called once for each different value.
        """
        true_of_values = np.array([bool(is_true_of(value)) for value in self.values], dtype=bool)
        return cast(NDArray[np.bool_], true_of_values[self.positions])

    def by_record(self) -> list[_Value]:
        """The value of each record, in the order of the records."""
        return [self.values[position] for position in self.positions.tolist()]


@dataclass(frozen=True)
class RecordColumns:
    """The numbers of a run's records; each array has shape (records,), in the order of the records.

    Attributes:
        ids: The question ids.
        documents: The document ids of each question.
        clusters: A number for each question, the same for those that are resampled together.
        failed: Whether the question failed.
        truncated: Whether its context was cut.
        scores: Name of a score -> its values, in the order in which records name them; nan where a
            record has none.
        phases: Phase ("search") -> whether a record has any cost of it.
        usage: Place of a cost ("search", "tokens_in") -> its values; nan where a record has none.
        usage_keys: The keys of all phases ("tokens_in"), also of those that hold nothing.
        notes: Flags of scorers, judgements and what methods note.
        searches: What is counted of a record's steps; None for a record without any.
    """

    ids: tuple[str, ...]
    documents: SharedValues[tuple[str, ...]]
    clusters: NDArray[np.int32]
    failed: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    scores: Mapping[str, Floats]
    phases: Mapping[str, NDArray[np.bool_]]
    usage: Mapping[CostPath, Floats]
    usage_keys: frozenset[str]
    notes: SharedValues[Notes]
    searches: SharedValues[SearchSummary | None]

    def __len__(self) -> int:
        """How many records there are."""
        return len(self.ids)

    @functools.cached_property
    def answered(self) -> NDArray[np.bool_]:
        """For each question, whether it did not fail."""
        return ~self.failed

    @functools.cached_property
    def id_set(self) -> frozenset[str]:
        """The question ids as a set, which runs with the same questions share."""
        return _shared_id_set(self.ids)

    def cost(self, *path: str) -> Floats:
        """Each record's cost at a place of the usage, 0 where it has none.

        cost("search", "tokens_in") -> array([812.0, 790.0, 0.0])
        """
        column = self.usage.get(path)
        if column is None:
            return np.zeros(len(self))
        return np.nan_to_num(column, nan=0.0)

    def has_cost(self, *path: str) -> NDArray[np.bool_]:
        """For each record, whether it has any cost at a place of the usage or below it.

        has_cost("search") is True of a record with ("search", "tokens_in").
        """
        has_any = np.zeros(len(self), dtype=bool)
        for path_of_column, column in self.usage.items():
            if path_of_column[: len(path)] == path:
                has_any |= ~np.isnan(column)
        return has_any

    def usage_sum(self, chosen_records: NDArray[np.bool_] | None = None) -> Usage:
        """Sum the costs of the records where `chosen_records` is True (of all by default).

        -> {"search": {"tokens_in": 1602, "tokens_out": 11}}; what no record has is left out.
        """
        total: Usage = {}
        for path, column in self.usage.items():
            is_summed = ~np.isnan(column)
            if chosen_records is not None:
                is_summed &= chosen_records
            if is_summed.any():
                _set_nested(cast(dict[str, object], total), path, _sum_in_order(column[is_summed]))
        return total

    def positions_of(self, ids: tuple[str, ...]) -> NDArray[np.int64]:
        """For each of `ids`, the position of that question's record; -1 for one without a
        record.
        """
        if ids == self.ids:
            return np.arange(len(ids))
        positions = {question_id: position for position, question_id in enumerate(self.ids)}
        return np.array([positions.get(question_id, -1) for question_id in ids], dtype=np.int64)


@functools.lru_cache(maxsize=256)
def _shared_id_set(ids: tuple[str, ...]) -> frozenset[str]:
    """The ids as a set; cached, so that runs with the same questions share one."""
    return frozenset(ids)


def _sum_in_order(values: Floats) -> float:
    """The sum of at least one value, added one after the other as a loop does; an int where it is
    whole.
    """
    total = float(np.add.accumulate(values)[-1])
    if total.is_integer():
        return int(total)
    return total


def _set_nested(mapping: dict[str, object], path: CostPath, value: float) -> None:
    """Set a value in nested mappings.

    _set_nested({}, ("search", "tokens_in"), 9) makes of {}: {"search": {"tokens_in": 9}}

    Args:
        mapping: The outermost mapping; it is changed.
        path: The keys that lead to the value; mappings that are missing are made.
        value: The value.
    """
    *outer_keys, last_key = path
    for outer_key in outer_keys:
        mapping = cast(dict[str, object], mapping.setdefault(outer_key, {}))
    mapping[last_key] = value


def columns_of(records: Iterable[StoredRecord], dataset_format: str) -> RecordColumns:
    """Turn records into columns of numbers; they are read once, in their order.

    Args:
        records: One a question.
        dataset_format: The format of their data set ("longbench"), which decides which questions
            are resampled together.
    """
    builder = ColumnsBuilder()
    for record in records:
        builder.add(record)
    return builder.finished(dataset_format)


class _SparseColumn:
    """The values of a column and the records that have them."""

    def __init__(self) -> None:
        """Begin without values: `values[i]` belongs to the record at position `positions[i]`."""
        self.values = array("d")
        self.positions = array("I")

    def add(self, position: int, value: float) -> None:
        """Add the value of the record at position `position`."""
        self.values.append(value)
        self.positions.append(position)

    def as_array(self, n_records: int) -> Floats:
        """An array of shape (n_records,): each record's value, nan for a record without one."""
        column = np.full(n_records, np.nan)
        column[np.frombuffer(self.positions, dtype=np.uint32)] = np.frombuffer(self.values)
        return column


class _DistinctValues(Generic[_Value]):
    """Collects a value for each record, each different one once."""

    def __init__(self) -> None:
        """Begin without values: `_positions[i]` is the position in `_values` of the i-th record's
        value, and `_position_by_key` finds that position by the value's key.
        """
        self._position_by_key: dict[Any, int] = {}
        self._values: list[_Value] = []
        self._positions = array("i")

    def add(self, value: _Value, key: Any = None) -> None:
        """Add the value of the next record.

        Args:
            value: The value.
            key: Stands for a value that cannot be hashed: equal for equal values. None: the value.
        """
        if key is None:
            key = value
        position = self._position_by_key.setdefault(key, len(self._values))
        if position == len(self._values):
            self._values.append(value)
        self._positions.append(position)

    def finished(self) -> SharedValues[_Value]:
        """The values of all records that were added."""
        return SharedValues(self._values, np.array(self._positions, dtype=np.int32))


class ColumnsBuilder:
    """Collects the columns of records, one record after the other."""

    def __init__(self) -> None:
        """Begin with empty columns, without a record.

        Of each record: its id, documents, state, scores, phases, costs, notes and searches; the
        searches are None for a record without steps.
        """
        self._ids: list[str] = []
        self._documents = _DistinctValues[tuple[str, ...]]()
        self._failed = array("b")
        self._truncated = array("b")
        self._scores: dict[str, _SparseColumn] = {}
        self._phases: dict[str, _SparseColumn] = {}
        self._usage: dict[CostPath, _SparseColumn] = {}
        self._usage_keys: set[str] = set()
        self._notes = _DistinctValues[Notes]()
        self._searches = _DistinctValues[SearchSummary | None]()

    def add(self, record: StoredRecord) -> None:
        """Add the next record's numbers to the columns."""
        position = len(self._ids)
        self._ids.append(record.question_id)
        self._documents.add(tuple(record.document_ids))
        self._failed.append(record.error is not None)
        self._truncated.append(record.truncated is not None)
        for name, score in record.scores.items():
            _get_or_add_column(self._scores, name).add(position, score)
        self._add_usage(position, record.usage)
        self._notes.add(record.notes, _hashable_notes(record.notes))
        searches = None
        if record.steps:
            searches = _search_summary(record)
        self._searches.add(searches)

    def _add_usage(self, position: int, usage: Usage) -> None:
        """Add what a record cost in each phase to the columns of costs.

        Args:
            position: The record's position, from 0.
            usage: Phase -> its costs; the column of a phase gets 1 for a record with any.
        """
        for phase, costs in usage.items():
            self._usage_keys.update(costs)
            if costs:
                _get_or_add_column(self._phases, phase).add(position, 1.0)
            self._add_costs(position, (phase,), costs)

    def _add_costs(self, position: int, path: CostPath, costs: Mapping[str, object]) -> None:
        """Add the numbers of nested costs to their columns.

        Args:
            position: The record's position, from 0.
            path: The keys that lead to `costs` in the usage: ("search",).
            costs: Numbers, or further mappings of them, by key.
        """
        for key, value in costs.items():
            if isinstance(value, dict):
                self._add_costs(position, (*path, key), value)
            elif isinstance(value, (int, float)):
                _get_or_add_column(self._usage, (*path, key)).add(position, value)

    def finished(self, dataset_format: str) -> RecordColumns:
        """Make the columns of all records that were added.

        Args:
            dataset_format: The format of the data set, which decides which questions are resampled
                together.
        """
        n_records = len(self._ids)
        documents = self._documents.finished()
        questions = zip(self._ids, documents.by_record(), strict=True)
        return RecordColumns(
            ids=tuple(self._ids),
            documents=documents,
            clusters=cluster_numbers(dataset_format, questions),
            failed=np.array(self._failed, dtype=bool),
            truncated=np.array(self._truncated, dtype=bool),
            scores={name: column.as_array(n_records) for name, column in self._scores.items()},
            phases={
                name: column.as_array(n_records) == 1.0 for name, column in self._phases.items()
            },
            usage={path: column.as_array(n_records) for path, column in self._usage.items()},
            usage_keys=frozenset(self._usage_keys),
            notes=self._notes.finished(),
            searches=self._searches.finished(),
        )


_Key = TypeVar("_Key")


def _get_or_add_column(columns: dict[_Key, _SparseColumn], key: _Key) -> _SparseColumn:
    """The column of a key; an empty one is added to `columns` the first time."""
    column = columns.get(key)
    if column is None:
        column = columns[key] = _SparseColumn()
    return column


def _hashable_notes(notes: Notes) -> str:
    """The notes as JSON, which is equal for equal notes and can be hashed, as they cannot."""
    if not notes:  # most records have none: this is quicker
        return "{}"
    return json.dumps(notes)


def _search_summary(record: StoredRecord) -> SearchSummary:
    """Count in a record's steps what tables show of a search.

    A record whose steps all rank passages ("retrieve") visited no nodes, so it has no stop reason.
    """
    actions = {step.get("action") for step in record.steps}
    p_yes_of_steps = [step.get("p_yes") for step in record.steps]
    stop_reason = record.stop_reason
    if actions == {"retrieve"}:
        stop_reason = ""
    return SearchSummary(
        stop_reason=stop_reason,
        probes=len(p_yes_of_steps) - p_yes_of_steps.count(None),
        ties=p_yes_of_steps.count(0.5),
        is_accepted="accept" in actions,
        is_declined="decline" in actions,
        notes=" ".join(step.get("note") or "" for step in record.steps),
        nodes=_nodes_hash(record.steps),
    )


def _nodes_hash(steps: Sequence[StoredStep]) -> str:
    """Hash which nodes a search visited, in any order; "" where it visited none.

    A node is its number, level and tokens, as graphs may differ.
    """
    nodes = set()
    for step in steps:
        if step.get("node") is not None:
            nodes.add(repr((step["node"], step["level"], step["tokens"])))
    if not nodes:
        return ""
    text = "\n".join(sorted(nodes))
    return blake2b(text.encode(), digest_size=8).hexdigest()
