"""JSON inside a page that is unpacked only when it is read (templates/page.js): compressed, as
base64.

zlib's format is what a browser's DecompressionStream calls "deflate".
"""

import base64
import json
import zlib

_ZLIB_LEVEL = 6  # 9 takes three times as long for 1 % less


def compress_json(value: object) -> str:
    """A value as JSON, compressed with zlib, in base64.

    Raises:
        ValueError: It holds NaN, which JSON does not have.
    """
    return compress_bytes(json.dumps(value, allow_nan=False, separators=(",", ":")).encode())


def compress_bytes(content: bytes) -> str:
    """Bytes compressed with zlib, in base64."""
    return base64.b64encode(zlib.compress(content, _ZLIB_LEVEL)).decode()


def without_empty(**values: object) -> dict[str, object]:
    """The arguments that are not empty, as a mapping; 0 is kept, as a number of a node or of
    tokens.

        >>> without_empty(node=0, note="", steps=[])
        {'node': 0}
    """
    return {name: value for name, value in values.items() if not _is_empty(value)}


def _is_empty(value: object) -> bool:
    """Whether a value is None, False, or an empty text, list or mapping; 0 is not empty."""
    # Not `value in (None, "", False, {})`: 0 is equal to False.
    return value is None or value is False or value in ("", {}, [])


def cut_text(text: str, max_characters: int, n_characters: int | None = None) -> str:
    """A text cut to `max_characters` characters, followed by its length where it was cut.

        ("abcdef", 3)       -> "abc … (6 characters)"

    Args:
        text: The text, or the start of it.
        max_characters: Characters that are shown.
        n_characters: The length of the whole text, where `text` is its start.
    """
    if n_characters is None:
        n_characters = len(text)
    if n_characters <= max_characters:
        return text
    return f"{text[:max_characters]} … ({n_characters} characters)"
