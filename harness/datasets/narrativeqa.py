"""NarrativeQA (Kočiský et al., TACL 2018), full stories: some 30 questions a book or film script,
two answers each.

    official files   a folder with qaps.csv (document_id, set, question, answer1, answer2), documents.csv (document_id,
                     set, kind, wiki_title) and the stories (see narrativeqa_stories); or the two archives of the
                     hub copy: narrativeqa-master.zip with the tables, narrativeqa_full_text.zip with the stories
    rows             a question and its whole story each, which comes again with every question on it and is kept once:
                     {"document": {"id": "..", "text": "..", "kind": ".."}, "question": {"text": ".."},
                     "answers": [{"text": ".."}, ..]}

A story is one document, shared by its questions. Questions have no ids of their own: theirs is made
of the first 12 characters of the document's id and the first 8 hex digits of the sha256 of the
question ("-2" for a repeated question).

With a limit, later stories, and later rows of row files, are not parsed, nor later row files
fetched from the hub. The fingerprint covers all: the split's questions, and each story file's size
and checksum (archive) or sha256 (loose).
"""

import csv
import hashlib
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePosixPath

from harness.config.schema import DatasetConfig, canonical_json
from harness.datasets.archives import Member, member_names, opened
from harness.datasets.base import Dataset
from harness.datasets.files import parse_each, read_rows, sha256_of_content
from harness.datasets.find_files import PACKAGE, FileOptions, Source, file_patterns, find_source
from harness.datasets.narrativeqa_stories import STORIES, Stories, stories_in
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import RowPlace
from harness.datasets.rows import (
    Records,
    RowError,
    StrictRow,
    canonical_line,
    clean_answers,
    refuse_blank,
)
from harness.errors import ConfigError, DataError
from harness.storage.hub_download import DATASETS, download, pin_repo
from harness.types import Document, Example, Gold, Question

TABLES = "narrativeqa-master.zip"
_HINT = "; mend or remove the row"
_SET_OF_SPLIT = {
    "validation": "valid",
    "valid": "valid",
    "dev": "valid",
    "train": "train",
    "test": "test",
}
_COLUMNS = {
    "qaps.csv": ("document_id", "set", "question", "answer1", "answer2"),
    "documents.csv": ("document_id", "set"),
}


@dataclass
class _Collected:
    """Questions and stories that were read so far."""

    limit: int | None  # of questions; None: all
    examples: list[Example] = field(default_factory=list)
    documents: dict[str, Document] = field(default_factory=dict)
    ids: Counter[str] = field(default_factory=Counter)  # ids of questions, to number repeated ones

    def full(self) -> bool:
        """Whether as many questions were read as the limit allows."""
        return self.limit is not None and len(self.examples) >= self.limit

    def add(
        self, document: Document, question: str, answers: tuple[str, ...], extra: dict[str, object]
    ) -> None:
        """Add a question on a story, with an id made of the story's id and a hash of the question.

        Args:
            document: The story.
            question: The text of the question.
            answers: The accepted answers.
            extra: Becomes Gold.extra.

        Raises:
            RowError: A text cannot be used, or the story has another text in an earlier row.
        """
        canonical_line([question, answers, extra])
        question_id = f"{document.id[:12]}-{hashlib.sha256(question.encode()).hexdigest()[:8]}"
        self.ids[question_id] += 1
        if self.ids[question_id] > 1:
            question_id += f"-{self.ids[question_id]}"
        if document.id not in self.documents:
            canonical_line([document.id, document.title, document.text])
            self.documents[document.id] = document
        first = self.documents[document.id]
        if first.text != document.text:
            raise RowError(
                "document.text", f"the story '{document.id}' has another text in an earlier row"
            )
        self.examples.append(
            Example(Question(question_id, question, (first.id,)), Gold(answers, extra=extra))
        )

    def dataset(
        self, config: DatasetConfig, fingerprint: str, source: str, revision: str | None
    ) -> Dataset:
        """Make the data set of the questions and stories that were read.

        Args:
            config: Has its name.
            fingerprint: sha256 of all questions and stories.
            source: Where they came from, for the manifest.
            revision: The commit on the hub; None for local files.
        """
        return Dataset(
            config.name, tuple(self.examples), self.documents, fingerprint, source, revision
        )


