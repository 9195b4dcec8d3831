"""Values as JSON and arrays, never pickle: what an index or a record may hold.

    dump({"levels": [1, 2], "vectors": array})
        -> {"levels": [1, 2], "vectors": {"__array__": "0"}} as JSON, and an npz file with {"0":
        array}

`dump` and `load` are exact inverses, but for tuples (lists afterwards) and NumPy scalars
(Python's). Everything else is refused; the error names its place.
"""

import io
import json
import math
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

_ARRAY, _FLOAT = "__array__", "__float__"


def _plain(value: Any, at: str, other: Callable[[Any, str], Any]) -> Any:
    """`value` as JSON values; other(value, place) converts floats and what JSON has no form for.
    at: its place."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(v, f"{at}[{i}]", other) for i, v in enumerate(value)]
    if not isinstance(value, dict):
        return other(value, at)
    for key in value:
        if not isinstance(key, str):  # JSON turns 1 into "1", so a cached index would differ
            raise TypeError(f"{at} has the key {key!r}; keys must be strings")
        if key in (_ARRAY, _FLOAT):
            raise TypeError(f"{at} has the key {key!r}, which is reserved")
    return {k: _plain(v, f"{at}.{k}" if at else k, other) for k, v in value.items()}


def dump(value: Any) -> tuple[bytes, bytes]:
    """Serialise `value` to UTF-8 JSON and an npz file (empty where it has no array); equal values
    give equal bytes.

    Raises TypeError naming the place of what cannot be held.
    """
    arrays: dict[str, np.ndarray] = {}

    def pack(value: Any, at: str) -> Any:
        """Replace an array or a number that is not finite by what JSON can hold."""
        if isinstance(value, float):
            return value if math.isfinite(value) else {_FLOAT: repr(value)}
        if not isinstance(value, np.ndarray):
            raise TypeError(
                f"{at} is a {type(value).__name__}; an index holds JSON values and NumPy arrays "
                "only"
            )
        if value.dtype.hasobject:
            raise TypeError(f"{at} is an array of Python objects; use numbers or strings")
        arrays[name := str(len(arrays))] = value
        return {_ARRAY: name}

    data = _plain(value, "index", pack)
    buffer = io.BytesIO()
    if arrays:
        # The stubs let a caller's name collide with savez's own keyword; ours are digits.
        np.savez(buffer, **arrays)  # type: ignore[arg-type]
    return json.dumps(data, allow_nan=False).encode(), buffer.getvalue()


def load(data: bytes, arrays: bytes) -> Any:
    """The inverse of `dump`; each call returns a fresh copy."""
    named: dict[str, np.ndarray] = {}
    if arrays:
        with np.load(io.BytesIO(arrays), allow_pickle=False) as file:
            named = {name: file[name] for name in file.files}

    def unpack(mapping: dict[str, Any]) -> Any:
        """The array or number that a mapping stands for; any other mapping as it is."""
        if _ARRAY in mapping:
            return named[mapping[_ARRAY]]
        return float(mapping[_FLOAT]) if _FLOAT in mapping else mapping

    return json.loads(data, object_hook=unpack)


def json_values(value: Any, lost: list[str]) -> Any:
    """Return `value` as strict JSON values: tuples become lists, dataclasses dicts, NaN and
    infinities None.

    lost: gets the places of NaN and infinities. Raises TypeError, naming the place, for what JSON
    cannot hold.
    """

    def convert(value: Any, at: str) -> Any:
        """Turn a dataclass into a mapping; a number that is not finite becomes None and is noted in
        `lost`."""
        if isinstance(value, float):
            if math.isfinite(value):
                return value
            lost.append(at)
            return None
        if is_dataclass(value) and not isinstance(value, type):
            return _plain({f.name: getattr(value, f.name) for f in fields(value)}, at, convert)
        raise TypeError(
            f"{at or 'the answer'} is a {type(value).__name__}; an answer holds JSON values only"
        )

    return _plain(value, "", convert)
