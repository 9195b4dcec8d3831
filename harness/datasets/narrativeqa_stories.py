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

from harness.datasets.archives import GZIP_MAGIC, Member, opened, unzip_gzip
from harness.datasets.files import read_rows
from harness.datasets.row_places import BrokenRow
from harness.errors import DataError
from harness.storage.file_hash import file_hash
from harness.storage.paths import path_inside

STORY_SUFFIX = ".content"
STORIES_ARCHIVE = "narrativeqa_full_text.zip"
STORIES_FILES = ("stories.jsonl", "stories.jsonl.gz")


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


def decode_story(data: bytes, file_name: str = "a story") -> str:
    r"""Decode a story: as UTF-8 or else as Latin-1, unzipped where it is gzip data, with "\n" as
    line end.

    Args:
        data: The bytes of its file.
        file_name: The file, for the error.

    Raises:
        DataError: The gzip data is damaged.
    """
    is_gzip = data.startswith(GZIP_MAGIC)
    if is_gzip:
        data = unzip_gzip(data, file_name)  # as some servers send them
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode("utf-8")
    except UnicodeDecodeError:
        text = data.decode("latin-1")
    return text.replace("\r\n", "\n").replace("\r", "\n")


class _StoriesInFolder:
    """The `Stories` of a folder, or of its tmp/: one file each."""

    def __init__(self, folder: Path) -> None:
        """Prepare to look for stories in a folder and in its folder tmp; nothing is read yet."""
        self._folders = (folder, folder / "tmp")

    def _find_file(self, document_id: str) -> Path | None:
        """The path of a story's file, in the folder or its tmp; None where neither has it."""
        for folder in self._folders:
            path = path_inside(folder, document_id + STORY_SUFFIX)
            if path.is_file():
                return path
        return None

    def read(self, document_id: str) -> str | None:
        """The text of a story's file, None without one. Raises DataError for one that cannot be
        read."""
        path = self._find_file(document_id)
        if path is None:
            return None
        try:
            return decode_story(path.read_bytes(), path.name)
        except (OSError, ValueError) as error:
            file_name = document_id + STORY_SUFFIX
            raise DataError.of_file(file_name, f"cannot be read ({error})") from None

    def digest(self, document_ids: Iterable[str]) -> str:
        """A hash of the bytes of these stories' files; "-" stands for a missing one."""
        hash_of_hashes = hashlib.sha256()
        for document_id in document_ids:
            path = self._find_file(document_id)
            if path is None:
                hash_of_hashes.update(b"-")
            else:
                hash_of_hashes.update(bytes.fromhex(file_hash(path)))
        return hash_of_hashes.hexdigest()


class _StoriesInArchive:
    """The `Stories` of a zip archive: one member each, with size and checksum in the archive's
    directory."""

    def __init__(self, path: Path) -> None:
        """Read the archive's directory, which has an entry for each story.

        Raises DataError for a file that is no zip archive.
        """
        self._path = path
        try:
            with zipfile.ZipFile(path) as archive:
                entries = archive.infolist()
        except (OSError, zipfile.BadZipFile) as error:
            raise DataError.of_file(
                path.name, f"not a readable zip archive ({error}); fetch it again"
            ) from None
        self._entry_by_document_id: dict[str, zipfile.ZipInfo] = {}
        for entry in entries:
            if entry.filename.endswith(STORY_SUFFIX):
                document_id = PurePosixPath(entry.filename).name.removesuffix(STORY_SUFFIX)
                self._entry_by_document_id[document_id] = entry

    def read(self, document_id: str) -> str | None:
        """The text of a story's member, None without one. Raises DataError for a damaged
        archive."""
        entry = self._entry_by_document_id.get(document_id)
        if entry is None:
            return None
        member = Member(self._path, entry.filename)
        with opened(member) as stream:
            return decode_story(stream.read(), str(member))

    def digest(self, document_ids: Iterable[str]) -> str:
        """A hash of the sizes and checksums of these stories in the archive's directory; no
        text is read.
        """
        sizes_and_checksums = []
        for document_id in document_ids:
            entry = self._entry_by_document_id.get(document_id)
            if entry is None:
                sizes_and_checksums.append("-")
            else:
                sizes_and_checksums.append(f"{entry.file_size} {entry.CRC:08x}")
        return hashlib.sha256("\n".join(sizes_and_checksums).encode()).hexdigest()


class _StoriesInLines:
    """The `Stories` of one JSON lines file, read up to the requested one, which is kept with those
    before it."""

    def __init__(self, path: Path) -> None:
        """Prepare to read a file; nothing is read yet."""
        self._path = path
        self._unread_rows = read_rows(path)
        self._text_by_document_id: dict[str, str] = {}  # of the rows that were read

    def read(self, document_id: str) -> str | None:
        """The text of a story; reads on in the file until it comes, and keeps all texts up to it.

        None where the file has no such story. Raises DataError for a bad row.
        """
        while document_id not in self._text_by_document_id:
            try:
                place, row = next(self._unread_rows)
            except StopIteration:
                return None
            if isinstance(row, BrokenRow):
                raise place.error(field=None, problem=row.problem)
            id_of_row = row.get("document_id")
            text = row.get("text")
            if not isinstance(id_of_row, str) or not isinstance(text, str):
                raise place.error(field=None, problem="needs 'document_id' and 'text'")
            self._text_by_document_id[id_of_row] = text.replace("\r\n", "\n").replace("\r", "\n")
        return self._text_by_document_id[document_id]

    def digest(self, document_ids: Iterable[str]) -> str:
        """A hash of the whole file, whatever stories are asked for."""
        return file_hash(self._path)


def open_stories(folder: Path) -> Stories:
    """Open the stories of a folder of official files: its archive, its file of lines, or loose
    files, the first of these that is there.
    """
    archive = folder / STORIES_ARCHIVE
    if archive.is_file():
        return _StoriesInArchive(archive)
    for name in STORIES_FILES:
        if (folder / name).is_file():
            return _StoriesInLines(folder / name)
    return _StoriesInFolder(folder)
