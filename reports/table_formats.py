"""A table as text: markdown, csv, latex, json or plain text, with everything that came from data
escaped.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"method": ["pecan", "bm25"], "n": [20, 20], "f1": [0.413, 0.3],
    ...     "f1.low": [0.36, None], "f1.high": [0.469, None], "ratio": [0.241, None],
    ...     "notes": [("2 of 20 questions failed (scored 0)",), ()]})
    >>> print(render(table, "text"), end="")
    method   n  f1                 ratio  notes
    pecan   20  41.3 [36.0, 46.9]  0.24x  [1]
    bm25    20  30.0                   –
    <BLANKLINE>
    [1] 2 of 20 questions failed (scored 0)

| format          | numbers                                                   | notes                          |
|-----------------|-----------------------------------------------------------|--------------------------------|
| text, markdown, latex | formatted; scores times 100 with their interval     | marks, and footnotes below     |
| csv, json       | as computed (scores in 0 to 1, low and high as columns)   | in their cell                  |

What a column holds: reports/cells.py.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
from collections.abc import Collection, Iterable, Sequence

import pandas as pd

from reports import latex
from reports.cells import Cells, is_missing
from reports.section import Section
from reports.table_cell import Cell
from reports.terminal_text import on_one_line, terminal_width

FORMATS = ("text", "markdown", "csv", "latex", "json")

_MAX_NOTE_CHARACTERS = 150
"""Characters of a line below a text table."""
_NOTES_COLUMN = "notes"
_COLUMNS_NOT_IN_PAPERS = ("failed", "texts_cut")
_FORMULA_STARTS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""First characters of cells that a spreadsheet would run as a formula."""


def render(
    frame: pd.DataFrame, table_format: str = "text", terminal_columns: int | None = None
) -> str:
    """A frame as text, with a newline at the end.

    Args:
        frame: The table.
        table_format: One of FORMATS.
        terminal_columns: Characters of a line of text; what does not fit stands below, the first
            column beside it.
    """
    if table_format == "csv":
        return _as_csv(frame)
    if table_format == "json":
        return _as_json(frame)
    table = Section("", frame)
    if table_format == "latex":
        return _as_latex(table)
    if table_format == "markdown":
        return _as_markdown(table)
    return _as_text(table, terminal_columns or math.inf)


def render_sections(
    tables: Sequence[Section], table_format: str = "text", terminal_columns: int | None = None
) -> str:
    """Titled tables as text, one below the other.

    Notes that hold for every row of every table stand once, below the last one; a table in LaTeX
    may stand on a page of its own and has all of its notes.

    Args:
        tables: The tables.
        table_format: "text", "markdown" or "latex".
        terminal_columns: Characters of a line of text; None for any number.
    """
    if table_format == "latex":
        return "\n".join(map(_as_latex, tables))
    max_line = terminal_columns or math.inf
    shared_notes = _shared_notes(tables)
    texts = []
    for table in tables:
        if table_format == "markdown":
            title = f"### {_markdown_escape(table.title)}\n\n"
            texts.append(title + _as_markdown(table, shared_notes))
        else:
            title = on_one_line(table.title) + "\n"
            texts.append(title + _as_text(table, max_line, shared_notes))
    if shared_notes:
        note_lines = _shared_note_lines(shared_notes, table_format, max_line)
        texts.append("\n".join(note_lines) + "\n")
    return "\n".join(texts)


def line_below(sentence: str | None, table_format: str, terminal_columns: int | None = None) -> str:
    """A sentence to stand below all tables of a text, after an empty line.

    Args:
        sentence: The sentence; None for none.
        table_format: One of FORMATS.
        terminal_columns: Characters of a line of text; None for any number.

    Returns:
        The lines; "" for no sentence, and in formats that hold tables alone.
    """
    if sentence is None or table_format not in ("text", "markdown"):
        return ""
    lines = _shared_note_lines([sentence], table_format, terminal_columns or math.inf)
    return "\n" + "\n".join(lines) + "\n"


def _shared_notes(tables: Sequence[Section]) -> list[str]:
    """The notes that every row of all tables has; [] for fewer than two tables."""
    if len(tables) < 2:
        return []
    notes_by_table = [Cells(table.frame, table.gaps).common_notes for table in tables]
    common = set(notes_by_table[0]).intersection(*notes_by_table)
    return [note for note in notes_by_table[0] if note in common]


def _shared_note_lines(notes: Sequence[str], table_format: str, max_line: float) -> list[str]:
    """The notes that all tables share as lines.

    Args:
        notes: The notes.
        table_format: "text" or "markdown".
        max_line: Most characters of a line of text; infinite for any number.
    """
    if table_format == "markdown":
        return _markdown_note_lines(map(_markdown_escape, notes))
    return _wrap_notes(map(on_one_line, notes), max_line)


def _with_notes_below(lines: Sequence[str], notes: Sequence[str]) -> str:
    """The lines of a table, an empty line and those below it as one text; without the empty line
    where none stands below."""
    if not notes:
        return "\n".join(lines) + "\n"
    return "\n".join([*lines, "", *notes]) + "\n"


