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


def guess_separator(header: str) -> str:
    """The one of SEPARATORS that divides the first line of a table into the most columns.

    "question;answer" -> ";"
    """

    def count_columns(separator: str) -> int:
        """The number of columns of `header` with this separator."""
        return len(next(csv.reader([header], delimiter=separator), []))

    return max(SEPARATORS, key=count_columns)


def read_table_of_any_separator(file_name: str, text: str) -> Rows:
    """Yield (place, row) for the rows of a table whose separator is found from its first line.

    Args:
        file_name: The file, for messages.
        text: The table; its first line names the columns.

    Raises:
        DataError: As `read_table`.
    """
    header = text.partition("\n")[0]
    return read_table(file_name, text, guess_separator(header))


def read_table(file_name: str, text: str, separator: str) -> Rows:
    """Yield (place, row) for the rows of a table: {column: value}, every value a string.

    A row with another number of values than the header is a BrokenRow; rows without any value are
    left out.

    Args:
        file_name: The file, for messages.
        text: The table; its first line names the columns.
        separator: One of SEPARATORS.

    Raises:
        DataError: Two columns have one name, or the quotes of a value do not end.
    """
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = next(reader, [])
        _check_header(file_name, header)
        for values in reader:
            if not any(value.strip() for value in values):
                continue
            place = RowPlace(file_name, line=reader.line_num)
            if len(values) == len(header):
                yield place, dict(zip(header, values, strict=True))
            else:
                yield place, _row_of_wrong_length(len(values), len(header), separator)
    except csv.Error as error:
        problem = f"not a table ({error}); put values with quotes in quotes, and double these"
        raise DataError(file_name, line=reader.line_num, field=None, problem=problem) from None


def _check_header(file_name: str, header: list[str]) -> None:
    """Raise DataError where two columns have the same name; columns without a name are passed
    over.

    Args:
        file_name: The file, for the error.
        header: The names of the columns.
    """
    named = [column for column in header if column]
    repeated = [column for column in dict.fromkeys(named) if named.count(column) > 1]
    if repeated:
        problem = f"two columns are called '{repeated[0]}'; rename one"
        raise DataError(file_name, line=1, field=None, problem=problem)


def _row_of_wrong_length(n_values: int, n_columns: int, separator: str) -> BrokenRow:
    """The BrokenRow for a row whose number of values is not that of the header's columns.

    Args:
        n_values: The number of values of the row.
        n_columns: The number of columns of the header.
        separator: What divides the values.
    """
    separator_in_words = f"'{separator}'"
    if separator == "\t":
        separator_in_words = "tab"
    return BrokenRow(
        f"has not the {n_columns} columns of the header, but {n_values}; a value with a "
        f"{separator_in_words} in it stands in quotes"
    )
