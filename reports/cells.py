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
from typing import NamedTuple

import pandas as pd

from harness.stats.bootstrap import with_interval
from reports import facts
from reports.number_formats import points_of_100
from reports.run_columns import Shown, column_names_shown, number_format
from reports.settings import is_number, is_setting
from reports.table_cell import Row, number_or_none

MISSING = "–"
_NOTES_COLUMN = "notes"
_SCORERS_COLUMN = "scorers"
_FOOTNOTE_COLUMNS = (_SCORERS_COLUMN, "changed", _NOTES_COLUMN)
_HIDDEN_COLUMNS = ("base", "reference_run", *column_names_shown(Shown.NEVER))
_HIDDEN_ENDINGS = ("low", "high", "p", "asked_otherwise")
_DAGGER_P = 0.05
_UNRANKED_TABLES = {"difference", "printed"}
"""Columns of tables whose scores are not those of rivals."""


def is_missing(value: object) -> bool:
    """Whether a cell has no value: None, pandas' NA, or NaN."""
    if value is None or value is pd.NA:
        return True
    return isinstance(value, float) and math.isnan(value)


@dataclass(frozen=True)
class _ShownColumn:
    """A column that is shown.

    Args:
        name: Its name in the frame.
        heading: Its name in the table.
        is_numeric: Whether it holds numbers.
        format_number: Gives a number of it as text.
    """

    name: str
    heading: str
    is_numeric: bool
    format_number: Callable[[float], str]

    @property
    def is_score(self) -> bool:
        """Whether it holds numbers in [0, 1], which are written in points of 100."""
        return self.is_numeric and self.format_number is points_of_100

    def cell(self, row: Row) -> str:
        """The text of this column's cell in a row.

        A number has its interval and a dagger where its p is below 0.05: "41.3† [36.0, 46.9]". A
        text stays as it is; a missing value is "–".
        """
        value = row[self.name]
        if is_missing(value):
            return MISSING
        number = number_or_none(value)
        if number is None:
            return str(value)
        low = number_or_none(row.get(f"{self.name}.low"))
        high = number_or_none(row.get(f"{self.name}.high"))
        number_and_interval = with_interval(self.format_number, number, low, high)
        text, space, interval = number_and_interval.partition(" ")
        p = number_or_none(row.get(f"{self.name}.p"))
        if p is not None and p < _DAGGER_P:
            text += "†"
        return f"{text}{space}{interval}"


