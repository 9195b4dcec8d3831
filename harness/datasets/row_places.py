"""Where a row stands in its file, and what stands there in place of a row."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.datasets.raw_rows import RawRow
from harness.errors import DataError

Rows = Iterator[tuple["RowPlace", "RawRow | BrokenRow"]]


@dataclass(frozen=True, slots=True)
class RowPlace:
    """The place of a row.

    Attributes:
        file: The file's name.
        line: Its line, from 1, in JSON lines or a table.
        row: Its number, from 1, in a JSON list or a parquet file.
    """

    file: str
    line: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        """The place in words: "dev.jsonl, line 3"."""
        place = self.file
        if self.line is not None:
            place += f", line {self.line}"
        if self.row is not None:
            place += f", row {self.row}"
        return place

    def error(self, field: str | None, problem: str) -> DataError:
        """Make the DataError for a mistake at this place, without raising it.

        Args:
            field: The field that is wrong; None for the whole row.
            problem: What is wrong with it.
        """
        is_in_list = self.row is not None and self.line is None
        if is_in_list:
            return DataError(
                f"{self.file}, row {self.row}", line=None, field=field, problem=problem
            )
        return DataError(self.file, self.line, field, problem)


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A line or list entry that holds no row, and why."""

    problem: str