def _as_text(table: Section, max_line: float, shared_notes: Collection[str] = ()) -> str:
    """A plain table with its notes below.

    Args:
        table: The table.
        max_line: Characters of a line; columns that do not fit stand in a block below, the
            first column beside them again.
        shared_notes: Notes that are not written below this table.
    """
    cells = Cells(table.frame, table.gaps)
    columns = _text_columns(cells)
    column_widths = [terminal_width(column[0]) for column in columns]
    blocks = []
    for column_numbers in _split_into_blocks(column_widths, max_line):
        block = [columns[column_number] for column_number in column_numbers]
        lines = ["  ".join(cells_of_line).rstrip() for cells_of_line in zip(*block, strict=True)]
        blocks.append("\n".join(lines))
    notes = _wrap_notes(cells.lines_below(on_one_line, shared_notes), max_line)
    return _with_notes_below(["\n\n".join(blocks)], notes)


def _text_columns(cells: Cells) -> list[list[str]]:
    """The columns of a table, each with its head first and padded to one width.

    Numbers stand at the right, texts and numbers with an interval at the left.
    """
    rows = map(_cells_on_one_line, [cells.headings, *cells.rows])
    columns = zip(*rows, strict=True)
    padded_columns = []
    for column, is_numeric in zip(columns, cells.is_numeric, strict=True):
        values = column[1:]
        align_right = is_numeric and not _has_interval(values)
        padded_columns.append(_pad_to_one_width(column, align_right=align_right))
    return padded_columns


def _cells_on_one_line(cells: Iterable[str]) -> list[str]:
    """The cells, each on one line."""
    return list(map(on_one_line, cells))


def _has_interval(column: Sequence[str]) -> bool:
    """Whether any cell of a column has an interval, "41.3 [36.0, 46.9]"."""
    return any("[" in cell for cell in column)


def _pad_to_one_width(column: Sequence[str], *, align_right: bool) -> list[str]:
    """The cells of a column filled with spaces to one width.

    Args:
        column: The cells.
        align_right: Whether the spaces stand before a cell, so that it ends at the right.
    """
    width = max(map(terminal_width, column))
    padded = []
    for cell in column:
        space = " " * (width - terminal_width(cell))
        if align_right:
            padded.append(space + cell)
        else:
            padded.append(cell + space)
    return padded


def _split_into_blocks(widths: Sequence[int], max_line: float) -> list[list[int]]:
    """The places of the columns in each block that fits a line; every block has column 0.

        [8, 10, 10, 10], 32     -> [[0, 1, 2], [0, 3]]

    Args:
        widths: The width of each column; two spaces stand between two of them.
        max_line: Characters of a line.
    """
    blocks = [[0]]
    for column, width in enumerate(widths[1:], 1):
        used_characters = sum(widths[number] + 2 for number in blocks[-1])
        if len(blocks[-1]) > 1 and used_characters + width > max_line:
            blocks.append([0])
        blocks[-1].append(column)
    return blocks


def _wrap_notes(notes: Iterable[str], max_line: float) -> list[str]:
    """Notes as lines of at most `max_line` and at most 150 characters; the second and later
    lines of a note are indented."""
    wrapper = textwrap.TextWrapper(
        int(min(_MAX_NOTE_CHARACTERS, max_line)),
        subsequent_indent="    ",
        break_long_words=False,
        break_on_hyphens=False,
    )
    lines: list[str] = []
    for note in notes:
        lines += wrapper.wrap(note)
    return lines


def _markdown_escape(text: str) -> str:
    """A text of data on one line, escaped so that its characters mean nothing to Markdown or
    HTML."""
    text = on_one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*|\[\]~$])", r"\\\1", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def _markdown_note_lines(notes: Iterable[str]) -> list[str]:
    """Notes as lines of Markdown; the two spaces at the end of each break the line."""
    return [f"{note}  " for note in notes]  # two spaces break the line


def _as_markdown(table: Section, shared_notes: Collection[str] = ()) -> str:
    """A Markdown table with text from data escaped, and its notes below.

    Args:
        table: The table.
        shared_notes: Notes that are not written below this table.
    """
    cells = Cells(table.frame, table.gaps)
    headings = [_markdown_escape(heading) for heading in cells.headings]
    alignments = [_markdown_alignment(is_numeric) for is_numeric in cells.is_numeric]
    # Intervals and marks of notes are written here, not taken from data: their brackets stay
    # readable.
    is_from_data = []
    for heading, is_numeric in zip(cells.headings, cells.is_numeric, strict=True):
        is_from_data.append(not is_numeric and heading != _NOTES_COLUMN)
    lines = [_markdown_row(headings), _markdown_row(alignments)]
    for row in cells.rows:
        escaped = []
        for cell, needs_escape in zip(row, is_from_data, strict=True):
            if needs_escape:
                escaped.append(_markdown_escape(cell))
            else:
                escaped.append(cell)
        lines.append(_markdown_row(escaped))
    note_lines = _markdown_note_lines(cells.lines_below(_markdown_escape, shared_notes))
    return _with_notes_below(lines, note_lines)


