"""The forecast of `harness run`: what its rows will cost (--plan, and before a suite runs), and what they then took.

    suite demo: 6 rows
    method        data set        questions   tokens   TFLOPs     time  how
    pecan         pocket/musique         24  unknown  unknown  unknown  unknown: no stored run with these settings; ...
    full-context  pocket/musique   10 of 24      21k    0.294     72 s  stored: means of 14 questions of full-con...
    together                             34      21k    0.294     72 s  without the 1 row with something unknown
    8 workers: about 9 s, 0.04 at 2.00 for an hour of a worker

"10 of 24" are left of 24; tokens, TFLOPs and the time of one worker are of those.
"""

import json as json_
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from harness.cli.output import say
from harness.cli.run_options import Execution
from harness.cli.run_result import rows_lost_sentence
from harness.cli.worker_options import WorkerOptions
from harness.config.layers import Choices
from harness.cost.flops import DEFAULT
from harness.cost.units import duration, money, short_count
from harness.engine.command_limits import first_limit_hit
from harness.engine.expand_command import plan_all
from harness.engine.forecast import Forecast, append_actual, expected_hours, forecast, measured_runs
from harness.engine.parameters_from_rows import RowKey, row_key, with_numbers
from harness.engine.plan import Plan
from harness.engine.rows_in_turn import Hook
from harness.engine.runner import RunResult
from harness.errors import HarnessError, RowWaits

NOTES = (
    "tokens and TFLOPs (convention {}) of what is still to be answered, indexes as if none were in the cache;\n"
    "stored: the means of a run with the same settings; declared: what the method says it reads, 4 bytes a token, "
    "answers as long as they may be"
)


_AMOUNTS: dict[str, Callable[[float], str]] = {
    "tokens": short_count,
    "TFLOPs": lambda tflops: f"{tflops:.3g}",
    "money": money,
    "time": lambda hours: duration(3600 * hours),
}


def _texts(amounts: Sequence[float | None]) -> list[str]:
    """The amounts of _AMOUNTS as the table shows them, "unknown" for None."""
    pairs = zip(_AMOUNTS.values(), amounts, strict=True)
    return ["unknown" if amount is None else write(amount) for write, amount in pairs]


def _amounts(row: Forecast) -> tuple[float | None, ...]:
    return row.tokens, row.tflops, row.money, row.hours


def as_table(
    title: str, rows: Sequence[Forecast], convention: str = DEFAULT, workers: int = 1, price: float | None = None
) -> str:
    """The forecasts as a table with their sum; what is unknown is in no sum, and the last line says how many are.

    convention: of the FLOPs; workers: among whom the time is divided; price: of an hour of one worker's GPUs.
    """
    head = ["method", "data set", "questions", *_AMOUNTS, "how"]
    left, *sums = _totals(rows)
    hours = sums[-1]
    missing = sum(row.tokens is None or (row.tflops is None and row.money is None) for row in rows)
    note = f"without the {missing} row{'s'[: missing > 1]} with something unknown" if missing else ""
    cells = [head]
    for row in rows:
        asked = f"{row.questions - row.done} of {row.questions}" if row.done else str(row.questions or "unknown")
        cells.append([row.method, row.dataset, asked, *_texts(_amounts(row)), row.how])
    cells.append(["together", "", str(left), *_texts(sums), note])
    # No column of times where no run here tells a speed, of money where no server takes any, of FLOPs where money is.
    hidden = {"time"} if hours is None or not any(row.hours for row in rows) else set()
    hidden |= {"money"} if sums[2] is None else {"TFLOPs"} if all(row.tflops is None for row in rows) else set()
    cells = [[cell for name, cell in zip(head, each, strict=True) if name not in hidden] for each in cells]
    wide = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = range(2, len(wide) - 1)  # numbers stand to the right, names to the left
    aligned = (
        [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(r, wide, strict=True))] for r in cells
    )
    lines = [title, *("  ".join(row).rstrip() for row in aligned), NOTES.format(convention)]
    return "\n".join(lines + _time_and_money(rows, hours, workers, price))


def _totals(rows: Sequence[Forecast]) -> tuple[Any, ...]:
    """Questions to answer, then the sum of each of `_amounts` over the rows, None where no row has a value."""
    columns = [*zip(*map(_amounts, rows), strict=True)] or [()] * len(_AMOUNTS)
    known = [[value for value in column if value is not None] for column in columns]
    sums = (sum(values) if values or not rows else None for values in known)
    return sum(row.questions - row.done for row in rows), *sums


