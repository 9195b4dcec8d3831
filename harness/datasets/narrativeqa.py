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
from harness.datasets.narrativeqa_stories import STORIES_ARCHIVE, Stories, open_stories
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import RowPlace
from harness.datasets.rows import (
    Records,
    RowError,
    StrictRow,
    clean_answers,
    refuse_blank,
    refuse_half_characters,
)
from harness.errors import ConfigError, DataError
from harness.storage.hub_download import DATASETS, download, pin_repo
from harness.types import Document, Example, Gold, Question

TABLES_ARCHIVE = "narrativeqa-master.zip"
_ADVICE = "; mend or remove the row"
_SET_OF_SPLIT = {  # split -> what the official files call it
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
class _ReadQuestions:
    """Questions and stories that were read so far.

    Attributes:
        limit: How many questions are wanted; None: all.
        examples: The questions.
        document_by_id: Their stories.
        id_counts: How many questions had each id, to number those that come again.
    """

    limit: int | None
    examples: list[Example] = field(default_factory=list)
    document_by_id: dict[str, Document] = field(default_factory=dict)
    id_counts: Counter[str] = field(default_factory=Counter)

    def are_enough(self) -> bool:
        """Whether as many questions were read as the limit allows."""
        return self.limit is not None and len(self.examples) >= self.limit

    def add_question(
        self,
        story: Document,
        question_text: str,
        answers: tuple[str, ...],
        extra: dict[str, object],
    ) -> None:
        """Add a question on a story, with an id made of the story's id and a hash of the question.

        The story is added too, where it is not there yet.

        Args:
            story: The story.
            question_text: The words of the question.
            answers: The accepted answers.
            extra: Becomes Gold.extra.

        Raises:
            RowError: A text cannot be used, or the story has another text in an earlier row.
        """
        refuse_half_characters([question_text, answers, extra])
        if story.id not in self.document_by_id:
            refuse_half_characters([story.id, story.title, story.text])
            self.document_by_id[story.id] = story
        if self.document_by_id[story.id].text != story.text:
            raise RowError(
                "document.text", f"the story '{story.id}' has another text in an earlier row"
            )
        question_id = self._new_id(story.id, question_text)
        question = Question(question_id, question_text, (story.id,))
        self.examples.append(Example(question, Gold(answers, extra=extra)))

    def _new_id(self, story_id: str, question_text: str) -> str:
        """Make the id of a question, and count it: "a1b2c3d4e5f6-0a1b2c3d".

        A question that comes again gets "-2", "-3" after it.
        """
        hash_of_question = hashlib.sha256(question_text.encode()).hexdigest()[:8]
        question_id = f"{story_id[:12]}-{hash_of_question}"
        self.id_counts[question_id] += 1
        count = self.id_counts[question_id]
        if count > 1:
            return f"{question_id}-{count}"
        return question_id

    def make_dataset(
        self, name: str, fingerprint: str, source: str, revision: str | None
    ) -> Dataset:
        """Make the data set of the questions and stories that were read.

        Args:
            name: The data set's name.
            fingerprint: sha256 of all questions and stories.
            source: Where they came from, for the manifest.
            revision: The commit on the hub; None for local files.
        """
        return Dataset(
            name=name,
            examples=tuple(self.examples),
            documents=self.document_by_id,
            fingerprint=fingerprint,
            source=source,
            revision=revision,
        )


Options = FileOptions


def load(config: DatasetConfig, limit: int | None = None) -> Dataset:
    """Load the first `limit` questions (None: all) with their stories, and check all that is read.

    From the folder of official files that config.data names, from the archives of the hub copy, or
    else from files of rows. Raises what harness.datasets.load raises.
    """
    patterns = file_patterns(config, tuple(Options.model_fields))
    folder = _official_folder(config)
    if folder is not None and not patterns:
        if config.revision is not None:
            raise ConfigError(
                ["dataset.revision: only rows from the hub have one; leave it out with --data"]
            )
        return _load_official(folder, config, limit, source_name=folder.resolve().name, commit=None)
    if config.data is None and config.hub is not None and not patterns:
        commit, files = pin_repo(DATASETS, config.hub, config.revision)
        archives = _official_archives(files)
        if archives:
            paths = [download(DATASETS, config.hub, commit, name) for name in archives]
            source_name = f"{config.hub} ({', '.join(archives)})"
            return _load_official(
                paths[0].parent, config, limit, source_name=source_name, commit=commit
            )
    return _load_rows(find_source(config), config, limit)


def _official_archives(paths: Sequence[str]) -> list[str]:
    """The paths of the two official archives among the files of a hub data set, the tables' first.

    ["data/narrativeqa-master.zip", "data/narrativeqa_full_text.zip"]; [] where one is lacking.
    """
    for path in paths:
        if PurePosixPath(path).name == TABLES_ARCHIVE:
            stories_path = str(PurePosixPath(path).with_name(STORIES_ARCHIVE))
            if stories_path in paths:
                return [path, stories_path]
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
        if (folder / "qaps.csv").is_file() or (folder / TABLES_ARCHIVE).is_file():
            return folder
    return None


def _load_official(
    folder: Path, config: DatasetConfig, limit: int | None, source_name: str, commit: str | None
) -> Dataset:
    """Load questions of the official files. All rows of the split are checked and hashed, with the
    sizes or hashes of their stories; the stories of the questions within the limit are read.

    Args:
        folder: The folder of qaps.csv and documents.csv, or of the archives.
        config: The data set's config, which has the split.
        limit: Load the first so many questions; None: all.
        source_name: The source's name in the `Dataset`.
        commit: The commit on the hub; None for local files.

    Raises:
        DataError: A row cannot be used, or there is none of the split.
    """
    set_name = _SET_OF_SPLIT.get(config.split.lower(), config.split)
    stories = _OfficialStories(folder, _read_story_rows(folder, set_name), open_stories(folder))
    questions = _ReadQuestions(limit)
    fingerprint = hashlib.sha256(b"narrativeqa 1\n")
    story_ids: list[str] = []
    for place, row in _read_table(folder, "qaps.csv"):
        if row["set"] != set_name:
            continue
        try:
            stories.check_is_listed(row["document_id"])
            answers = _answers_in_table(row)
            if not questions.are_enough():
                _add_official_question(questions, row, answers, stories)
        except RowError as error:
            raise place.error(error.field, error.problem + _ADVICE) from None
        story_ids.append(row["document_id"])
        line = canonical_json([row["document_id"], row["question"], answers])
        fingerprint.update(line.encode() + b"\n")
    if not story_ids:
        problem = f"has no question of the set '{set_name}' (dataset.split={config.split})"
        raise DataError.of_file("qaps.csv", problem)
    distinct_story_ids = dict.fromkeys(story_ids)  # in their order
    fingerprint.update(stories.texts.digest(distinct_story_ids).encode())
    return questions.make_dataset(config.name, fingerprint.hexdigest(), source_name, commit)


@dataclass(frozen=True)
class _OfficialStories:
    """The stories of a split in the official files.

    Attributes:
        folder: The folder of the files.
        row_by_id: Story id -> its row of documents.csv.
        texts: The texts of all stories.
    """

    folder: Path
    row_by_id: dict[str, dict[str, str]]
    texts: Stories

    def check_is_listed(self, story_id: str) -> None:
        """Raise RowError where documents.csv has no such story of the split."""
        if story_id not in self.row_by_id:
            problem = f"'{story_id}' is not a document of this set in documents.csv"
            raise RowError("document_id", problem)

    def read(self, story_id: str) -> Document:
        """Read a listed story. Raises RowError where its text is missing or empty."""
        return _read_story(story_id, self.row_by_id[story_id], self.texts, self.folder)


def _add_official_question(
    questions: _ReadQuestions,
    row: dict[str, str],
    answers: tuple[str, ...],
    stories: _OfficialStories,
) -> None:
    """Add a question to those read, with its story, which is read where no earlier question did.

    Args:
        questions: The questions that were read so far; gets this one.
        row: Its row of qaps.csv.
        answers: Its answers.
        stories: The stories of the split.

    Raises:
        RowError: The story is missing or empty, or a text cannot be used.
    """
    story_id = row["document_id"]
    story = questions.document_by_id.get(story_id)
    if story is None:
        story = stories.read(story_id)
    kind = stories.row_by_id[story_id].get("kind") or ""
    questions.add_question(story, row["question"], answers, extra={"kind": kind})


def _read_story_rows(folder: Path, set_name: str) -> dict[str, dict[str, str]]:
    """Map the id of each story of a split to its row of documents.csv.

    Args:
        folder: The folder of the official files.
        set_name: The split as the files call it, "valid".
    """
    row_by_id: dict[str, dict[str, str]] = {}
    for _, row in _read_table(folder, "documents.csv"):
        if row["set"] == set_name:
            row_by_id[row["document_id"]] = row
    return row_by_id


def _answers_in_table(row: dict[str, str]) -> tuple[str, ...]:
    """The two answers in a row of qaps.csv, without a repeat or a blank second one.

    Raises RowError for a blank question or a blank first answer.
    """
    refuse_blank({"question": row["question"]})
    clean_answers([row["answer1"]], "answer1")  # the second one alone will not do
    return clean_answers([row["answer1"], row["answer2"]], "answer1")


def _read_story(
    story_id: str, story_row: dict[str, str], stories: Stories, folder: Path
) -> Document:
    """Read a story as a document.

    Args:
        story_id: The id of the story.
        story_row: Its row of documents.csv, which has its title.
        stories: The texts of all stories.
        folder: The folder of the official files, named in the error.

    Raises:
        RowError: The story is missing or empty.
    """
    text = stories.read(story_id)
    if text is None:
        advice = (
            f"put {story_id}.content into '{folder.name}' or its tmp/, or {STORIES_ARCHIVE} into "
            f"'{folder.name}'"
        )
        raise RowError("document_id", f"the story '{story_id}' is not there; {advice}")
    if not text or text.isspace():
        raise RowError("document_id", f"the story '{story_id}' is empty")
    return Document(story_id, text, story_row.get("wiki_title") or "")


def _find_table(folder: Path, table_name: str) -> Path | Member:
    """The file of a table: in the folder, or in the archive of the tables there.

    Args:
        folder: The folder of the official files.
        table_name: The table, "qaps.csv".

    Raises:
        DataError: It is in neither.
    """
    path = folder / table_name
    if path.is_file():
        return path
    archive = folder / TABLES_ARCHIVE
    members: list[str] = []
    if archive.is_file():
        members = member_names(archive)
    for member in members:
        if PurePosixPath(member).name == table_name:
            return Member(archive, member)
    problem = f"the folder has no {table_name}, which belongs to the official files"
    raise DataError.of_file(folder.name, problem)


def _read_table(folder: Path, table_name: str) -> Iterator[tuple[RowPlace, dict[str, str]]]:
    """Yield (place, {column: value}) for each row of an official CSV table.

    Args:
        folder: The folder of the official files.
        table_name: The table, "qaps.csv" or "documents.csv".

    Raises:
        DataError: The table is missing or damaged, or lacks a column.
    """
    needed_columns = _COLUMNS[table_name]
    with opened(_find_table(folder, table_name)) as stream:
        try:
            reader = csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8-sig", newline=""))
            columns = reader.fieldnames or ()
            lacking = [column for column in needed_columns if column not in columns]
            if lacking:
                problem = f"has no column '{lacking[0]}' (it has {', '.join(columns) or 'none'})"
                raise DataError(table_name, line=1, field=None, problem=problem)
            for row in reader:
                place = RowPlace(table_name, line=reader.line_num)
                missing = [column for column in needed_columns if row[column] is None]
                if missing:
                    raise place.error(missing[0], "is missing: the row has too few columns")
                yield place, row
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 ({error.reason}); save the file as UTF-8"
            raise DataError.of_file(table_name, problem) from None
        except csv.Error as error:
            problem = f"not readable as a table ({error})"
            raise DataError.of_file(table_name, problem) from None


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


def _parse_and_add(questions: _ReadQuestions, raw: RawRow) -> None:
    """Parse a row of a question with its whole story, and add both to `questions`.

    Args:
        questions: The questions and stories read so far; changed.
        raw: The row.

    Raises:
        RowError: A field is missing, of another type or blank, also the first answer.
    """
    row = _Row.read(raw)
    story = row.document
    refuse_blank(
        {"document.id": story.id, "document.text": story.text, "question.text": row.question.text}
    )
    answer_texts = [answer.text for answer in row.answers]
    has_first_answer = bool(answer_texts) and bool(answer_texts[0].strip())
    if not has_first_answer:  # the second answer alone will not do
        raise RowError("answers", "the row has no answer")
    answers = clean_answers(answer_texts, "answers")
    title = ""
    if story.summary:
        title = story.summary.title or ""
    document = Document(story.id, story.text, title)
    questions.add_question(document, row.question.text, answers, {"kind": story.kind or ""})


def _add_rows_of_file(questions: _ReadQuestions, file: Path | Member) -> None:
    """Add the questions of a file of rows to `questions`, until its limit is reached. Raises
    DataError.
    """
    for _ in parse_each(read_rows(file), partial(_parse_and_add, questions), _ADVICE):
        if questions.are_enough():
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
    questions = _ReadQuestions(limit)
    fingerprint = hashlib.sha256(b"narrativeqa rows 1\n")
    is_on_hub = source.revision is not None
    if is_on_hub:
        fingerprint.update(f"{source.name} {source.revision}".encode())
    for file in source.files:
        if not is_on_hub:
            fingerprint.update(sha256_of_content(file))
        if not questions.are_enough():
            _add_rows_of_file(questions, file)
        if questions.are_enough() and is_on_hub:
            break  # before the next file is fetched
    if not questions.examples:
        raise DataError.of_file(source.name, "the file has no rows")
    return questions.make_dataset(
        config.name, fingerprint.hexdigest(), source.name, source.revision
    )
