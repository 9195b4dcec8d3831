"""`harness study position`: score by where the supporting parts stand in the text, out of stored runs.

harness study position results
harness study position results --out position.svg
harness study position results/musique --parts 5 --format csv

The places come from the data set's supporting marks, the scores from the records; no model is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.commands.figures import Figure, form_of, show, stored
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.store import StoredRun
    from reports.rows import Rows

__all__ = ["Options", "position"]


@dataclass(frozen=True)
class Options:
    """How the study is shown. score: by default each data set's first; parts: of the text; data: where its rows are."""

    form: str | None = None
    out: str | None = None
    score: str | None = None
    parts: int = 3
    data: str | None = None


def position(folders: Sequence[str], options: Options) -> int:
    """Print or draw the study; 3 when a damaged run was left out.

    Runs whose rows cannot be had are left out with a sentence. Raises UserError where none is left or no supporting
    part is marked, UnknownName for a score that a run does not have, SaveError.
    """
    form = form_of(options.form, options.out)
    runs: dict[str, StoredRun] = {}
    damaged = 0
    for folder in folders:
        found, left_out = stored(folder)
        runs |= {str(run.path): run for run in found}
        damaged += left_out
    from reports.figures.position import frame, panels, sections

    table = frame(_with_rows(list(runs.values()), options.data), options.score, options.parts)
    show(Figure("Place of the supporting parts", table, sections(table), panels(table)), form, options.out)
    return 3 if damaged else 0


def _with_rows(runs: Sequence[StoredRun], data: str | None) -> list[tuple[StoredRun, Rows]]:
    """Each run with its data set's rows, read once for runs over the same ones. Raises UserError where none has any."""
    from reports import facts
    from reports.rows import read_rows

    if data is not None and len({run.config["dataset"]["name"] for run in runs}) > 1:
        raise UserError("--data holds the rows of one data set, but the runs have several; name runs over one of them")
    read: dict[str, Rows] = {}
    found: list[tuple[StoredRun, Rows]] = []
    problems: list[str] = []
    for run in runs:
        if data is not None:
            run = replace(run, config={**run.config, "dataset": {**run.config["dataset"], "data": data}})
        key = f"{run.config['dataset']} {facts.fingerprint(run)}"
        rows = read[key] if key in read else read.setdefault(key, read_rows(run))
        if rows.problem is None:
            found.append((run, rows))
        else:
            problems.append(f"{run.path}: {rows.problem}")
    if not found:
        raise UserError(f"{problems[0]}; name the file of the rows with --data")
    for problem in problems:
        sys.stderr.write(f"warning: left out: {problem}\n")
    return found