def _markdown_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table: "| bm25 | 41.3 |"."""
    return f"| {' | '.join(cells)} |"


def _markdown_alignment(is_numeric: bool) -> str:
    """The cell of the line below the heads: "---:" aligns a column of numbers to the right, "---"
    any other to the left."""
    if is_numeric:
        return "---:"
    return "---"


def _as_latex(table: Section) -> str:
    """A LaTeX table (reports/latex.py) that ranks its scores and names upper bounds, which have no
    rank.

    Columns of failed questions and cut texts are left out unless the user named them. The notes of
    single rows stand below the table; where columns were named, but not that of the notes, they
    become comments of the LaTeX file.
    """
    cells = Cells(table.frame.drop(columns=_columns_left_out_of_papers(table)), table.gaps)
    notes = _cells_on_one_line(cells.footnotes)
    footnotes: list[str] = []
    comments: list[str] = []
    if table.named_columns is None or _NOTES_COLUMN in table.named_columns:
        footnotes = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    else:
        cells.remove_marks_of_footnotes()
        comments = notes
    ranks = cells.ranks()
    common_notes = list(cells.common_notes)
    if ranks:
        common_notes += _notes_on_unranked_methods(table.frame)
    return latex.latex_table(
        latex.PaperTable(
            title=on_one_line(table.title),
            headings=_cells_on_one_line(cells.headings),
            rows=list(map(_cells_on_one_line, cells.rows)),
            is_numeric=cells.is_numeric,
            ranks=ranks,
            common_notes=_cells_on_one_line(common_notes),
            footnotes=footnotes,
            unchanged_headings=table.unchanged_headings,
            comments=comments,
        )
    )


def _columns_left_out_of_papers(table: Section) -> list[str]:
    """The columns of failed questions and cut texts that a table has and nobody named; [] where it
    is not known which columns were named."""
    if table.named_columns is None:
        return []
    present = [name for name in _COLUMNS_NOT_IN_PAPERS if name in table.frame]
    return [name for name in present if name not in table.named_columns]


def _notes_on_unranked_methods(frame: pd.DataFrame) -> list[str]:
    """Sentences that name the methods that are never marked as best."""
    # one, or one a data set: "musique.asked_otherwise"
    columns = list(map(str, frame.columns))
    asked_otherwise_columns = [name for name in columns if name.split(".")[-1] == "asked_otherwise"]
    # the keys of both serve as ordered sets
    upper_bounds: dict[str, None] = {}
    asked_otherwise: dict[str, None] = {}
    for row in frame.to_dict("records"):
        if row.get("upper_bound"):
            upper_bounds[str(row["method"])] = None
        if any(row[name] for name in asked_otherwise_columns):
            asked_otherwise[str(row["method"])] = None
    notes = []
    if upper_bounds:
        notes.append(f"{', '.join(upper_bounds)}: an upper bound, never marked as best")
    if asked_otherwise:
        notes.append(
            f"{', '.join(asked_otherwise)}: asked otherwise than most, never marked as best"
        )
    return notes


def _csv_cell(value: Cell) -> Cell:
    """A value as a cell of CSV.

    A missing value is empty, several values are joined by "; ", and a text that a spreadsheet would
    run as a formula gets an apostrophe. Numbers stay numbers.
    """
    if is_missing(value):
        return ""
    if isinstance(value, list | tuple):
        value = "; ".join(map(str, value))
    if not isinstance(value, str):
        return value
    text = on_one_line(value)
    if text.lstrip().startswith(_FORMULA_STARTS):
        return f"'{text}"
    return text


def _as_csv(frame: pd.DataFrame) -> str:
    """The frame as CSV with all columns, numbers as computed, and texts that a spreadsheet would
    run as formulas disarmed."""
    headings = map(_csv_cell, map(str, frame.columns))
    cells = frame.astype(object).map(_csv_cell).set_axis(list(headings), axis=1)
    return str(cells.to_csv(index=False, lineterminator="\n"))


def _as_json(frame: pd.DataFrame) -> str:
    """The frame as a JSON list of its rows with all columns; missing values are null."""
    rows = []
    for record in frame.to_dict("records"):
        row = {}
        for name, value in record.items():
            if is_missing(value):
                value = None
            row[str(name)] = value
        rows.append(row)
    text = json.dumps(rows, ensure_ascii=False, indent=1, allow_nan=False)
    # "<" so that it can stand inside an HTML page; half a surrogate pair, which JSON data may hold,
    # is no UTF-8.
    return re.sub("[<\ud800-\udfff]", _escape_json_character, text) + "\n"


def _escape_json_character(match: re.Match[str]) -> str:
    r"""The matched character as an escape of JSON, "<" -> "\u003c"."""
    return f"\\u{ord(match[0]):04x}"
