"""The questions behind a run: gold answers, options and texts, from its records or else from its
data set.

    rows = read_rows(run)
    rows.examples["2hop__482757"].gold.answers     rows.text(record.shown[0])     rows.problem    None

Records hold all of that (harness/storage/record_texts.py). Those of older versions, and of a data
set with keep_texts=no, do not: the rows are then read from where run.yaml says the data set is,
without a connection; one of the hub comes from the cache. Rows that are not those the run was made
with are not used: `problem` then says why.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal, NamedTuple
from unittest.mock import patch

from harness.config.yaml_tree import dataset_of_run
from harness.datasets import load
from harness.datasets.base import Dataset, row_making
from harness.datasets.load_once import load_once
from harness.datasets.question_kinds import random_sample
from harness.errors import UserError
from harness.storage.paths import with_home_expanded
from harness.storage.record_texts import (
    CHECKSUM_KEY,
    checksum_of_missing_text,
    gold_of,
    text_checksum,
)
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import RecordsByQuestion, StoredRun
from harness.storage.serialize import json_values
from harness.types import Document, Example, Gold, Question
from reports import facts

offline = partial(patch.dict, os.environ, HF_HUB_OFFLINE="1")
"""with offline(): read files of the hub from the cache alone, without a connection."""


@dataclass(frozen=True)
class QuestionRows:
    """The questions of a run with their gold answers, and texts of its documents.

    Args:
        examples: Question id -> question and gold answers; {} where `problem` says why.
        documents: Document id -> document, where the data set was read.
        problem: Why there are no examples, or None.
        characters: Document id -> length in characters.
        texts: Checksum -> text, of the long texts that the run folder holds.
    """

    examples: Mapping[str, Example] = field(default_factory=dict)
    documents: Mapping[str, Document] = field(default_factory=dict)
    problem: str | None = None
    characters: Mapping[str, int] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)

    def text(self, piece: StoredPiece) -> str | None:
        """The text of a piece of a record's `shown`: the piece's own, a long text of the run
        folder, or that part of its document; None where none of these is at hand."""
        if piece.get("text"):
            return str(piece["text"])
        recorded_checksum = piece.get(CHECKSUM_KEY)
        if piece["kind"] == "generated" and not recorded_checksum:
            return str(piece["text"])
        if recorded_checksum is not None and recorded_checksum in self.texts:
            return self.texts[recorded_checksum]
        document = self.documents.get(piece["document_id"])
        if document is None:
            return None
        return document.text[piece["start"] : piece["end"]]

    def document_lengths(self, document_ids: Sequence[str]) -> dict[str, int] | None:
        """Document id -> length in characters, of these documents; None where one is not known."""
        lengths = {}
        for document_id in document_ids:
            if document_id in self.documents:
                lengths[document_id] = len(self.documents[document_id].text)
            elif document_id in self.characters:
                lengths[document_id] = self.characters[document_id]
            else:
                return None
        return lengths


def with_data_path(run: StoredRun, data: str | None) -> StoredRun:
    """The run with its data set's rows at `data`; the same run for None."""
    if data is None:
        return run
    return replace(run, config=run.config.with_dataset(data=data))


def read_rows(
    run: StoredRun, *, data: str | None = None, with_documents: bool = False
) -> QuestionRows:
    """The questions of a run, without long texts that were shown (`Rows.texts` is empty).

    Does not raise for data that is missing or has changed: `Rows.problem` says so.

    Args:
        run: The run.
        data: The file of the rows; None for the run's records, or the place that the run names.
        with_documents: Read the documents, too, from the data set.
    """
    return read_rows_of_runs([run], data=data, with_documents=with_documents)[0]


def read_examples(run: StoredRun, data: str | None = None) -> dict[str, Example]:
    """Question id -> question with gold answers, of a run.

    Args:
        run: The run.
        data: The file of the rows; None for the run's records, or the place that the run names.

    Raises:
        UserError: Neither the run nor its data set has them.
    """
    rows = read_rows(run, data=data)
    if rows.problem is not None:
        problem = f"{run.path} does not hold its questions and gold answers, and {rows.problem}"
        raise UserError(f"{problem}; name the file of the rows with --data")
    return dict(rows.examples)


