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
    """Whether a cell has no value."""
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
        write: A value as text.
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
        """A number with its dagger and interval, a string as it is, a dash for what is missing."""
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

    heads, rows: what is shown; numeric: for each column, whether it holds numbers; common: notes of
    every row; footnotes: other notes, numbered from 1 by marks in a last column.
    """

    def __init__(self, frame: pd.DataFrame, gaps: Collection[str] = ()) -> None:
        """
        Args:
            frame: The table.
            gaps: Scores that stay without any value; other columns would be dashes, which csv and
                json keep.
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
        """A row as strings."""
        return [column.cell(row) for column in self._columns]

    def without_footnotes(self) -> None:
        """Take the column of marks away; `footnotes` stay."""
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
        """The scores of a column as they are written; None for a row that has none or is not
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
        """Marks such as "[1], [3]-[5]" for the notes of a row that not every row has, which are
        added to the footnotes."""
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
        self, escape: Callable[[str], str] = str, elsewhere: Collection[str] = ()
    ) -> list[str]:
        """The lines below the table: notes of every row, then footnotes with their marks.

        Args:
            escape: For the text of notes.
            elsewhere: Notes of every row that are not written here.
        """
        lines = [escape(note) for note in self.common if note not in elsewhere]
        for number, note in enumerate(self.footnotes, 1):
            lines.append(f"[{number}] {escape(note)}")
        return lines


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    """Sorted numbers as (first, last) of those that follow each other."""
    ranges: list[tuple[int, int]] = []
    for number in numbers:
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1] = ranges[-1][0], number
        else:
            ranges.append((number, number))
    return ranges


def _shown_columns(frame: pd.DataFrame, gaps: Collection[str]) -> list[_CellColumn]:
    """The columns that hold values of their own."""
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
    """A parameter of a method is written as in labels, "k" for "method.k", if no other column has
    that name."""
    if not is_setting(name):
        return name
    short = name.removeprefix("method.")
    if short in shown:
        return name
    return short


def _is_numeric(values: pd.Series, name: str) -> bool:
    """Whether a column holds numbers. A setting's whole numbers stay whole by the type object."""
    if is_setting(name):
        return all(map(_is_number_or_missing, values))
    return bool(pd.api.types.is_numeric_dtype(values))


def _is_number_or_missing(value: object) -> bool:
    """Whether a cell holds a number, or nothing."""
    return is_missing(value) or is_number(value)


def _writer(name: str, *, is_score: bool) -> Callable[[float], str]:
    """How the values of a column are written."""
    if is_setting(name):
        return str
    write = format_of(name)
    if write is not None:
        return write
    if is_score:
        return percent
    return "{:g}".format


def _notes_of_rows(frame: pd.DataFrame, rows: Sequence[Row]) -> list[list[str]]:
    """The notes of each row."""
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
