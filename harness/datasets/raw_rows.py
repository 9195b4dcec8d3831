"""What the files of data sets hold, before it is parsed."""

from typing import Any

RawRow = dict[str, Any]
"""A row, or an object in one, as its file has it: its keys are those of the data set's authors."""
