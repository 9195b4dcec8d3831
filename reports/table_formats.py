"""A frame as text: markdown, csv, latex, json or plain text, with everything that came from data
escaped.

    >>> import pandas as pd
    >>> table = pd.DataFrame({"method": ["pecan", "bm25"], "n": [20, 20], "f1": [0.413, 0.3], "f1.low": [0.36, None],
    ...     "f1.high": [0.469, None], "ratio": [0.241, None], "notes": [("2 of 20 questions failed (scored 0)",), ()]})
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

Columns `x.low` and `x.high` are the interval of column `x`; one with an interval is a score, unless
its name says more. Where `x.p` is below 0.05 its value has a dagger; rows whose `upper_bound`,
`asked_otherwise` or `x.asked_otherwise` is true are never called best.
A column of tuples is footnotes. A column without any value is left out, unless frame.attrs["gaps"]
names it as a score.
"""

from __future__ import annotations

import json
import math
import re
import textwrap
import unicodedata
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pandas as pd

from harness.stats.bootstrap import with_interval
from reports import latex
from reports.number_formats import percent
from reports.run_columns import Shown, columns_shown, format_of
from reports.settings import is_number, is_setting

FORMATS = ("text", "markdown", "csv", "latex", "json")

_MISSING = "–"
_LINE_WIDTH = 150  # characters of a line below a text table
_FOOTNOTES = ("scorers", "changed", "notes")
_HIDDEN_COLUMNS = ("base", "reference_run", *columns_shown(Shown.NEVER))
_SIGNIFICANT = 0.05
_PAPERS_LEAVE_OUT = ("failed", "texts_cut", "notes")


def render(frame: pd.DataFrame, form: str = "text", width: int | None = None) -> str:
    """Return `frame` in one of FORMATS, newline at the end.

    width: columns of the terminal that text is for; what does not fit stands below, the first
    column beside it.
    """
    if form == "text":
        return _as_text(frame, width or math.inf)
    return {"markdown": _as_markdown, "csv": _as_csv, "latex": _as_latex, "json": _as_json}[form](
        frame
    )


def render_sections(
    sections: Sequence[tuple[str, pd.DataFrame]], form: str = "text", width: int | None = None
) -> str:
    """Titled tables one below the other, as text, markdown or latex. width: as in `render`.

    Notes that hold for every row of every table stand once, below the last one; a table in LaTeX
    may stand on a page of its own and has all of its notes.
    """
    if form == "latex":
        return "\n".join(_as_latex(frame, title) for title, frame in sections)
    longest = width or math.inf
    of_all = _notes_of_all([frame for _, frame in sections])
    parts = []
    for title, frame in sections:
        if form == "markdown":
            parts.append(f"### {_markdown_escape(title)}\n\n" + _as_markdown(frame, of_all))
        else:
            parts.append(_one_line(title) + "\n" + _as_text(frame, longest, of_all))
    if of_all:
        if form == "markdown":
            below = _markdown_notes(map(_markdown_escape, of_all))
        else:
            below = _text_notes(map(_one_line, of_all), longest)
        parts.append("\n".join(below) + "\n")
    return "\n".join(parts)


def _notes_of_all(frames: Sequence[pd.DataFrame]) -> list[str]:
    """The notes of every row of all frames; [] for fewer than two frames."""
    if len(frames) < 2:
        return []
    first, *others = [Cells(frame).common for frame in frames]
    return [note for note in first if all(note in notes for notes in others)]


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))


