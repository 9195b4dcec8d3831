"""Limits on what a file or a server may make this program hold; each is checked while the bytes are read.

| limit                                                       | default | environment variable     |
|-------------------------------------------------------------|---------|--------------------------|
| MiB of one line                                             |     256 | HARNESS_MAX_LINE_MIB     |
| unpacked bytes for each packed byte, beyond the first 16 MiB |    200 | HARNESS_MAX_RATIO        |
| levels of lists and mappings inside each other              |     100 | HARNESS_MAX_DEPTH        |
| values of a YAML file, aliases counted where they are used  | 1000000 | HARNESS_MAX_VALUES       |
| lists and objects of one JSON line, each of which takes 64  |         |                          |
| bytes and more of memory                                    |         |                          |

Text compresses about 4:1, HTML up to 20:1; DEFLATE cannot exceed 1032:1, and only files made for it come near.
"""

import io
import os
from collections.abc import Iterator
from typing import IO, Any, cast

from harness.errors import DataError, UserError

_DEFAULTS = {"LINE_MIB": 256, "RATIO": 200, "DEPTH": 100, "VALUES": 1_000_000}
_FREE = 16 << 20  # unpacked bytes before the ratio counts


def limit(name: str) -> int:
    """The limit `name` (of the table, without HARNESS_MAX_). Raises UserError for a variable that is no number."""
    text = os.environ.get(f"HARNESS_MAX_{name}", "").strip()
    if not text:
        return _DEFAULTS[name]
    if not (text.isascii() and text.isdigit() and 0 < len(text) < 12 and int(text) > 0):
        raise UserError(f"the environment variable HARNESS_MAX_{name} must be a positive whole number, not '{text}'")
    return int(text)


def _how_to_raise(name: str) -> str:
    return f"if you trust the file, raise the limit with: export HARNESS_MAX_{name}=..."


def nesting_problem() -> str:
    """The error message for a value that is `too_deep`."""
    return f"nested more than {limit('DEPTH')} levels deep; {_how_to_raise('DEPTH')}"


def many_problem(brackets: int) -> str | None:
    """The error message for a JSON line with so many opening brackets; None where they are not too many."""
    if brackets <= (most := limit("VALUES")):
        return None
    return f"holds {brackets:,} lists and objects, more than {most:,}; {_how_to_raise('VALUES')}"


def too_deep(value: Any, brackets: int | None = None) -> bool:
    """Whether lists and mappings lie in each other more than HARNESS_MAX_DEPTH levels deep.

    brackets: how many opening brackets its text has, which saves the walk over a value that has few.
    """
    if brackets is not None and brackets <= limit("DEPTH"):
        return False
    level = [value] if isinstance(value, (dict, list)) else []
    for _ in range(limit("DEPTH")):
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, (dict, list))
        ]
        if not level:
            return False
    return True


def numbered_lines(name: str, stream: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (number from 1, line) of the file `name`. Raises DataError for a line beyond HARNESS_MAX_LINE_MIB."""
    max_bytes = limit("LINE_MIB") << 20
    number = 0
    while line := stream.readline(max_bytes + 1):
        number += 1
        if len(line) > max_bytes:
            raise DataError(name, number, None, f"longer than {max_bytes >> 20} MiB; {_how_to_raise('LINE_MIB')}")
        yield number, line


def check_ratio(name: str, unpacked_bytes: int, packed_bytes: int) -> None:
    """Raise DataError, naming the file `name`, where it unpacks to more than HARNESS_MAX_RATIO times its size."""
    if unpacked_bytes > _FREE and unpacked_bytes > (ratio := limit("RATIO")) * packed_bytes:
        raise DataError(name, None, None, f"unpacks to more than {ratio} times its size; {_how_to_raise('RATIO')}")


class _RatioChecked(io.RawIOBase):
    """A stream of unpacked bytes that checks their ratio to the packed bytes at every read."""

    def __init__(self, stream: IO[bytes], packed: IO[bytes], name: str) -> None:
        self._stream, self._packed, self._name = stream, packed, name
        self._start = packed.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: Any) -> int:
        piece = self._stream.read(len(buffer))
        buffer[: len(piece)] = piece
        check_ratio(self._name, self._stream.tell(), self._packed.tell() - self._start)
        return len(piece)


def ratio_checked(stream: IO[bytes], packed: IO[bytes], name: str) -> IO[bytes]:
    """Buffer `stream`, which unpacks `packed`; reading beyond HARNESS_MAX_RATIO raises DataError, naming `name`."""
    return cast("IO[bytes]", io.BufferedReader(_RatioChecked(stream, packed, name), 1 << 16))


def yaml_problem(text: str | bytes) -> str | None:
    """The problem of a YAML text that nests too deep or whose aliases expand to too many values; None if it has none.

    Raises yaml.YAMLError. The parser's events come one by one; building the values recurses, in C, without a limit.
    """
    import yaml

    max_values, max_depth = limit("VALUES"), limit("DEPTH")
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    values = 0
    for event in yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        if isinstance(event, yaml.CollectionStartEvent):
            open_.append((event.anchor, values))
        elif isinstance(event, yaml.CollectionEndEvent):
            anchor, before = open_.pop()
            if anchor is not None:
                sizes[anchor] = values - before
        values += sizes.get(str(event.anchor), 1) if isinstance(event, yaml.AliasEvent) else 1
        if len(open_) > max_depth:
            return nesting_problem()
        if values > max_values:
            return f"its aliases stand for more than {max_values:,} values; {_how_to_raise('VALUES')}"
    return None
