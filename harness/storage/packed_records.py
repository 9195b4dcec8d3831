"""Many records in little memory: a million without their texts take 25 to 100 MB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

from harness.storage.packed import Packed
from harness.storage.records import StoredRecord

_NAMES = tuple(field.name for field in fields(StoredRecord))
_values_of = attrgetter(*_NAMES)


class PackedRecords(Sequence[StoredRecord]):
    """Records that are appended, and made anew at each access; a slice makes all."""

    def __init__(self, records: Iterable[StoredRecord] = ()) -> None:
        """Begin with `records`, packed without the names of their fields."""
        self._packed = Packed(map(_values_of, records))

    def append(self, record: StoredRecord) -> None:
        """Add a record at the end, packed without the names of its fields."""
        self._packed.append(_values_of(record))

    def replace(self, changes: Mapping[int, StoredRecord]) -> None:
        """Put other records at positions: {3: record} replaces the fourth one."""
        self._packed.replace({place: _values_of(record) for place, record in changes.items()})

    def __len__(self) -> int:
        """How many records there are."""
        return len(self._packed)

    def __iter__(self) -> Iterator[StoredRecord]:
        """Make and yield one record after the other."""
        return map(_record, self._packed)

    def __getitem__(self, at: Any) -> Any:
        """The record at a position, or the list of records of a slice, made now."""
        found = self._packed[at]
        if isinstance(at, slice):
            return [_record(values) for values in found]
        return _record(found)


def _record(values: Sequence[Any]) -> StoredRecord:
    """Make a record of the values of all its fields, in the order of the fields."""
    return StoredRecord(**dict(zip(_NAMES, values, strict=True)))
