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
    """A run folder. save_problems: what could not be written, a sentence each."""

    folder: Path
    save_problems: tuple[str, ...] = ()

    @cached_property
    def stored(self) -> StoredRun:
        """The folder's files as they were when they were first needed. Raises UserError,
        DataError."""
        return read_run(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        """Scores with intervals, costs and counts: docs/run-folder.md#summary."""
        return self.stored.summary.to_json()

    @property
    def config(self) -> dict[str, Any]:
        """Every setting of the run, nested as under `config` in its run.yaml: {"method": {"name":
        ...}, ...}."""
        return self.stored.config.to_json()

    @property
    def failed(self) -> int:
        """The number of questions that failed."""
        return self.stored.summary.n_failed or 0

    @cached_property
    def records(self) -> pd.DataFrame:
        """A row a question: question_id, question, gold, prediction, a column a score, tokens,
        tflops, seconds, ..."""
        return _tables([self]).records()

    @cached_property
    def documents(self) -> pd.DataFrame:
        """A row an index: document_id, status, tokens, tflops, seconds."""
        return _tables([self]).documents()

    def compare(
        self, *others: Run | PathLike, reference: str | None = None, score: str | None = None
    ) -> pd.DataFrame:
        """This run beside `others`, a row a run, as the function `compare` gives; reference: by
        default this run."""
        folders = [self.folder, *map(folder_of, others)]
        return _compared(folders, reference or self.folder.name, score)

    def trace(self, question_id: str) -> str:
        """The search of one question as text, as `harness trace` prints it. Raises UnknownName."""
        return _tables([self]).trace(question_id)

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Draw score against cost of this run alone; arguments, result and errors are those of
        `Runs.plot`."""
        return Runs([self]).plot(out, score=score)

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(list[Run]):
    """Runs of one call, in the order in which they ran. lost: name ("bm25 k=3 on nq") -> why it is
    incomplete."""

    lost: dict[str, str]

    def __init__(self, runs: Sequence[Run] = (), lost: Mapping[str, str] | None = None) -> None:
        super().__init__(runs)
        self.lost = dict(lost or {})

    @property
    def averaged(self) -> pd.DataFrame:
        """`table` with one averaged row for runs that differ in their seed alone: `harness report
        --average-seeds`."""
        return _tables(self).averaged()

    @property
    def table(self) -> pd.DataFrame:
        """What `harness report --format csv` holds: a row a run; see reports/main_table.py for the
        columns."""
        return _tables(self).table()

    def compare(self, *, reference: str | None = None, score: str | None = None) -> pd.DataFrame:
        """A row for each run, with its paired difference to the reference; arguments as of the
        function `compare`."""
        folders = [run.folder for run in self]
        return _compared(folders, reference, score)

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Score against cost with intervals, the front marked: an SVG, or what the ending of `out`
        says (pdf, png).

        score: its name, by default the data set's headline. Returns the file's content and writes
        it to `out`. Raises UserError, also for runs of several data sets.
        """
        return _tables(self).plot(out, score)

    def _repr_html_(self) -> str:
        return _tables(self).html()


def load_run(folder: PathLike) -> Run:
    """A stored run. Raises UserError where `folder` is no run folder."""
    loaded = Run(Path(folder))
    _ = loaded.stored
    return loaded


def _tables(runs: Sequence[Run]) -> Tables:
    """The tables of runs; pandas is imported when the first is made."""
    from harness.api.tables import Tables

    return Tables([run.stored for run in runs])


def _compared(
    folders: Sequence[PathLike], reference: str | None, score: str | None
) -> pd.DataFrame:
    """A row for each run of folders, with its paired difference to the reference."""
    from harness.api.tables import compare_folders

    return compare_folders(folders, reference=reference, score=score)


def folder_of(run: Run | PathLike) -> PathLike:
    """The folder of a run."""
    if isinstance(run, Run):
        return run.folder
    return run
