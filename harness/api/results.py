"""What a call returns: Run, Runs; load_run."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.storage.run_folder import StoredRun, read_run

if TYPE_CHECKING:
    import pandas as pd

    from harness.api.tables import Tables

PathLike = str | os.PathLike[str]


@dataclass(frozen=True)
class Run:
    """A run folder, with what can be read from it.

    Attributes:
        folder: The folder.
        save_problems: What could not be written, a sentence each.
    """

    folder: Path
    save_problems: tuple[str, ...] = ()

    @cached_property
    def stored(self) -> StoredRun:
        """The folder's files, read once, at the first use. Raises UserError, DataError."""
        return read_run(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        """The run's scores with intervals, costs and counts, as its summary.json has them:
        docs/run-folder.md#summary.
        """
        return self.stored.summary.to_json()

    @property
    def config(self) -> dict[str, Any]:
        """Every setting of the run, nested as in its run.yaml: {"method": {"name": ...}, ...}."""
        return self.stored.config.to_json()

    @property
    def failed(self) -> int:
        """How many questions failed."""
        return self.stored.summary.n_failed or 0

    @cached_property
    def records(self) -> pd.DataFrame:
        """A table with a row for each question: question_id, question, gold, prediction, a column
        for each score, tokens, tflops, seconds, ...
        """
        return _tables([self]).records()

    @cached_property
    def documents(self) -> pd.DataFrame:
        """A table with a row for each index: document_id, status, tokens, tflops, seconds."""
        return _tables([self]).documents()

    def compare(
        self, *others: Run | PathLike, reference: str | None = None, score: str | None = None
    ) -> pd.DataFrame:
        """Compare this run with others: a row for each, with its
        paired difference to the reference.

        Args:
            others: Runs, or their folders.
            reference: A preset's name, a run folder's name or hash; by default this run.
            score: The name of the score; by default the data set's headline.
        """
        folders = [self.folder, *map(folder_of, others)]
        return _compared(folders, reference or self.folder.name, score)

    def trace(self, question_id: str) -> str:
        """The search of one question as text, as `harness trace` prints it. Raises UnknownName for
        a question without a record.
        """
        return _tables([self]).trace(question_id)

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Draw score against cost of this run alone; raises as `Runs.plot`.

        Args:
            out: The file; its ending (svg, pdf, png) says the form. None: an SVG that is not
                written.
            score: The name of the score; by default the data set's headline.

        Returns:
            The content of the file.
        """
        return Runs([self]).plot(out, score=score)

    def _repr_html_(self) -> str:
        """The run's row of the table, as a notebook shows it."""
        return Runs([self])._repr_html_()


class Runs(list[Run]):
    """The runs of one call, in the order in which they ran.

    Attributes:
        lost: Name of a run that is incomplete ("bm25 k=3 on nq") -> why.
    """

    lost: dict[str, str]

    def __init__(self, runs: Sequence[Run] = (), lost: Mapping[str, str] | None = None) -> None:
        """Keep the runs, and why others are incomplete (name -> reason)."""
        super().__init__(runs)
        self.lost = dict(lost or {})

    @property
    def averaged(self) -> pd.DataFrame:
        """`table` with one averaged row for runs that differ in their seed alone, as `harness
        report --average-seeds` has it.
        """
        return _tables(self).averaged()

    @property
    def table(self) -> pd.DataFrame:
        """A table with a row for each run, as `harness report --format csv` has it; its columns are
        those of reports/run_columns.py.
        """
        return _tables(self).table()

    def compare(self, *, reference: str | None = None, score: str | None = None) -> pd.DataFrame:
        """Compare the runs: a row for each, with its paired difference to the reference.

        Args:
            reference: A preset's name, a run folder's name or hash; by default "full-context".
            score: The name of the score; by default the data set's headline.
        """
        folders = [run.folder for run in self]
        return _compared(folders, reference, score)

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Draw score against cost with intervals, the front marked.

        Args:
            out: The file; its ending (svg, pdf, png) says the form. None: an SVG that is not
                written.
            score: The name of the score; by default the data set's headline.

        Returns:
            The content of the file.

        Raises:
            UserError: The runs are of several data sets, nothing can be drawn, or the ending is
                unknown.
        """
        return _tables(self).plot(out, score)

    def _repr_html_(self) -> str:
        """The table of the runs, as a notebook shows it."""
        return _tables(self).html()


def load_run(folder: PathLike) -> Run:
    """Read a stored run. Raises UserError where `folder` is no run folder."""
    loaded = Run(Path(folder))
    _ = loaded.stored  # reads the folder now, so that a wrong one is found here
    return loaded


def _tables(runs: Sequence[Run]) -> Tables:
    """The tables of these runs; pandas is imported now, and not before."""
    from harness.api.tables import Tables

    return Tables([run.stored for run in runs])


def _compared(
    folders: Sequence[PathLike], reference: str | None, score: str | None
) -> pd.DataFrame:
    """Compare the runs in folders: a row for each, with its paired difference to the reference.

    Args:
        folders: Run folders.
        reference: A preset's name, a run folder's name or hash; None for the default one.
        score: The name of the score; None for the data set's headline.
    """
    from harness.api.tables import compare_folders

    return compare_folders(folders, reference=reference, score=score)


def folder_of(run: Run | PathLike) -> PathLike:
    """The folder of a run that is given as a Run or by its folder."""
    if isinstance(run, Run):
        return run.folder
    return run
