"""The end of the page: when its runs were made, with which code, models and commands, and a table
of each run."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.markup import Html, el, filled, joined

_COMMANDS_SHOWN = 3  # shown in the head; the table of runs has all


@dataclass(frozen=True)
class Written:
    """When the page was written, in UTC, and by which command."""

    time: datetime
    command: Sequence[str]


def header(runs: Sequence[StoredRun], written: Written | None = None) -> Html:
    """The section about the runs: facts that hold for all of them, and a table of the runs that can
    be opened."""
    commands = list(dict.fromkeys(filter(None, map(_command, runs))))
    shown = [el("code", command) for command in commands[:_COMMANDS_SHOWN]]
    if len(commands) > _COMMANDS_SHOWN:
        shown.append(el("span", f"and {len(commands) - _COMMANDS_SHOWN} more, in the table below"))
    counts = (
        _counted(len(runs), "run"),
        _counted(len({facts.run_key(run)[0] for run in runs}), "data set"),
    )
    of_all = {
        "Runs": " over ".join(counts),
        "Date": _dates(runs),
        "Model": ", ".join(dict.fromkeys(name for run in runs for name in facts.models(run))),
        "Code": "; ".join(dict.fromkeys(filter(None, map(facts.code, runs)))) or "not recorded",
        "Command" if len(commands) == 1 else "Commands": joined(*shown) or "not recorded",
    }
    if written is not None:
        command = el("code", shlex.join(written.command))
        of_all["This page"] = joined(f"written {_utc_text(written.time)} by ", command)
    rows = [
        {
            "run": run.name,
            "data set": facts.run_key(run)[0],
            "started": _utc_text(run.manifest.get("started")),
            "state": run.summary.get("state", "running"),
            "questions": len(run.records),
            "seed": run.config["seed"],
            "code": facts.code(run) or "–",
            "command": _command(run) or "–",
        }
        for run in runs
    ]
    return filled("about.html", facts=of_all, rows=rows)


def date(run: StoredRun) -> str:
    """The day on which a run was started, "2026-01-31"; "" where it is not recorded."""
    started = run.manifest.get("started")
    return f"{pd.to_datetime(started, utc=True):%Y-%m-%d}" if started else ""


def _command(run: StoredRun) -> str:
    return shlex.join(map(str, run.manifest.get("command") or ()))


def _dates(runs: Sequence[StoredRun]) -> str:
    """When the first run was started and the last one ended or was started."""
    starts = [
        start for run in runs for start in (run.manifest, *(run.manifest.get("starts") or ()))
    ]
    dates = (start.get(key) for start in starts for key in ("started", "finished"))
    moments = sorted(pd.to_datetime(text, utc=True) for text in dates if text)
    if not moments:
        return "not recorded"
    first, last = _utc_text(moments[0]), _utc_text(moments[-1])
    if first == last:
        return first
    return f"{first[:16]} to {last[11:] if first[:10] == last[:10] else last}"


def _utc_text(moment: datetime | str | None) -> str:
    """A date in UTC, which is also the time zone of one that names none."""
    return f"{pd.to_datetime(moment, utc=True):%Y-%m-%d %H:%M} UTC" if moment else "–"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