def suite_line(suite: str, rows: Sequence[Forecast], workers: int) -> str:
    """The sum of the forecasts in a line, printed when a suite begins to run; workers: share the time."""
    left, *sums = _totals(rows)
    tokens, tflops, *_ = _texts(sums)
    about = f", about {duration(3600 * sums[-1] / workers)}" if sums[-1] else ""
    needed = f"{left} questions to answer, {tokens} tokens, {tflops} TFLOPs{about}"
    return f"suite {suite}: {len(rows)} rows, {needed} (each row: --plan)"


def _time_and_money(rows: Sequence[Forecast], hours: float | None, workers: int, price: float | None) -> list[str]:
    """The lines below the table: which runs' speed the times go by, and what time and money the workers take."""
    speeds = list(dict.fromkeys(row.speed for row in rows if row.hours))
    if hours is None:
        return [] if price is None else ["time and money unknown: no earlier run on this hardware with these models"]
    lines = [f"time of one worker, by earlier runs on this hardware ({'; '.join(speeds)})"] if speeds else []
    unknown = sum(row.hours is None for row in rows)
    known = f", without {unknown} row{'s'[: unknown > 1]} of unknown speed" if unknown else ""
    costs = "" if price is None else f", {money(hours * price)} at {price:.2f} for an hour of a worker"
    who = f"{workers} workers" if workers > 1 else "1 worker"
    return [*lines, f"{who}: about {duration(3600 * hours / workers)}{costs}{known}"] if speeds else lines


def as_json(rows: Iterable[Forecast]) -> str:
    """A line of JSON for each row; null where a number is unknown."""
    return "\n".join(json_.dumps(asdict(row) | {"questions": row.questions or None}) for row in rows)


def only_plan(wanted: Sequence[Choices], options: Execution, scaling: WorkerOptions, suite: str | None) -> int:
    """--plan: print the forecast of every row that can run, the others' mistakes on stderr; returns the exit code."""
    planned = plan_all(wanted, say, elsewhere=True)
    for warning in dict.fromkeys(w for plan in planned.plans for w in plan.warnings):
        say(f"warning: {warning}")
    if planned.plans:
        rows = row_forecasts(planned.plans, options)
        count = f"{len(rows)} row{'s' if len(rows) != 1 else ''}"
        title = f"suite {suite}: {count}" if suite else count
        convention = options.convention or DEFAULT
        told = as_json(rows) if options.json else as_table(title, rows, convention, scaling.workers or 1, scaling.price)
        print(told, flush=True)
        if scaling.budget.limits:
            say(f"forecast: {first_limit_hit(scaling.budget, planned.plans, rows, options.folder)}")
    for thing in dict.fromkeys(thing for plan in planned.plans for thing in plan.missing):
        say(f"missing here: {thing}")
    if planned.lost:
        say(rows_lost_sentence(len(wanted), planned.lost))
    return planned.code


def row_forecasts(planned: Sequence[Plan], options: Execution) -> list[Forecast]:
    """The forecast of each row, by stored runs or by what its method declares."""

    known = measured_runs(options.folder)
    before: dict[RowKey, Plan] = {}
    made = []
    for plan in planned:
        try:
            before[row_key(plan.choices)] = ready = with_numbers(plan, before, options.folder)
            row = forecast(ready, options.folder, options.convention or DEFAULT)
            needed, speed = expected_hours(ready, row.tokens, known)
            made.append(replace(row, hours=needed, speed=speed))
        except HarnessError as e:
            how = ", ".join(f"{name} {text.replace(':', ' ')}, not known yet" for name, text in plan.awaits.items())
            how = how if isinstance(e, RowWaits) else str(e)
            made.append(Forecast(plan.method_name, plan.config.dataset.name, plan.questions, 0, None, None, how))
    return made


class BesideForecast(Hook):
    """Print the forecast of each row beside the time it took, both kept in `out`; rows that share workers overlap."""

    def __init__(self, rows: Sequence[Forecast], out: Path, workers: int) -> None:
        self._expected = {f"{row.method} on {row.dataset}": row.hours / workers for row in rows if row.hours}
        self._out, self._workers, self._begun = out, workers, 0.0

    def started(self, plan: Plan) -> None:
        """Note the time."""
        self._begun = time.monotonic()

    def ended(self, plan: Plan, result: RunResult) -> None:
        """Print both figures, where the row had a forecast."""

        if (expected := self._expected.get(plan.row_name)) is None:
            return
        took = (time.monotonic() - self._begun) / 3600
        say(f"forecast {duration(3600 * expected)}, took {duration(3600 * took)}")
        append_actual(self._out, plan.row_name, str(result.folder), self._workers, expected, took)
