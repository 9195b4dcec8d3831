"""JSON inside a page that is unpacked only when it is read (templates/page.js): compressed, as
base64.

zlib's format is what a browser's DecompressionStream calls "deflate".
"""

import base64
import json
import zlib
from typing import Any

_ZLIB_LEVEL = 6  # 9 takes three times as long for 1 % less


def compress_json(value: Any) -> str:
    """`value` as JSON, compressed, in base64. Raises ValueError for NaN, which JSON does not
    have."""
    return compress_bytes(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())


def compress_bytes(content: bytes) -> str:
    """`content` compressed, in base64."""
    return base64.b64encode(zlib.compress(content, _ZLIB_LEVEL)).decode()


def without_empty(**values: Any) -> dict[str, Any]:
    """The arguments that are not empty, as a mapping; 0 is not empty: it is a number of a node or
    of tokens."""
    return {name: value for name, value in values.items() if not _is_empty(value)}


def _is_empty(value: Any) -> bool:
    """Whether a value is None, False, or nothing of a text, list or mapping."""
    # Not `value in (None, "", False, {})`: 0 is equal to False.
    return value is None or value is False or value in ("", {}, [])


def cut_text(text: str, longest: int, whole: int | None = None) -> str:
    """`text` cut to `longest` characters and then followed by its length; whole: that length, if
    `text` is a start."""
    if whole is None:
        whole = len(text)
    if whole <= longest:
        return text
    return f"{text[:longest]} … ({whole} characters)"