class Cells:
    """A frame as strings, nothing escaped yet: heads, rows of cells, and the notes below.

    numeric: for each column, whether it holds numbers; common: notes of every row; footnotes: other
    notes, numbered from 1 by marks in a last column.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        names = [str(c) for c in frame.columns]
        bounds = {f"{n}.{end}" for n in names for end in ("low", "high", "p", "asked_otherwise")}
        not_shown = {*bounds, *_HIDDEN_COLUMNS, *_FOOTNOTES}
        plain = [name for name in names if name not in not_shown]
        gaps = frame.attrs.get(
            "gaps", ()
        )  # other columns without a value would be dashes; csv and json keep them
        plain = [n for n in plain if n in gaps or not all(_is_missing(v) for v in frame[n])]
        # A setting's whole numbers stay whole by the type object.
        numbers = {
            n
            for n in plain
            if is_setting(n) and all(_is_missing(v) or is_number(v) for v in frame[n])
        }
        numbers |= {
            n for n in plain if not is_setting(n) and pd.api.types.is_numeric_dtype(frame[n])
        }
        self.numeric = [n in numbers for n in plain]
        self._frame, self._plain = frame, plain
        scores = {n for n in plain if f"{n}.low" in names or n in gaps}
        self._writers: dict[str, Callable[[Any], str]] = {}
        for n in plain:
            write = format_of(n) or (percent if n in scores else "{:g}".format)
            self._writers[n] = str if is_setting(n) else write
        self.footnotes: list[str] = []
        # A parameter of a method is written as in labels, "k" for "method.k", if no other column
        # has that name.
        short = [name.removeprefix("method.") if is_setting(name) else name for name in plain]
        self.heads = [
            name if name not in plain else whole for name, whole in zip(short, plain, strict=True)
        ]
        rows: list[dict[str, Any]] = [
            {str(k): v for k, v in row.items()} for row in frame.to_dict("records")
        ]
        self.rows = [[self._cell_text(row, n) for n in plain] for row in rows]
        # Versions of scorers say something where rows differ in them; csv and json have them
        # always.
        noted = [
            n
            for n in _FOOTNOTES
            if n in names and (n != "scorers" or frame[n].map(str).nunique() > 1)
        ]
        noted_of = [[row[n] for n in noted if not _is_missing(row[n])] for row in rows]
        notes = [
            [n for own in each for n in ([own] if isinstance(own, str) else map(str, own))]
            for each in noted_of
        ]
        self.common = [
            note
            for note in dict.fromkeys(notes[0] if notes else ())
            if all(note in n for n in notes)
        ]
        marks = [
            self._footnote_marks([note for note in n if note not in self.common]) for n in notes
        ]
        if self.footnotes:
            self.heads.append("notes")
            self.numeric.append(False)
            self.rows = [[*cells, mark] for cells, mark in zip(self.rows, marks, strict=True)]

    def _cell_text(self, row: dict[str, Any], name: str) -> str:
        """The text of a cell: a number with its dagger and interval, a string as it is, a dash for
        what is missing."""
        value = row[name]
        if _is_missing(value):
            return _MISSING
        if isinstance(value, str):
            return value
        low, high, p = (row.get(f"{name}.{end}") for end in ("low", "high", "p"))
        text, space, ends = with_interval(self._writers[name], value, low, high).partition(" ")
        return f"{text}{'†' if p is not None and p < _SIGNIFICANT else ''}{space}{ends}"

    def ranks(self) -> dict[tuple[int, int], int]:
        """(row, column) -> 1 for a cell with its column's best score, 2 for the second best; equal
        scores share a rank.

        Only runs of the same questions are ranked, at least two, and no column of zeros. {} for a
        table of differences or of printed values, whose scores are not those of rivals.
        """
        if {"difference", "printed"} & {*self._plain}:
            return {}
        ranks: dict[tuple[int, int], int] = {}
        for k, name in enumerate(self._plain):
            if not self.numeric[k] or self._writers[name] is not percent:
                continue
            unranked = ("upper_bound", "asked_otherwise", f"{name}.asked_otherwise")
            marks = [mark for mark in unranked if mark in self._frame]
            rated = zip(self._frame[name], self._frame[marks].any(axis=1), strict=True)
            values = [
                None if unranked or _is_missing(v) else float(percent(v)) for v, unranked in rated
            ]
            best = sorted({v for v in values if v is not None}, reverse=True)[:2]
            if any(best) and len(values) - values.count(None) > 1:
                ranks |= {(i, k): best.index(v) + 1 for i, v in enumerate(values) if v in best}
        return ranks

    def _footnote_marks(self, notes: list[str]) -> str:
        """Marks such as "[1], [3]-[5]" of a row's notes, which are added to the footnotes."""
        for note in notes:
            if note not in self.footnotes:
                self.footnotes.append(note)
        groups: list[
            list[int]
        ] = []  # Three in a row are a range: a long list of marks would be wider than the table.
        for number in sorted(self.footnotes.index(note) + 1 for note in notes):
            if groups and number == groups[-1][-1] + 1:
                groups[-1].append(number)
            else:
                groups.append([number])
        marks = []
        for group in groups:
            each = [f"[{number}]" for number in group]
            marks += [f"{each[0]}-{each[-1]}"] if len(group) > 2 else each
        return ", ".join(marks)

    def below(
        self, escape: Callable[[str], str] = str, elsewhere: Collection[str] = ()
    ) -> list[str]:
        """The lines below the table: common notes but those that stand `elsewhere`, then footnotes
        with their marks; escape: for the text of notes."""
        common = [note for note in self.common if note not in elsewhere]
        return [
            *map(escape, common),
            *(f"[{i}] {escape(note)}" for i, note in enumerate(self.footnotes, 1)),
        ]


