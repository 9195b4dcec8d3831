"""`harness.run`: runs, suites, sweeps and repeats, with the options of `harness run` as
arguments."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Unpack, overload

from harness.api.notebook import default_progress
from harness.api.results import Run, Runs
from harness.api.run_arguments import PathLike, Rows, RunArguments
from harness.api.run_request import RunRequest
from harness.config import plugins, presets, registry
from harness.config.schema import json_sha256
from harness.config.sweep import check_axes
from harness.datasets.rows import Row
from harness.engine import runner
from harness.engine.command_limits import LimitHook
from harness.engine.plan import PlannedRun
from harness.engine.plan_runs import plan_runs
from harness.engine.progress import Progress, Silent
from harness.engine.runs_in_turn import Hook, Outcome, in_turn
from harness.engine.spending_limits import Budget
from harness.errors import HarnessError, UserError
from harness.method import Method
from harness.storage.files import harness_home, make_folder, write_atomic
from harness.storage.json_lines import json_line
from harness.tracking.background import BackgroundTracking

MethodName = str | type[Method]
Methods = MethodName | Sequence[MethodName]
Application = str | Callable[[str], Any]
Applications = Application | Sequence[Application] | Mapping[str, Application]
Names = str | Sequence[str]
MakeProgress = Callable[[], Progress]
Note = Callable[[str], None]
_ROW_OBJECTS = "rows"  # the data set, and its format, of Row objects
# In the manifest, where a run of the command line has its command.
_COMMAND = ("python", "-c", "harness.run(...)")


@overload
def run(method: MethodName, dataset: str, **options: Unpack[RunArguments]) -> Run: ...
@overload
def run(
    method: Methods | None = None, dataset: Names | None = None, **options: Unpack[RunArguments]
) -> Run | Runs: ...
def run(
    method: Methods | None = None, dataset: Names | None = None, **options: Unpack[RunArguments]
) -> Run | Runs:
    """Run methods on data sets; the same call again resumes.

    One method and one data set give a Run, and what cannot run raises UserError. Several of either,
    a suite, a sweep ({"method.k": [1, 3]}) or `repeat` seeds give Runs; one that cannot begin is in
    `lost`, and the others go on.

    Args:
        method: A preset's name, or a class (harness.method.Method); several in a list.
        dataset: A name; several in a list.
        options: Fields of harness.RunRequest, which are the options of `harness run`. data: a file,
            or the rows themselves, in the data set's format or as Row objects, which need no data
            set; app: an application of your own: an address, or a function that is given the
            question and returns a text or {"answer", "sources", "contexts", ...}, which may be
            async; several in a list, or as name -> application; documents, questions: in place of
            a data set, a folder of your own and a file of questions about it, or the questions as
            rows; config: a file, or several; set:
            {"method.k": 3}, {"dataset.scorers": ["flashrag.em", my_function]}; progress: whether to
            show a bar (a widget in a notebook) and what the command line says on stderr.

    Raises:
        UserError: Nothing can run.
        SaveError: A result cannot be saved.
        LimitReached: A limit (max_...) is reached.
        TypeError: There is no such option.
    """
    make_progress: MakeProgress = Silent
    if options.pop("progress", True):
        make_progress = default_progress
    if dataset is None and _holds_row_objects(options.get("data")):
        dataset = _ROW_OBJECTS
    request = _make_request(method, dataset, dict(options))
    single = _is_single(method, dataset, request)
    runs, not_logged = _run_all(request, make_progress, single)
    if not single:
        return runs
    return Run(runs[0].folder, (*runs[0].save_problems, *not_logged))


def _is_single(method: Methods | None, dataset: Names | None, request: RunRequest) -> bool:
    """Whether a call asks for one run alone, and so gives a Run and no Runs.

    That is: one method, not in a list, or one application, on one data set; no suite, sweep or
    repeats.

    Args:
        method: As given to `run`.
        dataset: As given to `run`.
        request: The request that was made of the call.
    """
    if request.suite is not None or request.sweep or request.repeat is not None:
        return False
    one_dataset = isinstance(dataset, str) or request.documents is not None
    if request.app:
        return method is None and len(request.app) == 1 and one_dataset
    return isinstance(method, str | type) and one_dataset


def _make_request(
    method: Methods | None, dataset: Names | None, options: Mapping[str, Any]
) -> RunRequest:
    """Make the request of a call of `harness.run`.

    Classes, functions, rows and paths become the texts that stand for them: classes and functions
    are registered, rows written to a file. Raises UserError, and TypeError for an option that does
    not exist.

    Args:
        method: As given to `run`.
        dataset: As given to `run`.
        options: The other arguments; one that is None counts as not given.
    """
    arguments = {name: value for name, value in options.items() if value is not None}
    settings = arguments.get("set", {})
    if _holds_row_objects(arguments.get("data")):
        settings = {"dataset.format": _ROW_OBJECTS, **settings}
    arguments |= _as_typed(arguments)
    files = arguments.get("config", ())
    if isinstance(files, str | os.PathLike):
        files = [files]
    arguments["config"] = tuple(os.fspath(file) for file in files)
    arguments["set"] = {key: _with_registered_functions(value) for key, value in settings.items()}
    arguments["sweep"] = check_axes(arguments.get("sweep", {}), "sweep")
    return RunRequest(
        method=_registered_method_names(method), dataset=_dataset_names(dataset), **arguments
    )


def _as_typed(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Those arguments that may be rows, paths, applications or a retriever, as the texts that are
    typed for them on the command line: {"out": Path("results")} -> {"out": "results"}.

    Rows are written to a file, and functions registered. Raises UserError.

    Args:
        arguments: The arguments of a call of `harness.run` that are given.
    """
    typed: dict[str, Any] = {}
    for name in ("data", "questions"):
        if name in arguments:
            typed[name] = _file_of_rows(arguments[name])
    for name in ("model", "documents", "out", "system_prompt", "answer_schema"):
        if name in arguments:
            typed[name] = os.fspath(arguments[name])
    if "app" in arguments:
        typed["app"] = _registered_applications(arguments["app"])
    if "retriever" in arguments:
        typed["retriever"] = _registered_retriever(arguments["retriever"])
    return typed


