"""A titled table before it is text.

Section("musique · llama-8b", frame)
"""

from collections.abc import Collection
from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class Section:
    """A table with a title.

    Args:
        title: What all rows share: "musique · llama-8b".
        frame: The rows.
        gaps: Scores that are shown even without any value; other columns without one are left out.
        unchanged_headings: Heads that are names, of data sets: they are written as they are.
        named_columns: The columns that the user named; None where that is not known. A table for a
            paper leaves counts of failures and notes out unless they were named.
    """

    title: str
    frame: pd.DataFrame
    gaps: Collection[str] = ()
    unchanged_headings: Collection[str] = ()
    named_columns: Collection[str] | None = None
