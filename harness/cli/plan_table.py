"""The forecast of `harness run`: what its runs will cost (--plan, and before a suite runs).

    suite demo: 2 runs
    method        data set        questions  tokens   TFLOPs   money  hours    how
    pecan         pocket/musique         24  unknown  unknown  -      unknown  no question is answered yet
    full-context  pocket/musique   10 of 24      21k    0.294  -         0.02  the mean of 14 answered questions
    together               34 of 48      21k    0.294  -         0.02  without 1 run whose cost is unknown

"10 of 24" are left of 24; all amounts are of those.
"""

from __future__ import annotations

import json as json_
import shlex
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path

from harness.api.run_request import RunRequest
from harness.cli.failures import incomplete_runs_sentence
from harness.cli.output import say
from harness.cli.run_options import Printing
from harness.config.layers import Choices
from harness.cost import units
from harness.cost.flops import DEFAULT
from harness.engine.forecast import NOTHING_ANSWERED, Forecast, forecast
from harness.engine.plan import PlannedRun
from harness.engine.plan_runs import plan_runs
from harness.engine.runs_in_turn import Hook
from harness.storage.paths import masked

_HEADS = ("method", "data set", "questions", "tokens", "TFLOPs", "money", "hours", "how")
_SIDES = "<<>>>>><"
NOTES = (
    "of what is still to be answered, extrapolated from the questions that the run has answered and "
    "the indexes that it has; TFLOPs by convention {}; money: of priced servers"
)
UNKNOWN = "unknown"


def _sum_known(values: Iterable[float | None]) -> float | None:
    """The sum of the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def _together(forecasts: Sequence[Forecast]) -> Forecast:
    """The sums; what is unknown is in none of them, and `how` says of how many runs something
    is."""
    missing = sum(None in (f.tokens, f.tflops) for f in forecasts)
    how = f"without {missing} run{'s'[: missing != 1]} whose cost is unknown" if missing else ""
    return Forecast(
        "together",
        "",
        sum(f.questions for f in forecasts),
        sum(f.done for f in forecasts),
        tokens=_sum_known(f.tokens for f in forecasts),
        tflops=_sum_known(f.tflops for f in forecasts),
        money=_sum_known(f.money for f in forecasts),
        hours=_sum_known(f.hours for f in forecasts),
        how=how,
    )


def _cells(f: Forecast) -> list[str]:
    """A line of the table."""
    asked = str(f.questions or UNKNOWN)
    if f.done:
        asked = f"{f.questions - f.done} of {f.questions}"
    return [
        f.method,
        f.dataset,
        asked,
        UNKNOWN if f.tokens is None else units.short_count(f.tokens),
        UNKNOWN if f.tflops is None else f"{f.tflops:.3g}",
        "-" if f.money is None else units.money(f.money),
        UNKNOWN if f.hours is None else f"{f.hours:.2g}",
        f.how,
    ]


def as_table(title: str, forecasts: Sequence[Forecast], convention: str = DEFAULT) -> str:
    """The forecasts as a table with their sum; convention: of the FLOPs."""
    cells = [list(_HEADS), *map(_cells, forecasts), _cells(_together(forecasts))]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    pattern = "  ".join(f"{{:{side}{width}}}" for side, width in zip(_SIDES, widths, strict=True))
    lines = [pattern.format(*line).rstrip() for line in cells]
    return "\n".join([title, *lines, NOTES.format(convention)])


def suite_line(suite: str, forecasts: Sequence[Forecast]) -> str:
    """The sum of the forecasts in a line, printed when a suite begins to run."""
    total = _together(forecasts)
    _, _, _, tokens, tflops, _, hours, _ = _cells(total)
    left = total.questions - total.done
    runs = f"{len(forecasts)} run{'s'[: len(forecasts) != 1]}"
    return (
        f"suite {suite}: {runs}, {left} questions to answer, {tokens} tokens, {tflops} TFLOPs, "
        f"{hours} hours (each run: --plan)"
    )


def only_plan(
    runs: Sequence[Choices], request: RunRequest, printing: Printing, checks: Sequence[Hook]
) -> int:
    """--plan: print the forecast of every run that can start, the others' mistakes on stderr.

    Args:
        runs: What is planned.
        request: The command's request.
        printing: How it prints.
        checks: Hooks that refuse a plan which they could not check.

    Returns:
        The exit code.

    Raises:
        UserError: A check names a score that a run does not have.
    """
    planned = plan_runs(runs, say, elsewhere=True)
    for plan in planned.plans:
        for check in checks:
            check.ready(plan)
    for warning in dict.fromkeys(w for plan in planned.plans for w in plan.warnings):
        say(f"warning: {warning}")
    if planned.plans:
        _print_forecasts(
            run_forecasts(planned.plans, request.folder, printing), printing, request.suite
        )
    for missing in dict.fromkeys(missing for plan in planned.plans for missing in plan.missing):
        say(f"missing here: {missing}")
    if planned.lost:
        say(incomplete_runs_sentence(len(runs), planned.lost))
    return planned.code


def _print_forecasts(forecasts: Sequence[Forecast], printing: Printing, suite: str | None) -> None:
    """Print the table, or lines of JSON, and the command that would make unknown costs known."""
    if printing.json:
        for f in forecasts:
            print(json_.dumps(asdict(f) | {"questions": f.questions or None}), flush=True)
    else:
        count = f"{len(forecasts)} run{'s'[: len(forecasts) != 1]}"
        title = f"suite {suite}: {count}" if suite else count
        print(as_table(title, forecasts, printing.convention or DEFAULT), flush=True)
    if any(f.how == NOTHING_ANSWERED for f in forecasts):
        command = measuring_command(["harness", *sys.argv[1:]])
        say(f"this command would tell the unknown costs: {shlex.join(map(masked, command))}")


def measuring_command(command: Sequence[str]) -> list[str]:
    """The command with three questions a run in place of its forecast; a sample stays a sample."""
    words = [word for word in command if word not in ("--plan", "--json")]
    limits = ("--limit", "--sample")
    kept: list[str] = []
    flag = "--limit"
    skip_value = False
    for word in words:
        name = word.partition("=")[0]
        if name in limits:
            flag = name
            skip_value = word == name
        elif skip_value:
            skip_value = False
        else:
            kept.append(word)
    return [*kept, flag, "3"]


def run_forecasts(planned: Sequence[PlannedRun], out: Path, printing: Printing) -> list[Forecast]:
    """The forecast of each run, by what it has answered; out: the results folder."""
    convention = printing.convention or DEFAULT
    return [forecast(plan, out, convention) for plan in planned]