def _run_all(
    request: RunRequest, make_progress: MakeProgress, is_single: bool
) -> tuple[Runs, list[str]]:
    """Plan all runs of a request and run them in turn.

    Args:
        request: What to run.
        make_progress: Makes what shows the progress of a run.
        is_single: Whether one run alone was asked for, whose exception is raised.

    Returns:
        (the runs, with those that could not begin or stopped in `lost`; sentences on what could not
        be logged)
    """
    note = make_progress().note  # prints a sentence
    choices_of_runs = request.runs(note)
    budget = request.budget()
    trackers = request.trackers(lambda _: None)  # what is not logged is printed at the end
    planned = plan_runs(choices_of_runs, note)
    for warning in _distinct_warnings(planned.plans):
        note(f"warning: {warning}")
    runs = Runs(lost={run.run: run.why for run in planned.incomplete})
    hooks: list[Hook] = list(trackers)
    if budget.limits:
        limit_hook = LimitHook(budget, planned.plans, out=request.folder, command=(), note=note)
        hooks.insert(0, limit_hook)
    execute = partial(_execute, request, make_progress, budget)
    for outcome in in_turn(planned.plans, execute, hooks):
        is_bug = not isinstance(outcome.error, HarnessError)
        if outcome.error is None:
            _add_result(runs, outcome, note)
        elif is_bug or is_single or request.fail_fast:
            raise outcome.error
        else:
            runs.lost[outcome.plan.run_name] = str(outcome.error)
            note(f"error: {outcome.plan.run_name}: {outcome.error}")
    return runs, _close_trackers(trackers, note)


def _execute(
    request: RunRequest, make_progress: MakeProgress, budget: Budget, plan: PlannedRun
) -> runner.RunResult:
    """Run one plan with the options of its request.

    Args:
        request: What to run.
        make_progress: Makes what shows the progress of the run.
        budget: The limits of cost, which all runs of the request share.
        plan: The run.
    """
    options = runner.AskOptions(
        retry_failed=request.retry_failed,
        parallel=request.parallel,
        fail_fast=request.fail_fast,
        budget=budget,
    )
    return runner.run(
        plan,
        request.folder,
        command=[*_COMMAND],
        progress=make_progress(),
        options=options,
    )


def _add_result(runs: Runs, outcome: Outcome, note: Note) -> None:
    """Add a run that ended to `runs`, and print what of it could not be saved.

    Args:
        runs: The runs so far; it is extended.
        outcome: How the run ended, without an error.
        note: Prints a sentence.
    """
    assert outcome.result is not None  # no error: it is there
    problems = outcome.result.save_problems
    runs.append(Run(outcome.result.folder, tuple(problems)))
    for problem in problems:
        note(f"error: {problem}")


