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
from typing import Any, NamedTuple

import numpy as np

# {"__array__": "0"} stands for the array of this name, {"__float__": "inf"} for this number.
_ARRAY_KEY = "__array__"
_FLOAT_KEY = "__float__"


ConvertOther = Callable[[object, str], object]
"""Converts a value that is no JSON value, and floats; the text says where the value is:
"index.levels[2]"."""


class SerialisedValue(NamedTuple):
    """A value as two files: UTF-8 JSON, and an npz file of its arrays (b"" where it has none)."""

    data: bytes
    arrays: bytes


def _to_json_values(value: Any, where: str, convert_other: ConvertOther) -> Any:
    """Turn a value into JSON values: tuples become lists, NumPy scalars Python's numbers.

    Args:
        value: Lists, tuples, mappings and plain values, at any depth.
        where: Where the value is, for errors: "index.levels[2]".
        convert_other: Called with (value, where it is) for each float and each value that JSON has
            no form for; returns what stands for it, or raises TypeError.

    Raises:
        TypeError: A key is no text, or is reserved; whatever `convert_other` raises.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [
            _to_json_values(item, f"{where}[{position}]", convert_other)
            for position, item in enumerate(value)
        ]
    if not isinstance(value, dict):
        return convert_other(value, where)
    _check_keys(value, where)
    prefix = ""
    if where:
        prefix = f"{where}."
    converted: dict[str, Any] = {}
    for key, inner in value.items():
        converted[key] = _to_json_values(inner, f"{prefix}{key}", convert_other)
    return converted


def _check_keys(mapping: Mapping[object, object], where: str) -> None:
    """Raise TypeError for a key that is no text, or that marks an array or a float ("__array__").

    Args:
        mapping: The mapping with the keys.
        where: Where it is, for the message: "index.levels[2]".
    """
    for key in mapping:
        if not isinstance(key, str):  # JSON turns 1 into "1", so a cached index would differ
            raise TypeError(f"{where} has the key {key!r}; keys must be strings")
        if key in (_ARRAY_KEY, _FLOAT_KEY):
            raise TypeError(f"{where} has the key {key!r}, which is reserved")


def dump(value: Any) -> SerialisedValue:
    """Serialise a value of JSON values and NumPy arrays.

    Equal values give equal bytes. Raises TypeError, which says where it is, for anything else in
    the value.
    """
    arrays: dict[str, np.ndarray] = {}

    def replace_array_or_float(value: object, where: str) -> object:
        """Replace an array or a number that is not finite by what JSON can hold;
        also puts an array into `arrays`.
        """
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            return {_FLOAT_KEY: repr(value)}
        if not isinstance(value, np.ndarray):
            raise TypeError(
                f"{where} is a {type(value).__name__}; an index holds JSON values and NumPy arrays "
                "only"
            )
        if value.dtype.hasobject:
            raise TypeError(f"{where} is an array of Python objects; use numbers or strings")
        name = str(len(arrays))
        arrays[name] = value
        return {_ARRAY_KEY: name}

    data = _to_json_values(value, "index", replace_array_or_float)
    buffer = io.BytesIO()
    if arrays:
        # The stubs let a caller's name collide with savez's own keyword; ours are digits.
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return SerialisedValue(json.dumps(data, allow_nan=False).encode(), buffer.getvalue())


def load(data: bytes, arrays: bytes) -> Any:
    """Parse the two parts of a SerialisedValue. Each call returns a fresh copy of the value.

    Args:
        data: UTF-8 JSON.
        arrays: An npz file, or b"" where the value has no array.
    """
    arrays_by_name: dict[str, np.ndarray] = {}
    if arrays:
        with np.load(io.BytesIO(arrays), allow_pickle=False) as file:
            arrays_by_name = {name: file[name] for name in file.files}

    def array_or_float(mapping: dict[str, object]) -> object:
        """The array or number that a parsed mapping stands for; any other mapping as it is."""
        if _ARRAY_KEY in mapping:
            return arrays_by_name[str(mapping[_ARRAY_KEY])]
        if _FLOAT_KEY in mapping:
            return float(str(mapping[_FLOAT_KEY]))
        return mapping

    return json.loads(data, object_hook=array_or_float)


def json_values(value: Any, not_finite: list[str]) -> Any:
    """Turn a value into strict JSON values: tuples become lists, dataclasses dicts, NaN None.

        Answer("Rome", (Shown(...),)) -> {"text": "Rome", "shown": [{...}], ...}

    Args:
        value: Dataclasses, lists, tuples, mappings and plain values, at any depth.
        not_finite: Where each NaN or infinity is, such as "steps[2].p_yes", is added to it.

    Raises:
        TypeError: JSON cannot hold something; the message says where it is.
    """

    def convert(value: object, where: str) -> object:
        """Turn a dataclass into JSON values, and a float that is not finite into None, which is
        noted in `not_finite`. Raises TypeError for anything else.
        """
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            not_finite.append(where)
            return None
        if is_dataclass(value) and not isinstance(value, type):
            by_name = {field.name: getattr(value, field.name) for field in fields(value)}
            return _to_json_values(by_name, where, convert)
        raise TypeError(
            f"{where or 'the answer'} is a {type(value).__name__}; an answer holds JSON values only"
        )

    return _to_json_values(value, where="", convert_other=convert)
