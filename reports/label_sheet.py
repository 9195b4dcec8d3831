"""A sheet on which two people say which answers are right, without seeing whose answers they are.

    item          question            accepted answers  answer        contexts       person 1  person 2
    3f0c1d9a2b47  How long is it?     two years         Two years.    It lasts ...   yes       yes

No method or run is named, answers of all runs stand in one random order (who labels only some labels
the first rows), and text that begins like a formula is text. An item is a hash of run and question, by
which the sheet finds its answers again.
"""

import hashlib
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zipfile import BadZipFile

from openpyxl import Workbook, load_workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.styles import Alignment, Font
from openpyxl.utils.exceptions import InvalidFileException
from openpyxl.worksheet.datavalidation import DataValidation
from openpyxl.worksheet.worksheet import Worksheet

from harness.errors import UserError
from harness.judging.judge_run import shown_texts
from harness.storage.records import StoredRecord
from harness.storage.run_folder import StoredRun
from harness.types import Example
from reports.gold_rows import examples_of

PEOPLE = ("person 1", "person 2")
HEADS = ("item", "question", "accepted answers", "answer", "contexts", *PEOPLE)
_WIDTHS = (14, 40, 30, 50, 80, 10, 10)
_LONGEST = 32_000  # characters; a cell holds 32,767
_SEED = 0
_HOW = (
    "Each of two people fills one of the columns 'person 1' and 'person 2', without seeing the other's.",
    "Write yes where the answer is right beside the accepted answers, and no where it is not.",
    "Where no accepted answer is given, write yes if the contexts support the answer.",
    "Leave a cell empty that you do not label. Label from the top: the order is random.",
    "Do not change the column 'item'; it says which answer a row is.",
)


def item_of(run: StoredRun, question_id: str) -> str:
    """The name of an answer on a sheet: twelve digits of a hash of run and question."""
    digest = hashlib.sha256(f"{run.path.name}\n{question_id}".encode())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class _Row:
    """A row of a sheet, without its labels; the texts are not cut yet."""

    item: str
    question: str
    accepted: str
    answer: str
    contexts: str


@dataclass(frozen=True)
class Sheet:
    """A sheet to label.

    Args:
        content: The bytes of the .xlsx file.
        n_answers: The number of its rows.
    """

    content: bytes
    n_answers: int


def sheet(runs: Sequence[StoredRun], data: str | None = None) -> Sheet:
    """The sheet of all answers of some runs, in one random order; questions that failed have none.

    Args:
        runs: The runs whose answers are labelled.
        data: The file of the data set's rows; None for the place that each run names.

    Raises:
        UserError: The questions of a run are not known any more, or there is no answer.
    """
    lines: list[_Row] = []
    for run in runs:
        lines += _rows(run, examples_of(run, data))
    if not lines:
        raise UserError("these runs have no answer to label")
    lines.sort(key=lambda line: line.item)
    random.Random(_SEED).shuffle(lines)
    book = Workbook()
    _fill(book.active, lines)
    how = book.create_sheet("how to label")
    for number, sentence in enumerate(_HOW, 1):
        _write(how, number, 1, sentence)
    how.column_dimensions["A"].width = 110
    content = BytesIO()
    book.save(content)
    return Sheet(content.getvalue(), len(lines))


def _rows(run: StoredRun, examples: Mapping[str, Example]) -> list[_Row]:
    """The rows of all answers of a run.

    Args:
        run: The run.
        examples: Question id -> question with gold answers.
    """
    answered = [record for record in run.records_with_texts if record.has_answer]
    texts = run.texts(answered)
    rows = []
    for record in answered:
        contexts = "\n\n".join(shown_texts(record, texts))
        rows.append(_row(run, record, examples[record.question_id], contexts))
    return rows