def _close_trackers(trackers: Sequence[BackgroundTracking], note: Note) -> list[str]:
    """Let the trackers end; print and return a sentence for each thing that they could not log."""
    not_logged: list[str] = []
    for tracker in trackers:
        not_logged += tracker.finish()
    for problem in not_logged:
        note(f"warning: {problem}")
    return not_logged


def _distinct_warnings(plans: Sequence[PlannedRun]) -> list[str]:
    """The warnings of all plans in order, each once."""
    warnings: dict[str, None] = {}  # as an ordered set
    for plan in plans:
        warnings |= dict.fromkeys(plan.warnings)
    return list(warnings)


def _dataset_names(named: Names | None) -> list[str]:
    """The names of data sets as a list: None -> [], "nq" -> ["nq"]."""
    if named is None:
        return []
    if isinstance(named, str):
        return [named]
    return list(named)


def _registered_method_names(named: Methods | None) -> list[str]:
    """The names of methods as a list; a class is first registered under its own, "Lead" -> "lead".

    Raises UserError.
    """
    if named is None:
        return []
    if isinstance(named, str | type):
        named = [named]
    names: list[str] = []
    for method in named:
        if isinstance(method, str):
            names.append(method)
        else:
            names.append(_registered_name(method))
    return names


def _registered_name(method: type[Method]) -> str:
    """Make a class a preset of this process, and return its name: "Lead" -> "lead".

    Raises UserError for a class that is called like a preset, whose settings or code would run in
    its place.
    """
    name = method.__name__.lower()
    target = registry.register_target(method)
    # As if an installed package had named it; a preset in a file counts in its place.
    plugins.targets(registry.ENTRY_POINT_GROUPS["methods"])[name] = target
    preset, _ = presets.read("methods", name)[-1]
    if preset != target:
        raise UserError(
            f"the class {method.__name__} is called like the preset {preset}: give the class "
            f"another name, or run the preset with '{name}'"
        )
    return name


def _registered_applications(named: Applications) -> list[str]:
    """Write applications as they are typed after --app; functions are registered.

    {"old": "http://localhost:8000/ask"} -> ["old=http://localhost:8000/ask"]

    Args:
        named: An address, "module:function" or a function; a list of these; or name -> each.
    """
    if isinstance(named, Mapping):
        return [f"{name}={_registered_application(target)}" for name, target in named.items()]
    if isinstance(named, str) or callable(named):
        return [_registered_application(named)]
    return [_registered_application(target) for target in named]


def _registered_retriever(named: Application | Mapping[str, Application]) -> str:
    """Write a retriever as it is typed after --retriever. Raises UserError for several."""
    texts = _registered_applications(named)
    if len(texts) != 1:
        raise UserError("retriever: name one, as {name: address or function}")
    return texts[0]


def _registered_application(target: Application) -> str:
    """The text that stands for an application: its address, or "module:name" of a
    function, which is registered.
    """
    if isinstance(target, str):
        return target
    return registry.register_target(target)


def _holds_row_objects(data: PathLike | Rows | None) -> bool:
    """Whether `data` is a list with Row objects (harness.datasets.rows)."""
    if data is None or isinstance(data, str | os.PathLike):
        return False
    return any(isinstance(row, Row) for row in data)


def _file_of_rows(data: PathLike | Rows | None) -> str | None:
    """The file that holds the rows: the one that `data` names, or one that is written here.

    Rows go to a file in HARNESS_HOME, named after their hash. None for None.
    """
    if data is None:
        return None
    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    rows: list[Any] = []
    for row in data:
        if isinstance(row, Row):
            row = dataclasses.asdict(row)
        rows.append(row)
    path = harness_home() / "rows" / f"{json_sha256(rows)[:16]}.jsonl"
    make_folder(path.parent, "HARNESS_HOME")
    write_atomic(path, b"".join(map(json_line, rows)), setting="HARNESS_HOME")
    return str(path)


def _with_registered_functions(value: Any) -> Any:
    """Replace functions in a setting's value by "module:name", and register them.

    {"dataset.scorers": [mine]} has the value [mine] -> ["mymodule:mine"]
    """
    if isinstance(value, list | tuple):
        return [_with_registered_functions(item) for item in value]
    if callable(value):
        return registry.register_target(value)
    return value
