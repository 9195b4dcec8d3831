"""What the files of data sets hold, before it is parsed."""

RawRow = dict[str, object]
"""A row, or an object in one, as its file has it: its keys are those of the data set's authors."""