def read_rows_of_runs(
    runs: Sequence[StoredRun], *, data: str | None = None, with_documents: bool = False
) -> list[QuestionRows]:
    """The questions of each run, as `read_rows`; a data set that several runs need is read once.

    Args:
        runs: Stored runs.
        data: The file of the rows; None for each run's records, or the place that it names.
        with_documents: Read the documents, too, from the data set.
    """
    rows_by_dataset: dict[str, QuestionRows] = {}
    rows_by_run = []
    for run in runs:
        run_with_path = with_data_path(run, data)
        rows = None
        if data is None and not with_documents:
            rows = _rows_in_records(run_with_path)
        if rows is None:  # the records do not hold them, or the data set's are wanted
            settings_and_rows = (
                f"{run_with_path.config.dataset} {facts.rows_fingerprint(run_with_path)}"
            )
            if settings_and_rows not in rows_by_dataset:
                rows_by_dataset[settings_and_rows] = _load_rows(run_with_path)
            rows = rows_by_dataset[settings_and_rows]
        rows_by_run.append(rows)
    return rows_by_run


class RunWithRows(NamedTuple):
    """A run, and the rows of its data set."""

    run: StoredRun
    rows: QuestionRows


def runs_with_rows(
    runs: Sequence[StoredRun],
    data: str | None,
    warn: Callable[[str], None],
    *,
    with_documents: bool = False,
) -> list[RunWithRows]:
    """Read the rows of each run; a run whose rows cannot be read is left out with a warning.

    Args:
        runs: Stored runs.
        data: The file of the rows; None for the place that each run names.
        warn: Called with each warning.
        with_documents: Read the documents, too, from the data set.

    Returns:
        Each run that has rows, with these.

    Raises:
        UserError: No run has rows, or `data` is one file for runs over several data sets.
    """
    check_one_dataset(runs, data)
    runs_and_rows = []
    problems = []
    rows_by_run = read_rows_of_runs(runs, data=data, with_documents=with_documents)
    for run, rows in zip(runs, rows_by_run, strict=True):
        if rows.problem is None:
            runs_and_rows.append(RunWithRows(with_data_path(run, data), rows))
        else:
            problems.append(f"{run.path}: {rows.problem}")
    if not runs_and_rows:
        raise UserError(f"{problems[0]}; name the file of the rows with --data")
    for problem in problems:
        warn(f"warning: left out: {problem}")
    return runs_and_rows


