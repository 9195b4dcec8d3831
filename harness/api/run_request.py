"""What is to be run and how: one request for the command line and Python alike.

    request = RunRequest(method=("bm25", "pecan"), dataset=("pocket/musique",), limit=10)
    request.runs(note)        a Choices for each run, which harness.config.resolve settles
    request.budget()          the limits of its cost
    request.trackers(note)    where its runs are logged

A field is an option of `harness run` and an argument of `harness.run`, by the same name. It says
all about itself here: its type, how it is typed, its help. (Type checkers want its name and type
once more, in harness/api/run_arguments.py.) What an option does is said below: `settings` has those
that are short for --set, `limits` those on cost, `choices` the rest of what is run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from harness.api.application_runs import (
    APPLICATION_SETTINGS,
    METHOD_SETTINGS,
    App,
    AppBody,
    AppFormat,
    AppHeader,
    AppKey,
    AppMap,
    as_model_settings,
    without_settings,
)
from harness.api.option import (
    LocalData,
    Out,
    RetryFailed,
    Traces,
    choice,
    execution,
    output,
    setting,
    split_names,
)
from harness.api.retriever_options import (
    Retriever,
    RetrieverBody,
    RetrieverFormat,
    RetrieverHeader,
    RetrieverKey,
    RetrieverMap,
)
from harness.config.applications import CallOptions, ChosenApplication, chosen_applications
from harness.config.layers import Choices
from harness.config.own_retriever import retriever_settings
from harness.config.suites import chosen_suite
from harness.config.sweep import check_axes, parse_axes
from harness.config.yaml_tree import parse_assignments
from harness.engine.expand_command import command_runs, with_seeds
from harness.engine.recorded_stops import with_recorded_stops
from harness.engine.repeats import distinct_repeats
from harness.engine.spending_limits import Budget
from harness.errors import UserError
from harness.storage.paths import local_folder
from harness.tracking import MAX_TRACES_PER_RUN
from harness.tracking.background import BackgroundTracking
from harness.tracking.wandb_address import address

Note = Callable[[str], None]


def _split_names(texts: Sequence[str]) -> tuple[str, ...]:
    """Split names at commas: ("a,b", "c") -> ("a", "b", "c")."""
    return tuple(split_names(texts))


def _assignments(texts: Sequence[str]) -> Mapping[str, object]:
    """Parse the values of --set: ("method.k=3",) -> {"method.k": 3}. Raises ConfigError."""
    return parse_assignments(texts, "--set ")


def _yes_or_no(text: str | None) -> bool | None:
    """Parse the value of --keep-texts: "yes" or "no"; None where it
    was not typed. Raises UserError.
    """
    if text is None:
        return None
    if text not in ("yes", "no"):
        raise UserError(f"--keep-texts {text}: should be yes or no")
    return text == "yes"


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What is run and with which settings, but for a suite."""

    method: Annotated[
        Sequence[str],
        choice(
            "--method -m NAME,...",
            "Methods (harness list methods).",
            complete="methods",
            typed=list[str],
            read=_split_names,
        ),
    ] = ()
    dataset: Annotated[
        Sequence[str],
        choice(
            "--dataset -d NAME,...",
            "Data sets (harness list datasets).",
            complete="datasets",
            typed=list[str],
            read=_split_names,
        ),
    ] = ()
    unset: Annotated[
        Sequence[str],
        setting(
            "--unset KEY,...",
            "Leave out these settings of the suite.",
            typed=list[str],
            read=_split_names,
        ),
    ] = ()
    model: Annotated[
        str | None,
        choice(
            "--model NAME",
            "Model preset (harness list models), model folder, or hub id owner/name.",
            "smollm2-135m; pocket-llama on pocket data sets",
            complete="models",
        ),
    ] = None
    data: LocalData = None
    documents: Annotated[
        str | None, choice("--documents DIR", "Folder of documents of your own; with --questions.")
    ] = None
    questions: Annotated[
        str | None,
        choice(
            "--questions FILE", "Questions about --documents: .jsonl, .json, .csv, .tsv or .yaml."
        ),
    ] = None
    columns: Annotated[
        str | None,
        choice("--columns NAME=COLUMN,...", "What --questions calls question, answer and others."),
    ] = None
    corpus: Annotated[
        str | None,
        choice(
            "--corpus DIR|URL",
            "Search in this index (harness index-corpus, serve-index) in place of each question's "
            "own documents.",
        ),
    ] = None
    allow_left_out: Annotated[
        bool,
        choice(
            "--allow-left-out",
            "Leave out questions about pages that could not be read, and in checks those without "
            "an answer, instead of counting them 0.",
        ),
    ] = False
    limit: Annotated[
        int | None,
        choice("--limit N", "Only the first N questions. A larger N continues the run.", "all"),
    ] = None
    sample: Annotated[
        int | None,
        choice(
            "--sample N",
            "About N questions, drawn with the shares of each kind. A larger N continues the run.",
        ),
    ] = None
    profile: Annotated[
        str | None,
        setting(
            "--profile NAME",
            "A named set of settings (harness list profiles).",
            complete="profiles",
        ),
    ] = None
    config: Annotated[
        Sequence[str],
        setting(
            "--config FILE", "YAML file with settings, or a run.yaml.", typed=list[str], read=tuple
        ),
    ] = ()
    set: Annotated[
        Mapping[str, object],
        setting(
            "--set KEY=VALUE ...",
            "Any setting: method.x=1 dataset.y=2 datasets.nq.z=3 roles.builder=NAME.",
            typed=list[str],
            read=_assignments,
        ),
    ] = field(default_factory=dict)
    seed: Annotated[int | None, setting("--seed N", "Random seed.", "0")] = None


