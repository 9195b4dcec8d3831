"""`harness.run`: runs, suites, sweeps and repeats, with the options of `harness run` as
arguments."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from harness.api.notebook import default_progress
from harness.api.results import PathLike, Run, Runs
from harness.config import presets, registry, suites
from harness.config.layers import Choices
from harness.config.schema import digest
from harness.config.sweep import check_axes
from harness.datasets.rows import Row
from harness.engine import runner
from harness.engine.command_limits import LimitHook
from harness.engine.expand_command import command_runs, with_seeds
from harness.engine.plan import PlannedRun
from harness.engine.plan_runs import plan_runs
from harness.engine.progress import Progress, Silent
from harness.engine.recorded_stops import with_stops
from harness.engine.repeats import distinct_repeats
from harness.engine.runs_in_turn import in_turn
from harness.engine.spending_limits import Budget
from harness.errors import HarnessError, UserError
from harness.method import Method
from harness.storage.files import home, make_folder, write_atomic
from harness.storage.json_lines import json_line
from harness.storage.paths import local_folder
from harness.tracking import MOST_TRACES
from harness.tracking.background import BackgroundTracking
from harness.tracking.wandb_run import address

MethodName = str | type[Method]
Methods = MethodName | Sequence[MethodName]
Names = str | Sequence[str]
Rows = Sequence[Mapping[str, Any] | Row]
_GIVEN = "rows"  # the data set, and its format, of Row objects
_COMMAND = (
    "python",
    "-c",
    "harness.run(...)",
)  # in the manifest, where a run of the command line has its command


class Settings(TypedDict, total=False):
    """What `run` takes beside methods, data sets, suite, sweep and repeat, for type checkers."""

    model: PathLike | None
    data: PathLike | Rows | None
    documents: PathLike | None
    questions: PathLike | Rows | None
    unset: Sequence[str]
    limit: int | None
    sample: int | None
    profile: str | None
    config: PathLike | Sequence[PathLike]
    set: Mapping[str, Any] | None
    seed: int | None
    record_stops: int | None
    record_t_p: float | None
    parallel: int
    deterministic: bool
    retry_failed: bool
    fail_fast: bool
    keep_texts: bool | None
    keep_prompts: bool
    cache: str | None
    max_tokens: int | None
    max_tflops: float | None
    max_hours: float | None
    max_money: float | None
    price_per_gpu_hour: float | None
    out: PathLike
    mlflow: str | None
    track: str | None
    traces: int | None
    progress: bool


@overload
def run(method: MethodName, dataset: str, **settings: Unpack[Settings]) -> Run: ...  # type: ignore[overload-overlap]
@overload
def run(
    method: Methods | None = None,
    dataset: Names | None = None,
    *,
    suite: str | None = None,
    sweep: Mapping[str, Sequence[Any]] | None = None,
    repeat: int | None = None,
    **settings: Unpack[Settings],
) -> Runs: ...
def run(
    method: Methods | None = None,
    dataset: Names | None = None,
    *,
    suite: str | None = None,
    model: PathLike | None = None,
    data: PathLike | Rows | None = None,
    documents: PathLike | None = None,
    questions: PathLike | Rows | None = None,
    unset: Sequence[str] = (),
    limit: int | None = None,
    sample: int | None = None,
    profile: str | None = None,
    config: PathLike | Sequence[PathLike] = (),
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the same word as on the command line
    sweep: Mapping[str, Sequence[Any]] | None = None,
    repeat: int | None = None,
    seed: int | None = None,
    record_stops: int | None = None,
    record_t_p: float | None = None,
    parallel: int | None = None,
    deterministic: bool = False,
    retry_failed: bool = False,
    fail_fast: bool = False,
    keep_texts: bool | None = None,
    keep_prompts: bool = False,
    cache: str | None = None,
    max_tokens: int | None = None,
    max_tflops: float | None = None,
    max_hours: float | None = None,
    max_money: float | None = None,
    price_per_gpu_hour: float | None = None,
    out: PathLike = "results",
    mlflow: str | None = None,
    track: str | None = None,
    traces: int | None = None,
    progress: bool = True,
) -> Run | Runs:
    """Run methods on data sets; the same call again resumes. Arguments are the options of `harness
    run`.

    method: a preset's name, or a class (harness.method.Method); data: a file, or the rows
    themselves, in the data set's format or as Row objects, which need no data set; documents,
    questions: in place of a data set, a folder of your own and a file of questions about it, or the
    questions as rows; set: {"method.k": 3},
    {"dataset.scorers": ["flashrag.em", my_function]}; progress: show a bar (a widget in a notebook)
    and what the command line says on stderr; fail_fast: raise at the first question that fails.

    One method and one data set give a Run, and what cannot run raises UserError. Several of either,
    a suite, a sweep ({"method.k": [1, 3]}) or `repeat` seeds give Runs; one that cannot begin is in
    `lost`, and the others go on. Raises UserError where nothing can run, SaveError for what cannot
    be saved, LimitReached at a limit (max_...).
    """
    given: dict[str, Any] = {}
    if _holds_row_objects(data):
        given = {"dataset.format": _GIVEN}
        dataset = _GIVEN if dataset is None else dataset
    one_dataset = isinstance(dataset, str) or documents is not None
    single = (
        isinstance(method, str | type)
        and one_dataset
        and suite is None
        and not sweep
        and repeat is None
    )
    flags = {"keep_prompts": keep_prompts, "cache": cache, "model.deterministic": deterministic}
    kept = {"dataset.keep_texts": keep_texts} if keep_texts is not None else {}
    sets = {**(set or {}), **given, **kept, **{key: value for key, value in flags.items() if value}}
    shared = Choices(
        model=None if model is None else os.fspath(model),
        data=_rows_file(data),
        documents=None if documents is None else os.fspath(documents),
        questions=_rows_file(questions),
        profile=profile,
        limit=limit,
        sample=sample,
        seed=seed,
        sets={key: _plain_value(value) for key, value in sets.items()},
        files=tuple(
            os.fspath(file)
            for file in ([config] if isinstance(config, str | os.PathLike) else config)
        ),
        suite=suites.chosen_suite(suite, unset),
    )
    show = default_progress() if progress else Silent()
    shared, axes = with_seeds(shared, check_axes(sweep or {}, "sweep"), repeat)
    wanted = distinct_repeats(
        command_runs(shared, _names(method), _names(dataset), axes, show.note), repeat, show.note
    )
    wanted = with_stops(wanted, {"record_stops": record_stops, "record_t_p": record_t_p}, show.note)
    limits = {"tokens": max_tokens, "tflops": max_tflops, "hours": max_hours, "money": max_money}
    budget = Budget(limits, price_per_gpu_hour)
    folder = local_folder(out)
    trackers = [
        BackgroundTracking(folder, mlflow, suite, MOST_TRACES if traces is None else traces)
    ]
    trackers += [BackgroundTracking(folder, address(track), suite, 0)] if track else []
    options = {"parallel": parallel, "retry_failed": retry_failed, "fail_fast": fail_fast}
    runs = _run_all(
        wanted, folder, trackers, default_progress if progress else Silent, options, single, budget
    )
    for problem in (
        missed := tuple(problem for tracker in trackers for problem in tracker.missed())
    ):
        show.note(f"warning: {problem}")
    return Run(runs[0].folder, (*runs[0].save_problems, *missed)) if single else runs


def _run_all(
    wanted: Sequence[Choices],
    out: Path,
    trackers: Sequence[BackgroundTracking],
    make_progress: Callable[[], Progress],
    options: Mapping[str, Any],
    single: bool,
    budget: Budget,
) -> Runs:
    """Plan all runs, run them in turn, and return them; one that cannot begin is in `lost`.

    out: results folder; trackers: log the runs; make_progress: called for each run; options:
    parallel, retry_failed and fail_fast of runner.run; single: whether one run alone was asked for,
    whose exception is raised; budget: limits.
    """
    note = make_progress().note
    planned = plan_runs(wanted, note)
    for warning in dict.fromkeys(w for plan in planned.plans for w in plan.warnings):
        note(f"warning: {warning}")
    runs = Runs(lost={lost.run: lost.why for lost in planned.lost})

    def execute(plan: PlannedRun) -> runner.RunResult:
        return runner.run(
            plan, out, command=[*_COMMAND], progress=make_progress(), budget=budget, **options
        )

    limited = [LimitHook(budget, planned.plans, out, (), note)] if budget.limits else []
    for outcome in in_turn(planned.plans, execute, [*limited, *trackers]):
        if outcome.result is None:
            error = outcome.error
            assert error is not None  # no result: it is there
            if single or options["fail_fast"] or not isinstance(error, HarnessError):
                raise error
            runs.lost[outcome.plan.run_name] = str(error)
            note(f"error: {outcome.plan.run_name}: {error}")
            continue
        runs.append(Run(outcome.result.folder, tuple(outcome.result.save_problems)))
        for problem in outcome.result.save_problems:
            note(f"error: {problem}")
    return runs


def _names(named: Methods | Names | None) -> list[str]:
    """The names of methods or data sets; a method class is registered under its own name, "Lead" ->
    "lead".

    Raises UserError for a class that is called like a preset, whose settings or code would run in
    its place.
    """
    names: list[str] = []
    for method in [] if named is None else [named] if isinstance(named, str | type) else named:
        names.append(method if isinstance(method, str) else method.__name__.lower())
        if isinstance(method, type):
            target = registry.register_target(method)
            registry.plugins(registry.GROUPS["methods"])[names[-1]] = (
                target  # a preset of this process
            )
            if (preset := presets.read("methods", names[-1])[-1][0]) != target:
                clash = f"the class {method.__name__} is called like the preset {preset}"
                raise UserError(
                    f"{clash}: give the class another name, or run the preset with '{names[-1]}'"
                )
    return names


def _holds_row_objects(data: PathLike | Rows | None) -> bool:
    """Whether `data` is a list of Row objects (harness.datasets.rows)."""
    if data is None or isinstance(data, str | os.PathLike):
        return False
    return any(isinstance(row, Row) for row in data)


def _rows_file(data: PathLike | Rows | None) -> str | None:
    """The path `data` as text; rows are first written to a file in HARNESS_HOME, named after their
    content's hash."""
    if data is None:
        return None
    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    data = [dataclasses.asdict(row) if isinstance(row, Row) else row for row in data]
    path = home() / "rows" / f"{digest(list(data))[:16]}.jsonl"
    make_folder(path.parent, "HARNESS_HOME")
    write_atomic(path, b"".join(map(json_line, data)), setting="HARNESS_HOME")
    return str(path)


def _plain_value(value: Any) -> Any:
    """A setting's value with each function, as in {"dataset.scorers": [mine]}, replaced by
    "module:name"."""
    if isinstance(value, list | tuple):
        return [_plain_value(item) for item in value]
    return registry.register_target(value) if callable(value) else value
