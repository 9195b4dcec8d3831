"""The forecast of `harness run`: what its runs will cost (--plan, and before a suite runs).

    suite demo: 6 runs
    method        data set        questions   tokens   TFLOPs  how
    pecan         pocket/musique         24  unknown  unknown  unknown: nothing stored yet; ...
    full-context  pocket/musique   10 of 24      21k    0.294  stored: the mean cost of 14 questions
    together               34 of 48      21k    0.294  without 1 run whose cost is unknown

"10 of 24" are left of 24; tokens and TFLOPs are of those.
"""

import json as json_
from collections.abc import Sequence
from dataclasses import asdict

from harness.cli.failures import incomplete_runs_sentence
from harness.cli.output import say
from harness.cli.run_options import Execution
from harness.config.layers import Choices
from harness.cost.flops import DEFAULT
from harness.cost.units import short_count
from harness.engine.expand_command import plan_all
from harness.engine.forecast import Forecast, forecast
from harness.engine.parameter_sources import RunKey, run_key, with_numbers
from harness.engine.plan import Plan
from harness.errors import HarnessError, RunWaits

NOTES = (
    "tokens and TFLOPs (convention {}) of what is still to be answered, indexes as if none were in "
    "the cache;\n"
    "stored: what the run's answers cost so far; declared: what the method says it reads, 4 bytes "
    "a token, "
    "answers as long as they may be"
)


def _together(forecasts: Sequence[Forecast]) -> Forecast:
    """The sums; what is unknown is in none of them, and `how` says of how many runs something
    is."""
    columns = [f.tokens for f in forecasts], [f.tflops for f in forecasts]
    tokens, tflops = (
        None if {*column} == {None} else sum(value or 0 for value in column) for column in columns
    )
    missing = sum(None in (f.tokens, f.tflops) for f in forecasts)
    questions, done = sum(f.questions for f in forecasts), sum(f.done for f in forecasts)
    how = f"without {missing} run{'s'[: missing != 1]} whose cost is unknown" if missing else ""
    return Forecast("together", "", questions, done, tokens, tflops, how)


def _cells(f: Forecast) -> list[str]:
    """A line of the table; what is None is unknown."""
    asked = f"{f.questions - f.done} of {f.questions}" if f.done else str(f.questions or "unknown")
    tokens = "unknown" if f.tokens is None else short_count(f.tokens)
    return [
        f.method,
        f.dataset,
        asked,
        tokens,
        "unknown" if f.tflops is None else f"{f.tflops:.3g}",
        f.how,
    ]


def as_table(title: str, forecasts: Sequence[Forecast], convention: str = DEFAULT) -> str:
    """The forecasts as a table with their sum; convention: of the FLOPs."""
    cells = [["method", "data set", "questions", "tokens", "TFLOPs", "how"]]
    cells += map(_cells, [*forecasts, _together(forecasts)])
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    pattern = "  ".join(f"{{:{side}{width}}}" for side, width in zip("<<>>><", widths, strict=True))
    return "\n".join(
        [title, *(pattern.format(*line).rstrip() for line in cells), NOTES.format(convention)]
    )


def suite_line(suite: str, forecasts: Sequence[Forecast]) -> str:
    """The sum of the forecasts in a line, printed when a suite begins to run."""
    total = _together(forecasts)
    *_, tokens, tflops, _ = _cells(total)
    needed = f"{total.questions - total.done} questions to answer, {tokens} tokens, {tflops} TFLOPs"
    return f"suite {suite}: {len(forecasts)} run{'s'[: len(forecasts) != 1]}, {needed} (each run: --plan)"


def only_plan(runs: Sequence[Choices], options: Execution, suite: str | None) -> int:
    """--plan: print the forecast of every run that can start, the others' mistakes on stderr;
    returns the exit code."""
    planned = plan_all(runs, say, elsewhere=True)
    for warning in dict.fromkeys(w for plan in planned.plans for w in plan.warnings):
        say(f"warning: {warning}")
    if planned.plans:
        forecasts = run_forecasts(planned.plans, options)
        count = f"{len(forecasts)} run{'s'[: len(forecasts) != 1]}"
        title = f"suite {suite}: {count}" if suite else count
        lines = (json_.dumps(asdict(f) | {"questions": f.questions or None}) for f in forecasts)
        table = as_table(title, forecasts, options.convention or DEFAULT)
        print("\n".join(lines) if options.json else table, flush=True)
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
            note = ", ".join(
                f"{name} {text.replace(':', ' ')}, not known yet"
                for name, text in plan.pending.items()
            )
            note = note if isinstance(e, RunWaits) else str(e)
            forecasts.append(
                Forecast(
                    plan.method_name, plan.config.dataset.name, plan.questions, 0, None, None, note
                )
            )
    return forecasts
