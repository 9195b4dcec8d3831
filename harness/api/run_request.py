"""What is to be run and how: one request for the command line and Python alike.

    request = RunRequest(method=("bm25", "pecan"), dataset=("pocket/musique",), limit=10)
    request.runs(note)        a Choices for each run, which harness.config.resolve settles
    request.budget()          the limits of its cost
    request.trackers(note)    where its runs are logged

The options of `harness run` and the arguments of `harness.run` are its fields, by the same names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.config.suites import chosen_suite
from harness.config.sweep import check_axes
from harness.engine.expand_command import command_runs, with_seeds
from harness.engine.recorded_stops import with_stops
from harness.engine.repeats import distinct_repeats
from harness.engine.spending_limits import Budget
from harness.errors import UserError
from harness.storage.paths import local_folder
from harness.tracking import MOST_TRACES
from harness.tracking.background import BackgroundTracking
from harness.tracking.wandb_run import address

Note = Callable[[str], None]


@dataclass(frozen=True, kw_only=True)
class RunRequest:
    """A request to run methods on data sets; the same request again resumes.

    method, dataset: names, every method on every data set; suite: a named set of both; unset: keys
    of its settings that are left out; config: files with settings; set: "method.k" -> value; sweep:
    key -> values, every combination is run; repeat: number of seeds of each run; keep_texts: None
    as the data set says; parallel: questions in flight, None for 1, or many on a GPU; traces:
    questions of a run that MLflow shows. The others are as the options of the same name of
    `harness run` (docs/command-line.md).
    """

    method: Sequence[str] = ()
    dataset: Sequence[str] = ()
    suite: str | None = None
    unset: Sequence[str] = ()
    model: str | None = None
    data: str | None = None
    documents: str | None = None
    questions: str | None = None
    columns: str | None = None
    allow_left_out: bool = False
    limit: int | None = None
    sample: int | None = None
    profile: str | None = None
    config: Sequence[str] = ()
    set: Mapping[str, Any] = field(default_factory=dict)
    seed: int | None = None
    sweep: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    repeat: int | None = None
    record_stops: int | None = None
    record_t_p: float | None = None
    deterministic: bool = False
    keep_texts: bool | None = None
    keep_prompts: bool = False
    cache: str | None = None
    parallel: int | None = None
    retry_failed: bool = False
    fail_fast: bool = False
    max_tokens: int | None = None
    max_tflops: float | None = None
    max_hours: float | None = None
    max_money: float | None = None
    price_per_gpu_hour: float | None = None
    out: str = "results"
    mlflow: str | None = None
    track: str | None = None
    traces: int = MOST_TRACES

    @classmethod
    def of(cls, *options: Any, **values: Any) -> RunRequest:
        """The request of dataclasses of options, whose fields of other names are ignored.

        values: in place of what they hold, for fields that are written otherwise there.
        """
        names = {each.name for each in fields(cls)}
        found: dict[str, Any] = {}
        for group in options:
            held = {each.name: getattr(group, each.name) for each in fields(group)}
            found |= {name: value for name, value in held.items() if name in names}
        return cls(**found | values)

    @property
    def folder(self) -> Path:
        """The results folder. Raises UserError."""
        return local_folder(self.out)

    def choices(self, method: str | None = None, dataset: str | None = None) -> Choices:
        """What all runs share, for one method on one data set. Raises UserError for an unreadable
        suite."""
        return Choices(
            method=method,
            dataset=dataset,
            data=self.data,
            documents=self.documents,
            questions=self.questions,
            columns=self.columns,
            allow_left_out=self.allow_left_out,
            model=self.model,
            profile=self.profile,
            limit=self.limit,
            sample=self.sample,
            seed=self.seed,
            sets=self.set,
            files=tuple(self.config),
            suite=chosen_suite(self.suite, self.unset),
        )

    def runs(self, note: Note) -> list[Choices]:
        """Each method on each data set at each point of the sweep with each seed.

        note: gets a sentence for what does not apply to some runs. Raises UserError.
        """
        shared, axes = with_seeds(self.choices(), check_axes(self.sweep, "--sweep"), self.repeat)
        runs = command_runs(shared, self.method, self.dataset, axes, note)
        runs = distinct_repeats(runs, self.repeat, note)
        runs = [self._with_settings(run) for run in runs]
        stops = {"record_stops": self.record_stops, "record_t_p": self.record_t_p}
        return with_stops(runs, stops, note)

    def _with_settings(self, run: Choices) -> Choices:
        """The run with the options that are settings of every run. Raises UserError."""
        settings = self.settings
        repeated = sorted(settings.keys() & run.sets.keys())
        if repeated:
            raise UserError(
                f"'{repeated[0]}' is given twice: by --set and by the flag of that name; keep one"
            )
        return replace(run, sets={**run.sets, **settings})

    @property
    def settings(self) -> dict[str, Any]:
        """The options that are settings of every run, {"keep_prompts": True}. Raises UserError."""
        if self.cache not in (None, "replies"):
            raise UserError(f"--cache {self.cache}: should be replies; indexes are always cached")
        settings: dict[str, Any] = {}
        if self.keep_texts is not None:
            settings["dataset.keep_texts"] = self.keep_texts
        if self.keep_prompts:
            settings["keep_prompts"] = True
        if self.cache:
            settings["cache"] = self.cache
        if self.deterministic:
            settings["model.deterministic"] = True
        return settings

    def budget(self, gpus_per_worker: float = 0) -> Budget:
        """The limits of the cost; the hour of a worker counts for each of its GPUs. Raises
        UserError."""
        limits = {
            "tokens": self.max_tokens,
            "tflops": self.max_tflops,
            "hours": self.max_hours,
            "money": self.max_money,
        }
        return Budget(limits, (self.price_per_gpu_hour or 0.0) * (gpus_per_worker or 1))

    def trackers(self, note: Note, shared: bool = False) -> list[BackgroundTracking]:
        """Where the runs are logged: MLflow unless it is off, and what `track` names.

        Args:
            note: Gets a sentence for what could not be logged.
            shared: Whether other processes log the same runs.

        Raises:
            ConfigError: A chosen tracker cannot be used.
            UnknownName: No such tracker.
        """
        trackers: list[BackgroundTracking] = []
        if self.mlflow != "off" or self.track is not None:
            more: dict[str, Any] = {"note": note, "shared": shared}
            trackers.append(
                BackgroundTracking(self.folder, self.mlflow, self.suite, self.traces, **more)
            )
            if self.track is not None:
                to = address(self.track)
                trackers.append(BackgroundTracking(self.folder, to, self.suite, 0, **more))
        return trackers