def _one_line(text: str) -> str:
    """One line, without the control and direction characters that move a terminal's cursor or hide
    text."""
    spaced = re.sub(r"\s+", " ", text)
    return "".join(c for c in spaced if unicodedata.category(c) not in ("Cc", "Cf", "Cs", "Co"))


def _terminal_width(text: str) -> int:
    """Columns that a text takes in a terminal: wide East Asian characters take two, combining marks
    none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def _as_text(
    frame: pd.DataFrame, longest_line: float, notes_elsewhere: Collection[str] = ()
) -> str:
    """The frame as a plain table with its notes below.

    Args:
        frame: The table.
        longest_line: Characters; columns beyond it stand below.
        notes_elsewhere: Notes that are not written below this table.
    """
    cells = Cells(frame)
    table = [[_one_line(c) for c in row] for row in [cells.heads, *cells.rows]]
    widths = [max(_terminal_width(row[i]) for row in table) for i in range(len(cells.heads))]
    # Plain numbers are right-aligned; intervals read better from the left.
    right = [
        n and not any("[" in row[i] for row in cells.rows) for i, n in enumerate(cells.numeric)
    ]
    padded = []
    for row in table:
        spaced = [
            (c, " " * (width - _terminal_width(c))) for c, width in zip(row, widths, strict=True)
        ]
        padded.append([s + c if r else c + s for (c, s), r in zip(spaced, right, strict=True)])
    parts = [[0]]  # columns of each block, every one with column 0
    for i, width in enumerate(widths[1:], 1):
        if len(parts[-1]) > 1 and sum(widths[k] + 2 for k in parts[-1]) + width > longest_line:
            parts.append([0])
        parts[-1].append(i)
    blocks = [
        "\n".join("  ".join(row[i] for i in part).rstrip() for row in padded) for part in parts
    ]
    below = _text_notes(cells.below(_one_line, notes_elsewhere), longest_line)
    return "\n".join(["\n\n".join(blocks), *([""] if below else []), *below]) + "\n"


def _text_notes(notes: Iterable[str], longest_line: float) -> list[str]:
    """Notes as lines of at most `longest_line` characters, later lines of a note indented."""
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
    text = _one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    text = re.sub(r"([\\`*|\[\]~$])", r"\\\1", text)
    return re.sub(r"(?<!\w)_|_(?!\w)", r"\\_", text)


def _markdown_notes(notes: Iterable[str]) -> list[str]:
    return [f"{note}  " for note in notes]  # two spaces break the line


def _as_markdown(frame: pd.DataFrame, notes_elsewhere: Collection[str] = ()) -> str:
    """The frame as a Markdown table, with text from data escaped; below it its notes but those that
    stand elsewhere."""
    cells = Cells(frame)
    rule = ["---:" if n else "---" for n in cells.numeric]
    # Intervals and marks are written here, not taken from data: their brackets stay readable.
    written_here = [n or h == "notes" for n, h in zip(cells.numeric, cells.heads, strict=True)]
    rows = [
        [c if plain else _markdown_escape(c) for c, plain in zip(r, written_here, strict=True)]
        for r in cells.rows
    ]
    lines = [
        "| " + " | ".join(row) + " |"
        for row in [[_markdown_escape(h) for h in cells.heads], rule, *rows]
    ]
    below = _markdown_notes(cells.below(_markdown_escape, notes_elsewhere))
    return "\n".join([*lines, *([""] if below else []), *below]) + "\n"


def _as_latex(frame: pd.DataFrame, title: str = "") -> str:
    """The frame as a LaTeX table (reports/latex.py) that ranks its scores and names upper bounds, which
    have no rank.

    Columns of failed questions, cut texts and notes are left out where frame.attrs["asked"] is
    without them.
    """
    columns = frame.attrs.get("asked", _PAPERS_LEAVE_OUT)
    cells = Cells(
        frame.drop(columns=[n for n in _PAPERS_LEAVE_OUT[:2] if n in frame and n not in columns])
    )
    if without_notes := bool(cells.footnotes) and "notes" not in columns:
        cells.heads, cells.numeric = cells.heads[:-1], cells.numeric[:-1]
        cells.rows = [row[:-1] for row in cells.rows]
    rows = [[_one_line(cell) for cell in row] for row in cells.rows]
    footnotes = [f"[{i}] {_one_line(note)}" for i, note in enumerate(cells.footnotes, 1)]
    ranks = cells.ranks()
    rated = frame.to_dict("records") if ranks else []
    above = dict.fromkeys(str(row["method"]) for row in rated if row.get("upper_bound"))
    unranked = [f"{', '.join(above)}: an upper bound, never marked as best"] if above else []
    marks = [name for name in frame.columns if str(name).split(".")[-1] == "asked_otherwise"]
    otherwise = dict.fromkeys(
        str(row["method"]) for row in rated if any(row[name] for name in marks)
    )
    if otherwise:
        unranked.append(f"{', '.join(otherwise)}: asked otherwise than most, never marked as best")
    common = [_one_line(note) for note in [*cells.common, *unranked]]
    notes = common, [] if without_notes else footnotes
    heads = [*map(_one_line, cells.heads)]
    comments = [note.partition(" ")[2] for note in footnotes if without_notes]
    names = frame.attrs.get("names", ())
    return latex.table(_one_line(title), heads, rows, cells.numeric, ranks, notes, names, comments)


def _csv_cell(value: Any) -> Any:
    """A value as a cell of CSV: a text that a spreadsheet would run as a formula gets an
    apostrophe; numbers stay."""
    if _is_missing(value):
        return ""
    if isinstance(value, list | tuple):
        value = "; ".join(str(v) for v in value)
    if isinstance(value, str):
        value = _one_line(value)
        return (
            "'" + value
            if value.lstrip().startswith(("=", "+", "-", "@", "＝", "＋", "－", "＠"))
            else value
        )
    return value


def _as_csv(frame: pd.DataFrame) -> str:
    """The frame as CSV with all columns, numbers as computed, formulas of a spreadsheet
    disarmed."""
    cells = (
        frame.astype(object)
        .map(_csv_cell)
        .set_axis([_csv_cell(str(c)) for c in frame.columns], axis=1)
    )
    return str(cells.to_csv(index=False, lineterminator="\n"))


def _as_json(frame: pd.DataFrame) -> str:
    """The frame as a JSON list of its rows with all columns; missing values are null."""
    rows = [
        {str(k): None if _is_missing(v) else v for k, v in row.items()}
        for row in frame.to_dict("records")
    ]
    text = json.dumps(rows, ensure_ascii=False, indent=1, allow_nan=False)
    # "<" so that it can stand inside an HTML page; half a surrogate pair, which JSON data may hold,
    # is no UTF-8.
    return re.sub("[<\ud800-\udfff]", lambda m: f"\\u{ord(m[0]):04x}", text) + "\n"