class Cells:
    """A frame as strings.

    Attributes:
        headings: The names of the columns that are shown.
        rows: For each row of the frame, its cells in the order of `headings`.
        is_numeric: For each column, whether it holds numbers.
        common_notes: The notes that every row has.
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
        self.headings: list[str] = []
        self.is_numeric: list[bool] = []
        for column in self._columns:
            self.headings.append(column.heading)
            self.is_numeric.append(column.is_numeric)
        rows: Sequence[Row] = facts.frame_rows(frame)
        self.rows = [self._cells_of(row) for row in rows]
        notes_by_row = _notes_of_rows(frame, rows)
        self.common_notes = _notes_in_every_row(notes_by_row)
        self.footnotes: list[str] = []
        marks_by_row = [self._add_footnotes(notes) for notes in notes_by_row]
        if self.footnotes:
            self.headings.append(_NOTES_COLUMN)
            self.is_numeric.append(False)
            for cells, marks_of_row in zip(self.rows, marks_by_row, strict=True):
                cells.append(marks_of_row)

    def _cells_of(self, row: Row) -> list[str]:
        """The cells of one row as strings, in the order of the columns."""
        return [column.cell(row) for column in self._columns]

    def remove_marks_of_footnotes(self) -> None:
        """Remove the last column, of marks, from `headings`, `is_numeric` and `rows`; `footnotes`
        stay."""
        if not self.footnotes:
            return
        self.headings.pop()
        self.is_numeric.pop()
        for cells in self.rows:
            cells.pop()

    def ranks(self) -> dict[tuple[int, int], int]:
        """(row, column) -> 1 for a cell with its column's best score, 2 for the second best; equal
        scores share a rank.

        Only runs of the same questions are ranked, at least two, and no column of zeros. {} for a
        table of differences or of printed values.
        """
        if not _UNRANKED_TABLES.isdisjoint(column.name for column in self._columns):
            return {}
        ranks: dict[tuple[int, int], int] = {}
        for column_number, column in enumerate(self._columns):
            if not column.is_score:
                continue
            column_values = self._ranked_values(column.name)
            known_values = [value for value in column_values if value is not None]
            two_best_values = sorted(set(known_values), reverse=True)[:2]
            all_are_zero = not any(two_best_values)
            if len(known_values) < 2 or all_are_zero:
                continue
            for row_number, value in enumerate(column_values):
                if value in two_best_values:
                    ranks[row_number, column_number] = two_best_values.index(value) + 1
        return ranks

    def _ranked_values(self, name: str) -> list[float | None]:
        """The scores of a column, rounded as they are written; None for a row without one or not
        ranked."""
        unranked_columns = ["upper_bound", "asked_otherwise", f"{name}.asked_otherwise"]
        present_columns = [column for column in unranked_columns if column in self._frame]
        is_unranked_row = self._frame[present_columns].any(axis=1)
        values: list[float | None] = []
        for value, is_unranked in zip(self._frame[name], is_unranked_row, strict=True):
            if is_unranked or is_missing(value):
                values.append(None)
            else:
                values.append(float(points_of_100(value)))
        return values

    def _add_footnotes(self, notes: Sequence[str]) -> str:
        """Add a row's notes to `footnotes`, each once, and return their marks: "[1], [3]-[5]".

        Notes that every row has are no footnotes.
        """
        numbers = []
        for note in notes:
            if note in self.common_notes:
                continue
            if note not in self.footnotes:
                self.footnotes.append(note)
            numbers.append(self.footnotes.index(note) + 1)
        marks: list[str] = []
        for first_number, last_number in _unbroken_ranges(sorted(numbers)):
            if last_number - first_number > 1:  # a long list of marks would be wider than the table
                marks.append(f"[{first_number}]-[{last_number}]")
            else:
                marks += [f"[{number}]" for number in range(first_number, last_number + 1)]
        return ", ".join(marks)

    def lines_below(
        self, escape: Callable[[str], str] = str, left_out: Collection[str] = ()
    ) -> list[str]:
        """The lines below the table: notes of every row, then footnotes with their marks.

        Args:
            escape: Gives the text of a note as the format needs it.
            left_out: Notes of every row that the caller writes in another place; left out here.
        """
        lines = [escape(note) for note in self.common_notes if note not in left_out]
        for number, note in enumerate(self.footnotes, 1):
            lines.append(f"[{number}] {escape(note)}")
        return lines


class _Range(NamedTuple):
    """The whole numbers from `first` to `last`, both included."""

    first: int
    last: int


def _unbroken_ranges(numbers: Sequence[int]) -> list[_Range]:
    """Sorted numbers as ranges without a gap: [1, 3, 4, 5] -> [_Range(1, 1), _Range(3, 5)]."""
    ranges: list[_Range] = []
    for number in numbers:
        if ranges and number == ranges[-1].last + 1:
            ranges[-1] = _Range(ranges[-1].first, number)
        else:
            ranges.append(_Range(number, number))
    return ranges


def _shown_columns(frame: pd.DataFrame, gaps: Collection[str]) -> list[_ShownColumn]:
    """The columns of a frame that are shown as cells of their own.

    Left out: notes, ends of intervals and p-values, what only ranks rows, and columns without any
    value that are not in `gaps`.
    """
    names = list(map(str, frame.columns))
    hidden = {*_HIDDEN_COLUMNS, *_FOOTNOTE_COLUMNS}
    for name in names:
        for ending in _HIDDEN_ENDINGS:
            hidden.add(f"{name}.{ending}")
    shown_names = []
    for name in names:
        if name in hidden:
            continue
        is_empty = all(map(is_missing, frame[name]))
        if name in gaps or not is_empty:
            shown_names.append(name)
    columns = []
    for name in shown_names:
        is_score = name in gaps or f"{name}.low" in names
        columns.append(
            _ShownColumn(
                name=name,
                heading=_column_heading(name, shown_names),
                is_numeric=_holds_numbers(frame[name], name),
                format_number=_number_writer(name, is_score=is_score),
            )
        )
    return columns


def _column_heading(name: str, shown_names: Collection[str]) -> str:
    """The head of a column; a method's parameter is written as in labels, "method.k" as "k".

    Args:
        name: The column's name in the frame.
        shown_names: All shown columns; where one is "k", "method.k" keeps its full name.
    """
    if not is_setting(name):
        return name
    short_name = name.removeprefix("method.")
    if short_name in shown_names:
        return name
    return short_name


def _holds_numbers(values: pd.Series, name: str) -> bool:
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


def _number_writer(name: str, *, is_score: bool) -> Callable[[float], str]:
    """The function that writes the numbers of a column: by its name, else as points of 100 for a
    score."""
    if is_setting(name):
        return str
    write = number_format(name)
    if write is not None:
        return write
    if is_score:
        return points_of_100
    return "{:g}".format


def _notes_of_rows(frame: pd.DataFrame, rows: Sequence[Row]) -> list[list[str]]:
    """The notes of each row, from the columns that hold footnotes.

    Args:
        frame: The table.
        rows: Its rows, as mappings from column to value.
    """
    columns = [name for name in _FOOTNOTE_COLUMNS if name in frame]
    # Versions of scorers say something where rows differ in them; csv and json have them always.
    if _SCORERS_COLUMN in columns and frame[_SCORERS_COLUMN].map(str).nunique() < 2:
        columns.remove(_SCORERS_COLUMN)
    notes_by_row = []
    for row in rows:
        notes: list[str] = []
        for name in columns:
            value = row[name]
            if isinstance(value, str):
                notes.append(value)
            elif isinstance(value, Sequence):
                notes += value
        notes_by_row.append(notes)
    return notes_by_row


def _notes_in_every_row(notes: Sequence[Sequence[str]]) -> list[str]:
    """The notes that every row has, each once."""
    if not notes:
        return []
    common_notes = set(notes[0]).intersection(*notes)
    return [note for note in dict.fromkeys(notes[0]) if note in common_notes]
