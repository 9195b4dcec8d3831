"""A zip file that others made, read without harm; and one whose bytes depend on its contents alone.

    write_zip(path, {"runs/musique/bm25--.../run.yaml": b"..."})     sorted names, one fixed time
    read_zip(path)                                                   names and bytes, all checks passed

Nothing is unpacked by the names in the file. Refused with a sentence: names that lead out of a folder, links,
passwords, the same name twice, and more than the limits below, which a small file can stand for (a zip bomb).
"""

from __future__ import annotations

import io
import re
import stat
import zipfile
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.errors import DataError
from harness.storage.files import write_atomic

LARGEST = 2**30
"""Bytes that all files of a bundle may have together."""
MOST = 20_000
"""Files that a bundle may have."""
DENSEST = 200
"""Times that a file over 1 MiB may be larger than its part of the bundle. JSON of answers is 3 to 20."""
_TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip file can hold
_NAME = re.compile(r"[^/\\\x00-\x1f\x7f:]{1,255}(/[^/\\\x00-\x1f\x7f:]{1,255})*")


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """The zip file of `files`: the same files are the same bytes, with one version of zlib."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system, entry.external_attr = 3, (stat.S_IFREG | 0o644) << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, files[name], compresslevel=6)
    return held.getvalue()


def write_zip(path: Path, files: Mapping[str, bytes]) -> None:
    """Write `zip_bytes` to `path` in one step. Raises SaveError."""
    write_atomic(path, zip_bytes(files))


def read_zip(path: Path, damaged: list[str]) -> dict[str, bytes]:
    """The files of a bundle by name; the names of those whose bytes are damaged go to `damaged`.

    Raises DataError for what is no zip file, or must not be read.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            for problem in _problems(entries):
                raise DataError(path, None, None, f"{problem}; such a bundle is not read")
            return {entry.filename: _bytes(archive, entry, damaged) for entry in entries if not entry.is_dir()}
    except FileNotFoundError:
        raise DataError(path, None, None, "there is no such file") from None
    except (zipfile.BadZipFile, zipfile.LargeZipFile, OSError, EOFError, ValueError, NotImplementedError) as error:
        raise DataError(path, None, None, f"no zip file that can be read ({error})") from None


def _problems(entries: Iterable[zipfile.ZipInfo]) -> Iterable[str]:
    """Why these must not be read, from their heads alone."""
    seen: set[str] = set()
    total = 0
    for entry in entries:
        name = entry.filename
        total += entry.file_size
        if not _NAME.fullmatch(name.removesuffix("/")) or {".", ".."} & set(name.split("/")):
            yield f"the name {name[:80]!r} leads to another place"
        if stat.S_IFMT(entry.external_attr >> 16) not in (0, stat.S_IFREG, stat.S_IFDIR):
            yield f"'{name}' is a link or no plain file"
        if entry.flag_bits & 1:
            yield f"'{name}' has a password"
        if name.casefold() in seen:
            yield f"'{name}' is in it twice"
        if entry.file_size > max(2**20, DENSEST * entry.compress_size):
            yield f"'{name}' would be {entry.file_size:,} bytes out of {entry.compress_size:,}"
        seen.add(name.casefold())
        if len(seen) > MOST:
            yield f"it has more than {MOST:,} files"
    if total > LARGEST:
        yield f"its files have {total:,} bytes, more than {LARGEST:,}"


def _bytes(archive: zipfile.ZipFile, entry: zipfile.ZipInfo, damaged: list[str]) -> bytes:
    """The content; where its checksum does not fit, as much of it as can be read."""
    held = bytearray()
    try:
        with archive.open(entry) as file:
            while block := file.read(2**16):
                held += block
                if len(held) > entry.file_size:  # the head said less
                    raise zipfile.BadZipFile("longer than its head says")
    except (zipfile.BadZipFile, zlib.error, EOFError):
        damaged.append(entry.filename)
    return bytes(held)
