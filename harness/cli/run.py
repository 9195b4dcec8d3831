"""`harness run`: plan every row first, then run them in turn; one that fails never loses the others.

rows = methods x data sets     from --method and --dataset, or from --suite
a suite, or --plan             -> first what every row will cost (harness.engine.forecast); with --plan nothing else
names and keys wrong anywhere  -> exit 2, nothing was run
a row that cannot be planned   -> its mistakes on stderr, the other rows run
a row that stops midway        -> what was answered stays on disk
a number from another row      -> that row runs first (harness.engine.siblings)
the exit code is the worst     0 < 3 < 1; 2 only where no row ran; the last lines name those that did not run whole
"""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from harness.cli.command import execution, output, setting
from harness.cli.forecast_table import as_json, closing, one_line, table
from harness.cli.options import Convention, Out, Repeat, Selection, Sweep, Traces
from harness.cli.output import say
from harness.cli.run_result import failures, print_result
from harness.cli.scaling import Scaling
from harness.cli.stopping import say_again
from harness.cost.flops import CONVENTIONS, DEFAULT
from harness.engine import model_warnings
from harness.engine.rows import bug, plan_all
from harness.engine.siblings import Key, Lost, NotFinished, chain, key, settled
from harness.errors import FirstFailure, HarnessError, UnknownName, UserError
from harness.parallel.signals import interrupt_on_signals
from harness.storage.home import check_home
from harness.storage.remote_runs import working_copy
from harness.tracking.background import BackgroundTracking
from harness.tracking.track import MOST_TRACES

if TYPE_CHECKING:
    from harness.config.layers import Choices
    from harness.engine.forecast import Forecast
    from harness.engine.plan import Plan
    from harness.engine.progress import Progress
    from harness.engine.runner import RunResult
    from harness.scale.driver import Driver
    from harness.scale.slurm_engine import SlurmDriver

_WORSE = (0, 3, 2, 1)


@dataclass(frozen=True)
class Execution:
    """How rows are run, and what is recorded and printed."""

    record_stops: Annotated[
        int | None,
        setting(
            "--record-stops N",
            "Continue past the stop, up to N positive probes (QRMeM: N updates), and record the answer at each.",
            min=1,
        ),
    ] = None
    record_t_p: Annotated[
        float | None,
        setting("--record-t-p X", "Also record stops for every threshold t_p up to X.", "the run's t_p", min=0, max=1),
    ] = None
    parallel: Annotated[
        int,
        execution(
            "--parallel N",
            "Questions to run at a time. Rounding can then change an answer, in bfloat16 and float16 above all.",
            min=1,
        ),
    ] = 1
    deterministic: Annotated[
        bool,
        execution("--deterministic", "Give the same answers to the bit whatever --parallel and the machine's load."),
    ] = False
    retry_failed: Annotated[bool, execution("--retry-failed", "Run the questions that failed again.")] = False
    fail_fast: Annotated[bool, execution("--fail-fast", "Stop at the first question that fails.")] = False
    debug: Annotated[bool, execution("--debug -v", "Print the traceback of the first question that fails.")] = False
    quiet: Annotated[bool, output("--quiet -q", "Print no progress; warnings, errors and results are printed.")] = False
    plan: Annotated[bool, execution("--plan", "Run nothing; print what would be run and its expected cost.")] = False
    out: Out = "results"
    keep_texts: Annotated[
        str | None,
        output(
            "--keep-texts yes|no",
            "Store questions, gold answers and the texts that were shown; no for data whose licence forbids it.",
            "yes",
        ),
    ] = None
    keep_prompts: Annotated[
        bool, output("--keep-prompts", "Store every request to a model as it was sent, with its reply.")
    ] = False
    mlflow: Annotated[
        str | None,
        output(
            "--mlflow URI|off",
            "MLflow server or database to log to.",
            "$MLFLOW_TRACKING_URI, else mlflow.db in the results folder",
        ),
    ] = None
    traces: Traces = MOST_TRACES
    json: Annotated[bool, output("--json", 'End with a line {"run": folder, "summary": {...}}.')] = False
    convention: Convention = None

    @cached_property
    def folder(self) -> Path:
        """The results folder."""
        return working_copy(self.out)

    @property
    def record(self) -> dict[str, float]:
        """The options that set a field of the method, {"record_stops": 8}; see harness.engine.recording."""
        given = {"record_stops": self.record_stops, "record_t_p": self.record_t_p}
        return {name: value for name, value in given.items() if value is not None}

    @property
    def settings(self) -> dict[str, bool]:
        """Options that are settings of every row, {"keep_prompts": True}. Raises UserError."""
        if self.keep_texts not in (None, "yes", "no"):
            raise UserError(f"--keep-texts {self.keep_texts}: should be yes or no")
        texts = {} if self.keep_texts is None else {"dataset.keep_texts": self.keep_texts == "yes"}
        prompts = {"keep_prompts": True} if self.keep_prompts else {}
        return texts | prompts | ({"model.deterministic": True} if self.deterministic else {})


