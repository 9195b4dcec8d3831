"""The same from Python as on the command line: run, load_run, compare, score; each is reached as harness.<name>.

run = harness.run("bm25", "pocket/musique", limit=10)             a Run
runs = harness.run(["bm25", "pecan"], "pocket/musique")           Runs: a list of them, with a table
run.records                                                       a DataFrame, a row a question
run.compare(other)                                                the paired difference
runs.plot("front.pdf")                                            score against cost
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from harness.cost.flops import DEFAULT
from harness.method import Method
from harness.storage.remote_runs import working_copy
from harness.storage.run_folder import StoredRun
from harness.storage.run_folder import read_run as read_run

if TYPE_CHECKING:
    import pandas as pd

    from harness.config.layers import Choices
    from harness.engine.plan import Plan
    from harness.engine.progress import Progress
    from harness.tracking.trackers import Trackers


PathLike = str | os.PathLike[str]
MethodName = str | type[Method]
Methods = MethodName | Sequence[MethodName]
Names = str | Sequence[str]
Rows = Sequence[Mapping[str, Any]]
_COMMAND = ("python", "-c", "harness.run(...)")  # in the manifest, where a run of the command line has its command


@dataclass(frozen=True)
class Run:
    """A run folder. save_problems: what could not be written, a sentence each."""

    folder: Path
    save_problems: tuple[str, ...] = ()

    @cached_property
    def stored(self) -> StoredRun:
        """The folder's files as they were when they were first needed. Raises UserError, DataError."""
        return read_run(self.folder)

    @property
    def summary(self) -> dict[str, Any]:
        """Scores with intervals, costs and counts: docs/run-folder.md#summary."""
        return self.stored.summary

    @property
    def config(self) -> dict[str, Any]:
        """Every setting of the run."""
        return self.stored.config

    @property
    def failed(self) -> int:
        """The number of questions that failed."""
        return int(self.summary.get("n_failed", 0))

    @cached_property
    def records(self) -> pd.DataFrame:
        """A row a question: question_id, question, gold, prediction, a column a score, tokens, tflops, seconds, ..."""
        from reports.frames import records

        return records(self.stored)

    @cached_property
    def documents(self) -> pd.DataFrame:
        """A row an index: document_id, status, tokens, tflops, seconds."""
        from reports.frames import documents

        return documents(self.stored)

    def compare(self, *others: Run | PathLike, reference: str | None = None, score: str | None = None) -> pd.DataFrame:
        """This run beside others, as `compare` does; the reference is this run unless one is named."""
        return compare(self, *others, reference=reference or self.folder.name, score=score)

    def trace(self, question_id: str) -> str:
        """The search of one question as text, as `harness trace` prints it. Raises UnknownName."""
        from reports.trace import search_of, traced

        return "\n".join(traced(search_of(self.stored, question_id)))

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Score against cost, as `Runs.plot` of this run alone."""
        return Runs([self]).plot(out, score=score)

    def _repr_html_(self) -> str:
        return Runs([self])._repr_html_()


class Runs(list[Run]):
    """Runs of one call, in the order in which they ran. lost: row -> why it did not run whole."""

    lost: dict[str, str]

    def __init__(self, runs: Sequence[Run] = (), lost: Mapping[str, str] | None = None) -> None:
        super().__init__(runs)
        self.lost = dict(lost or {})

    @property
    def averaged(self) -> pd.DataFrame:
        """The table with runs that differ in their seed alone as one: `harness report --average-seeds`."""
        from reports.repeats import averaged
        from reports.tables import frame

        return frame(averaged([run.stored for run in self]))

    @property
    def table(self) -> pd.DataFrame:
        """What `harness report --format csv` holds: a row a run; see reports/tables.py for the columns."""
        from reports.tables import frame

        return frame([run.stored for run in self])

    def compare(self, *, reference: str | None = None, score: str | None = None) -> pd.DataFrame:
        """Each run beside the reference, as `compare` does."""
        return compare(*self, reference=reference, score=score)

    def plot(self, out: PathLike | None = None, *, score: str | None = None) -> bytes:
        """Score against cost with intervals, the front marked: an SVG, or what the ending of `out` says (pdf, png).

        The runs must be of one data set. Returns the file's content and writes it to `out`. Raises UserError.
        """
        from harness.errors import UserError
        from reports.figures import front
        from reports.figures.plot import FORMS

        table = self.table
        if table["dataset"].nunique() > 1:
            raise UserError("score against cost is drawn for one data set; select its runs first")
        form = "svg" if out is None else Path(out).suffix.lower().removeprefix(".")
        if form not in FORMS:
            raise UserError(f"'{out}' should end in {', '.join('.' + form for form in FORMS)}")
        points = front.points(table, [run.stored for run in self], score)
        if not points:
            raise UserError("no run has both a score and a cost")
        content = front.draw(points, score or str(table["headline"].iloc[0]), form)
        if out is not None:
            Path(out).write_bytes(content)
        return content

    def _repr_html_(self) -> str:
        from reports.columns import sections
        from reports.frames import html

        return html(sections(self.table))


class Settings(TypedDict, total=False):
    """What `run` takes beside methods, data sets, suite and sweep: for type checkers, which know what it returns."""

    model: PathLike | None
    data: PathLike | Rows | None
    unset: Sequence[str]
    limit: int | None
    require_full: bool
    profile: str | None
    config: PathLike | Sequence[PathLike]
    set: Mapping[str, Any] | None
    seed: int | None
    record_stops: int | None
    record_t_p: float | None
    parallel: int
    retry_failed: bool
    fail_fast: bool
    keep_texts: bool | None
    keep_prompts: bool
    out: PathLike
    mlflow: str | None
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
    unset: Sequence[str] = (),
    limit: int | None = None,
    require_full: bool = False,
    profile: str | None = None,
    config: PathLike | Sequence[PathLike] = (),
    set: Mapping[str, Any] | None = None,  # noqa: A002 - the same word as on the command line
    sweep: Mapping[str, Sequence[Any]] | None = None,
    repeat: int | None = None,
    seed: int | None = None,
    record_stops: int | None = None,
    record_t_p: float | None = None,
    parallel: int = 1,
    retry_failed: bool = False,
    fail_fast: bool = False,
    keep_texts: bool | None = None,
    keep_prompts: bool = False,
    out: PathLike = "results",
    mlflow: str | None = None,
    traces: int | None = None,
    progress: bool = True,
) -> Run | Runs:
    """Run methods on data sets; the same call again resumes. Arguments are the options of `harness run`.

    method: a preset's name, or a class (harness.method.Method); data: a file, or the rows themselves, in the data set's
    format; set: {"method.k": 3}, {"dataset.scorers": ["flashrag.em", my_function]}; progress: show a bar (a widget in a
    notebook) and what the command line says on stderr; fail_fast: raise at the first question that fails.

    One method and one data set give a Run, and what cannot run raises UserError. Several of either, a suite, a sweep
    ({"method.k": [1, 3]}) or `repeat` seeds give Runs; a row that cannot run is in `lost`, and the others go on. Raises
    UserError where nothing can run, SaveError for what cannot be saved.
    """
    from harness.config import suites
    from harness.config.layers import Choices
    from harness.config.sweep import checked
    from harness.engine.progress import Silent, suitable
    from harness.engine.rows import rows, with_seeds
    from harness.tracking.track import MOST_TRACES
    from harness.tracking.trackers import Trackers

    single = (
        isinstance(method, str | type) and isinstance(dataset, str) and suite is None and not sweep and repeat is None
    )
    kept = {} if keep_texts is None else {"dataset.keep_texts": keep_texts}
    kept |= {"keep_prompts": True} if keep_prompts else {}
    shared = Choices(
        model=None if model is None else os.fspath(model),
        data=None if data is None else _file_of(data),
        profile=profile,
        limit=limit,
        seed=seed,
        sets={key: _plain(value) for key, value in {**dict(set or {}), **kept}.items()},
        files=tuple(os.fspath(file) for file in ([config] if isinstance(config, str | os.PathLike) else config)),
        require_full=require_full,
        suite=suites.chosen(suite, unset),
    )
    show = suitable() if progress else Silent()
    shared, axes = with_seeds(shared, checked(sweep or {}, "sweep"), repeat)
    wanted = rows(shared, _names(method), _names(dataset), axes, show.note)
    wanted = _recording(wanted, {"record_stops": record_stops, "record_t_p": record_t_p}, suite, show)
    folder = working_copy(out)
    trackers = Trackers(folder, mlflow, suite, MOST_TRACES if traces is None else traces)
    options = {"parallel": parallel, "retry_failed": retry_failed, "fail_fast": fail_fast}
    runs = _run_rows(wanted, folder, trackers, suitable if progress else Silent, options, single)
    for problem in (missed := tuple(trackers.missed())):
        show.note(f"warning: {problem}")
    return Run(runs[0].folder, (*runs[0].save_problems, *missed)) if single else runs


def _run_rows(
    wanted: Sequence[Choices],
    out: Path,
    trackers: Trackers,
    make_progress: Callable[[], Progress],
    options: Mapping[str, Any],
    single: bool,
) -> Runs:
    """Plan all rows, then run them in turn; of a single one every exception is raised."""
    from harness.engine import runner
    from harness.engine.rows import plan_all
    from harness.engine.siblings import Key, key, settled
    from harness.errors import HarnessError

    note = make_progress().note
    planned = plan_all(wanted, note)
    runs = Runs(lost={lost.row: lost.why for lost in planned.lost})
    before: dict[Key, Plan] = {}
    for plan in planned.plans:
        try:
            before[key(plan.choices)] = ready = settled(plan, before, out)
            for warning in dict.fromkeys(ready.warnings):
                note(f"warning: {warning}")
            with trackers.follow(out / ready.folder):
                result = runner.run(ready, out, command=[*_COMMAND], progress=make_progress(), **options)
        except HarnessError as e:
            if single or options["fail_fast"]:
                raise
            runs.lost[plan.row_name] = str(e)
            note(f"error: {plan.row_name}: {e}")
            continue
        runs.append(Run(result.folder, tuple(result.save_problems)))
        for problem in result.save_problems:
            note(f"error: {problem}")
    return runs


def _recording(
    wanted: list[Choices], options: Mapping[str, float | None], suite: str | None, show: Progress
) -> list[Choices]:
    from harness.engine.recording import with_fields

    given = {name: value for name, value in options.items() if value is not None}
    if not given:
        return wanted
    wanted, left_out = with_fields(wanted, given, mixed=suite is not None)
    for line in left_out:
        show.note(f"note: {line}")
    return wanted


def _names(named: Methods | Names | None) -> list[str]:
    """Names as they are; a class gets its own in lower case, "Lead" -> "lead"."""
    from harness.config import registry

    listed = [] if named is None else [named] if isinstance(named, str | type) else list(named)
    for cls in (one for one in listed if isinstance(one, type)):
        registry.add("methods", cls.__name__.lower(), cls)
    return [one if isinstance(one, str) else one.__name__.lower() for one in listed]


def _file_of(data: PathLike | Rows) -> str:
    """The path; rows become a file of the harness' home, named after their content."""
    from harness.config.schema import digest
    from harness.storage.files import json_line, write_atomic
    from harness.storage.home import home

    if isinstance(data, str | os.PathLike):
        return os.fspath(data)
    path = home() / "rows" / f"{digest(list(data))[:16]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, b"".join(map(json_line, data)))
    return str(path)