Options = FileOptions


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the first `limit` questions (None: all) with their stories, and check all that is read.

    Raises what harness.datasets.load raises.
    """
    patterns = file_patterns(config, tuple(Options.model_fields))
    folder = _official_folder(config)
    if folder is not None and not patterns:
        if config.revision is not None:
            raise ConfigError(
                ["dataset.revision: only rows from the hub have one; leave it out with --data"]
            )
        return _load_official(folder, config, limit, folder.resolve().name, None)
    if config.data is None and config.hub is not None and not patterns:
        commit, files = pin_repo(DATASETS, config.hub, config.revision)
        archives = _official_archives(files)
        if archives:
            paths = [download(DATASETS, config.hub, commit, name) for name in archives]
            source = f"{config.hub} ({', '.join(archives)})"
            return _load_official(paths[0].parent, config, limit, source, commit)
    return _load_rows(find_source(config), config, limit)


def _official_archives(files: Sequence[str]) -> list[str]:
    """The paths of the two official archives among the files of a hub data set, the tables' first.

    ["data/narrativeqa-master.zip", "data/narrativeqa_full_text.zip"]; [] where one is lacking.
    """
    for name in files:
        if PurePosixPath(name).name == TABLES:
            stories = str(PurePosixPath(name).with_name(STORIES))
            if stories in files:
                return [name, stories]
            return []
    return []


def _official_folder(config: DatasetConfig) -> Path | None:
    """The folder of official files that config.data names, itself or by its qaps.csv.

    None where config.data names files of rows, or nothing.
    """
    if config.data is None or config.data.startswith(PACKAGE):
        return None
    path = Path(config.data).expanduser()
    if path.name == "qaps.csv" and path.is_file():
        path = path.parent
    # The authors' repository, and a clone of the hub's.
    for folder in (path, path / "data"):
        if (folder / "qaps.csv").is_file() or (folder / TABLES).is_file():
            return folder
    return None


def _load_official(
    folder: Path, config: DatasetConfig, limit: int | None, source: str, commit: str | None
) -> Dataset:
    """Load questions of the official files; all rows of the split are checked.

    Args:
        folder: The folder of qaps.csv and documents.csv, or of the archives.
        config: The data set's config, which has the split.
        limit: Load the first so many questions; None: all.
        source: The source's name in the `Dataset`.
        commit: The commit on the hub; None for local files.

    Raises:
        DataError: A row cannot be used, or there is none of the split.
    """
    split_name = _SET_OF_SPLIT.get(config.split.lower(), config.split)
    story_rows = _stories_of_split(folder, split_name)
    stories = stories_in(folder)
    collected = _Collected(limit)
    hashed = hashlib.sha256(b"narrativeqa 1\n")
    story_ids: dict[str, None] = {}  # a set in order
    for place, row in _read_table(folder, "qaps.csv"):
        if row["set"] != split_name:
            continue
        try:
            document_id = row["document_id"]
            if document_id not in story_rows:
                problem = f"'{document_id}' is not a document of this set in documents.csv"
                raise RowError("document_id", problem)
            answers = _answers_of_official(row)
            story_ids[document_id] = None
            hashed.update(canonical_json([document_id, row["question"], answers]).encode() + b"\n")
            if not collected.full():
                about = story_rows[document_id]
                document = collected.documents.get(document_id)
                if document is None:
                    document = _story_document(document_id, about, stories, folder)
                collected.add(document, row["question"], answers, {"kind": about.get("kind") or ""})
        except RowError as error:
            raise place.error(error.field, error.problem + _HINT) from None
    if not story_ids:
        problem = f"has no question of the set '{split_name}' (dataset.split={config.split})"
        raise DataError("qaps.csv", None, None, problem)
    hashed.update(stories.digest(story_ids).encode())
    return collected.dataset(config, hashed.hexdigest(), source, commit)


def _stories_of_split(folder: Path, split_name: str) -> dict[str, dict[str, str]]:
    """Map the id of each story of a split to its row of documents.csv.

    Args:
        folder: The folder of the official files.
        split_name: The split as the files call it, "valid".
    """
    rows: dict[str, dict[str, str]] = {}
    for _, row in _read_table(folder, "documents.csv"):
        if row["set"] == split_name:
            rows[row["document_id"]] = row
    return rows


def _answers_of_official(row: dict[str, str]) -> tuple[str, ...]:
    """The two answers in a row of qaps.csv, without a repeat or a blank second one.

    Raises RowError for a blank question or a blank first answer.
    """
    refuse_blank({"question": row["question"]})
    clean_answers([row["answer1"]], "answer1")  # the second one alone will not do
    return clean_answers([row["answer1"], row["answer2"]], "answer1")


def _story_document(
    document_id: str, about: dict[str, str], stories: Stories, folder: Path
) -> Document:
    """Read a story as a document.

    Args:
        document_id: The id of the story.
        about: Its row of documents.csv, which has its title.
        stories: The texts of all stories.
        folder: The folder of the official files, named in the error.

    Raises:
        RowError: The story is missing or empty.
    """
    text = stories.read(document_id)
    if text is None:
        advice = f"put {document_id}.content into '{folder.name}' or its tmp/, or {STORIES} into '{folder.name}'"
        raise RowError("document_id", f"the story '{document_id}' is not there; {advice}")
    if not text or text.isspace():
        raise RowError("document_id", f"the story '{document_id}' is empty")
    return Document(document_id, text, about.get("wiki_title") or "")


def _table_file(folder: Path, name: str) -> Path | Member:
    """The file of a table: in the folder, or in the archive of the tables there.

    Args:
        folder: The folder of the official files.
        name: The table, "qaps.csv".

    Raises:
        DataError: It is in neither.
    """
    if (folder / name).is_file():
        return folder / name
    archive = folder / TABLES
    listed: list[str] = []
    if archive.is_file():
        listed = member_names(archive)
    inside = [member for member in listed if PurePosixPath(member).name == name]
    if not inside:
        raise DataError(
            folder.name,
            None,
            None,
            f"the folder has no {name}, which belongs to the official files",
        )
    return Member(archive, inside[0])


def _read_table(folder: Path, name: str) -> Iterator[tuple[RowPlace, dict[str, str]]]:
    """Yield (place, {column: value}) for each row of an official CSV table.

    Args:
        folder: The folder of the official files.
        name: The table, "qaps.csv" or "documents.csv".

    Raises:
        DataError: The table is missing or damaged, or lacks a column.
    """
    with opened(_table_file(folder, name)) as stream:
        try:
            reader = csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
            columns = reader.fieldnames or ()
            lacking = [column for column in _COLUMNS[name] if column not in columns]
            if lacking:
                raise DataError(
                    name,
                    1,
                    None,
                    f"has no column '{lacking[0]}' (it has {', '.join(columns) or 'none'})",
                )
            for row in reader:
                place = RowPlace(name, line=reader.line_num)
                missing = [column for column in _COLUMNS[name] if row[column] is None]
                if missing:
                    raise place.error(missing[0], "is missing: the row has too few columns")
                yield place, row
        except UnicodeDecodeError as error:
            raise DataError(
                name, None, None, f"not UTF-8 ({error.reason}); save the file as UTF-8"
            ) from None
        except csv.Error as error:
            raise DataError(name, None, None, f"not readable as a table ({error})") from None


class _Text(StrictRow):
    text: str


class _Summary(StrictRow):
    title: str | None = None


class _Story(_Text):
    id: str
    kind: str | None = None
    summary: _Summary | None = None


class _Row(StrictRow):
    document: _Story
    question: _Text
    answers: Records[_Text]


def _parse_and_add(stories: _Collected, raw: RawRow) -> None:
    """Parse a row of a question with its whole story, and add both to `stories`.

    Args:
        stories: The questions and stories read so far; changed.
        raw: The row.

    Raises:
        RowError: A field is missing, of another type or blank, also the first answer.
    """
    row = _Row.read(raw)
    story = row.document
    refuse_blank(
        {"document.id": story.id, "document.text": story.text, "question.text": row.question.text}
    )
    texts = [answer.text for answer in row.answers]
    if not texts or not texts[0].strip():  # the second answer alone will not do
        raise RowError("answers", "the row has no answer")
    answers = clean_answers(texts, "answers")
    title = ""
    if story.summary:
        title = story.summary.title or ""
    document = Document(story.id, story.text, title)
    stories.add(document, row.question.text, answers, {"kind": story.kind or ""})


def _add_rows(stories: _Collected, file: Path | Member) -> None:
    """Add the questions of a file of rows to `stories`, until its limit is reached. Raises
    DataError.
    """
    for _ in parse_each(read_rows(file), partial(_parse_and_add, stories), _HINT):
        if stories.full():
            return


def _load_rows(source: Source, config: DatasetConfig, limit: int | None) -> Dataset:
    """Load the questions of files of rows.

    The fingerprint is that of the files' bytes or, on the hub, of their names at the commit.

    Args:
        source: The files.
        config: The data set's config.
        limit: Load the first so many questions; None: all.

    Raises:
        DataError: The rows cannot be used.
        CannotRun: A file cannot be fetched.
    """
    stories = _Collected(limit)
    hashed = hashlib.sha256(b"narrativeqa rows 1\n")
    if source.revision is not None:
        hashed.update(f"{source.name} {source.revision}".encode())
    for file in source.files:
        if source.revision is None:
            hashed.update(sha256_of_content(file))
        if not stories.full():
            _add_rows(stories, file)
        if stories.full() and source.revision is not None:
            break  # before the next file is fetched
    if not stories.examples:
        raise DataError(source.name, None, None, "the file has no rows")
    return stories.dataset(config, hashed.hexdigest(), source.name, source.revision)
