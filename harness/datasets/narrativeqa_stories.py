"""The stories of NarrativeQA where they lie: loose files, an archive, or JSON lines; each is read
when it is needed.

    <id>.content, in the folder or its tmp/     what download_stories.sh leaves
    narrativeqa_full_text.zip                   the same files in an archive, as in the hub copy
    stories.jsonl, stories.jsonl.gz             {"document_id": "..", "text": ".."}

Bytes are decoded as UTF-8 or, where they are not, as Latin-1, and line ends become "\\n". Nothing
else is changed: the frames of Project Gutenberg and the HTML of scripts stay, as in the hub copy.
The official word counts, and with them the papers' shortest document (5,077 tokens), include the
frames; LongBench cuts them off.
"""

import codecs
import hashlib
import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import Protocol

from harness.datasets.archives import Member, opened, unzip_gzip
from harness.datasets.files import read_rows
from harness.datasets.row_places import BrokenRow
from harness.errors import DataError
from harness.storage.file_hash import file_hash
from harness.storage.paths import path_inside

SUFFIX = ".content"
STORIES = "narrativeqa_full_text.zip"
LINES = ("stories.jsonl", "stories.jsonl.gz")


class Stories(Protocol):
    """Where the stories are: a folder, an archive or a file of lines. Texts are read by document
    id."""

    def read(self, document_id: str) -> str | None:
        """The text of a story, None where it is not there. Raises DataError for one that cannot
        be read.
        """

    def digest(self, document_ids: Iterable[str]) -> str:
        """A digest that identifies the texts of these stories, without decoding or keeping them.

        A story that is missing counts too. Raises DataError for one that cannot be read.
        """


def decode_story(data: bytes, name: str = "a story") -> str:
    r"""Decode a story: as UTF-8 or else as Latin-1, unzipped where it is gzip data, with "\n" as
    line end.

    Args:
        data: The bytes of its file.
        name: The file, for the error.

    Raises:
        DataError: The gzip data is damaged.
    """
    if data.startswith(b"\x1f\x8b"):
        data = unzip_gzip(data, name)  # as some servers send them
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _Folder:
    """The `Stories` of a folder, or of its tmp/: one file each."""

    def __init__(self, folder: Path) -> None:
        """Look for stories in a folder and in its folder tmp."""
        self._folders = (folder, folder / "tmp")

    def _path(self, document_id: str) -> Path | None:
        """The path of a story's file, in the folder or its tmp; None where neither has it."""
        for folder in self._folders:
            path = path_inside(folder, document_id + SUFFIX)
            if path.is_file():
                return path
        return None

    def read(self, document_id: str) -> str | None:
        """The text of a story's file, None without one. Raises DataError for one that cannot be
        read."""
        path = self._path(document_id)
        if path is None:
            return None
        try:
            return decode_story(path.read_bytes(), path.name)
        except (OSError, ValueError) as error:
            raise DataError(document_id + SUFFIX, None, None, f"cannot be read ({error})") from None

    def digest(self, document_ids: Iterable[str]) -> str:
        """A hash of the bytes of these stories' files; "-" stands for a missing one."""
        whole = hashlib.sha256()
        for document_id in document_ids:
            path = self._path(document_id)
            if path is None:
                whole.update(b"-")
            else:
                whole.update(bytes.fromhex(file_hash(path)))
        return whole.hexdigest()


class _Archive:
    """The `Stories` of a zip archive: one member each, with size and checksum in the archive's
    directory."""

    def __init__(self, path: Path) -> None:
        """Read the archive's directory, as `_members`: id of a story -> its entry.

        Raises DataError for a file that is no zip archive.
        """
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                stories = [entry for entry in archive.infolist() if entry.filename.endswith(SUFFIX)]
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError(
                path.name, None, None, f"not a readable zip archive ({error}); fetch it again"
            ) from None
        self._members: dict[str, zipfile.ZipInfo] = {}
        for entry in stories:
            document_id = PurePosixPath(entry.filename).name.removesuffix(SUFFIX)
            self._members[document_id] = entry

    def read(self, document_id: str) -> str | None:
        """The text of a story's member, None without one. Raises DataError for a damaged
        archive."""
        entry = self._members.get(document_id)
        if entry is None:
            return None
        member = Member(self._path, entry.filename)
        with opened(member) as stream:
            return decode_story(stream.read(), str(member))

    def digest(self, document_ids: Iterable[str]) -> str:
        """A hash of the sizes and checksums of these stories in the archive's directory; no
        text is read.
        """
        rows = []
        for document_id in document_ids:
            entry = self._members.get(document_id)
            if entry is None:
                rows.append("-")
            else:
                rows.append(f"{entry.file_size} {entry.CRC:08x}")
        return hashlib.sha256("\n".join(rows).encode()).hexdigest()


class _Lines:
    """The `Stories` of one JSON lines file, read up to the requested one, which is kept with those
    before it."""

    def __init__(self, path: Path) -> None:
        """Prepare to read a file; `_seen` keeps the texts of the rows that were read."""
        self._path = path
        self._rows = read_rows(path)
        self._seen: dict[str, str] = {}

    def read(self, document_id: str) -> str | None:
        """The text of a story; reads on in the file until it comes, and keeps all texts up to it.

        None where the file has no such story. Raises DataError for a bad row.
        """
        while document_id not in self._seen:
            try:
                place, row = next(self._rows)
            except StopIteration:
                return None
            if isinstance(row, BrokenRow):
                raise place.error(None, row.problem)
            name = row.get("document_id")
            text = row.get("text")
            if not isinstance(name, str) or not isinstance(text, str):
                raise place.error(None, "needs 'document_id' and 'text'")
            self._seen[name] = text.replace("\r\n", "\n").replace("\r", "\n")
        return self._seen[document_id]

    def digest(self, document_ids: Iterable[str]) -> str:
        """A hash of the whole file, whatever stories are asked for."""
        return file_hash(self._path)


def stories_in(folder: Path) -> Stories:
    """Where the stories of a folder of official files are: its archive, its file of lines, or
    loose files, the first of these that is there.
    """
    if (folder / STORIES).is_file():
        return _Archive(folder / STORIES)
    for name in LINES:
        if (folder / name).is_file():
            return _Lines(folder / name)
    return _Folder(folder)