class _RecordExamples(Mapping[str, Example]):
    """A mapping from question id to question and gold answers, made of a record at each access."""

    def __init__(self, records: Sequence[StoredRecord]) -> None:
        """Take the records, which all hold their questions and gold answers."""
        self._records = RecordsByQuestion(records)

    def __getitem__(self, question_id: str) -> Example:
        return _example_in_record(self._records[question_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


def _example_in_record(record: StoredRecord) -> Example:
    """The question and gold answers of a record that holds them."""
    gold = gold_of(record)
    # `_rows_in_records` checked that each record has both
    assert gold is not None
    assert record.question is not None
    options = None
    if record.options is not None:
        options = tuple(record.options)
    document_ids = tuple(record.document_ids)
    return Example(Question(record.question_id, record.question, document_ids, options), gold)


def _rows_in_records(run: StoredRun) -> QuestionRows | None:
    """The run's questions out of its records; None where a record lacks the question, gold answers
    or the lengths of its documents."""
    characters: dict[str, int] = {}
    for record in run.records_with_texts:
        document_ids = record.document_ids
        lengths = record.document_characters or ()
        has_texts = record.gold is not None and record.question is not None
        if not has_texts or len(lengths) != len(document_ids):
            return None
        characters.update(zip(document_ids, lengths, strict=True))
    return QuestionRows(_RecordExamples(run.records_with_texts), characters=characters)


def _load_rows(run: StoredRun) -> QuestionRows:
    """The run's questions and documents out of its data set, which is loaded again.

    `problem` is set where it is not at hand, or not the one the run was made with.
    """
    dataset = _load_dataset_or_problem(run)
    if isinstance(dataset, str):
        return QuestionRows(problem=dataset)
    examples_by_id = {example.question.id: example for example in dataset.examples}
    return QuestionRows(examples_by_id, dataset.documents)


def _load_dataset_or_problem(run: StoredRun) -> Dataset | str:
    """Load the run's data set again, without a connection.

    Returns:
        The data set; a sentence that says why not, where it is not at hand or not the one the run
        was made with.
    """
    name = run.config.dataset.name
    try:
        with offline():
            dataset = load(dataset_of_run(run.config, str(run.path)))
    except UserError as error:
        return f"the rows of {name} are not available: {error}"
    if dataset.fingerprint != facts.rows_fingerprint(run):
        return f"the rows of {name} are not those the run was made with, so they are not shown"
    return dataset


def load_golds(run: StoredRun) -> dict[str, Gold] | None:
    """Question id -> gold answers, by the run's data set.

    None where this is a file of the user's own, is not at hand, would take long to make, or is not
    the one the run was made with.
    """
    if run.config.dataset.data or _row_making(run) == "slow":
        return None
    dataset = _load_dataset_or_problem(run)
    if isinstance(dataset, str):
        return None
    return {example.question.id: example.gold for example in dataset.examples}


@dataclass(frozen=True)
class RowsCompared:
    """What a run holds otherwise than the rows of its data set.

    Args:
        other_questions: Ids of questions that, with their gold answers, kinds and documents, are
            not those of the rows.
        differences: What differs, a sentence each: the number of these questions, and more.
        has_their_fingerprint: Whether the run records the fingerprint that the rows have.
    """

    other_questions: frozenset[str]
    differences: Sequence[str]
    has_their_fingerprint: bool

    @property
    def sentences(self) -> list[str]:
        """The differences; where there is none, one on another fingerprint, if it is another."""
        if not self.differences and not self.has_their_fingerprint:
            return ["its data set is recorded with another fingerprint than its rows have"]
        return list(self.differences)


def are_rows_made_quickly(run: StoredRun) -> bool:
    """Whether the rows of a run's data set are made by the program itself, in a few seconds, so
    that tables read them without being asked to."""
    return _row_making(run) == "quick"


def _row_making(run: StoredRun) -> Literal["quick", "slow"] | None:
    """How long the program takes to make the rows of a run's data set itself; None where it does
    not make them, or the run is imported."""
    if run.manifest.imported is not None:
        return None
    try:
        return row_making(dataset_of_run(run.config, str(run.path)))
    except UserError:
        return None


def made_rows_fingerprint(run: StoredRun) -> str | None:
    """The fingerprint of the rows that the program makes by a run's settings, or why it cannot;
    None where it does not make them in a few seconds."""
    if not are_rows_made_quickly(run):
        return None
    try:
        return _made_dataset(run).fingerprint
    except _CannotMakeRows as error:
        return str(error)


def _made_dataset(run: StoredRun) -> Dataset:
    """The data set that the program makes by a run's settings. Raises _CannotMakeRows."""
    try:
        return load_once(dataset_of_run(run.config, str(run.path)), None)
    except UserError as error:
        raise _CannotMakeRows(str(error)) from error


def check_one_dataset(runs: Sequence[StoredRun], data: str | None) -> None:
    """Raise UserError where `data` is one file of rows for runs over several data sets."""
    dataset_names = {run.config.dataset.name for run in runs}
    if data is not None and len(dataset_names) > 1:
        raise UserError(
            "--data holds the rows of one data set, but the runs have several; name runs over one "
            "of them"
        )


def compare_with_rows(run: StoredRun, data: str | None = None) -> RowsCompared | None:
    """What a run holds otherwise than the rows of its data set.

    Compared are questions, options, gold answers, kinds, documents and their lengths, the passages
    shown, and which questions were asked.

    Args:
        run: A stored run.
        data: The file of the rows, which need not be those that the run says it was made with; None
            for the place that the run names.

    Returns:
        What differs. None where the run is imported, or without `data` where its rows are a file of
        the user's own, which proves nothing, are not at hand, or are made otherwise in this version.

    Raises:
        UserError: The rows in `data` cannot be read.
    """
    if run.manifest.imported is not None:
        return None
    try:
        dataset = _dataset_to_compare(run, data)
    except _CannotMakeRows as error:
        sentence = f"its rows cannot be made by its settings ({error})"
        return RowsCompared(frozenset(), [sentence], has_their_fingerprint=False)
    if dataset is None:
        return None
    examples_by_id = {example.question.id: example for example in dataset.examples}
    rows = QuestionRows(examples_by_id, dataset.documents)
    other_questions = set()
    n_other_texts = 0
    for record in run.records_with_texts:
        if _differs_from_dataset(record, rows):
            other_questions.add(record.question_id)
        elif _shows_other_texts(record, rows):
            n_other_texts += 1
    total = len(run.records)
    sentences = []
    if other_questions:
        sentences.append(
            f"{len(other_questions)} of {total} questions or gold answers are not those of the "
            "data set"
        )
    if n_other_texts:
        sentences.append(
            f"{n_other_texts} of {total} records show texts that are not in their documents"
        )
    has_these_rows = dataset.fingerprint == facts.rows_fingerprint(run)
    if has_these_rows:
        sentences += _selection_inconsistencies(run, dataset)
    return RowsCompared(frozenset(other_questions), sentences, has_these_rows)


def dataset_inconsistencies(run: StoredRun, data: str | None = None) -> list[str] | None:
    """What a run holds otherwise than its data set, a sentence each; [] where nothing differs, None
    where the rows were not read. Arguments and errors are those of `compare_with_rows`."""
    compared = compare_with_rows(run, data)
    if compared is None:
        return None
    return compared.sentences


class _CannotMakeRows(UserError):
    """The program cannot make the rows that a run's settings ask for."""


def _dataset_to_compare(run: StoredRun, data: str | None) -> Dataset | None:
    """The data set that a run is compared with; None where it is not at hand.

    Args:
        run: The run.
        data: The file of the rows; None for the place that the run names.

    Raises:
        _CannotMakeRows: Its settings ask for rows that the program cannot make.
        UserError: The rows in `data` cannot be read.
    """
    if data is not None:
        moved = with_data_path(run, with_home_expanded(data))
        return load_once(dataset_of_run(moved.config, str(run.path)), None)
    if are_rows_made_quickly(run):
        made = _made_dataset(run)
        if made.fingerprint != facts.rows_fingerprint(run):
            return None  # another version of the program made others
        return made
    if run.config.dataset.data or _row_making(run) == "slow":
        return None
    dataset = _load_dataset_or_problem(run)
    if isinstance(dataset, str):
        return None
    return dataset


def _shows_other_texts(record: StoredRecord, rows: QuestionRows) -> bool:
    """Whether a record shows a passage with another text than its document has at that place."""
    for piece in record.shown:
        document = rows.documents.get(piece.get("document_id") or "")
        if piece["kind"] != "span" or document is None:
            continue
        text_in_dataset = document.text[piece["start"] : piece["end"]]
        recorded_checksum = checksum_of_missing_text(piece)
        if recorded_checksum is not None and recorded_checksum != text_checksum(text_in_dataset):
            return True
        recorded_text = piece.get("text")
        if recorded_text and recorded_text != text_in_dataset:
            return True
    return False


def _selection_inconsistencies(run: StoredRun, dataset: Dataset) -> Iterator[str]:
    """Yield a sentence where a run left out more rows than its data set does, and where a finished
    run asked other questions than its settings choose: the first ones of the data set, or of a
    random sample of it."""
    n_skipped = sum(run.manifest.dataset.skipped.values())
    n_skipped_by_dataset = sum(dataset.skipped.values())
    if n_skipped > n_skipped_by_dataset:
        yield (
            f"{n_skipped} rows are said to be left out, of the data set {n_skipped_by_dataset} are"
        )
    if not run.summary.is_finished or run.summary.stopped_early is not None:
        return
    config = run.config
    if config.sample:
        dataset = random_sample(
            dataset, str(config.dataset.format), config.sample, config.sample_seed
        )
    asked_ids = {record.question_id for record in run.records}
    first_ids = {example.question.id for example in dataset.examples[: len(asked_ids)]}
    if asked_ids != first_ids:
        yield f"its {len(asked_ids)} questions are not the first ones of its data set"


def _differs_from_dataset(record: StoredRecord, rows: QuestionRows) -> bool:
    """Whether a record holds another question, gold answer or length of a document than its data
    set; texts that it does not hold are not compared.

    Of what is marked beside the gold answers, such as the kind of the question, only keys that both
    hold are compared: others may be of another version.
    """
    example = rows.examples.get(record.question_id)
    if example is None:
        return True
    question = example.question
    if record.question is not None and record.question != question.text:
        return True
    if list(record.document_ids) != list(question.document_ids):
        return True
    holds_options = record.question is not None
    if holds_options and list(record.options or ()) != list(question.options or ()):
        return True
    gold = gold_of(record)
    if gold is not None and gold.answers != tuple(example.gold.answers):
        return True
    if gold is not None and set(gold.supporting) != set(example.gold.supporting):
        return True
    extra_in_dataset = json_values(example.gold.extra, not_finite=[])
    for key, value in record.gold_extra.items():
        if key in extra_in_dataset and extra_in_dataset[key] != value:
            return True
    lengths = [len(rows.documents[document_id].text) for document_id in question.document_ids]
    return record.document_characters is not None and record.document_characters != lengths
