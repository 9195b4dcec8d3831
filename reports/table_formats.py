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
from reports.terminal_text import one_line, terminal_width

FORMATS = ("text", "markdown", "csv", "latex", "json")

_LINE_WIDTH = 150
"""Characters of a line below a text table."""
_NOTES = "notes"
_PAPERS_LEAVE_OUT = ("failed", "texts_cut")
_FORMULAS = ("=", "+", "-", "@", "＝", "＋", "－", "＠")
"""First characters of cells that a spreadsheet would run as a formula."""


def render(frame: pd.DataFrame, form: str = "text", width: int | None = None) -> str:
    """A frame as text, with a newline at the end.

    Args:
        frame: The table.
        form: One of FORMATS.
        width: Columns of the terminal that text is for; what does not fit stands below, the first
            column beside it.
    """
    if form == "csv":
        return _as_csv(frame)
    if form == "json":
        return _as_json(frame)
    table = Section("", frame)
    if form == "latex":
        return _as_latex(table)
    if form == "markdown":
        return _as_markdown(table)
    return _as_text(table, width or math.inf)


def render_sections(tables: Sequence[Section], form: str = "text", width: int | None = None) -> str:
    """Titled tables as text, one below the other.

    Notes that hold for every row of every table stand once, below the last one; a table in LaTeX
    may stand on a page of its own and has all of its notes.

    Args:
        tables: The tables.
        form: "text", "markdown" or "latex".
        width: Columns of the terminal that text is for; None for any number.
    """
    if form == "latex":
        return "\n".join(map(_as_latex, tables))
    longest = width or math.inf
    shared = _shared_notes(tables)
    parts = []
    for table in tables:
        if form == "markdown":
            title = f"### {_markdown_escape(table.title)}\n\n"
            parts.append(title + _as_markdown(table, shared))
        else:
            parts.append(one_line(table.title) + "\n" + _as_text(table, longest, shared))
    if shared:
        parts.append("\n".join(_shared_lines(shared, form, longest)) + "\n")
    return "\n".join(parts)


def _shared_notes(tables: Sequence[Section]) -> list[str]:
    """The notes that every row of all tables has; [] for fewer than two tables."""
    if len(tables) < 2:
        return []
    notes = [Cells(table.frame, table.gaps).common for table in tables]
    shared = set(notes[0]).intersection(*notes)
    return [note for note in notes[0] if note in shared]


def _shared_lines(notes: Sequence[str], form: str, longest: float) -> list[str]:
    """The notes that all tables share as lines.

    Args:
        notes: The notes.
        form: "text" or "markdown".
        longest: Most characters of a line of text.
    """
    if form == "markdown":
        return _markdown_notes(map(_markdown_escape, notes))
    return _text_notes(map(one_line, notes), longest)


def _with_lines_below(lines: Sequence[str], below: Sequence[str]) -> str:
    """The lines of a table, an empty line and those below it as one text; without the empty line
    where none stands below."""
    if not below:
        return "\n".join(lines) + "\n"
    return "\n".join([*lines, "", *below]) + "\n"


def _as_text(table: Section, longest_line: float, left_out: Collection[str] = ()) -> str:
    """A plain table with its notes below.

    Args:
        table: The table.
        longest_line: Characters of a line; columns that do not fit stand in a block below, the
            first column beside them again.
        left_out: Notes that are not written below this table.
    """
    cells = Cells(table.frame, table.gaps)
    columns = _text_columns(cells)
    widths = [terminal_width(column[0]) for column in columns]
    blocks = []
    for places in _column_blocks(widths, longest_line):
        block = [columns[place] for place in places]
        lines = ["  ".join(cells_of_line).rstrip() for cells_of_line in zip(*block, strict=True)]
        blocks.append("\n".join(lines))
    below = _text_notes(cells.below(one_line, left_out), longest_line)
    return _with_lines_below(["\n\n".join(blocks)], below)


def _text_columns(cells: Cells) -> list[list[str]]:
    """The columns of a table, each with its head first and padded to one width.

    Numbers stand at the right, texts and numbers with an interval at the left.
    """
    rows = map(_one_lines, [cells.heads, *cells.rows])
    columns = zip(*rows, strict=True)
    padded = []
    for column, numeric in zip(columns, cells.numeric, strict=True):
        values = column[1:]
        to_right = numeric and not _has_interval(values)
        padded.append(_padded(column, to_right=to_right))
    return padded


def _one_lines(cells: Iterable[str]) -> list[str]:
    """The cells, each on one line."""
    return list(map(one_line, cells))


def _has_interval(column: Sequence[str]) -> bool:
    """Whether any cell of a column has an interval, "41.3 [36.0, 46.9]"."""
    return any("[" in cell for cell in column)


def _padded(column: Sequence[str], *, to_right: bool) -> list[str]:
    """The cells of a column filled with spaces to one width.

    Args:
        column: The cells.
        to_right: Whether the spaces stand before a cell, so that it ends at the right.
    """
    width = max(map(terminal_width, column))
    padded = []
    for cell in column:
        space = " " * (width - terminal_width(cell))
        if to_right:
            padded.append(space + cell)
        else:
            padded.append(cell + space)
    return padded


