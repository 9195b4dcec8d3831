"""Many records in little memory: a million without their texts take 25 to 100 MB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from harness.storage.packed import Packed
from harness.storage.records import StoredRecord

_FIELD_NAMES = tuple(field.name for field in fields(StoredRecord))
_field_values = attrgetter(*_FIELD_NAMES)


class PackedRecords(Sequence[StoredRecord]):
    """Records that are appended, and made anew at each access; a slice makes all."""

    def __init__(self, records: Iterable[StoredRecord] = ()) -> None:
        """Begin with `records`, packed without the names of their fields."""
        self._packed = Packed(map(_field_values, records))

    def append(self, record: StoredRecord) -> None:
        """Add a record at the end, packed without the names of its fields."""
        self._packed.append(_field_values(record))

    def replace(self, changes: Mapping[int, StoredRecord]) -> None:
        """Put other records at positions: {3: record} replaces the fourth one."""
        self._packed.replace(
            {position: _field_values(record) for position, record in changes.items()}
        )

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._packed)

    def __iter__(self) -> Iterator[StoredRecord]:
        """Make and yield one record after the other."""
        return map(_make_record, self._packed)

    def __getitem__(self, position_or_slice: Any) -> Any:
        """The record at a position, or the list of records of a slice, made now."""
        if isinstance(position_or_slice, slice):
            return [_make_record(values) for values in self._packed[position_or_slice]]
        return _make_record(self._packed[position_or_slice])


def _make_record(values: Sequence[Any]) -> StoredRecord:
    """Make a record of the values of all its fields, in the order of the fields."""
    return StoredRecord(**dict(zip(_FIELD_NAMES, values, strict=True)))