def _row(run: StoredRun, record: StoredRecord, example: Example, contexts: str) -> _Row:
    """The row of an answer.

    Args:
        run: The run.
        record: The record of the answer.
        example: Its question with gold answers.
        contexts: The texts that were shown, as one.
    """
    accepted = "\n".join(example.gold.answers)
    if not accepted and example.gold.extra.get("declined"):
        accepted = "(the documents do not say)"
    answer = record.scored_text
    item = item_of(run, record.question_id)
    return _Row(item, example.question.text, accepted, answer, contexts)


def _fill(page: Worksheet, lines: Sequence[_Row]) -> None:
    """Write the rows under bold heads into a page, with a choice of yes and no for the labels.

    Args:
        page: The page of the workbook, which is changed.
        lines: The rows.
    """
    page.title = "labels"
    for place, (head, width) in enumerate(zip(HEADS, _WIDTHS, strict=True), 1):
        page.cell(1, place, head).font = Font(bold=True)
        page.column_dimensions[page.cell(1, place).column_letter].width = width
    for number, line in enumerate(lines, 2):
        texts = (line.item, line.question, line.accepted, line.answer, line.contexts)
        for place, text in enumerate(texts, 1):
            _write(page, number, place, text)
    page.freeze_panes = "B2"
    choice = DataValidation(type="list", formula1='"yes,no"', allow_blank=True)
    choice.add(f"F2:G{len(lines) + 1}")
    page.add_data_validation(choice)


def _write(page: Worksheet, number: int, place: int, text: str) -> None:
    """Set a cell to a text, which stays a text whatever it begins with; a long one is cut.

    Args:
        page: The page, which is changed.
        number: The row, from 1.
        place: The column, from 1.
        text: The text.
    """
    if len(text) > _LONGEST:
        text = f"{text[:_LONGEST]} … ({len(text) - _LONGEST:,} more characters)"
    cell = page.cell(number, place, ILLEGAL_CHARACTERS_RE.sub("\ufffd", text))
    cell.data_type = "s"
    cell.quotePrefix = True
    cell.alignment = Alignment(wrap_text=True, vertical="top")


def read_sheet(path: Path) -> dict[str, dict[str, str]]:
    """The labels of a filled sheet: {"person 1": {"3f0c1d9a2b47": "yes"}, ...}, by item.

    A person without a label is left out.

    Raises:
        UserError: It cannot be read, lacks a column, has no label, or one is neither yes nor no.
    """
    try:
        book = load_workbook(path, read_only=True, data_only=True)
    except (OSError, BadZipFile, InvalidFileException, KeyError, ValueError) as error:
        raise UserError(f"--labels {path}: cannot be read as a workbook ({error})") from None
    lines = book.worksheets[0].iter_rows(values_only=True)
    heads = [str(head) for head in next(lines, ())]
    for head in ("item", *PEOPLE):
        if head not in heads:
            raise UserError(
                f"--labels {path}: the first sheet has no column '{head}'; --sheet writes one with it"
            )
    found: dict[str, dict[str, str]] = {person: {} for person in PEOPLE}
    for number, line in enumerate(lines, 2):
        cells = dict(zip(heads, line, strict=False))
        for person in PEOPLE:
            label = _label(cells[person], path, number)
            if label:
                found[person][str(cells["item"])] = label
    book.close()
    if not any(found.values()):
        raise UserError(f"--labels {path}: no row has a label yet")
    return {person: labels for person, labels in found.items() if labels}


def _label(value: object, path: Path, number: int) -> str:
    """The label of a cell as "yes" or "no"; "" for an empty cell.

    "y" and "n" count too, and TRUE and FALSE, which a spreadsheet may make of true and false.

    Args:
        value: What the cell holds.
        path: The file, for the message.
        number: The row, for the message.

    Raises:
        UserError: The label is neither yes nor no.
    """
    if value is None:
        return ""
    text = str(value).strip().lower()
    text = {"true": "yes", "false": "no", "y": "yes", "n": "no"}.get(text, text)
    if text not in ("", "yes", "no"):
        raise UserError(f"--labels {path}: row {number} says '{value}'; write yes or no")
    return text
