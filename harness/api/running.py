"""`harness.run`: runs, suites, sweeps and repeats, with the options of `harness run` as
arguments."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

from harness.api.notebook import default_progress
from harness.api.results import PathLike, Run, Runs
from harness.api.run_request import RunRequest
from harness.config import presets, registry
from harness.config.schema import digest
from harness.config.sweep import check_axes
from harness.datasets.rows import Row
from harness.engine import runner
from harness.engine.command_limits import LimitHook
from harness.engine.plan import PlannedRun
from harness.engine.plan_runs import plan_runs
from harness.engine.progress import Progress, Silent
from harness.engine.runs_in_turn import Hook, in_turn
from harness.errors import HarnessError, UserError
from harness.method import Method
from harness.storage.files import home, make_folder, write_atomic
from harness.storage.json_lines import json_line

MethodName = str | type[Method]
Methods = MethodName | Sequence[MethodName]
Names = str | Sequence[str]
Rows = Sequence[Mapping[str, Any] | Row]
MakeProgress = Callable[[], Progress]
_GIVEN = "rows"  # the data set, and its format, of Row objects
_COMMAND = (
    "python",
    "-c",
    "harness.run(...)",
)  # in the manifest, where a run of the command line has its command


@overload
def run(method: MethodName, dataset: str, **options: Any) -> Run: ...
@overload
def run(
    method: Methods | None = None, dataset: Names | None = None, **options: Any
) -> Run | Runs: ...
def run(method: Methods | None = None, dataset: Names | None = None, **options: Any) -> Run | Runs:
    """Run methods on data sets; the same call again resumes.

    One method and one data set give a Run, and what cannot run raises UserError. Several of either,
    a suite, a sweep ({"method.k": [1, 3]}) or `repeat` seeds give Runs; one that cannot begin is in
    `lost`, and the others go on.

    Args:
        method: A preset's name, or a class (harness.method.Method); several in a list.
        dataset: A name; several in a list.
        options: Fields of harness.RunRequest, which are the options of `harness run`. data: a file,
            or the rows themselves, in the data set's format or as Row objects, which need no data
            set; documents, questions: in place of a data set, a folder of your own and a file of
            questions about it, or the questions as rows; config: a file, or several; set:
            {"method.k": 3}, {"dataset.scorers": ["flashrag.em", my_function]}; progress: whether to
            show a bar (a widget in a notebook) and what the command line says on stderr.

    Raises:
        UserError: Nothing can run.
        SaveError: A result cannot be saved.
        LimitReached: A limit (max_...) is reached.
        TypeError: There is no such option.
    """
    make_progress: MakeProgress = default_progress if options.pop("progress", True) else Silent
    if _holds_row_objects(options.get("data")):
        options["set"] = {"dataset.format": _GIVEN, **(options.get("set") or {})}
        dataset = _GIVEN if dataset is None else dataset
    request = _request(method, dataset, options)
    one_dataset = isinstance(dataset, str) or request.documents is not None
    several = request.suite is not None or request.sweep or request.repeat is not None
    single = isinstance(method, str | type) and one_dataset and not several
    runs, missed = _run_all(request, make_progress, single)
    if not single:
        return runs
    return Run(runs[0].folder, (*runs[0].save_problems, *missed))


def _request(
    method: Methods | None, dataset: Names | None, options: Mapping[str, Any]
) -> RunRequest:
    """The request of a call: classes, functions, rows and paths as the texts that stand for them.

    Raises UserError, and TypeError for an option that does not exist.
    """
    given = {name: value for name, value in options.items() if value is not None}
    for name in ("data", "questions"):
        if name in given:
            given[name] = _rows_file(given[name])
    for name in ("model", "documents", "out"):
        if name in given:
            given[name] = os.fspath(given[name])
    config = given.get("config", ())
    files = [config] if isinstance(config, str | os.PathLike) else config
    given["config"] = tuple(os.fspath(file) for file in files)
    given["set"] = {key: _plain_value(value) for key, value in given.get("set", {}).items()}
    given["sweep"] = check_axes(given.get("sweep", {}), "sweep")
    return RunRequest(method=_names(method), dataset=_names(dataset), **given)


def _run_all(
    request: RunRequest, make_progress: MakeProgress, single: bool
) -> tuple[Runs, list[str]]:
    """Plan all runs, run them in turn, and return them with what could not be logged; a run that
    cannot begin is in `lost`.

    Args:
        request: What to run.
        make_progress: Called for each run.
        single: Whether one run alone was asked for, whose exception is raised.
    """
    note = make_progress().note
    wanted = request.runs(note)
    budget = request.budget()
    trackers = request.trackers(lambda _: None)
    planned = plan_runs(wanted, note)
    for warning in _distinct_warnings(planned.plans):
        note(f"warning: {warning}")
    runs = Runs(lost={lost.run: lost.why for lost in planned.lost})

    def execute(plan: PlannedRun) -> runner.RunResult:
        return runner.run(
            plan,
            request.folder,
            command=[*_COMMAND],
            progress=make_progress(),
            budget=budget,
            parallel=request.parallel,
            retry_failed=request.retry_failed,
            fail_fast=request.fail_fast,
        )

    hooks: list[Hook] = list(trackers)
    if budget.limits:
        hooks.insert(0, LimitHook(budget, planned.plans, request.folder, (), note))
    for outcome in in_turn(planned.plans, execute, hooks):
        if outcome.result is not None:
            problems = outcome.result.save_problems
            runs.append(Run(outcome.result.folder, tuple(problems)))
            for problem in problems:
                note(f"error: {problem}")
            continue
        error = outcome.error
        assert error is not None  # no result: it is there
        if single or request.fail_fast or not isinstance(error, HarnessError):
            raise error
        runs.lost[outcome.plan.run_name] = str(error)
        note(f"error: {outcome.plan.run_name}: {error}")
    missed: list[str] = []
    for tracker in trackers:
        missed += tracker.missed()
    for problem in missed:
        note(f"warning: {problem}")
    return runs, missed


def _distinct_warnings(plans: Sequence[PlannedRun]) -> list[str]:
    """The warnings of all plans, each once."""
    warnings: dict[str, None] = {}
    for plan in plans:
        warnings |= dict.fromkeys(plan.warnings)
    return list(warnings)


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
