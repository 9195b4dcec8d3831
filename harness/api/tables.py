"""Tables and figures of stored runs, as the methods of Run and Runs give them (results.py)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError
from harness.storage.named_runs import read_runs, run_folders
from harness.storage.run_folder import StoredRun
from reports import frames, main_table
from reports.columns import sections
from reports.compare import side_by_side
from reports.figures import front
from reports.figures.plot import FORMS
from reports.repeats import average_over_seeds
from reports.trace import read_search, trace_lines

PathLike = str | os.PathLike[str]


def compare_folders(
    folders: Sequence[PathLike],
    *,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT_CONVENTION,
) -> pd.DataFrame:
    """Compare stored runs: a row for each, with its paired difference to the reference.

    Args:
        folders: Run folders, or folders that hold runs.
        reference: A preset's name, a run folder's name or hash.
        score: The name of the score; by default the data set's headline.
        force: Compare runs that differ in more than the method.
        convention: How FLOPs are counted.

    Raises:
        UserError: The runs must not be compared.
        UnknownName: There is no such reference or score.
    """
    stored_runs = read_runs(run_folders([os.fspath(folder) for folder in folders]))
    return side_by_side(
        stored_runs, reference=reference, score=score, force=force, convention=convention
    ).joined()


@dataclass(frozen=True)
class Tables:
    """Tables and figures of some runs; `records`, `documents` and `trace` are of the first."""

    runs: Sequence[StoredRun]

    def records(self) -> pd.DataFrame:
        """A table of the first run with a row for each question."""
        return frames.records_frame(self.runs[0])

    def documents(self) -> pd.DataFrame:
        """A table of the first run with a row for each index."""
        return frames.indexes_frame(self.runs[0])

    def trace(self, question_id: str) -> str:
        """The search of one question of the first run, as text. Raises UnknownName."""
        return "\n".join(trace_lines(read_search(self.runs[0], question_id)))

    def averaged(self) -> pd.DataFrame:
        """A table with a row for each run; runs that differ in their
        seed alone are one row, averaged.
        """
        return main_table.frame(average_over_seeds(self.runs))

    def table(self) -> pd.DataFrame:
        """A table with a row for each run and all columns of reports/run_columns.py."""
        return main_table.frame(self.runs)

    def html(self) -> str:
        """The table of the runs as the HTML that a notebook shows."""
        return frames.sections_html(sections(self.table()))

    def plot(self, out: PathLike | None, score: str | None) -> bytes:
        """Draw score against cost and return the figure's content; also write it to `out`.

        Args:
            out: Its ending says the form; None: an SVG that is written nowhere.
            score: The name of the score; None: the data set's headline.

        Raises:
            UserError: The runs are of several data sets, nothing can be drawn, or the ending is
                unknown.
        """
        rows = main_table.table_rows(self.runs)
        if len({row.dataset for row in rows}) > 1:
            raise UserError("score against cost is drawn for one data set; select its runs first")
        form = "svg"
        if out is not None:
            form = Path(out).suffix.lower().removeprefix(".")
        if form not in FORMS:
            raise UserError(f"'{out}' should end in {', '.join('.' + form for form in FORMS)}")
        points = front.points(rows, score)
        if not points:
            raise UserError(
                "no run has both a score and known FLOPs, so there is no figure; harness report "
                "says what is missing"
            )
        content = front.draw(points, score or rows[0].headline, form)
        if out is not None:
            Path(out).write_bytes(content)
        return content
