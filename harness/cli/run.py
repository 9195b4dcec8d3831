"""`harness run`: plan every row first, then run them in turn; one that fails never loses the others.

rows = methods x data sets     from --method and --dataset, or from --suite
a suite, or --plan             -> first what every row will cost (harness.engine.forecast); with --plan nothing else
names and keys wrong anywhere  -> exit 2, nothing was run
a row that cannot be planned   -> its mistakes on stderr, the other rows run
a row that ends midway         -> what was answered stays on disk
a number from another row      -> that row runs first (harness.cli.siblings)
the exit code is the worst     0 < 3 < 1; 2 only where no row ran; the last lines name those that did not run whole
"""

from __future__ import annotations

import contextlib
import json as json_
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.cli.common import choices, mean_texts, split
from harness.cli.following import Trackers
from harness.cli.outlook import Lost, as_json, closing, table
from harness.cli.siblings import Key, NotFinished, arrange, key, settled
from harness.cli.stopping import say_again
from harness.cost.flops import CONVENTIONS, DEFAULT
from harness.engine import model_warnings as embedded
from harness.errors import ConfigError, HarnessError, UnknownName, UserError
from harness.storage.home import check_home

if TYPE_CHECKING:
    from harness.cli.flags import Flags
    from harness.config.layers import Choices
    from harness.engine.forecast import Forecast
    from harness.engine.plan import Plan
    from harness.engine.runner import RunResult

_WORSE = (0, 3, 2, 1)


@dataclass(frozen=True)
class Options:
    """How a row is run, beside what is run.

    mlflow: a URI, "off", or None for the default; suite: its name; parallel: questions in flight at once; record: the
    flags that set a field of the method ("record_stops" -> 8), see harness.cli.recording; plan: say what it will
    cost and stop; convention: how the forecast counts FLOPs.
    """

    out: Path
    json: bool = False
    mlflow: str | None = None
    retry_failed: bool = False
    suite: str | None = None
    parallel: int = 1
    record: dict[str, float] = field(default_factory=dict)
    plan: bool = False
    convention: str | None = None


@dataclass
class Planned:
    """The rows that can be run, those that cannot and why, and the exit code so far."""

    plans: list[Plan] = field(default_factory=list)
    lost: list[Lost] = field(default_factory=list)
    code: int = 0


@dataclass(frozen=True)
class Job:
    """What the rows of one command share. before: the plans of the rows that ran; waiting: rows that could not."""

    options: Options
    trackers: Trackers
    command: list[str]
    several: bool
    before: dict[Key, Plan] = field(default_factory=dict)
    waiting: list[Plan] = field(default_factory=list)


def main(flags: Flags, options: Options) -> int:
    """Run all rows and return the exit code. Raises UserError when nothing could be run."""
    command = ["harness", *sys.argv[1:]]
    with _signals_as_interrupt():
        try:
            return _run_all(flags, options, command)
        except KeyboardInterrupt:
            say_again("interrupted; what was answered is on disk", command)
            return 130


def _run_all(flags: Flags, options: Options, command: list[str]) -> int:
    if options.convention is not None:
        _check_convention(options)
    wanted = rows(flags)
    if options.record:
        wanted = _recording(wanted, flags, options.record)
    if options.plan:
        return _only_plan(wanted, options)
    check_home()
    trackers = Trackers(options.out, options.mlflow, options.suite)
    found = _planned(wanted)
    planned, lost, code = found.plans, found.lost, found.code
    for line in dict.fromkeys(embedded.ticket(p.config.model) for p in planned if p.config.model.embedded):
        _say(line)
    unlogged = [f"not logged to MLflow: {problem}" for problem in trackers.unusable]
    for warning in dict.fromkeys([*unlogged, *(w for plan in planned for w in plan.warnings)]):
        _say(f"warning: {warning}")
    if options.suite is not None:
        _say(_outlook(planned, options))
    job = Job(options, trackers, command, several=len(planned) > 1)
    ran = False
    for plan in planned:
        waited = len(job.waiting)
        worse, why = _run_one(plan, job)
        code = max(code, worse, key=_WORSE.index)
        ran = ran or (worse != 2 and len(job.waiting) == waited)
        lost += [Lost(_name(plan), why)] if why else []
    code = 3 if ran and code == 2 else code
    if len(wanted) > 1 and (lost or options.suite is not None):
        _say(closing(len(wanted), lost))
    if job.waiting:
        say_again("rows wait for the number of another row", command)
    return max(code, 3 if trackers.tell(_say) else 0, key=_WORSE.index)


