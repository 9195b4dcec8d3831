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
from reports.gold_rows import read_examples

PEOPLE = ("person 1", "person 2")
COLUMN_HEADINGS = ("item", "question", "accepted answers", "answer", "contexts", *PEOPLE)
_COLUMN_WIDTHS = (14, 40, 30, 50, 80, 10, 10)
_MAX_CELL_CHARACTERS = 32_000  # characters; a cell holds 32,767
_SEED = 0
_INSTRUCTIONS = (
    "Each of two people fills one of the columns 'person 1' and 'person 2', without seeing the other's.",
    "Write yes where the answer is right beside the accepted answers, and no where it is not.",
    "Where no accepted answer is given, write yes if the contexts support the answer.",
    "Leave a cell empty that you do not label. Label from the top: the order is random.",
    "Do not change the column 'item'; it says which answer a row is.",
)


def answer_item(run: StoredRun, question_id: str) -> str:
    """The name of an answer on a sheet: twelve digits of a hash of run and question."""
    digest = hashlib.sha256(f"{run.path.name}\n{question_id}".encode())
    return digest.hexdigest()[:12]


@dataclass(frozen=True)
class _SheetRow:
    """A row of a sheet, without its labels; the texts are not cut yet."""

    item: str
    question: str
    accepted_answers: str
    answer: str
    contexts: str


@dataclass(frozen=True)
class LabelSheet:
    """A sheet to label.

    Args:
        content: The bytes of the .xlsx file.
        n_answers: The number of its rows.
    """

    content: bytes
    n_answers: int


def make_sheet(runs: Sequence[StoredRun], data: str | None = None) -> LabelSheet:
    """The sheet of all answers of some runs, in one random order; questions that failed have none.

    Args:
        runs: The runs whose answers are labelled.
        data: The file of the data set's rows; None for the place that each run names.

    Raises:
        UserError: The questions of a run are not known any more, or there is no answer.
    """
    rows: list[_SheetRow] = []
    for run in runs:
        rows += _sheet_rows(run, read_examples(run, data))
    if not rows:
        raise UserError("these runs have no answer to label")
    rows.sort(key=lambda row: row.item)
    random.Random(_SEED).shuffle(rows)
    book = Workbook()
    _write_rows(book.active, rows)
    instructions = book.create_sheet("how to label")
    for row_number, sentence in enumerate(_INSTRUCTIONS, 1):
        _write_text_cell(instructions, row_number, 1, sentence)
    instructions.column_dimensions["A"].width = 110
    content = BytesIO()
    book.save(content)
    return LabelSheet(content.getvalue(), len(rows))


def _sheet_rows(run: StoredRun, examples: Mapping[str, Example]) -> list[_SheetRow]:
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
        rows.append(_sheet_row(run, record, examples[record.question_id], contexts))
    return rows


def _sheet_row(run: StoredRun, record: StoredRecord, example: Example, contexts: str) -> _SheetRow:
    """The row of an answer; for a question that the documents do not answer, the column of accepted
    answers says so.

    Args:
        run: The run.
        record: The record of the answer.
        example: Its question with gold answers.
        contexts: The texts that were shown, as one.
    """
    accepted_answers = "\n".join(example.gold.answers)
    if not accepted_answers and example.gold.extra.get("declined"):
        accepted_answers = "(the documents do not say)"
    answer = record.scored_text
    return _SheetRow(
        item=answer_item(run, record.question_id),
        question=example.question.text,
        accepted_answers=accepted_answers,
        answer=answer,
        contexts=contexts,
    )


def _write_rows(page: Worksheet, rows: Sequence[_SheetRow]) -> None:
    """Write the rows under bold heads into a page, with a choice of yes and no for the labels.

    Args:
        page: The page of the workbook, which is changed.
        rows: The rows.
    """
    page.title = "labels"
    for column, (heading, width) in enumerate(zip(COLUMN_HEADINGS, _COLUMN_WIDTHS, strict=True), 1):
        page.cell(1, column, heading).font = Font(bold=True)
        page.column_dimensions[page.cell(1, column).column_letter].width = width
    for row_number, row in enumerate(rows, 2):
        texts = (row.item, row.question, row.accepted_answers, row.answer, row.contexts)
        for column, text in enumerate(texts, 1):
            _write_text_cell(page, row_number, column, text)
    page.freeze_panes = "B2"
    yes_or_no = DataValidation(type="list", formula1='"yes,no"', allow_blank=True)
    yes_or_no.add(f"F2:G{len(rows) + 1}")
    page.add_data_validation(yes_or_no)


def _write_text_cell(page: Worksheet, row: int, column: int, text: str) -> None:
    """Set a cell to a text, which stays a text whatever it begins with; a long one is cut.

    Args:
        page: The page, which is changed.
        row: The row, from 1.
        column: The column, from 1.
        text: The text.
    """
    if len(text) > _MAX_CELL_CHARACTERS:
        n_cut = len(text) - _MAX_CELL_CHARACTERS
        text = f"{text[:_MAX_CELL_CHARACTERS]} … ({n_cut:,} more characters)"
    cell = page.cell(row, column, ILLEGAL_CHARACTERS_RE.sub("\ufffd", text))
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
    rows = book.worksheets[0].iter_rows(values_only=True)
    headings = [str(heading) for heading in next(rows, ())]
    for heading in ("item", *PEOPLE):
        if heading not in headings:
            raise UserError(
                f"--labels {path}: the first sheet has no column '{heading}'; --sheet writes one with it"
            )
    labels_by_person: dict[str, dict[str, str]] = {person: {} for person in PEOPLE}
    for row_number, row in enumerate(rows, 2):
        cells = dict(zip(headings, row, strict=False))
        for person in PEOPLE:
            label = _parse_label(cells[person], path, row_number)
            if label:
                labels_by_person[person][str(cells["item"])] = label
    book.close()
    someone_labelled = any(labels_by_person.values())
    if not someone_labelled:
        raise UserError(f"--labels {path}: no row has a label yet")
    return {person: labels for person, labels in labels_by_person.items() if labels}


def _parse_label(value: object, path: Path, row: int) -> str:
    """The label of a cell as "yes" or "no"; "" for an empty cell.

    "y" and "n" count too, and TRUE and FALSE, which a spreadsheet may make of true and false.

    Args:
        value: What the cell holds.
        path: The file, for the message.
        row: The row, for the message.

    Raises:
        UserError: The label is neither yes nor no.
    """
    if value is None:
        return ""
    label = str(value).strip().lower()
    label = {"true": "yes", "false": "no", "y": "yes", "n": "no"}.get(label, label)
    if label not in ("", "yes", "no"):
        raise UserError(f"--labels {path}: row {row} says '{value}'; write yes or no")
    return label