def _column_blocks(widths: Sequence[int], longest_line: float) -> list[list[int]]:
    """The places of the columns in each block that fits a line; every block has column 0.

        [8, 10, 10, 10], 32     -> [[0, 1, 2], [0, 3]]

    Args:
        widths: The width of each column; two spaces stand between two of them.
        longest_line: Characters of a line.
    """
    blocks = [[0]]
    for column, width in enumerate(widths[1:], 1):
        used = sum(widths[place] + 2 for place in blocks[-1])
        if len(blocks[-1]) > 1 and used + width > longest_line:
            blocks.append([0])
        blocks[-1].append(column)
    return blocks


def _text_notes(notes: Iterable[str], longest_line: float) -> list[str]:
    """Notes as lines of at most `longest_line` and at most 150 characters; the second and later
    lines of a note are indented."""
    wrapper = textwrap.TextWrapper(
        int(min(_LINE_WIDTH, longest_line)),
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
    text = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*|\[\]~$])", r"\\\1", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def _markdown_notes(notes: Iterable[str]) -> list[str]:
    """Notes as lines of Markdown; the two spaces at the end of each break the line."""
    return [f"{note}  " for note in notes]  # two spaces break the line


def _as_markdown(table: Section, left_out: Collection[str] = ()) -> str:
    """A Markdown table with text from data escaped, and its notes below.

    Args:
        table: The table.
        left_out: Notes that are not written below this table.
    """
    cells = Cells(table.frame, table.gaps)
    heads = map(_markdown_escape, cells.heads)
    lines = [_markdown_row(heads), _markdown_row(map(_markdown_rule, cells.numeric))]
    for row in cells.rows:
        escaped = []
        for cell, head, numeric in zip(row, cells.heads, cells.numeric, strict=True):
            # Intervals and marks are written here, not taken from data: their brackets stay
            # readable.
            if not numeric and head != _NOTES:
                cell = _markdown_escape(cell)
            escaped.append(cell)
        lines.append(_markdown_row(escaped))
    return _with_lines_below(lines, _markdown_notes(cells.below(_markdown_escape, left_out)))


def _markdown_row(cells: Iterable[str]) -> str:
    """A row of a Markdown table: "| bm25 | 41.3 |"."""
    return f"| {' | '.join(cells)} |"


def _markdown_rule(numeric: bool) -> str:
    """The cell of the line below the heads: "---:" aligns a column of numbers to the right, "---"
    any other to the left."""
    if numeric:
        return "---:"
    return "---"


def _as_latex(table: Section) -> str:
    """A LaTeX table (reports/latex.py) that ranks its scores and names upper bounds, which have no
    rank.

    Columns of failed questions, cut texts and notes are left out unless the user named them.
    """
    named = table.named_columns
    if named is None:
        named = (*_PAPERS_LEAVE_OUT, _NOTES)
    left_out = [name for name in _PAPERS_LEAVE_OUT if name in table.frame and name not in named]
    cells = Cells(table.frame.drop(columns=left_out), table.gaps)
    notes = _one_lines(cells.footnotes)
    footnotes: list[str] = []
    comments: list[str] = []
    if _NOTES in named:
        footnotes = [f"[{number}] {note}" for number, note in enumerate(notes, 1)]
    else:
        cells.without_footnotes()
        comments = notes
    ranks = cells.ranks()
    common = list(cells.common)
    if ranks:
        common += _unranked_notes(table.frame)
    return latex.table(
        latex.PaperTable(
            title=one_line(table.title),
            heads=_one_lines(cells.heads),
            rows=list(map(_one_lines, cells.rows)),
            numeric=cells.numeric,
            ranks=ranks,
            common_notes=_one_lines(common),
            footnotes=footnotes,
            names=table.names,
            comments=comments,
        )
    )


def _unranked_notes(frame: pd.DataFrame) -> list[str]:
    """Sentences that name the methods that are never marked as best."""
    marks = [name for name in frame.columns if str(name).split(".")[-1] == "asked_otherwise"]
    upper_bounds: dict[str, None] = {}
    asked_otherwise: dict[str, None] = {}
    for row in frame.to_dict("records"):
        if row.get("upper_bound"):
            upper_bounds[str(row["method"])] = None
        if any(map(row.get, marks)):
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
    text = one_line(value)
    if text.lstrip().startswith(_FORMULAS):
        return f"'{text}"
    return text


def _as_csv(frame: pd.DataFrame) -> str:
    """The frame as CSV with all columns, numbers as computed, and texts that a spreadsheet would
    run as formulas disarmed."""
    heads = map(_csv_cell, map(str, frame.columns))
    cells = frame.astype(object).map(_csv_cell).set_axis(list(heads), axis=1)
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
    return re.sub("[<\ud800-\udfff]", _json_escape, text) + "\n"


def _json_escape(found: re.Match[str]) -> str:
    r"""The matched character as an escape of JSON, "<" -> "\u003c"."""
    return f"\\u{ord(found[0]):04x}"