def _check_convention(options: Options) -> None:
    """Raise UserError for a convention that is unknown, or that no forecast would use."""
    if not options.plan and options.suite is None:
        raise UserError("--convention is for a forecast (--plan); a run keeps the FLOPs under every convention")
    if options.convention not in CONVENTIONS:
        raise UnknownName("FLOPs convention", str(options.convention), CONVENTIONS)


def _only_plan(wanted: list[Choices], options: Options) -> int:
    """--plan: print the forecast of every row that can be run; the others' mistakes are on stderr."""
    found = _planned(wanted)
    for warning in dict.fromkeys(w for plan in found.plans for w in plan.warnings):
        _say(f"warning: {warning}")
    if found.plans:
        print(as_json(_forecasts(found.plans, options)) if options.json else _outlook(found.plans, options), flush=True)
    if found.lost:
        _say(closing(len(wanted), found.lost))
    return found.code


def _forecasts(planned: list[Plan], options: Options) -> list[Forecast]:
    from harness.engine.forecast import Forecast, forecast

    convention = options.convention or DEFAULT
    before: dict[Key, Plan] = {}
    found = []
    for plan in planned:
        try:
            before[key(plan.choices)] = ready = settled(plan, before, options.out)
            found.append(forecast(ready, options.out, convention))
        except HarnessError as e:
            names = (plan.config.method.name, plan.config.dataset.name)
            count = len(plan.dataset.examples[: plan.config.limit])
            how = ", ".join(f"{name} {text.replace(':', ' ')}, not known yet" for name, text in plan.awaits.items())
            how = how if isinstance(e, NotFinished) else str(e)
            found.append(Forecast(*names, count, 0, None, None, how))
    return found


def _outlook(planned: list[Plan], options: Options) -> str:
    count = f"{len(planned)} row{'s' if len(planned) != 1 else ''}"
    title = f"suite {options.suite}: {count}" if options.suite else count
    return table(title, _forecasts(planned, options), options.convention or DEFAULT)


def _name(row: Plan) -> str:
    return f"{row.config.method.name} on {row.config.dataset.name}"


def rows(flags: Flags) -> list[Choices]:
    """Every method over every data set that the flags or the suite name. Raises UserError."""
    from harness.config import suites

    methods: list[str | None] = [*split(flags.method)]
    datasets: list[str | None] = [*split(flags.dataset)]
    if flags.suite is not None:
        suite = suites.read(flags.suite)
        methods, datasets = methods or [*suite.methods], datasets or [*suite.datasets]
    if flags.data is not None and len(datasets) > 1:
        raise UserError(f"--data holds the rows of one data set, but {len(datasets)} are named; keep one")
    return [choices(flags, method, dataset) for dataset in datasets or [None] for method in methods or [None]]


def _recording(wanted: list[Choices], flags: Flags, record: dict[str, float]) -> list[Choices]:
    """The rows with the fields that --record-stops and --record-t-p set. Raises UserError."""
    from harness.cli.recording import with_fields

    # A suite is a mixed list by nature; a method that was asked for by name should do what was asked of it.
    wanted, left_out = with_fields(wanted, record, mixed=flags.suite is not None and not split(flags.method))
    for line in left_out:
        _say(f"note: {line}")
    return wanted


def plan_all(wanted: list[Choices]) -> tuple[list[Plan], int]:
    """Plan every row; mistakes of single rows are printed and give exit code 2 while the others go on.

    Raises UserError when a name or key is wrong, or when no row at all can be planned.
    """
    found = _planned(wanted)
    return found.plans, found.code


def _planned(wanted: list[Choices]) -> Planned:
    """The same, with the rows that cannot be planned and why."""
    from harness.config.resolve import raise_all
    from harness.engine.plan import plan_choices

    found = Planned()
    if len(wanted) == 1:
        found.plans, _ = arrange([plan_choices(wanted[0])], wanted)
        return found
    raise_all([problem for row in wanted for problem in _mistakes(row)])
    problems: list[str] = []
    for row in wanted:
        name = f"{row.method} on {row.dataset}"
        try:
            found.plans.append(plan_choices(row))
        except UserError as e:
            told = e.problems if isinstance(e, ConfigError) else [str(e)]
            problems += [f"{name}: {sentence}" for sentence in told]
            found.lost.append(Lost(name, "; ".join(told)))
        except Exception as e:  # noqa: BLE001 - a bug in one method must not lose the others; told in full, exit code 1
            traceback.print_exc()
            found.lost.append(Lost(name, _bug(e)))
            found.code = 1
    found.plans, waiting = arrange(found.plans, wanted)
    problems += [f"{one.row}: {one.why}" for one in waiting]
    found.lost += waiting
    if not found.plans and not found.code:
        raise ConfigError(problems)
    for problem in problems:
        _say(f"error: {problem}")
    found.code = found.code or (2 if problems else 0)
    return found