@dataclass(frozen=True)
class Job:
    """What the rows of one command share.

    shard: K and N of --shard; driver: of --engine; before: the plans of the rows that ran; waiting: rows that could
    not; folders: of the rows that ran.
    """

    options: Execution
    trackers: BackgroundTracking
    command: list[str]
    several: bool
    shard: tuple[int, int] | None = None
    driver: Driver | SlurmDriver | None = None
    workers: int = 1
    before: dict[Key, Plan] = field(default_factory=dict)
    waiting: list[Plan] = field(default_factory=list)
    expected: dict[str, Forecast] = field(default_factory=dict)  # by the row's name
    folders: list[Path] = field(default_factory=list)


def run(
    selection: Selection, execution: Execution, scaling: Scaling, sweep: Sweep = None, repeat: Repeat = None
) -> int:
    """Run methods on data sets; the same command again resumes.

    Every method runs on every data set; --sweep runs each combination of its values, --repeat each of N seeds. Answers
    are scored and saved one by one, so nothing is lost when a run stops.
    """
    return run_selection(selection, execution, scaling, sweep, repeat)


def run_selection(
    selection: Selection,
    execution: Execution,
    scaling: Scaling,
    sweep: Sweep = None,
    repeat: Repeat = None,
    ran: list[Path] | None = None,
) -> int:
    """Run the rows of a selection; returns the exit code. ran: gets the folder of each row that ran."""
    command = ["harness", *sys.argv[1:]]
    with interrupt_on_signals():
        try:
            rows = selection.rows(sweep, repeat)
            return _run_all(rows, selection, execution, scaling, command, [] if ran is None else ran)
        except KeyboardInterrupt:
            say_again("interrupted; what was answered is saved", command)
            return 130


def _run_all(
    rows: list[Choices],
    selection: Selection,
    options: Execution,
    scaling: Scaling,
    command: list[str],
    folders: list[Path],
) -> int:
    shard = scaling.parsed(options.plan)
    _check_forecast(options, scaling)
    wanted = [_with_settings(row, options.settings) for row in rows]
    if options.record:
        wanted = _recording(wanted, options.record)
    if options.plan:
        return _only_plan(wanted, options, scaling, selection.suite)
    check_home()
    trackers = BackgroundTracking(options.folder, options.mlflow, selection.suite, options.traces)
    first = plan_all(wanted, say)
    planned, lost, code = first.plans, first.lost, first.code
    for line in dict.fromkeys(model_warnings.ticket(p.config.model) for p in planned if p.config.model.embedded):
        say(line)
    for model in {p.config.model.name: p.config.model for p in planned if p.config.model.small}.values():
        say(model_warnings.small(model.model_dump(), runs=True))
    unlogged = [f"not logged to MLflow: {problem}" for problem in trackers.unusable]
    for warning in dict.fromkeys([*unlogged, *(w for plan in planned for w in plan.warnings)]):
        say(f"warning: {warning}")
    expected: list[Forecast] = []
    if selection.suite is not None:
        expected = _forecasts(planned, options)
        say(one_line(selection.suite, expected, scaling.workers or 1))
    with scaling.driver(options.folder, _progress(options), command, _how(options)) as driver:
        job = Job(options, trackers, command, several=len(planned) > 1, shard=shard, driver=driver, folders=folders)
        ran, worst = _run_rows(planned, job, lost)
    code = max(code, worst, key=_WORSE.index)
    code = 3 if ran and code == 2 else code
    if len(wanted) > 1 and (lost or selection.suite is not None):
        say(closing(len(wanted), lost))
    if job.waiting:
        say_again("rows wait for the number of another row", command)
    return max(code, 3 if trackers.report(say) else 0, key=_WORSE.index)


