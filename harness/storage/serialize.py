"""Values as JSON and arrays, never pickle: what an index or a record may hold.

    dump({"levels": [1, 2], "vectors": array})
        -> {"levels": [1, 2], "vectors": {"__array__": "0"}} as JSON, and an npz file with {"0": array}

`dump` and `load` are exact inverses, but for tuples (lists afterwards) and NumPy scalars
(Python's). Everything else is refused; the error names its place.
"""

import io
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_ARRAY, _FLOAT = "__array__", "__float__"


Other = Callable[[object, str], object]
"""Converts a value that is no JSON value, and floats; the text is its place: "index.levels[2]"."""


def _plain(value: Any, at: str, other: Other) -> Any:
    """Turn a value into JSON values: tuples become lists, NumPy scalars Python's numbers.

    Args:
        value: Lists, tuples, mappings and plain values, at any depth.
        at: Its place, for errors: "index.levels[2]".
        other: Called with (value, place) for each float and each value that JSON has no form for;
            returns what stands for it, or raises TypeError.

    Raises:
        TypeError: A key is no text, or is reserved; whatever `other` raises.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{at}[{place}]", other) for place, item in enumerate(value)]
    if not isinstance(value, dict):
        return other(value, at)
    _check_keys(value, at)
    prefix = f"{at}." if at else ""
    return {key: _plain(inner, f"{prefix}{key}", other) for key, inner in value.items()}


def _check_keys(mapping: Mapping[object, object], at: str) -> None:
    """Raise TypeError for a key that is no text, or that stands for an array or a float here.

    `at` is the mapping's place, for the message: "index.levels[2]".
    """
    for key in mapping:
        if not isinstance(key, str):  # JSON turns 1 into "1", so a cached index would differ
            raise TypeError(f"{at} has the key {key!r}; keys must be strings")
        if key in (_ARRAY, _FLOAT):
            raise TypeError(f"{at} has the key {key!r}, which is reserved")


def dump(value: Any) -> tuple[bytes, bytes]:
    """Serialise a value to (UTF-8 JSON, npz file); the second is b"" where it has no array.

    Equal values give equal bytes. Raises TypeError, naming the place, for what is
    neither JSON nor a NumPy array.
    """
    arrays: dict[str, np.ndarray] = {}

    def pack(value: object, at: str) -> object:
        """Replace an array or a number that is not finite by what JSON can hold;
        also puts an array into `arrays`.
        """
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            return {_FLOAT: repr(value)}
        if not isinstance(value, np.ndarray):
            raise TypeError(
                f"{at} is a {type(value).__name__}; an index holds JSON values and NumPy arrays "
                "only"
            )
        if value.dtype.hasobject:
            raise TypeError(f"{at} is an array of Python objects; use numbers or strings")
        name = str(len(arrays))
        arrays[name] = value
        return {_ARRAY: name}

    data = _plain(value, "index", pack)
    buffer = io.BytesIO()
    if arrays:
        # The stubs let a caller's name collide with savez's own keyword; ours are digits.
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return json.dumps(data, allow_nan=False).encode(), buffer.getvalue()


def load(data: bytes, arrays: bytes) -> Any:
    """Parse what `dump` made: (JSON, npz file or b""). Each call returns a fresh copy of the
    value.
    """
    named: dict[str, np.ndarray] = {}
    if arrays:
        with np.load(io.BytesIO(arrays), allow_pickle=False) as file:
            named = {name: file[name] for name in file.files}

    def unpack(mapping: dict[str, object]) -> object:
        """The array or number that a parsed mapping stands for; any other mapping as it is."""
        if _ARRAY in mapping:
            return named[str(mapping[_ARRAY])]
        if _FLOAT in mapping:
            return float(str(mapping[_FLOAT]))
        return mapping

    return json.loads(data, object_hook=unpack)


def json_values(value: Any, not_finite: list[str]) -> Any:
    """Turn a value into strict JSON values: tuples become lists, dataclasses dicts, NaN None.

        Answer("Rome", (Shown(...),)) -> {"text": "Rome", "shown": [{...}], ...}

    Args:
        value: Dataclasses, lists, tuples, mappings and plain values, at any depth.
        not_finite: The place of each NaN or infinity, such as "steps[2].p_yes", is added to it.

    Raises:
        TypeError: JSON cannot hold something; the message names its place.
    """

    def convert(value: object, at: str) -> object:
        """Turn a dataclass into JSON values, and a float that is not finite into None, which is
        noted in `not_finite`. Raises TypeError for anything else.
        """
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            not_finite.append(at)
            return None
        if is_dataclass(value) and not isinstance(value, type):
            by_name = {field.name: getattr(value, field.name) for field in fields(value)}
            return _plain(by_name, at, convert)
        raise TypeError(
            f"{at or 'the answer'} is a {type(value).__name__}; an answer holds JSON values only"
        )

    return _plain(value, "", convert)