def _bug(error: Exception) -> str:
    return f"a bug, told in full above ({type(error).__name__})"


def _mistakes(row: Choices) -> list[HarnessError]:
    """Wrong names and keys of a row; a key that only its data set's twin has is none where the twin stands in."""
    from harness.config.resolve import draft
    from harness.datasets.fallback import find

    d = draft(row)
    return find(d).draft.problems if d.problems else []


def _run_one(plan: Plan, job: Job) -> tuple[int, str | None]:
    """Run one row and print what came of it: its exit code, and why it did not run whole (None where it did)."""
    name = _name(plan)
    if job.several:
        _say(f"--- {name}")
    try:
        plan = _ready(plan, job)
        result = execute(plan, job)
    except HarnessError as e:
        job.waiting.extend([plan] if isinstance(e, NotFinished) else [])
        _say(f"error: {name}: {e}" if job.several else f"error: {e}")
        return (2 if isinstance(e, UserError) and not e.midway else 3), str(e)
    except Exception as e:  # noqa: BLE001 - a bug in one row must not lose the others; told in full, exit code 1
        traceback.print_exc()
        return 1, _bug(e)
    for problem in result.save_problems:
        _say(f"error: {problem}")
    if result.failed:
        _say(_failures(result, f"{name}: " if job.several else ""))
    _print_result(result, job.options.json)
    why = [f"{result.failed} of {result.summary['n_total']} questions failed"] if result.failed else []
    why += result.save_problems
    return (3, "; ".join(why)) if why else (0, None)


def _ready(plan: Plan, job: Job) -> Plan:
    """The plan with the numbers that it takes from other runs, which are told. Raises NotFinished, UserError."""
    made = settled(plan, job.before, job.options.out)
    for amount in made.amounts.values():
        _say(amount["note"])
    for warning in dict.fromkeys(w for w in made.warnings if w not in plan.warnings):
        _say(f"warning: {warning}")
    job.before[key(plan.choices)] = made
    return made


def execute(plan: Plan, job: Job) -> RunResult:
    """Run a plan with its progress on stderr, followed by MLflow. Raises what runner.run raises."""
    from harness.engine import runner
    from harness.engine.progress import Progress

    options = job.options
    with job.trackers.follow(plan):
        return runner.run(
            plan,
            options.out,
            command=job.command,
            progress=Progress(),
            retry_failed=options.retry_failed,
            parallel=options.parallel,
        )


def _failures(result: RunResult, row: str) -> str:
    """How many questions failed, why the first one did, and how to ask them, or to score their answers, again."""
    from harness.storage.failures import unscored
    from harness.storage.files import read_lines
    from harness.storage.run_folder import RECORDS

    errors = {r["question_id"]: r["error"] for r in read_lines(result.folder / RECORDS, "question_id")}
    question, error = next((q, e) for q, e in errors.items() if e is not None)
    why = f"{error['type']}: {error['message']}".splitlines()[0]
    answered = sum(unscored(e) for e in errors.values())
    ways = ["the same command with --retry-failed asks them again"] if answered < result.failed else []
    if answered:
        again = f"harness score {shlex.quote(str(result.folder))}"
        ways.append(f"{answered} answered and not scored; once the scorer is mended: {again}")
    return (
        f"error: {row}{result.failed} of {result.summary['n_total']} questions failed; the first, '{question}': {why}  "
        f"({'; '.join(ways)})"
    )


def _print_result(result: RunResult, json: bool) -> None:
    if json:
        print(json_.dumps({"run": str(result.folder), "summary": result.summary}), flush=True)
        return
    summary = result.summary
    lines = [f"{result.folder}"]
    lines += [f"  {name:<28} {text}" for name, text in mean_texts(summary).items()]
    total, failed = summary.get("n_total", 0), summary.get("n_failed", 0)
    kinds = ", ".join(f"{n} {kind}" for kind, n in summary.get("errors", {}).items())
    bare = summary.get("n_without_prefix")
    told = f", {bare} replies without the answer prefix, scored whole" if bare else ""
    lines.append(f"  {total} questions, {failed} failed" + (f" ({kinds})" if failed else "") + told)
    print("\n".join(lines), flush=True)


@contextlib.contextmanager
def _signals_as_interrupt() -> Iterator[None]:
    """SIGTERM and SIGHUP end the command as Ctrl-C does, also while it still plans; an ignored one stays ignored."""

    def interrupt(number: int, _frame: Any) -> None:
        raise KeyboardInterrupt(signal.Signals(number).name)

    changed = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) is signal.SIG_DFL]
    for s in changed:
        signal.signal(s, interrupt)
    try:
        yield
    finally:
        for s in changed:
            signal.signal(s, signal.SIG_DFL)


def _say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
