"""A frame as strings, nothing escaped yet: what every format for people is written from.

    cells = Cells(frame)
    cells.heads         -> ["method", "n", "f1", "ratio", "notes"]
    cells.rows[0]       -> ["pecan", "20", "41.3 [36.0, 46.9]", "0.24x", "[1]"]
    cells.footnotes     -> ["2 of 20 questions failed (scored 0)"]

Columns `x.low` and `x.high` are the interval of column `x`; one with an interval is a score, unless
its name says more. Where `x.p` is below 0.05 its value has a dagger. Rows whose `upper_bound`,
`asked_otherwise` or `x.asked_otherwise` is true are never called best. A column of tuples is
footnotes.
"""

import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.stats.bootstrap import with_interval
from reports import facts
from reports.number_formats import percent
from reports.run_columns import Shown, columns_shown, format_of
from reports.settings import is_number, is_setting
from reports.table_cell import Row, number_in

MISSING = "–"
_NOTES = "notes"
_SCORERS = "scorers"
_FOOTNOTES = (_SCORERS, "changed", _NOTES)
_HIDDEN_COLUMNS = ("base", "reference_run", *columns_shown(Shown.NEVER))
_ENDS = ("low", "high", "p", "asked_otherwise")
_SIGNIFICANT = 0.05
_NO_RIVALS = {"difference", "printed"}
"""Columns of tables whose scores are not those of rivals."""


def is_missing(value: object) -> bool:
    """Whether a cell has no value: None, pandas' NA, or NaN."""
    if value is None or value is pd.NA:
        return True
    return isinstance(value, float) and math.isnan(value)


@dataclass(frozen=True)
class _CellColumn:
    """A column that is shown.

    Args:
        name: Its name in the frame.
        head: Its name in the table.
        numeric: Whether it holds numbers.
        write: Writes a number as text.
    """

    name: str
    head: str
    numeric: bool
    write: Callable[[float], str]

    @property
    def is_score(self) -> bool:
        """Whether it holds numbers in [0, 1], which are written in points of 100."""
        return self.numeric and self.write is percent

    def cell(self, row: Row) -> str:
        """The text of this column's cell in a row.

        A number has its interval and a dagger where its p is below 0.05: "41.3† [36.0, 46.9]". A
        text stays as it is; a missing value is "–".
        """
        value = row[self.name]
        if is_missing(value):
            return MISSING
        number = number_in(value)
        if number is None:
            return str(value)
        low = number_in(row.get(f"{self.name}.low"))
        high = number_in(row.get(f"{self.name}.high"))
        text, space, interval = with_interval(self.write, number, low, high).partition(" ")
        p = number_in(row.get(f"{self.name}.p"))
        if p is not None and p < _SIGNIFICANT:
            text += "†"
        return f"{text}{space}{interval}"


