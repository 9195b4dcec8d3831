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
from unittest.mock import patch

from harness.config.yaml_tree import dataset_of_run
from harness.datasets import load
from harness.datasets.base import Dataset
from harness.datasets.question_kinds import random_sample
from harness.errors import UserError
from harness.storage.record_texts import CHECKSUM_KEY, gold_of, text_checksum
from harness.storage.records import StoredPiece, StoredRecord
from harness.storage.run_folder import RecordsByQuestion, StoredRun
from harness.storage.serialize import json_values
from harness.types import Document, Example, Gold, Question
from reports import facts

offline = partial(patch.dict, os.environ, HF_HUB_OFFLINE="1")
"""with offline(): read files of the hub from the cache alone, without a connection."""


@dataclass(frozen=True)
class Rows:
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
        key = piece.get(CHECKSUM_KEY)
        if piece["kind"] == "generated" and not key:
            return str(piece["text"])
        if key is not None and key in self.texts:
            return self.texts[key]
        document = self.documents.get(piece["document_id"])
        if document is None:
            return None
        return document.text[piece["start"] : piece["end"]]

    def sizes(self, document_ids: Sequence[str]) -> dict[str, int] | None:
        """Document id -> length in characters, of these documents; None where one is not known."""
        sizes = {}
        for name in document_ids:
            if name in self.documents:
                sizes[name] = len(self.documents[name].text)
            elif name in self.characters:
                sizes[name] = self.characters[name]
            else:
                return None
        return sizes


def with_data_at(run: StoredRun, data: str | None) -> StoredRun:
    """The run with its data set's rows at `data`; the same run for None."""
    if data is None:
        return run
    return replace(run, config=run.config.with_dataset(data=data))


def read_rows(run: StoredRun, *, data: str | None = None, whole: bool = False) -> Rows:
    """The questions of a run, without long texts that were shown (`Rows.texts` is empty).

    Does not raise for data that is missing or has changed: `Rows.problem` says so.

    Args:
        run: The run.
        data: The file of the rows; None for the run's records, or the place that the run names.
        whole: Read the documents, too, from the data set.
    """
    return rows_of([run], data=data, whole=whole)[0]


def examples_of(run: StoredRun, data: str | None = None) -> dict[str, Example]:
    """Question id -> question with gold answers, of a run.

    Args:
        run: The run.
        data: The file of the rows; None for the run's records, or the place that the run names.

    Raises:
        UserError: Neither the run nor its data set has them.
    """
    rows = read_rows(run, data=data)
    if rows.problem is not None:
        lacks = f"{run.path} does not hold its questions and gold answers, and {rows.problem}"
        raise UserError(f"{lacks}; name the file of the rows with --data")
    return dict(rows.examples)


def rows_of(
    runs: Sequence[StoredRun], *, data: str | None = None, whole: bool = False
) -> list[Rows]:
    """The questions of each run, as `read_rows`; a data set that several runs need is read once.

    Args:
        runs: Stored runs.
        data: The file of the rows; None for each run's records, or the place that it names.
        whole: Read the documents, too, from the data set.
    """
    read: dict[str, Rows] = {}
    found = []
    for run in runs:
        placed = with_data_at(run, data)
        rows = None
        if data is None and not whole:
            rows = _rows_in_records(placed)
        if rows is None:
            key = f"{placed.config.dataset} {facts.fingerprint(placed)}"
            if key not in read:
                read[key] = _rows_of_data_set(placed)
            rows = read[key]
        found.append(rows)
    return found


def with_rows(
    runs: Sequence[StoredRun], data: str | None, warn: Callable[[str], None], *, whole: bool = False
) -> list[tuple[StoredRun, Rows]]:
    """Read the rows of each run; a run whose rows cannot be read is left out with a warning.

    Args:
        runs: Stored runs.
        data: The file of the rows; None for the place that each run names.
        warn: Called with each warning.
        whole: Read the documents, too, from the data set.

    Returns:
        (run, rows) of each run that has rows.

    Raises:
        UserError: No run has rows, or `data` is one file for runs over several data sets.
    """
    if data is not None and len({run.config.dataset.name for run in runs}) > 1:
        raise UserError(
            "--data holds the rows of one data set, but the runs have several; name runs over one "
            "of them"
        )
    found = []
    problems = []
    for run, rows in zip(runs, rows_of(runs, data=data, whole=whole), strict=True):
        if rows.problem is None:
            found.append((with_data_at(run, data), rows))
        else:
            problems.append(f"{run.path}: {rows.problem}")
    if not found:
        raise UserError(f"{problems[0]}; name the file of the rows with --data")
    for problem in problems:
        warn(f"warning: left out: {problem}")
    return found


class _Examples(Mapping[str, Example]):
    """A mapping from question id to question and gold answers, made of a record at each access."""

    def __init__(self, records: Sequence[StoredRecord]) -> None:
        """Take the records, which all hold their questions and gold answers."""
        self._records = RecordsByQuestion(records)

    def __getitem__(self, question_id: str) -> Example:
        return _example_of(self._records[question_id])

    def __iter__(self) -> Iterator[str]:
        return iter(self._records)

    def __len__(self) -> int:
        return len(self._records)