def _run_rows(planned: list[Plan], job: Job, lost: list[Lost]) -> tuple[bool, int]:
    """Run the rows in turn; those that did not run whole go to `lost`. Returns whether any ran, and the exit code."""
    ran, code = False, 0
    for plan in planned:
        if job.driver is not None and not plan.awaits:
            with contextlib.suppress(HarnessError):  # raised again when it is this row's turn
                job.driver.add(plan, [plan.choices])
    for i, plan in enumerate(planned, 1):
        waited = len(job.waiting)
        worse, why = _run_one(plan, job)
        code = max(code, worse, key=_WORSE.index)
        ran = ran or (worse != 2 and len(job.waiting) == waited)
        lost += [Lost(plan.row_name, why)] if why else []
        if job.options.fail_fast and why:
            lost += [Lost(each.row_name, "not started, as --fail-fast asks") for each in planned[i:]]
            break
    return ran, code


def _check_forecast(options: Execution, scaling: Scaling) -> None:
    """Raise UserError for an option of the forecast without --plan, or a convention that is unknown."""
    given = {"--convention": options.convention, "--price-per-gpu-hour": scaling.price}
    if not options.plan and (name := next((name for name, value in given.items() if value is not None), None)):
        raise UserError(f"{name} is for a forecast (--plan); a run keeps the FLOPs under every convention")
    if options.convention not in {None, *CONVENTIONS}:
        raise UnknownName("FLOPs convention", str(options.convention), CONVENTIONS)


def _only_plan(wanted: list[Choices], options: Execution, scaling: Scaling, suite: str | None) -> int:
    """--plan: print the forecast of every row that can be run; the others' mistakes are on stderr."""
    planned = plan_all(wanted, say, elsewhere=True)
    for warning in dict.fromkeys(w for plan in planned.plans for w in plan.warnings):
        say(f"warning: {warning}")
    if planned.plans:
        plans = planned.plans
        rows = _forecasts(plans, options)
        print(as_json(rows) if options.json else _forecast_table(rows, options, scaling, suite), flush=True)
    for thing in dict.fromkeys(thing for plan in planned.plans for thing in plan.missing):
        say(f"missing here: {thing}")
    if planned.lost:
        say(closing(len(wanted), planned.lost))
    return planned.code


def _forecasts(planned: list[Plan], options: Execution) -> list[Forecast]:
    from harness.engine.forecast import Forecast, forecast
    from harness.engine.speed import hours, measured

    known = measured(options.folder)
    convention = options.convention or DEFAULT
    before: dict[Key, Plan] = {}
    forecasts = []
    for plan in planned:
        try:
            before[key(plan.choices)] = ready = settled(plan, before, options.folder)
            made = forecast(ready, options.folder, convention)
            needed, speed = hours(ready, made.tokens, known)
            forecasts.append(replace(made, hours=needed, speed=speed))
        except HarnessError as e:
            names = (plan.method_name, plan.config.dataset.name)
            how = ", ".join(f"{name} {text.replace(':', ' ')}, not known yet" for name, text in plan.awaits.items())
            how = how if isinstance(e, NotFinished) else str(e)
            forecasts.append(Forecast(*names, plan.questions, 0, None, None, how))
    return forecasts


def _forecast_table(rows: list[Forecast], options: Execution, scaling: Scaling, suite: str | None) -> str:
    count = f"{len(rows)} row{'s' if len(rows) != 1 else ''}"
    title = f"suite {suite}: {count}" if suite else count
    return table(title, rows, options.convention or DEFAULT, scaling.workers or 1, scaling.price)


def _with_settings(row: Choices, kept: dict[str, bool]) -> Choices:
    """The row with the settings of what its run folder holds. Raises UserError for one that --set names too."""
    if twice := sorted(kept.keys() & row.sets.keys()):
        raise UserError(f"'{twice[0]}' is given twice: by --set and by the flag of that name; keep one")
    return replace(row, sets={**row.sets, **kept})


