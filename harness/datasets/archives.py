"""Files in zip and tar archives and gzip files, as streams of bytes.

    member_names(Path("qasper-test-and-evaluator-v0.3.tgz"))      ["qasper-test-v0.3.json", "qasper_evaluator.py"]
    with opened(Member(archive, "qasper-test-v0.3.json")) as stream: ...

Nothing is unpacked to the disk. A tar archive has no directory: each look into it reads it from its
start.
"""

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, cast

from harness.errors import DataError

ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz")
_Stream = IO[bytes]
_BAD_GZIP = (EOFError, zlib.error, gzip.BadGzipFile)
# What is raised for a damaged archive, one without the file, one that is encrypted, and one that is
# packed by an unknown method.
_BAD_ARCHIVE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    KeyError,
    RuntimeError,
    NotImplementedError,
)
GZIP_MAGIC = b"\x1f\x8b"  # no text begins so


@dataclass(frozen=True, slots=True)
class Member:
    """A file inside a zip or tar archive."""

    archive: Path
    name: str

    def __str__(self) -> str:
        """The name in messages, "ARCHIVE/FILE"."""
        return f"{self.archive.name}/{self.name}"


def is_archive(file_name: str) -> bool:
    """Whether a file's name says that it is a zip or tar archive: "a.tgz" -> True."""
    return file_name.lower().endswith(ARCHIVES)


def _is_zip(archive: Path) -> bool:
    """Whether an archive's name says that it is a zip archive; else it is a tar archive."""
    return archive.name.lower().endswith(".zip")


def _unreadable_archive(shown_name: str, archive: Path, error: Exception) -> DataError:
    """Make the error for an archive that cannot be read.

    Args:
        shown_name: The archive or the file in it, as the message names it.
        archive: The archive, whose name says its kind.
        error: What its library raised.
    """
    kind = "tar"
    if _is_zip(archive):
        kind = "zip"
    problem = f"not a readable {kind} archive ({error}); fetch it again"
    return DataError.of_file(shown_name, problem)


def member_names(archive: Path) -> list[str]:
    """The names of the files in a zip or tar archive. Raises DataError if it cannot be read."""
    try:
        if _is_zip(archive):
            with zipfile.ZipFile(archive) as zipped:
                return [entry.filename for entry in zipped.infolist() if not entry.is_dir()]
        with _open_tar(archive) as tar:
            return [_name_of_entry(entry) for entry in tar if entry.isreg()]
    except (OSError, zipfile.BadZipFile, tarfile.TarError, *_BAD_GZIP) as error:
        raise _unreadable_archive(archive.name, archive, error) from None


@contextmanager
def opened(source: Path | Member) -> Iterator[_Stream]:
    """Context manager: opens a file, or one in an archive, as a stream of bytes.

    Unzipped if it is named .gz, or if a file begins as gzip does. Raises DataError if it cannot be
    read, also while the block reads it.
    """
    name = source.name
    try:
        if isinstance(source, Member):
            open_member = _opened_in_tar
            if _is_zip(source.archive):
                open_member = _opened_in_zip
            with open_member(source) as stream:
                yield stream
        elif name.lower().endswith(".gz") or _begins_as_gzip(source):
            with gzip.open(source) as unzipped:
                yield cast("_Stream", unzipped)
        else:
            with open(source, "rb") as stream:
                yield stream
    except _BAD_GZIP as error:
        raise DataError.of_file(
            name, f"not a readable gzip file ({error}); fetch it again"
        ) from None
    except _BAD_ARCHIVE as error:
        if isinstance(source, Member):
            raise _unreadable_archive(str(source), source.archive, error) from None
        raise _unreadable_archive(str(source), source, error) from None
    except OSError as error:
        raise DataError.of_file(name, f"cannot be read ({error.strerror or error})") from None


def _begins_as_gzip(path: Path) -> bool:
    """Whether a file is a gzip file, by its first bytes."""
    with open(path, "rb") as stream:
        return stream.read(len(GZIP_MAGIC)) == GZIP_MAGIC


@contextmanager
def _opened_in_zip(source: Member) -> Iterator[_Stream]:
    """Context manager: opens a file of a zip archive as a stream of bytes, unzipped if its name
    ends in .gz.

    Raises DataError if it is encrypted or packed by a method that is not read.
    """
    with zipfile.ZipFile(source.archive) as archive:
        entry = archive.getinfo(source.name)
        is_encrypted = bool(entry.flag_bits & 1)  # bit 0 of the zip format's flags
        if is_encrypted:
            raise DataError.of_file(str(source), "has a password; unpack the archive")
        if entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError.of_file(
                str(source), "is packed by a method that is not read; unpack the archive"
            )
        with archive.open(entry) as stream:
            yield _unzip_by_name(stream, source.name)


@contextmanager
def _opened_in_tar(source: Member) -> Iterator[_Stream]:
    """Context manager: opens a file of a tar archive as a stream of bytes, unzipped if its name
    ends in .gz.

    Reads the archive from its start up to the file. Raises KeyError where there is no such file.
    """
    with _open_tar(source.archive) as archive:
        stream = None
        for entry in archive:
            if entry.isreg() and _name_of_entry(entry) == source.name:
                stream = archive.extractfile(entry)
                break
        if stream is None:
            raise KeyError(f"there is no file {source.name} in it")
        yield _unzip_by_name(stream, source.name)


def _name_of_entry(entry: tarfile.TarInfo) -> str:
    """The path of a file in a tar archive, without a leading "./"."""
    return entry.name.removeprefix("./")


def _open_tar(archive: Path) -> tarfile.TarFile:
    """Open a tar archive; one whose name ends in "gz" as a gzipped one."""
    if archive.name.lower().endswith("gz"):
        return tarfile.open(archive, "r:gz")
    return tarfile.open(archive, "r:")


def _unzip_by_name(stream: _Stream, file_name: str) -> _Stream:
    """The stream of a file's bytes, unzipped if the file's name ends in .gz."""
    if file_name.lower().endswith(".gz"):
        return cast("_Stream", gzip.GzipFile(fileobj=stream))
    return stream


def unzip_gzip(data: bytes, file_name: str) -> bytes:
    """Unpack the bytes of a gzip file.

    Args:
        data: The bytes.
        file_name: The file, for the error.

    Raises:
        DataError: They are damaged.
    """
    try:
        return gzip.decompress(data)
    except _BAD_GZIP as error:
        raise DataError.of_file(
            file_name, f"not a readable gzip file ({error}); fetch it again"
        ) from None
