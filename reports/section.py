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
        title: What all rows share.
        frame: The rows.
        gaps: Scores that stay without any value; other columns without a value are left out.
        names: Heads that are names, of data sets: they are written as they are.
        asked: The columns that the user named; None where that is not known. A table for a paper
            leaves counts of failures and notes out unless they were.
    """

    title: str
    frame: pd.DataFrame
    gaps: Collection[str] = ()
    names: Collection[str] = ()
    asked: Collection[str] | None = None
