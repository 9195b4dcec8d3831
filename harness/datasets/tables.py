"""Tables of text: comma-, semicolon- and tab-separated files with a header.

    read_table("q.csv", "question;answer\\nWho?;Ada\\n", ";")     (line 2, {"question": "Who?", "answer": "Ada"})

A row that has not the columns of the header is a BrokenRow: an unquoted separator in a value would
otherwise cut the value.
"""

import csv
import io
import sys

from harness.datasets.row_places import BrokenRow, RowPlace, Rows
from harness.errors import DataError

SEPARATORS = (",", ";", "\t", "|")

# Python refuses fields of more than 131,072 characters, which a document in a cell has.
csv.field_size_limit(sys.maxsize)


def separator_of(header: str) -> str:
    """The separator that divides the line `header` into the most columns."""

    def columns(separator: str) -> int:
        """The number of columns of `header` with this separator."""
        return len(next(csv.reader([header], delimiter=separator), []))

    return max(SEPARATORS, key=columns)


def sniffed_table(name: str, text: str) -> Rows:
    """Yield (place, row) for the rows of a table whose separator is found from its first line.

    Args:
        name: The file, for messages.
        text: The table; its first line names the columns.

    Raises:
        DataError: As `read_table`.
    """
    return read_table(name, text, separator_of(text.partition("\n")[0]))


def read_table(name: str, text: str, separator: str) -> Rows:
    """Yield (place, row) for the rows of a table: {column: value}, every value a string.

    A row with another number of values than the header is a BrokenRow; rows without any value are
    left out.

    Args:
        name: The file, for messages.
        text: The table; its first line names the columns.
        separator: One of SEPARATORS.

    Raises:
        DataError: Two columns have one name, or the quotes of a value do not end.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = next(reader, [])
        _check_header(name, header)
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            place = RowPlace(name, line=reader.line_num)
            if len(values) == len(header):
                yield place, dict(zip(header, values, strict=True))
            else:
                yield place, _wrong_columns(len(values), len(header), separator)
    except csv.Error as error:
        problem = f"not a table ({error}); put values with quotes in quotes, and double these"
        raise DataError(name, reader.line_num, None, problem) from None


def _check_header(name: str, header: list[str]) -> None:
    """Raise DataError where two columns have the same name; columns without a name are passed
    over.

    Args:
        name: The file, for the error.
        header: The names of the columns.
    """
    named = [column for column in header if column]
    twice = [column for column in dict.fromkeys(named) if named.count(column) > 1]
    if twice:
        raise DataError(name, 1, None, f"two columns are called '{twice[0]}'; rename one")


def _wrong_columns(found: int, expected: int, separator: str) -> BrokenRow:
    """The BrokenRow for a row whose number of values is not that of the header.

    Args:
        found: The number of values.
        expected: The number of columns.
        separator: What divides the values.
    """
    spelled = "tab" if separator == "\t" else f"'{separator}'"
    return BrokenRow(
        f"has not the {expected} columns of the header, but {found}; a value with a {spelled} in "
        "it stands in quotes"
    )
