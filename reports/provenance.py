"""The end of the page: when its runs were made, with which code, models and commands, and a table
of each run."""

import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.markup import Html, element, fill_template, join_html
from reports.number_formats import with_noun
from reports.table_cell import Row

_MAX_SHOWN_COMMANDS = 3
"""Commands in the head; the table of runs has all."""
_NOT_RECORDED = "not recorded"


@dataclass(frozen=True)
class PageOrigin:
    """When the page was written, in UTC, and the command that wrote it, as its words."""

    time: datetime
    command: Sequence[str]


def provenance_section(
    runs: Sequence[StoredRun],
    page_origin: PageOrigin | None = None,
    not_checked: Sequence[str] = (),
) -> Html:
    """The section about the runs as HTML: facts that hold for all of them, and a table of the runs
    that can be opened.

    Args:
        runs: The runs.
        page_origin: When and how the page was written; None for a page that does not say it.
        not_checked: What was not checked of the runs, a phrase each.
    """
    n_datasets = len(facts.runs_by_dataset(runs))
    facts_of_all = {
        "Runs": f"{with_noun(len(runs), 'run')} over {with_noun(n_datasets, 'data set')}",
        "Date": _period_in_words(runs),
        "Model": ", ".join(_all_model_names(runs)),
        "Code": "; ".join(_distinct_texts(map(facts.code_version, runs))) or _NOT_RECORDED,
    }
    commands = _distinct_texts(map(_command_line, runs))
    heading = "Commands"
    if len(commands) == 1:
        heading = "Command"
    facts_of_all[heading] = _commands_html(commands) or _NOT_RECORDED
    if page_origin is not None:
        command = element("code", shlex.join(page_origin.command))
        facts_of_all["This page"] = join_html(f"written {_utc_text(page_origin.time)} by ", command)
    if not_checked:
        facts_of_all["Not checked"] = ", ".join(not_checked)
    return fill_template("about.html", facts=facts_of_all, rows=list(map(_run_cells, runs)))


def _distinct_texts(texts: Iterable[str]) -> list[str]:
    """The texts that are not empty, in their order and each once."""
    return list(filter(None, dict.fromkeys(texts)))


def _all_model_names(runs: Sequence[StoredRun]) -> list[str]:
    """The names of all models, each once."""
    names: dict[str, None] = {}  # an ordered set
    for run in runs:
        names.update(dict.fromkeys(facts.model_names(run)))
    return list(names)


def _commands_html(commands: Sequence[str]) -> Html:
    """The first three commands as HTML, and how many more there are."""
    parts = [element("code", command) for command in commands[:_MAX_SHOWN_COMMANDS]]
    if len(commands) > _MAX_SHOWN_COMMANDS:
        parts.append(
            element("span", f"and {len(commands) - _MAX_SHOWN_COMMANDS} more, in the table below")
        )
    return join_html(*parts)


def _run_cells(run: StoredRun) -> Row:
    """A run in the table of runs, by column: {"run": "...", "data set": "musique", "started":
    "...", ...}; "–" for what is not recorded."""
    return {
        "run": run.name,
        "data set": run.config.dataset.name,
        "started": _utc_text(run.manifest.started),
        "state": run.summary.state,
        "questions": len(run.records),
        "seed": run.config.seed,
        "code": facts.code_version(run) or "–",
        "command": _command_line(run) or "–",
    }


def start_date(run: StoredRun) -> str:
    """The day on which a run was started, "2026-01-31"; "" where it is not recorded."""
    started = run.manifest.started
    if not started:
        return ""
    return f"{pd.to_datetime(started, utc=True):%Y-%m-%d}"


def _command_line(run: StoredRun) -> str:
    """The command that made a run, as one types it; "" where it is not recorded."""
    return shlex.join(run.manifest.command)


def _period_in_words(runs: Sequence[StoredRun]) -> str:
    """When the first run was started and the last one ended or was started.

    "2026-01-02 03:04 to 05:06 UTC" within a day, else with both dates; "not recorded" where no run
    says it.
    """
    times = []
    for run in runs:
        for start in run.manifest.run_and_starts:
            recorded_times = filter(None, (start.started, start.finished))
            times += [pd.to_datetime(text, utc=True) for text in recorded_times]
    if not times:
        return _NOT_RECORDED
    first = _utc_text(min(times))
    last = _utc_text(max(times))
    if first == last:
        return first
    if first[:10] == last[:10]:
        last = last[11:]
    return f"{first[:16]} to {last}"


def _utc_text(time: datetime | str | None) -> str:
    """A time as text in UTC, "2026-01-02 03:04 UTC", also of one that names no time zone; "–" for
    none."""
    if not time:
        return "–"
    return f"{pd.to_datetime(time, utc=True):%Y-%m-%d %H:%M} UTC"