def _recording(wanted: list[Choices], record: dict[str, float]) -> list[Choices]:
    """The rows with the fields that --record-stops and --record-t-p set. Raises UserError."""
    from harness.engine.recording import with_fields

    wanted, left_out = with_fields(wanted, record)
    for line in left_out:
        say(f"note: {line}")
    return wanted


def _run_one(plan: Plan, job: Job) -> tuple[int, str | None]:
    """Run one row and print its result. Returns the exit code, and why it did not finish (None where it did)."""
    name, begun = plan.row_name, time.monotonic()
    if job.several and not (sys.stderr.isatty() and job.driver is None):  # a terminal's live line begins with the name
        say(f"--- {name}")
    try:
        result = execute(_ready(plan, job), job, chain(plan, job.before))
        job.folders.append(result.folder)
    except HarnessError as e:
        job.waiting.extend([plan] if isinstance(e, NotFinished) else [])
        if job.options.debug and isinstance(e, FirstFailure):
            say(e.traceback.rstrip())
        say(f"error: {name}: {e}" if job.several else f"error: {e}")
        return (2 if isinstance(e, UserError) and not e.midway else 3), str(e)
    except Exception as e:  # noqa: BLE001 - a bug in one row must not lose the others; exit code 1
        traceback.print_exc()
        return 1, bug(e)
    for problem in result.save_problems:
        say(f"error: {problem}")
    if result.failed:
        say(failures(result, f"{name}: " if job.several else "", job.options.debug))
    print_result(result, job.options.json)
    if (row := job.expected.get(name)) is not None and row.hours:
        _compare(row, result, (time.monotonic() - begun) / 3600, job)
    why = [f"{result.failed} of {result.summary['n_total']} questions failed"] if result.failed else []
    why += result.save_problems
    return (3, "; ".join(why)) if why else (0, None)


def _compare(row: Forecast, result: RunResult, took: float, job: Job) -> None:
    """Print and keep the forecast of a row beside the hours that it took; rows that share workers overlap."""
    from harness.engine.speed import keep_actual

    assert row.hours is not None
    expected = row.hours / job.workers
    say(f"forecast {expected * 60:.2g} min, took {took * 60:.2g} min")
    keep_actual(job.options.folder, f"{row.method} on {row.dataset}", str(result.folder), job.workers, expected, took)


def _ready(plan: Plan, job: Job) -> Plan:
    """The plan with the numbers that it takes from other runs; prints their source. Raises NotFinished, UserError."""
    made = settled(plan, job.before, job.options.folder)
    for amount in made.amounts.values():
        say(amount["note"])
    for warning in dict.fromkeys(w for w in made.warnings if w not in plan.warnings):
        say(f"warning: {warning}")
    job.before[key(plan.choices)] = made
    return made


def _progress(options: Execution, name: str = "") -> Progress:
    from harness.engine.progress import Progress, Quiet

    return Quiet() if options.quiet else Progress(name=name)


def _how(options: Execution) -> dict[str, Any]:
    """What runner.run is given beside the plan."""
    return {"retry_failed": options.retry_failed, "parallel": options.parallel, "fail_fast": options.fail_fast}


def execute(plan: Plan, job: Job, choices: Sequence[Choices] = ()) -> RunResult:
    """Run a plan with its progress on stderr, followed by MLflow. Raises what runner.run raises.

    choices: what another process makes the plan from (harness.engine.siblings.chain).
    """
    from harness.engine import runner

    folder, how = job.options.folder, {"command": job.command, **_how(job.options)}
    progress = _progress(job.options, plan.row_name if job.several else "")
    if job.driver is not None:
        job.driver.add(plan, choices)
        result, whole = job.driver.wait(plan), True
    elif job.shard is not None:
        from harness.scale.shard import run_shard

        result, whole = run_shard(plan, folder, *job.shard, progress=progress, **how)
    else:
        job.trackers.add(folder / plan.folder)
        return runner.run(plan, folder, progress=progress, **how)
    if whole:  # MLflow has one writer: who merged
        job.trackers.add(result.folder)
    return result
