"""The tables of a page as one .xlsx file: numbers are numbers, the ends of an interval are columns
of their own, and text that looks like a formula stays text.

    workbook(rows)      -> bytes of a file with the sheets "summary", "all columns" and "notes"
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
from reports.opening import PER_QUESTIONS, currency_of, money_of_many
from reports.table_cell import Cell
from reports.table_row import TableRow

_WIDEST = 60  # characters of a column
_NOT_COLUMNS = ("notes", "scorers")
_SHARE = "0.0%"

Line = Sequence[Cell]


def workbook(rows: Sequence[TableRow]) -> bytes:
    """The bytes of an .xlsx file with the sheets "summary", "all columns" and "notes".

    Args:
        rows: The rows of the main table, best first within a data set.
    """
    book = Workbook()
    summary = book.active
    summary.title = "summary"
    _write(summary, _summary_heads(rows), list(map(_summary_line, rows)))
    for column in ("D", "E", "F"):
        for cell in summary[column][1:]:
            cell.number_format = _SHARE
    frame = as_frame(rows).drop(columns=list(_NOT_COLUMNS))
    heads = list(map(str, frame.columns))
    _write(book.create_sheet("all columns"), heads, frame.values.tolist())
    notes: list[Line] = []
    for row in rows:
        notes += [(row.dataset, row.label, note) for note in row.notes]
    _write(book.create_sheet("notes"), ("data set", "method", "note"), notes)
    content = BytesIO()
    book.save(content)
    return content.getvalue()


def _summary_heads(rows: Sequence[TableRow]) -> list[str]:
    """The heads of the first sheet; that of money names the currency where all rows have one."""
    unit = currency_of(rows)
    money = f"money per {PER_QUESTIONS:,} questions"
    if unit:
        money = f"{money} ({unit})"
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


def _summary_line(row: TableRow) -> Line:
    """A row of the first sheet, a cell for each of `_summary_heads`; None for what is unknown."""
    quality = row.score(row.headline)
    return (
        row.dataset,
        row.label,
        row.model,
        quality.mean,
        quality.low,
        quality.high,
        row.headline,
        money_of_many(row),
        row.numbers.latency(50),
        row.numbers.latency(95),
        row.n_questions,
        row.n_failed,
        facts.left_out(row.run),
    )


def _write(sheet: Worksheet, heads: Sequence[str], lines: Sequence[Line]) -> None:
    """Fill a sheet with bold heads that stay in sight, and rows; set the widths of its columns.

    Args:
        sheet: The sheet, which is changed.
        heads: The heads of its columns.
        lines: The rows, a cell a head.
    """
    widths = []
    for place, head in enumerate(heads, 1):
        sheet.cell(1, place, head).font = Font(bold=True)
        widths.append(len(head))
    for number, line in enumerate(lines, 2):
        for place, value in enumerate(line, 1):
            _set(sheet, number, place, value)
            widths[place - 1] = max(widths[place - 1], len(_shown(value)))
    sheet.freeze_panes = "A2"
    for place, width in enumerate(widths, 1):
        sheet.column_dimensions[get_column_letter(place)].width = min(_WIDEST, width + 2)


def _shown(value: Cell) -> str:
    """About the text that a spreadsheet shows for a value, to measure its width."""
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(value)


def _set(sheet: Worksheet, number: int, place: int, value: Cell) -> None:
    """Set a cell: a text stays a text, whatever its first character; what is unknown leaves it
    empty.

    Args:
        sheet: The sheet, which is changed.
        number: The row, from 1.
        place: The column, from 1.
        value: What the cell gets.
    """
    if is_missing(value):
        return
    if not isinstance(value, str):
        sheet.cell(number, place, value)
        return
    cell = sheet.cell(number, place, ILLEGAL_CHARACTERS_RE.sub("\ufffd", value))
    cell.data_type = "s"