def _plain(value: Any) -> Any:
    """A setting's value; functions, as in {"dataset.scorers": [mine]}, by their names."""
    from harness.config import registry

    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return registry.named(value) if callable(value) else value


def load_run(folder: PathLike) -> Run:
    """A stored run. Raises UserError where `folder` is no run folder."""
    loaded = Run(Path(folder))
    _ = loaded.stored
    return loaded


def compare(
    *runs: Run | PathLike,
    reference: str | None = None,
    score: str | None = None,
    force: bool = False,
    convention: str = DEFAULT,
) -> pd.DataFrame:
    """What `harness compare --format csv` holds: one row a run, with its paired difference to the reference.

    runs: Runs, run folders, or folders that hold runs; a single run has its means only. reference: a preset's name, a
    run folder's name or hash; score: by default the data set's headline; convention: how FLOPs are counted. Raises
    UserError for runs that must not be compared, unless `force`, and UnknownName.
    """
    from harness.storage.named_runs import read_runs, run_folders
    from reports.compare import side_by_side

    stored_runs = read_runs(run_folders([os.fspath(_folder(run)) for run in runs]))
    return side_by_side(stored_runs, reference=reference, score=score, force=force, convention=convention).joined()


def _folder(run: Run | PathLike) -> PathLike:
    return run.folder if isinstance(run, Run) else run


def score(
    run: Run | PathLike, *, scorers: list[str] | None = None, only: bool = False, data: PathLike | None = None
) -> dict[str, Any]:
    """Score a run's stored predictions again, without a model, and return its new summary.

    scorers: in addition to the run's own, or instead of them if `only`; data: where the rows are now.
    """
    from harness.engine.rescore import rescore

    return rescore(Path(_folder(run)), scorers=scorers or (), only=only, data=None if data is None else os.fspath(data))
