"""The forecast of `harness run`: what its runs will cost (--plan, and before a suite runs).

    suite demo: 2 runs
    method        data set        questions  tokens   TFLOPs   money  hours    how
    pecan         pocket/musique         24  unknown  unknown  -      unknown  no question is answered yet
    full-context  pocket/musique   10 of 24      21k    0.294  -         0.02  the mean of 14 answered questions
    together               34 of 48      21k    0.294  -         0.02  without 1 run whose cost is unknown

"10 of 24" are left of 24; all amounts are of those.
"""

from __future__ import annotations

import itertools
import json as json_
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, astuple, dataclass
from operator import attrgetter
from pathlib import Path

from harness.api.run_request import RunRequest
from harness.cli.failures import incomplete_runs_sentence
from harness.cli.output import counted, say
from harness.cli.run_options import Printing
from harness.config.layers import Choices
from harness.cost import units
from harness.cost.flops import DEFAULT_CONVENTION
from harness.engine.forecast import NOTHING_ANSWERED, Forecast, forecast
from harness.engine.plan import PlannedRun
from harness.engine.plan_runs import plan_runs
from harness.engine.runs_in_turn import Hook
from harness.storage.paths import with_address_secrets_masked

_COLUMN_TITLES = ("method", "data set", "questions", "tokens", "TFLOPs", "money", "hours", "how")
_ALIGNMENTS = "<<>>>>><"
NOTES = (
    "of what is still to be answered, extrapolated from the questions that the run has answered and "
    "the indexes that it has; TFLOPs by convention {}; money: of priced servers"
)
UNKNOWN = "unknown"


def _sum_known(values: Iterable[float | None]) -> float | None:
    """Sum up the values that are known; None where none is."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    return sum(known)


def _sum_of_forecasts(forecasts: Sequence[Forecast]) -> Forecast:
    """Sum up forecasts for the last row; amounts that some runs do not know are sums of the others,
    and `how` says so.
    """
    n_unknown = 0
    for each in forecasts:
        if each.tokens is None or each.tflops is None:
            n_unknown += 1
    how = ""
    if n_unknown:
        how = f"without {counted(n_unknown, 'run')} whose cost is unknown"
    return Forecast(
        method="together",
        dataset="",
        questions=sum(map(attrgetter("questions"), forecasts)),
        done=sum(map(attrgetter("done"), forecasts)),
        tokens=_sum_known(map(attrgetter("tokens"), forecasts)),
        tflops=_sum_known(map(attrgetter("tflops"), forecasts)),
        money=_sum_known(map(attrgetter("money"), forecasts)),
        hours=_sum_known(map(attrgetter("hours"), forecasts)),
        how=how,
    )


@dataclass(frozen=True)
class _Row:
    """A forecast as the table shows it; the fields are its columns, in order."""

    method: str
    dataset: str
    questions: str
    tokens: str
    tflops: str
    money: str
    hours: str
    how: str

    @classmethod
    def from_forecast(cls, forecast: Forecast) -> _Row:
        """Write the forecast of one run, or of all together, as the texts of a row."""
        questions = str(forecast.questions or UNKNOWN)
        if forecast.done:
            questions = f"{forecast.questions - forecast.done} of {forecast.questions}"
        return cls(
            method=forecast.method,
            dataset=forecast.dataset,
            questions=questions,
            tokens=_number_text(forecast.tokens, units.short_count),
            tflops=_number_text(forecast.tflops, "{:.3g}".format),
            money=_number_text(forecast.money, units.money_text, unknown="-"),
            hours=_number_text(forecast.hours, "{:.2g}".format),
            how=forecast.how,
        )


def _number_text(
    value: float | None, write_number: Callable[[float], str], unknown: str = UNKNOWN
) -> str:
    """Write a number, or `unknown` where it is not known.

    Args:
        value: The number; None where it is not known.
        write_number: Writes a number.
        unknown: The text for None.
    """
    if value is None:
        return unknown
    return write_number(value)


def forecast_table(
    title: str, forecasts: Sequence[Forecast], convention: str = DEFAULT_CONVENTION
) -> str:
    """Write forecasts as a table whose last row is their sum.

    Args:
        title: The line above the table.
        forecasts: One for each run.
        convention: The convention by which the FLOPs are counted, named in the line below.
    """
    all_forecasts = [*forecasts, _sum_of_forecasts(forecasts)]
    rows: list[tuple[str, ...]] = [_COLUMN_TITLES]
    rows += [astuple(_Row.from_forecast(each)) for each in all_forecasts]
    texts_by_column = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in texts_by_column]
    lines = [title]
    for row in rows:
        cells = []
        for text, alignment, width in zip(row, _ALIGNMENTS, widths, strict=True):
            cells.append(f"{text:{alignment}{width}}")
        lines.append("  ".join(cells).rstrip())
    lines.append(NOTES.format(convention))
    return "\n".join(lines)


def suite_line(suite: str, forecasts: Sequence[Forecast]) -> str:
    """Write the sum of a suite's forecasts as the line that is printed when it begins to run."""
    total = _sum_of_forecasts(forecasts)
    row = _Row.from_forecast(total)
    n_left = total.questions - total.done
    return (
        f"suite {suite}: {counted(len(forecasts), 'run')}, {n_left} questions to answer, "
        f"{row.tokens} tokens, {row.tflops} TFLOPs, {row.hours} hours (each run: --plan)"
    )