@dataclass(frozen=True, kw_only=True)
class Selection(RunOptions):
    """What is run and with which settings."""

    suite: Annotated[
        str | None,
        choice(
            "--suite NAME",
            "A named set of methods and data sets (harness list suites).",
            complete="suites",
        ),
    ] = None
    app: App = ()
    app_format: AppFormat = None
    app_map: AppMap = field(default_factory=dict)
    app_body: AppBody = None
    app_header: AppHeader = field(default_factory=dict)
    app_key: AppKey = None
    retriever: Retriever = None
    retriever_format: RetrieverFormat = None
    retriever_map: RetrieverMap = field(default_factory=dict)
    retriever_body: RetrieverBody = None
    retriever_header: RetrieverHeader = field(default_factory=dict)
    retriever_key: RetrieverKey = None
    system_prompt: Annotated[
        str | None,
        setting(
            "--system-prompt FILE",
            "Text before each request for an answer, as its system turn; several: --sweep "
            "system_prompt=A.txt,B.txt.",
        ),
    ] = None
    answer_schema: Annotated[
        str | None,
        setting(
            "--answer-schema FILE.json",
            "JSON schema of a reply; its property dataset.answer_field is scored, a reply that "
            "does not follow it scores 0.",
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Handling:
    """How runs are executed, what is recorded of them, and the limits of their cost."""

    record_stops: Annotated[
        int | None,
        setting(
            "--record-stops N",
            "Continue past the stop, up to N positive probes (QRMeM: N updates), and record the "
            "answer at each.",
            min=1,
        ),
    ] = None
    record_t_p: Annotated[
        float | None,
        setting(
            "--record-t-p X",
            "Also record stops for every threshold t_p up to X.",
            "the run's t_p",
            min=0,
            max=1,
        ),
    ] = None
    parallel: Annotated[
        int | None,
        execution(
            "--parallel N",
            "Questions to run at a time: by default 1, on a GPU as many as fit, up to 64. Rounding "
            "can then change an answer, in bfloat16 and float16 above all.",
            min=1,
            max=4096,
        ),
    ] = None
    deterministic: Annotated[
        bool,
        execution(
            "--deterministic",
            "Give bit-identical answers at any --parallel and load of the machine.",
        ),
    ] = False
    retry_failed: RetryFailed = False
    fail_fast: Annotated[
        bool, execution("--fail-fast", "Stop at the first question that fails.")
    ] = False
    cache: Annotated[
        str | None,
        execution(
            "--cache replies", "Reuse stored replies to identical requests to the same model."
        ),
    ] = None
    out: Out = "results"
    keep_texts: Annotated[
        bool | None,
        output(
            "--keep-texts yes|no",
            "Store questions, gold answers and the texts that were shown; no for data whose "
            "licence forbids it.",
            "yes",
            typed=str | None,
            read=_yes_or_no,
        ),
    ] = None
    keep_prompts: Annotated[
        bool,
        output("--keep-prompts", "Store every request to a model as it was sent, with its reply."),
    ] = False
    mlflow: Annotated[
        str | None,
        output(
            "--mlflow URI|off",
            "MLflow server or database to log to.",
            "$MLFLOW_TRACKING_URI, else mlflow.db in the results folder",
        ),
    ] = None
    track: Annotated[
        str | None,
        output("--track wandb[:PROJECT]", "Log to Weights & Biases too; WANDB_MODE=offline works."),
    ] = None
    traces: Traces = MAX_TRACES_PER_RUN
    price_per_gpu_hour: Annotated[
        float | None,
        execution("--price-per-gpu-hour P", "With --max-money: count hours as money too.", min=0),
    ] = None
    max_tokens: Annotated[
        int | None,
        execution(
            "--max-tokens N", "Begin no question once all runs together took N tokens.", min=1
        ),
    ] = None
    max_tflops: Annotated[
        float | None, execution("--max-tflops X", "The same for TFLOPs.", min=0)
    ] = None
    max_hours: Annotated[
        float | None,
        execution(
            "--max-hours H",
            "The same for the time of this command and of earlier ones, unless killed.",
            min=0,
        ),
    ] = None
    max_money: Annotated[
        float | None,
        execution(
            "--max-money M",
            "The same for requests at model.price and hours at --price-per-gpu-hour.",
            min=0,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class Repetition:
    """How often each run is repeated, and with which values."""

    sweep: Annotated[
        Mapping[str, Sequence[object]],
        setting(
            "--sweep KEY=A,B,... ...",
            "Run each combination of these values; a key is one that --set takes.",
            typed=list[str],
            read=parse_axes,
        ),
    ] = field(default_factory=dict)
    repeat: Annotated[
        int | None,
        setting(
            "--repeat N",
            "Repeat every run with N seeds, from --seed on (harness report --average-seeds).",
            min=1,
            max=10_000,
        ),
    ] = None


@dataclass(frozen=True, kw_only=True)
class RunRequest(Repetition, Handling, Selection):
    """A request to run methods on data sets; the same request again resumes.

    Every method, and every application, is run on every data set, at every point of the sweep, with
    each seed.
    """

    @classmethod
    def from_groups(cls, *groups: RunOptions | Handling | Repetition) -> RunRequest:
        """Make a request of groups of its fields, as the command line has
        them; other fields keep defaults.
        """
        values: dict[str, Any] = {}
        for group in groups:
            for each in fields(group):
                values[each.name] = getattr(group, each.name)
        return cls(**values)

    @property
    def folder(self) -> Path:
        """The results folder. Raises UserError for an address such as s3://..."""
        return local_folder(self.out)

    def choices(self, method: str | None = None, dataset: str | None = None) -> Choices:
        """The choices that all runs of the request share, for one method on one data set.

        Also reads the suite. Raises UserError where that cannot be read.
        """
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
            corpus=self.corpus,
            seed=self.seed,
            sets=self.set,
            files=tuple(self.config),
            suite=chosen_suite(self.suite, self.unset),
        )

    def runs(self, note: Note) -> list[Choices]:
        """The choices of each run: each method and application on each data set, at each point of
        the sweep, with each seed.

        Raises UserError. `note` is called with a sentence for what does not apply to some runs.
        """
        shared, axes = with_seeds(self.choices(), check_axes(self.sweep, "--sweep"), self.repeat)
        applications = self.applications
        retriever = self.retriever_settings
        has_methods = bool(self.method or self.suite or not applications)
        runs: list[Choices] = []
        if has_methods:
            sets = without_settings(shared.sets, APPLICATION_SETTINGS)
            choices_of_methods = replace(shared, sets=sets, retriever=retriever)
            runs += command_runs(choices_of_methods, self.method, self.dataset, axes, note)
            # Settings of methods, and axes of them, are for the methods alone.
            shared = replace(shared, sets=without_settings(shared.sets, *METHOD_SETTINGS))
            axes = without_settings(axes, *METHOD_SETTINGS)
        settings_of_applications = as_model_settings(shared.sets)
        for app in applications:
            choices_of_app = replace(shared, model=None, app=app, sets=settings_of_applications)
            runs += command_runs(choices_of_app, [app.name], self.dataset, axes, note)
        runs = distinct_repeats(runs, self.repeat, note)
        runs = [self._with_settings(run) for run in runs]
        stop_options = {"record_stops": self.record_stops, "record_t_p": self.record_t_p}
        return with_recorded_stops(runs, stop_options, note)

    @property
    def applications(self) -> list[ChosenApplication]:
        """The applications that --app names, with how they are called;
        [] for none. Raises UserError.
        """
        options = CallOptions(
            "--app",
            map=self.app_map,
            format=self.app_format,
            body=self.app_body,
            headers=self.app_header,
            key=self.app_key,
        )
        chosen_apps = chosen_applications(self.app, options)
        suite = chosen_suite(self.suite, self.unset)
        if chosen_apps and suite is not None:
            datasets = ",".join(suite.datasets) or "NAME"
            raise UserError(
                "--app cannot be run with --suite, whose settings are those of methods; run it on "
                f"the same data sets in a command of its own: --dataset {datasets}"
            )
        return chosen_apps

    @property
    def retriever_settings(self) -> Mapping[str, object] | None:
        """The settings of the user's own retriever (--retriever); None for none. Raises
        UserError.
        """
        options = CallOptions(
            "--retriever",
            map=self.retriever_map,
            format=self.retriever_format,
            body=self.retriever_body,
            headers=self.retriever_header,
            key=self.retriever_key,
        )
        settings = retriever_settings(self.retriever, options)
        if settings is not None and self.app and not self.method and not self.suite:
            raise UserError("--retriever is for methods, and --app has its own; name a --method")
        if settings is not None and self.corpus is not None:
            raise UserError("--corpus and --retriever both say where to search; give one of them")
        return settings

    def _with_settings(self, run: Choices) -> Choices:
        """A copy of a run with the options that are settings of every run, in its `sets`.

        An application that is run beside methods does not get settings of methods.

        Raises UserError where --set sets one of them too.
        """
        settings = self.settings
        if run.app is not None and (self.method or self.suite):
            settings = without_settings(settings, *METHOD_SETTINGS)
        repeated = sorted(settings.keys() & run.sets.keys())
        if repeated:
            raise UserError(
                f"'{repeated[0]}' is given twice: by --set and by the flag of that name; keep one"
            )
        return replace(run, sets={**run.sets, **settings})

    @property
    def settings(self) -> dict[str, object]:
        """The options that are settings of every run, as --set would
        name them: {"keep_prompts": True}.

        Raises UserError.
        """
        if self.cache not in (None, "replies"):
            raise UserError(f"--cache {self.cache}: should be replies; indexes are always cached")
        settings: dict[str, object] = {}
        if self.keep_texts is not None:
            settings["dataset.keep_texts"] = self.keep_texts
        if self.keep_prompts:
            settings["keep_prompts"] = True
        if self.cache:
            settings["cache"] = self.cache
        if self.system_prompt is not None:
            settings["system_prompt"] = self.system_prompt
        if self.answer_schema is not None:
            settings["dataset.answer_schema"] = self.answer_schema
        if self.deterministic:
            settings["model.deterministic"] = True
        return settings

    def budget(self, gpus_per_worker: float = 0) -> Budget:
        """The limits of the cost of all runs together.

        Args:
            gpus_per_worker: GPUs of a worker; its hour is paid for each of them. 0: one is paid.
        """
        price_per_gpu = self.price_per_gpu_hour or 0.0
        gpus = gpus_per_worker or 1
        return Budget(self.limits, price_per_gpu * gpus)

    @property
    def limits(self) -> dict[str, float]:
        """The limits of cost that are set: {"tokens": 1000}."""
        limits = {
            "tokens": self.max_tokens,
            "tflops": self.max_tflops,
            "hours": self.max_hours,
            "money": self.max_money,
        }
        return {name: limit for name, limit in limits.items() if limit is not None}

    def trackers(self, note: Note, shared: bool = False) -> list[BackgroundTracking]:
        """Make what logs the runs: to MLflow, where one that is off logs nothing, and to what
        `track` names, which takes no traces; [] where neither is to log.

        Args:
            note: Called with a sentence for what could not be logged.
            shared: Whether other processes log the same runs.

        Raises:
            ConfigError: A chosen tracker cannot be used.
            UnknownName: No such tracker.
        """
        if self.mlflow == "off" and self.track is None:
            return []
        make_tracker = partial(
            BackgroundTracking, self.folder, suite=self.suite, note=note, shared=shared
        )
        trackers = [make_tracker(self.mlflow, traces=self.traces)]
        if self.track is not None:
            trackers.append(make_tracker(address(self.track), traces=0))
        return trackers
