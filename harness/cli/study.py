"""`harness study position | trials | requests`: questions put to stored runs; no model is loaded.

harness study position results --out position.svg     score by where the supporting parts stand in the text
harness study trials results --out trials.svg         score and requests over the maximum of trials
harness study requests results --format csv           requests a question, construction of an index apart

The places come from the data set's supporting marks, the scores from the records. Answers that a search recorded for
other maxima of trials have no score yet: the data set is loaded for its gold answers, as `harness score` does.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.cli.figures import Figure, form_of, replayed, show, stored
from harness.cost.flops import DEFAULT
from harness.errors import UserError

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun
    from reports.figures.trials import Recorded, Scored
    from reports.gold_rows import Rows


@dataclass(frozen=True)
class Options:
    """How the study is shown. score: by default each data set's first; parts: of the text; data: where its rows are."""

    form: str | None = None
    out: str | None = None
    score: str | None = None
    parts: int = 3
    data: str | None = None


@dataclass(frozen=True)
class TrialOptions:
    """How `study trials` is shown. most: the highest maximum, by default each run's own or the one recorded up to;
    convention: how FLOPs are counted.
    """

    form: str | None = None
    out: str | None = None
    score: str | None = None
    most: int | None = None
    data: str | None = None
    convention: str | None = None


def position(folders: Sequence[str], options: Options) -> int:
    """Print or draw the study; 3 when a damaged run was left out.

    Runs whose rows cannot be had are left out with a sentence. Raises UserError where none is left or no supporting
    part is marked, UnknownName for a score that a run does not have, SaveError.
    """
    form = form_of(options.form, options.out)
    runs, damaged = stored_runs(folders)
    from reports.figures.position import frame, panels, sections

    table = frame(with_rows(runs, options.data), options.score, options.parts)
    show(Figure("Place of the supporting parts", table, sections(table), panels(table)), form, options.out)
    return 3 if damaged else 0


def trials(folders: Sequence[str], options: TrialOptions) -> int:
    """Print or draw score and requests over the maximum of trials; 3 when a damaged run was left out.

    Raises UserError where no run has trials, or recorded answers cannot be scored; UnknownName for a score that a run
    does not have; SaveError.
    """
    form = form_of(options.form, options.out)
    runs, damaged = stored_runs(folders)
    from reports.figures.trials import frame, panels, recorded, sections

    scored = [_scored(run, told, options) for run, told in replayed(runs, recorded)]
    table = frame(scored, options.score, options.convention or DEFAULT)
    show(Figure("Maximum of trials", table, sections(table), panels(table)), form, options.out)
    return 3 if damaged else 0


def requests(folders: Sequence[str], form: str | None, out: str | None, score: str | None) -> int:
    """Print or draw requests a question; 3 when a damaged run was left out.

    Raises UserError where there is no run, UnknownName for a score that a run does not have, SaveError.
    """
    form = form_of(form, out)
    runs, damaged = stored_runs(folders)
    from reports.figures.requests import frame, panels, sections

    table = frame(runs, score)
    show(Figure("Requests a question", table, sections(table), panels(table)), form, out)
    return 3 if damaged else 0


def stored_runs(folders: Sequence[str]) -> tuple[list[StoredRun], int]:
    """The runs at or below the folders, each once, and how many damaged ones were left out."""
    runs: dict[str, StoredRun] = {}
    damaged = 0
    for folder in folders:
        found, left_out = stored(folder)
        runs |= {str(run.path): run for run in found}
        damaged += left_out
    return list(runs.values()), damaged


def _scored(run: StoredRun, told: Recorded, options: TrialOptions) -> Scored:
    """A run with the score of every recorded answer that its maxima need."""
    from harness.cli.judging import Recorded as Judged
    from harness.cli.judging import judged
    from reports import stored as facts
    from reports.figures.trials import Scored, shown, wanted

    name = options.score or facts.headline(run)
    facts.scored(run, name)  # raises UnknownName for a score the run does not have
    maxima = range((told.most if options.most is None else options.most) + 1)
    stops = wanted(run, told, maxima)
    records = {record["question_id"]: record for record in run.records}
    answers = {(q, i): Judged(stop.answer, shown(records[q], i)) for (q, i), stop in stops.items()}
    return Scored(run, told, maxima, judged(run, answers, name, options.data) if answers else {})


def with_rows(runs: Sequence[StoredRun], data: str | None) -> list[tuple[StoredRun, Rows]]:
    """Each run with its data set's rows, read once for runs over the same ones. Raises UserError where none has any."""
    from reports import stored as facts
    from reports.gold_rows import read_rows

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
