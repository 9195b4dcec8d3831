"""Columns of a run's records as arrays of an .npz file, and back.

    np.savez(file, **to_arrays(columns))
    from_arrays(np.load(file)) == columns

Texts and names are JSON in arrays of bytes. Runs with the same questions share one tuple of ids.
"""

import functools
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from harness.storage.record_columns import Floats, RecordColumns, SearchSummary, SharedValues

Arrays = Mapping[str, NDArray[Any]]


def to_arrays(columns: RecordColumns) -> dict[str, NDArray[Any]]:
    """The columns of a run's records as arrays by name, for np.savez.

    Names and other values that are no numbers are JSON in arrays of bytes. The columns of scores,
    phases and costs are stacked, and "names" holds what each row of the stack is.
    """
    names = {
        "scores": list(columns.scores),
        "phases": list(columns.phases),
        "usage": list(columns.usage),
        "usage_keys": sorted(columns.usage_keys),
    }
    return {
        "names": json_to_bytes(names),
        "ids": json_to_bytes(columns.ids),
        "clusters": columns.clusters,
        "failed": columns.failed,
        "truncated": columns.truncated,
        "scores": _stack_columns(columns.scores.values(), len(columns)),
        "phases": _stack_columns(columns.phases.values(), len(columns)).astype(bool),
        "usage": _stack_columns(columns.usage.values(), len(columns)),
        # each distinct value once, and for each record the place of its own
        "documents": json_to_bytes(columns.documents.values),
        "documents_of": columns.documents.positions,
        "notes": json_to_bytes(columns.notes.values),
        "notes_of": columns.notes.positions,
        "searches": json_to_bytes(list(map(_search_json, columns.searches.values))),
        "searches_of": columns.searches.positions,
    }


def from_arrays(arrays: Arrays) -> RecordColumns:
    """The columns that `to_arrays` made arrays of: numbers as they are, names and other values from
    JSON in arrays of bytes.

    Of documents, notes and searches, each distinct value is stored once; the array "..._of" holds
    the place of each record's own.

    Raises:
        KeyError: An array is missing.
        ValueError: An array holds something else.
    """
    names = json_from_bytes(arrays["names"])
    # JSON has made lists of tuples
    documents = [tuple(document_ids) for document_ids in json_from_bytes(arrays["documents"])]
    searches = [_parse_search(search) for search in json_from_bytes(arrays["searches"])]
    paths = [tuple(path) for path in names["usage"]]
    return RecordColumns(
        ids=_shared_ids(arrays["ids"].tobytes()),
        documents=SharedValues(documents, arrays["documents_of"]),
        clusters=arrays["clusters"],
        failed=arrays["failed"],
        truncated=arrays["truncated"],
        scores=dict(zip(names["scores"], arrays["scores"], strict=True)),
        phases=dict(zip(names["phases"], arrays["phases"], strict=True)),
        usage=dict(zip(paths, arrays["usage"], strict=True)),
        usage_keys=frozenset(names["usage_keys"]),
        notes=SharedValues(json_from_bytes(arrays["notes"]), arrays["notes_of"]),
        searches=SharedValues(searches, arrays["searches_of"]),
    )


def json_to_bytes(value: object) -> NDArray[np.uint8]:
    """A JSON value as an array of the bytes of its text, for an .npz file."""
    return np.frombuffer(json.dumps(value).encode(), dtype=np.uint8)


def json_from_bytes(array: NDArray[Any]) -> Any:
    """The JSON value in an array that `json_to_bytes` made."""
    return json.loads(array.tobytes())


def _stack_columns(columns: Iterable[NDArray[Any]], n_records: int) -> Floats:
    """The columns as the rows of one array of floats, of the shape (columns, records).

    Args:
        columns: Arrays of one number a record.
        n_records: The number of records, also where there is no column.
    """
    rows = list(columns)
    if not rows:
        return np.zeros((0, n_records))
    return cast(Floats, np.stack(rows).astype(np.float64))


def _search_json(search: SearchSummary | None) -> dict[str, object] | None:
    """A summary of a search as JSON values; None for a question without a search."""
    if search is None:
        return None
    return asdict(search)


def _parse_search(values: dict[str, Any] | None) -> SearchSummary | None:
    """The summary of a search from its JSON values; None for a question without a search."""
    if values is None:
        return None
    return SearchSummary(**values)


@functools.lru_cache(maxsize=256)
def _shared_ids(text: bytes) -> tuple[str, ...]:
    """The question ids in a JSON text; the same tuple for the same text, so that runs share it."""
    return tuple(json.loads(text))