class Cells:
    """A frame as strings.

    Attributes:
        heads: The names of the columns that are shown.
        rows: For each row of the frame, its cells in the order of `heads`.
        numeric: For each column, whether it holds numbers.
        common: The notes that every row has.
        footnotes: The other notes; the last column refers to them by marks, "[1]" for the first.
    """

    def __init__(self, frame: pd.DataFrame, gaps: Collection[str] = ()) -> None:
        """Write all cells, and collect the notes of the rows.

        Args:
            frame: The table.
            gaps: Scores that are shown even without any value; other columns without one are left
                out.
        """
        self._frame = frame
        self._columns = _shown_columns(frame, gaps)
        self.heads: list[str] = []
        self.numeric: list[bool] = []
        for column in self._columns:
            self.heads.append(column.head)
            self.numeric.append(column.numeric)
        rows: Sequence[Row] = facts.records(frame)
        self.rows = list(map(self._cells_of, rows))
        notes = _notes_of_rows(frame, rows)
        self.common = _in_every_row(notes)
        self.footnotes: list[str] = []
        marks = list(map(self._marks, notes))
        if self.footnotes:
            self.heads.append(_NOTES)
            self.numeric.append(False)
            for cells, mark in zip(self.rows, marks, strict=True):
                cells.append(mark)

    def _cells_of(self, row: Row) -> list[str]:
        """The cells of one row as strings, in the order of the columns."""
        return [column.cell(row) for column in self._columns]

    def without_footnotes(self) -> None:
        """Take the last column, of marks, away from `heads`, `numeric` and `rows`; `footnotes`
        stay."""
        if not self.footnotes:
            return
        self.heads.pop()
        self.numeric.pop()
        for cells in self.rows:
            cells.pop()

    def ranks(self) -> dict[tuple[int, int], int]:
        """(row, column) -> 1 for a cell with its column's best score, 2 for the second best; equal
        scores share a rank.

        Only runs of the same questions are ranked, at least two, and no column of zeros. {} for a
        table of differences or of printed values.
        """
        if not _NO_RIVALS.isdisjoint(column.name for column in self._columns):
            return {}
        ranks: dict[tuple[int, int], int] = {}
        for place, column in enumerate(self._columns):
            if not column.is_score:
                continue
            values = self._ranked_values(column.name)
            known = [value for value in values if value is not None]
            best = sorted(set(known), reverse=True)[:2]
            if len(known) < 2 or not any(best):
                continue
            for row, value in enumerate(values):
                if value in best:
                    ranks[row, place] = best.index(value) + 1
        return ranks

    def _ranked_values(self, name: str) -> list[float | None]:
        """The scores of a column, rounded as they are written; None for a row without one or not
        ranked."""
        marks = ["upper_bound", "asked_otherwise", f"{name}.asked_otherwise"]
        present = [mark for mark in marks if mark in self._frame]
        unranked = self._frame[present].any(axis=1)
        values: list[float | None] = []
        for value, is_unranked in zip(self._frame[name], unranked, strict=True):
            if is_unranked or is_missing(value):
                values.append(None)
            else:
                values.append(float(percent(value)))
        return values

    def _marks(self, notes: Sequence[str]) -> str:
        """The marks of a row's notes, such as "[1], [3]-[5]"; also adds new notes to `footnotes`.

        Notes that every row has get no mark.
        """
        numbers = []
        for note in notes:
            if note in self.common:
                continue
            if note not in self.footnotes:
                self.footnotes.append(note)
            numbers.append(self.footnotes.index(note) + 1)
        marks: list[str] = []
        for first, last in _ranges(sorted(numbers)):
            if last - first > 1:  # a long list of marks would be wider than the table
                marks.append(f"[{first}]-[{last}]")
            else:
                marks += [f"[{number}]" for number in range(first, last + 1)]
        return ", ".join(marks)

    def below(
        self, escape: Callable[[str], str] = str, left_out: Collection[str] = ()
    ) -> list[str]:
        """The lines below the table: notes of every row, then footnotes with their marks.

        Args:
            escape: Gives the text of a note as the format needs it.
            left_out: Notes of every row that the caller writes in another place; left out here.
        """
        lines = [escape(note) for note in self.common if note not in left_out]
        for number, note in enumerate(self.footnotes, 1):
            lines.append(f"[{number}] {escape(note)}")
        return lines


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as (first, last) of each unbroken run: [1, 3, 4, 5] -> [(1, 1), (3, 5)]."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def _shown_columns(frame: pd.DataFrame, gaps: Collection[str]) -> list[_CellColumn]:
    """The columns of a frame that are shown as cells of their own.

    Left out: notes, ends of intervals and p-values, what only ranks rows, and columns without any
    value that are not in `gaps`.
    """
    names = list(map(str, frame.columns))
    hidden = {*_HIDDEN_COLUMNS, *_FOOTNOTES}
    for name in names:
        for end in _ENDS:
            hidden.add(f"{name}.{end}")
    shown = []
    for name in names:
        if name in hidden:
            continue
        if name in gaps or not all(map(is_missing, frame[name])):
            shown.append(name)
    columns = []
    for name in shown:
        is_score = name in gaps or f"{name}.low" in names
        columns.append(
            _CellColumn(
                name=name,
                head=_head(name, shown),
                numeric=_is_numeric(frame[name], name),
                write=_writer(name, is_score=is_score),
            )
        )
    return columns


def _head(name: str, shown: Collection[str]) -> str:
    """The head of a column; a method's parameter is written as in labels, "method.k" as "k".

    Args:
        name: The column's name in the frame.
        shown: The names of all shown columns; where one is "k", "method.k" keeps its full name.
    """
    if not is_setting(name):
        return name
    short = name.removeprefix("method.")
    if short in shown:
        return name
    return short


def _is_numeric(values: pd.Series, name: str) -> bool:
    """Whether a column holds numbers, so that it is aligned to the right.

    A setting's column has the type object, so that whole numbers stay whole; its values are looked
    at one by one.
    """
    if is_setting(name):
        return all(map(_is_number_or_missing, values))
    return bool(pd.api.types.is_numeric_dtype(values))


def _is_number_or_missing(value: object) -> bool:
    """Whether a cell holds a number, or nothing."""
    return is_missing(value) or is_number(value)


def _writer(name: str, *, is_score: bool) -> Callable[[float], str]:
    """The function that writes the numbers of a column: by its name, else as points of 100 for a
    score."""
    if is_setting(name):
        return str
    write = format_of(name)
    if write is not None:
        return write
    if is_score:
        return percent
    return "{:g}".format


def _notes_of_rows(frame: pd.DataFrame, rows: Sequence[Row]) -> list[list[str]]:
    """The notes of each row, from the columns that hold footnotes.

    Args:
        frame: The table.
        rows: Its rows, as mappings from column to value.
    """
    columns = [name for name in _FOOTNOTES if name in frame]
    # Versions of scorers say something where rows differ in them; csv and json have them always.
    if _SCORERS in columns and frame[_SCORERS].map(str).nunique() < 2:
        columns.remove(_SCORERS)
    found = []
    for row in rows:
        notes: list[str] = []
        for name in columns:
            value = row[name]
            if isinstance(value, str):
                notes.append(value)
            elif isinstance(value, Sequence):
                notes += value
        found.append(notes)
    return found


def _in_every_row(notes: Sequence[Sequence[str]]) -> list[str]:
    """The notes that every row has, each once."""
    if not notes:
        return []
    shared = set(notes[0]).intersection(*notes)
    return [note for note in dict.fromkeys(notes[0]) if note in shared]
