"""The tables of a page as one .xlsx file: numbers are numbers, the ends of an interval are columns
of their own, and text that looks like a formula stays text.

    workbook_bytes(rows)      -> bytes of a file with the sheets "summary", "all columns" and "notes"
"""

from collections.abc import Sequence
from io import BytesIO

from openpyxl import Workbook
from openpyxl.cell.cell import ILLEGAL_CHARACTERS_RE
from openpyxl.styles import Font
from openpyxl.utils import get_column_letter
from openpyxl.worksheet.worksheet import Worksheet

from reports import facts
from reports.cells import is_missing
from reports.main_table import as_frame
from reports.opening import MONEY_QUESTIONS, common_currency, money_of_1000_questions
from reports.table_cell import Cell
from reports.table_row import TableRow

_MAX_COLUMN_CHARACTERS = 60  # characters of a column
_COLUMNS_OF_TEXTS = ("notes", "scorers")
_PERCENT_FORMAT = "0.0%"
_QUALITY_COLUMNS = ("D", "E", "F")  # of the summary: quality, its low and its high end

SheetRow = Sequence[Cell]


def workbook_bytes(rows: Sequence[TableRow]) -> bytes:
    """The bytes of an .xlsx file with the sheets "summary", "all columns" and "notes".

    Args:
        rows: The rows of the main table, best first within a data set.
    """
    book = Workbook()
    summary = book.active
    summary.title = "summary"
    _fill_sheet(summary, _summary_headings(rows), list(map(_summary_row, rows)))
    for column in _QUALITY_COLUMNS:
        for cell in summary[column][1:]:
            cell.number_format = _PERCENT_FORMAT
    frame = as_frame(rows).drop(columns=list(_COLUMNS_OF_TEXTS))
    headings = list(map(str, frame.columns))
    _fill_sheet(book.create_sheet("all columns"), headings, frame.values.tolist())
    notes: list[SheetRow] = []
    for row in rows:
        notes += [(row.dataset, row.label, note) for note in row.notes]
    _fill_sheet(book.create_sheet("notes"), ("data set", "method", "note"), notes)
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def _summary_headings(rows: Sequence[TableRow]) -> list[str]:
    """The heads of the first sheet; that of money names the currency where all rows have one."""
    currency = common_currency(rows)
    money = f"money per {MONEY_QUESTIONS:,} questions"
    if currency:
        money = f"{money} ({currency})"
    return [
        "data set",
        "method",
        "model",
        "quality",
        "quality low",
        "quality high",
        "score",
        money,
        "seconds p50",
        "seconds p95",
        "questions",
        "failed",
        "left out",
    ]


def _summary_row(row: TableRow) -> SheetRow:
    """A row of the first sheet, a cell for each of `_summary_headings`; None for what is unknown."""
    quality = row.score(row.headline)
    return (
        row.dataset,
        row.label,
        row.model,
        quality.mean,
        quality.low,
        quality.high,
        row.headline,
        money_of_1000_questions(row),
        row.numbers.latency(50),
        row.numbers.latency(95),
        row.n_questions,
        row.n_failed,
        facts.count_left_out(row.run),
    )


def _fill_sheet(sheet: Worksheet, headings: Sequence[str], rows: Sequence[SheetRow]) -> None:
    """Fill a sheet with bold heads that stay in sight, and rows; set the widths of its columns.

    Args:
        sheet: The sheet, which is changed.
        headings: The heads of its columns.
        rows: The rows, a cell a head.
    """
    widths = []
    for column, heading in enumerate(headings, 1):
        sheet.cell(1, column, heading).font = Font(bold=True)
        widths.append(len(heading))
    for row_number, row in enumerate(rows, 2):
        for column, value in enumerate(row, 1):
            _set_cell(sheet, row_number, column, value)
            widths[column - 1] = max(widths[column - 1], len(_measured_text(value)))
    sheet.freeze_panes = "A2"
    for column, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(column)].width = min(
            _MAX_COLUMN_CHARACTERS, width + 2
        )


def _measured_text(value: Cell) -> str:
    """About the text that a spreadsheet shows for a value, to measure its width."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _set_cell(sheet: Worksheet, row: int, column: int, value: Cell) -> None:
    """Set a cell: a text stays a text, whatever its first character; what is unknown leaves it
    empty.

    Args:
        sheet: The sheet, which is changed.
        row: The row, from 1.
        column: The column, from 1.
        value: What the cell gets.
    """
    if is_missing(value):
        return
    if not isinstance(value, str):
        sheet.cell(row, column, value)
        return
    cell = sheet.cell(row, column, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value))
    cell.data_type = "s"
