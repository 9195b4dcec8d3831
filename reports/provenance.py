"""The end of the page: when its runs were made, with which code, models and commands, and a table
of each run."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.markup import Html, el, filled, joined
from reports.number_formats import counted
from reports.table_cell import Row

_COMMANDS_SHOWN = 3
"""Commands in the head; the table of runs has all."""
_NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class Written:
    """When the page was written, in UTC, and the command that wrote it, as its words."""

    time: datetime
    command: Sequence[str]


def header(runs: Sequence[StoredRun], written: Written | None = None) -> Html:
    """The section about the runs as HTML: facts that hold for all of them, and a table of the runs
    that can be opened.

    Args:
        runs: The runs.
        written: When and how the page was written; None for a page that does not say it.
    """
    n_datasets = len(facts.by_dataset(runs))
    facts_of_all = {
        "Runs": f"{counted(len(runs), 'run')} over {counted(n_datasets, 'data set')}",
        "Date": _dates(runs),
        "Model": ", ".join(_models(runs)),
        "Code": "; ".join(_distinct(map(facts.code, runs))) or _NOT_RECORDED,
    }
    commands = _distinct(map(_command, runs))
    head = "Commands"
    if len(commands) == 1:
        head = "Command"
    facts_of_all[head] = _shown_commands(commands) or _NOT_RECORDED
    if written is not None:
        command = el("code", shlex.join(written.command))
        facts_of_all["This page"] = joined(f"written {_utc_text(written.time)} by ", command)
    return filled("about.html", facts=facts_of_all, rows=list(map(_row, runs)))


def _distinct(texts: Iterable[str]) -> list[str]:
    """The texts that are not empty, in their order and each once."""
    return list(filter(None, dict.fromkeys(texts)))


def _models(runs: Sequence[StoredRun]) -> list[str]:
    """The names of all models, each once."""
    names: dict[str, None] = {}
    for run in runs:
        names.update(dict.fromkeys(facts.models(run)))
    return list(names)


def _shown_commands(commands: Sequence[str]) -> Html:
    """The first three commands as HTML, and how many more there are."""
    shown = [el("code", command) for command in commands[:_COMMANDS_SHOWN]]
    if len(commands) > _COMMANDS_SHOWN:
        shown.append(el("span", f"and {len(commands) - _COMMANDS_SHOWN} more, in the table below"))
    return joined(*shown)


def _row(run: StoredRun) -> Row:
    """A run in the table of runs, by column: {"run": "...", "data set": "musique", "started":
    "...", ...}; "–" for what is not recorded."""
    return {
        "run": run.name,
        "data set": run.config.dataset.name,
        "started": _utc_text(run.manifest.started),
        "state": run.summary.state,
        "questions": len(run.records),
        "seed": run.config.seed,
        "code": facts.code(run) or "–",
        "command": _command(run) or "–",
    }


def date(run: StoredRun) -> str:
    """The day on which a run was started, "2026-01-31"; "" where it is not recorded."""
    started = run.manifest.started
    if not started:
        return ""
    return f"{pd.to_datetime(started, utc=True):%Y-%m-%d}"


def _command(run: StoredRun) -> str:
    """The command that made a run, as one types it; "" where it is not recorded."""
    return shlex.join(run.manifest.command)


def _dates(runs: Sequence[StoredRun]) -> str:
    """When the first run was started and the last one ended or was started.

    "2026-01-02 03:04 to 05:06 UTC" within a day, else with both dates; "not recorded" where no run
    says it.
    """
    moments = []
    for run in runs:
        for start in run.manifest.run_and_starts:
            texts = filter(None, (start.started, start.finished))
            moments += [pd.to_datetime(text, utc=True) for text in texts]
    if not moments:
        return _NOT_RECORDED
    first = _utc_text(min(moments))
    last = _utc_text(max(moments))
    if first == last:
        return first
    if first[:10] == last[:10]:
        last = last[11:]
    return f"{first[:16]} to {last}"


def _utc_text(moment: datetime | str | None) -> str:
    """A time as text in UTC, "2026-01-02 03:04 UTC", also of one that names no time zone; "–" for
    none."""
    if not moment:
        return "–"
    return f"{pd.to_datetime(moment, utc=True):%Y-%m-%d %H:%M} UTC"
