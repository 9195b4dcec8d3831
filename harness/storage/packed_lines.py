"""Compressed JSON lines that survive a kill: each append is one gzip member, so `zcat` and pandas read the file.

append_packed(fd, path, rows)          one member, on disk when it returns; a failed write is cut off again
read_packed(path, field, notes)        every object; a torn last member is left out and reported in `notes`
cut_torn_member(path)                  cut a torn last member off, and report it

A member is handed on only after its checksum fits. The member at the end may be torn: it stops early, or what follows
its start is no gzip data and no further member comes. Any other damage raises DataError.
"""

import gzip
import os
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from harness.errors import DataError
from harness.storage.files import save_error
from harness.storage.json_lines import append_line, json_line
from harness.storage.read_files import as_object

_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00"  # how every member of ours begins: no name, no time
_CHUNK = 1 << 20


class _Torn(Exception):
    """The file ends inside the member that begins at `offset`."""

    def __init__(self, offset: int) -> None:
        super().__init__(offset)
        self.offset = offset


def append_packed(fd: int, path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Append the rows to the open file `fd` as one gzip member, synced. Raises SaveError, naming `path`."""
    append_line(fd, path, gzip.compress(b"".join(map(json_line, rows)), mtime=0))


def read_packed(path: Path, field: str, notes: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """Yield the JSON object of every line; a missing file has none. notes: gets a sentence for a torn last member.

    Raises DataError for damage before the last member, or a line that is no object with a text `field`; OSError
    where the file cannot be read.
    """
    if not path.exists():
        return
    with open(path, "rb") as file:
        try:
            for offset, member in _members(path, file):
                yield from _parse_member(path, offset, member, field)
        except _Torn:
            if notes is not None:
                notes.append(f"{path.name}: the last part is torn and left out")


def cut_torn_member(path: Path) -> str | None:
    """Cut a torn last member off `path` and return a sentence about it; None when the file was whole or is missing.

    Raises DataError for other damage, SaveError when the file cannot be changed.
    """
    if not path.exists():
        return None
    try:
        with open(path, "r+b") as file:
            try:
                for _ in _members(path, file):
                    pass
            except _Torn as torn:
                size = file.seek(0, os.SEEK_END)
                file.truncate(torn.offset)
                os.fsync(file.fileno())
                return f"{path.name}: the last part was torn; repaired by cutting {size - torn.offset} bytes"
    except OSError as error:
        raise save_error(path, error) from error
    return None


def _members(path: Path, file: IO[bytes]) -> Iterator[tuple[int, bytes]]:
    """Yield (offset, unpacked content) of every member. Raises _Torn where the last one is not complete."""
    start, data = 0, b""
    while data := data or file.read(_CHUNK):
        unpacker, pieces, used = zlib.decompressobj(wbits=31), [], 0
        while not unpacker.eof:
            if not data and not (data := file.read(_CHUNK)):
                raise _Torn(start)
            try:
                pieces.append(unpacker.decompress(data))
            except zlib.error as error:
                if not _member_after(file, start):
                    raise _Torn(start) from None
                raise _damaged(path, start, str(error)) from None
            left = unpacker.unused_data
            used, data = used + len(data) - len(left), left
        yield start, b"".join(pieces)
        start += used


def _member_after(file: IO[bytes], start: int) -> bool:
    """Whether another member begins after the byte `start`."""
    file.seek(start + 1)
    before = b""
    while piece := file.read(_CHUNK):
        if _HEAD in before + piece:
            return True
        before = piece[-len(_HEAD) :]
    return False


def _parse_member(path: Path, offset: int, member: bytes, field: str) -> Iterator[dict[str, Any]]:
    """Yield the object of each line of an unpacked member; offset: where it begins in the file. Raises DataError."""
    for line in member.split(b"\n")[:-1]:
        try:
            value = as_object(line)
        except ValueError as error:
            raise _damaged(path, offset, f"not valid JSON: {error}") from None
        if not isinstance(value.get(field), str):
            raise _damaged(path, offset, f"not an object with a '{field}'")
        yield value


def _damaged(path: Path, offset: int, problem: str) -> DataError:
    return DataError(path, None, None, f"damaged at byte {offset} ({problem}); remove it to go on without its texts")
