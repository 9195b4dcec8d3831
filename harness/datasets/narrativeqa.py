"""NarrativeQA (Kočiský et al., TACL 2018), full stories: some 30 questions a book or film script, two answers each.

    official files   a folder with qaps.csv (document_id, set, question, answer1, answer2), documents.csv (document_id,
                     set, kind, wiki_title) and the stories (see harness.datasets.stories); or the two archives of the
                     hub copy: narrativeqa-master.zip with the tables, narrativeqa_full_text.zip with the stories
    rows             a question and its whole story each: see harness.datasets.story_rows

A story is one document, shared by its questions. Questions have no ids of their own: theirs is made of the first 12
characters of the document's id and the first 8 hex digits of the sha256 of the question ("-2" for a repeated question).

With a limit only the stories of the first questions are read. The fingerprint still covers all: the questions of the
split, and of every story file size and checksum (archive) or sha256 (loose files).
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from harness.config.schema import DatasetConfig, canonical
from harness.datasets.archives import Member, members, opened
from harness.datasets.base import Dataset
from harness.datasets.files import Place
from harness.datasets.rows import RowError, gold_answers
from harness.datasets.sources import PACKAGE, FileOptions, find, patterns_of
from harness.datasets.stories import STORIES, Stories, stories_in
from harness.datasets.story_rows import Found, from_rows
from harness.errors import ConfigError, DataError
from harness.storage.hub import DATASETS, download, resolve
from harness.types import Document

TABLES = "narrativeqa-master.zip"
_SETS = {"validation": "valid", "valid": "valid", "dev": "valid", "train": "train", "test": "test"}
_NEEDED = {
    "qaps.csv": ("document_id", "set", "question", "answer1", "answer2"),
    "documents.csv": ("document_id", "set"),
}


class Options(FileOptions):
    """Those of every data set that is read from files."""


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """The first `limit` questions of a split (None: all) with their stories.

    Every question of the split is checked, and every story or row that is read. Raises as harness.datasets.load.
    """
    patterns = patterns_of(config, tuple(Options.model_fields))
    folder = _folder(config)
    if folder is not None and not patterns:
        if config.revision is not None:
            raise ConfigError(["dataset.revision: only rows from the hub have one; leave it out with --data"])
        return _official(folder, config, limit, folder.resolve().name, None)
    if config.data is None and config.hub is not None and not patterns:
        commit, files = resolve(DATASETS, config.hub, config.revision)
        tables = [n for n in files if PurePosixPath(n).name == TABLES]
        names = (tables[0], str(PurePosixPath(tables[0]).with_name(STORIES))) if tables else ()
        if set(names).issubset(files) and names:
            first, _ = (download(DATASETS, config.hub, commit, name) for name in names)
            return _official(first.parent, config, limit, f"{config.hub} ({', '.join(names)})", commit)
    return from_rows(find(config), config, limit)


def _folder(config: DatasetConfig) -> Path | None:
    """The folder of official files that config.data names, itself or by its qaps.csv; None for rows."""
    if config.data is None or config.data.startswith(PACKAGE):
        return None
    path = Path(config.data).expanduser()
    path = path.parent if path.name == "qaps.csv" and path.is_file() else path
    places = (path, path / "data")  # of the authors' repository, and of a clone of the hub's
    return next((place for place in places if any((place / name).is_file() for name in ("qaps.csv", TABLES))), None)


def _official(folder: Path, config: DatasetConfig, limit: int | None, source: str, commit: str | None) -> Dataset:
    split_name = _SETS.get(config.split.lower(), config.split)
    kinds = {row["document_id"]: row for _, row in _table(folder, "documents.csv") if row["set"] == split_name}
    stories = stories_in(folder)
    examples, hashed = Found(limit), hashlib.sha256(b"narrativeqa 1\n")
    order: dict[str, None] = {}
    for place, row in _table(folder, "qaps.csv"):
        if row["set"] != split_name:
            continue
        try:
            answers = _asked(row, kinds)
            document_id = row["document_id"]
            order[document_id] = None
            hashed.update(canonical([document_id, row["question"], answers]).encode() + b"\n")
            if not examples.full():
                about = kinds[document_id]
                document = examples.documents.get(document_id) or _story(document_id, about, stories, folder)
                examples.add(document, row["question"], answers, {"kind": about.get("kind") or ""})
        except RowError as error:
            raise place.error(error.field, f"{error.problem}; mend or remove the row") from None
    if not order:
        raise DataError(
            "qaps.csv", None, None, f"has no question of the set '{split_name}' (dataset.split={config.split})"
        )
    hashed.update(stories.digest(order).encode())
    return examples.dataset(config, hashed.hexdigest(), source, commit)


def _asked(row: dict[str, str], known: dict[str, dict[str, str]]) -> tuple[str, ...]:
    """The answers of a checked row of qaps.csv."""
    if row["document_id"] not in known:
        raise RowError("document_id", f"'{row['document_id']}' is not a document of this set in documents.csv")
    if not row["question"].strip():
        raise RowError("question", "is empty")
    try:
        return gold_answers(row["answer1"], (row["answer2"],))
    except RowError:
        raise RowError("answer1", "the row has no answer") from None


def _story(document_id: str, about: dict[str, str], stories: Stories, folder: Path) -> Document:
    text = stories.read(document_id)
    if text is None:
        advice = f"put {document_id}.content into '{folder.name}' or its tmp/, or {STORIES} into '{folder.name}'"
        raise RowError("document_id", f"the story '{document_id}' is not there; {advice}")
    if not text or text.isspace():
        raise RowError("document_id", f"the story '{document_id}' is empty")
    return Document(document_id, text, about.get("wiki_title") or "")


def _table(folder: Path, name: str) -> Iterator[tuple[Place, dict[str, str]]]:
    """The rows of a table with their lines. Raises DataError for a table that is none or lacks a column."""
    source: Path | Member = folder / name
    if not (folder / name).is_file():
        listed = members(folder / TABLES) if (folder / TABLES).is_file() else []
        inside = [member for member in listed if PurePosixPath(member).name == name]
        if not inside:
            raise DataError(folder.name, None, None, f"the folder has no {name}, which belongs to the official files")
        source = Member(folder / TABLES, inside[0])
    with opened(source) as stream:
        try:
            reader = csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
            columns = reader.fieldnames or ()
            if lacking := [c for c in _NEEDED[name] if c not in columns]:
                raise DataError(name, 1, None, f"has no column '{lacking[0]}' (it has {', '.join(columns) or 'none'})")
            for row in reader:
                place = Place(name, line=reader.line_num)
                if missing := [c for c in _NEEDED[name] if row[c] is None]:
                    raise place.error(missing[0], "is missing: the row has too few columns")
                yield place, row
        except UnicodeDecodeError as error:
            raise DataError(name, None, None, f"not UTF-8 ({error.reason}); save the file as UTF-8") from None
        except csv.Error as error:
            raise DataError(name, None, None, f"not readable as a table ({error})") from None
