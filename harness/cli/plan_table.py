"""The forecast of `harness run`: what its runs will cost (--plan, and before a suite runs).

    suite demo: 6 runs
    method        data set        questions   tokens   TFLOPs  how
    pecan         pocket/musique         24  unknown  unknown  unknown: nothing stored yet; ...
    full-context  pocket/musique   10 of 24      21k    0.294  stored: means of 14 questions of full-con...
    together                             34      21k    0.294  without the 1 run with something unknown

"10 of 24" are left of 24; tokens and TFLOPs are of those.
"""

import json as json_
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from harness.cli.output import incomplete_runs_sentence, say
from harness.cli.run_options import Execution
from harness.config.layers import Choices
from harness.cost.flops import DEFAULT
from harness.cost.units import money, short_count
from harness.engine.expand_command import plan_all
from harness.engine.forecast import Forecast, forecast
from harness.engine.parameter_sources import RunKey, run_key, with_numbers
from harness.engine.plan import Plan
from harness.errors import HarnessError, RunWaits

NOTES = (
    "tokens and TFLOPs (convention {}) of what is still to be answered, indexes as if none were in the cache;\n"
    "stored: the means of what the run has already; declared: what the method says it reads, 4 bytes a token, "
    "answers as long as they may be"
)


_AMOUNTS: dict[str, Callable[[float], str]] = {
    "tokens": short_count,
    "TFLOPs": lambda tflops: f"{tflops:.3g}",
    "money": money,
}


_amounts = operator.attrgetter("tokens", "tflops", "money")  # of a Forecast, in the order of _AMOUNTS


def _texts(amounts: Sequence[float | None]) -> list[str]:
    """The amounts of _AMOUNTS as the table shows them, "unknown" for None."""
    pairs = zip(_AMOUNTS.values(), amounts, strict=True)
    return ["unknown" if amount is None else write(amount) for write, amount in pairs]


def as_table(title: str, forecasts: Sequence[Forecast], convention: str = DEFAULT) -> str:
    """The forecasts as a table with their sum; what is unknown is in no sum, and the last line says how many are.

    convention: of the FLOPs.
    """
    head = ["method", "data set", "questions", *_AMOUNTS, "how"]
    left, *sums = _totals(forecasts)
    missing = sum(f.tokens is None or (f.tflops is None and f.money is None) for f in forecasts)
    note = f"without the {missing} run{'s'[: missing > 1]} with something unknown" if missing else ""
    cells = [head]
    for f in forecasts:
        asked = f"{f.questions - f.done} of {f.questions}" if f.done else str(f.questions or "unknown")
        cells.append([f.method, f.dataset, asked, *_texts(_amounts(f)), f.how])
    cells.append(["together", "", str(left), *_texts(sums), note])
    # No column of money where no server takes any, of FLOPs where all is money.
    hidden = {"money"} if sums[2] is None else {"TFLOPs"} if all(f.tflops is None for f in forecasts) else set()
    cells = [[cell for name, cell in zip(head, line, strict=True) if name not in hidden] for line in cells]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    right = range(2, len(widths) - 1)  # numbers stand to the right, names to the left
    aligned = (
        [c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True))]
        for line in cells
    )
    return "\n".join([title, *("  ".join(line).rstrip() for line in aligned), NOTES.format(convention)])


def _totals(forecasts: Sequence[Forecast]) -> tuple[Any, ...]:
    """Questions to answer, then the sum of each of `_amounts` over the forecasts, None where none has a value."""
    columns = [*zip(*map(_amounts, forecasts), strict=True)] or [()] * len(_AMOUNTS)
    known = [[value for value in column if value is not None] for column in columns]
    sums = (sum(values) if values or not forecasts else None for values in known)
    return sum(f.questions - f.done for f in forecasts), *sums


def suite_line(suite: str, forecasts: Sequence[Forecast]) -> str:
    """The sum of the forecasts in a line, printed when a suite begins to run."""
    left, *sums = _totals(forecasts)
    tokens, tflops, *_ = _texts(sums)
    needed = f"{left} questions to answer, {tokens} tokens, {tflops} TFLOPs"
    return f"suite {suite}: {len(forecasts)} run{'s'[: len(forecasts) != 1]}, {needed} (each run: --plan)"


def as_json(forecasts: Iterable[Forecast]) -> str:
    """A line of JSON for each run; null where a number is unknown."""
    return "\n".join(json_.dumps(asdict(f) | {"questions": f.questions or None}) for f in forecasts)


def only_plan(runs: Sequence[Choices], options: Execution, suite: str | None) -> int:
    """--plan: print the forecast of every run that can start, the others' mistakes on stderr; returns the exit code."""
    planned = plan_all(runs, say, elsewhere=True)
    for warning in dict.fromkeys(w for plan in planned.plans for w in plan.warnings):
        say(f"warning: {warning}")
    if planned.plans:
        forecasts = run_forecasts(planned.plans, options)
        count = f"{len(forecasts)} run{'s' if len(forecasts) != 1 else ''}"
        title = f"suite {suite}: {count}" if suite else count
        convention = options.convention or DEFAULT
        print(as_json(forecasts) if options.json else as_table(title, forecasts, convention), flush=True)
    for missing in dict.fromkeys(missing for plan in planned.plans for missing in plan.missing):
        say(f"missing here: {missing}")
    if planned.lost:
        say(incomplete_runs_sentence(len(runs), planned.lost))
    return planned.code


def run_forecasts(planned: Sequence[Plan], options: Execution) -> list[Forecast]:
    """The forecast of each run, by stored runs or by what its method declares."""

    before: dict[RunKey, Plan] = {}
    forecasts = []
    for plan in planned:
        try:
            before[run_key(plan.choices)] = ready = with_numbers(plan, before, options.folder)
            forecasts.append(forecast(ready, options.folder, options.convention or DEFAULT))
        except HarnessError as e:
            note = ", ".join(f"{name} {text.replace(':', ' ')}, not known yet" for name, text in plan.pending.items())
            note = note if isinstance(e, RunWaits) else str(e)
            forecasts.append(Forecast(plan.method_name, plan.config.dataset.name, plan.questions, 0, None, None, note))
    return forecasts