def _example_of(record: StoredRecord) -> Example:
    """The question and gold answers of a record that holds them."""
    gold = gold_of(record)
    # `_rows_in_records` has seen both.
    assert gold is not None
    assert record.question is not None
    options = None
    if record.options is not None:
        options = tuple(record.options)
    ids = tuple(record.document_ids)
    return Example(Question(record.question_id, record.question, ids, options), gold)


def _rows_in_records(run: StoredRun) -> Rows | None:
    """The run's questions out of its records; None where a record lacks the question, gold answers
    or the lengths of its documents."""
    characters: dict[str, int] = {}
    for record in run.records_with_texts:
        ids = record.document_ids
        sizes = record.document_characters or ()
        if record.gold is None or record.question is None or len(sizes) != len(ids):
            return None
        characters.update(zip(ids, sizes, strict=True))
    return Rows(_Examples(run.records_with_texts), characters=characters)


def _rows_of_data_set(run: StoredRun) -> Rows:
    """The run's questions and documents out of its data set, which is loaded again.

    `problem` is set where it is not at hand, or not the one the run was made with.
    """
    data = _load_data_set(run)
    if isinstance(data, str):
        return Rows(problem=data)
    return Rows({example.question.id: example for example in data.examples}, data.documents)


def _load_data_set(run: StoredRun) -> Dataset | str:
    """The run's data set, loaded again without a connection.

    In place of it a text that says why not, where it is not at hand or not the one the run was made
    with.
    """
    name = run.config.dataset.name
    try:
        with offline():
            data = load(dataset_of_run(run.config, str(run.path)))
    except UserError as e:
        return f"the rows of {name} are not available: {e}"
    if data.fingerprint != facts.fingerprint(run):
        return f"the rows of {name} are not those the run was made with, so they are not shown"
    return data


def known_golds(run: StoredRun) -> dict[str, Gold] | None:
    """Question id -> gold answers, by the run's data set.

    None where this is a file of the user's own, is not at hand, or is not the one the run was made
    with.
    """
    if run.config.dataset.data:
        return None
    loaded = _load_data_set(run)
    if isinstance(loaded, str):
        return None
    return {example.question.id: example.gold for example in loaded.examples}


def data_misfits(run: StoredRun) -> list[str] | None:
    """What a run holds otherwise than its data set, a sentence each; [] where nothing differs.

    Compared are questions and gold answers, the passages shown, and which questions were asked.

    Returns:
        The sentences; None where the data set is a file of the user's own, which proves nothing, or
        is not at hand.
    """
    if run.config.dataset.data:
        return None
    loaded = _load_data_set(run)
    if isinstance(loaded, str):
        return None
    rows = Rows({example.question.id: example for example in loaded.examples}, loaded.documents)
    n_other_questions = 0
    n_other_texts = 0
    for record in run.records_with_texts:
        if record.gold and _differs(record, rows):
            n_other_questions += 1
        elif _shows_other_texts(record, rows):
            n_other_texts += 1
    total = len(run.records)
    sentences = []
    if n_other_questions:
        sentences.append(
            f"{n_other_questions} of {total} questions or gold answers are not those of the data "
            "set"
        )
    if n_other_texts:
        sentences.append(
            f"{n_other_texts} of {total} records show texts that are not in their documents"
        )
    return [*sentences, *_selection_misfits(run, loaded)]


def _shows_other_texts(record: StoredRecord, rows: Rows) -> bool:
    """Whether a record shows a passage with another text than its document has at that place."""
    for piece in record.shown:
        document = rows.documents.get(piece.get("document_id") or "")
        held = piece.get(CHECKSUM_KEY) or piece.get("sha256")
        if piece["kind"] != "span" or document is None:
            continue
        text = document.text[piece["start"] : piece["end"]]
        if held is not None and held != text_checksum(text):
            return True
        if piece.get("text") and piece["text"] != text:
            return True
    return False


def _selection_misfits(run: StoredRun, data: Dataset) -> Iterator[str]:
    """Yield a sentence where a run left out more rows than its data set does, and where a finished
    run asked other questions than its settings choose."""
    skipped = run.manifest.dataset.skipped.values()
    if sum(skipped) > sum(data.skipped.values()):
        yield f"{sum(skipped)} rows are said to be left out, of the data set {sum(data.skipped.values())} are"
    if not run.summary.is_finished or run.summary.stopped_early is not None:
        return
    config = run.config
    if config.sample:
        data = random_sample(data, str(config.dataset.format), config.sample, config.sample_seed)
    asked = {record.question_id for record in run.records}
    first = {example.question.id for example in data.examples[: len(asked)]}
    if asked != first:
        yield f"its {len(asked)} questions are not the first ones of its data set"


def _differs(record: StoredRecord, rows: Rows) -> bool:
    """Whether a record holds another question, gold answer, mark of it (as its kind) or length of a
    document than its data set.

    A mark that only one of them has may be of another version, and is not compared.
    """
    example = rows.examples.get(record.question_id)
    if example is None:
        return True
    question = example.question
    if record.question != question.text:
        return True
    if list(record.document_ids) != list(question.document_ids):
        return True
    if list(record.options or ()) != list(question.options or ()):
        return True
    if record.gold_answers != list(example.gold.answers):
        return True
    marks = json_values(example.gold.extra, not_finite=[])
    for key, value in record.gold_extra.items():
        if key in marks and marks[key] != value:
            return True
    sizes = [len(rows.documents[name].text) for name in question.document_ids]
    return bool(record.document_characters != sizes)