def print_plan(
    runs: Sequence[Choices], request: RunRequest, printing: Printing, checks: Sequence[Hook]
) -> int:
    """Print the forecast of every run that can start (--plan), and the others' mistakes on stderr.

    Args:
        runs: What is planned.
        request: The command's request.
        printing: How it prints.
        checks: Hooks of declared checks (a budget, a gate). Each is asked whether it can check a
            run at all; that raises where it cannot.

    Returns:
        The exit code.

    Raises:
        UserError: A check names a score that a run does not have.
    """
    # What is missing here is printed below, and is no mistake: the runs may be for another machine.
    planned = plan_runs(runs, say, for_another_machine=True)
    for plan in planned.plans:
        for check in checks:
            check.ready(plan)
    for warning in _each_once(plan.warnings for plan in planned.plans):
        say(f"warning: {warning}")
    if planned.plans:
        forecasts = run_forecasts(planned.plans, request.folder, printing)
        _print_forecasts(forecasts, printing, request.suite)
    for missing in _each_once(plan.missing for plan in planned.plans):
        say(f"missing here: {missing}")
    if planned.incomplete:
        say(incomplete_runs_sentence(len(runs), planned.incomplete))
    return planned.exit_code


def _each_once(sentences: Iterable[Iterable[str]]) -> list[str]:
    """Join the sentences of several plans to one list, in order and each once."""
    return list(dict.fromkeys(itertools.chain.from_iterable(sentences)))


def _print_forecasts(forecasts: Sequence[Forecast], printing: Printing, suite: str | None) -> None:
    """Print forecasts as a table or as lines of JSON, and the command that would tell unknown costs.

    In the lines "questions" is null, not 0, where their number is unknown.

    Args:
        forecasts: One for each run.
        printing: How it prints.
        suite: The name of the suite, for the title; None without one.
    """
    if printing.json:
        for each in forecasts:
            row = {**asdict(each), "questions": each.questions or None}
            print(json_.dumps(row), flush=True)
    else:
        title = counted(len(forecasts), "run")
        if suite:
            title = f"suite {suite}: {title}"
        print(
            forecast_table(title, forecasts, printing.convention or DEFAULT_CONVENTION), flush=True
        )
    if any(each.how == NOTHING_ANSWERED for each in forecasts):
        command = measuring_command(["harness", *sys.argv[1:]])
        say(
            f"this command would tell the unknown costs: {shlex.join(map(with_address_secrets_masked, command))}"
        )


def measuring_command(command: Sequence[str]) -> list[str]:
    """Turn a command with --plan into one that answers three questions of each run.

    ["harness", "run", "--sample", "50", "--plan"] -> ["harness", "run", "--sample", "3"]

    Without --limit or --sample it gets --limit 3.
    """
    command_words = [word for word in command if word not in ("--plan", "--json")]
    limit_flags = ("--limit", "--sample")
    remaining_words: list[str] = []
    flag = "--limit"
    skip_value = False
    for word in command_words:
        name = word.partition("=")[0]
        if name in limit_flags:
            flag = name
            skip_value = word == name
        elif skip_value:
            skip_value = False
        else:
            remaining_words.append(word)
    return [*remaining_words, flag, "3"]


def run_forecasts(planned: Sequence[PlannedRun], out: Path, printing: Printing) -> list[Forecast]:
    """Forecast the cost of each run from what it has answered.

    Args:
        planned: The runs.
        out: The results folder.
        printing: Says by which convention FLOPs are counted.
    """
    convention = printing.convention or DEFAULT_CONVENTION
    return [forecast(plan, out, convention) for plan in planned]
