"""Options that several commands share: single ones, and groups of them as dataclasses (command.py)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.cli.command import EXECUTION, OUTPUT, SETTINGS, WHAT
from harness.config.yaml_tree import assignments
from harness.errors import ConfigError

if TYPE_CHECKING:
    from harness.config.layers import Choices


def presets(kind: str) -> Any:
    """What the shell completes: the names of presets."""

    def complete(incomplete: str) -> list[str]:
        from harness.config.presets import names

        return [name for name in names(kind) if name.startswith(incomplete)]

    return complete


Runs = Annotated[list[str], typer.Argument(metavar="RUN", help="Run folders, or folders that hold runs.")]
RunsFolder = Annotated[
    str | None,
    typer.Argument(metavar="RUNS", help="A run folder, or a folder that holds runs.", show_default="results"),
]
Json = Annotated[bool, typer.Option("--json", rich_help_panel=OUTPUT, help="Print JSON instead of text.")]
Out = Annotated[str, typer.Option("--out", metavar="DIR", rich_help_panel=OUTPUT, help="Folder for the results.")]
Convention = Annotated[
    str | None,
    typer.Option(
        "--convention",
        metavar="NAME",
        rich_help_panel=OUTPUT,
        help="How FLOPs are counted: all-params (as in the papers), full, causal or executed.",
        show_default="all-params",
    ),
]
Score = Annotated[
    str | None,
    typer.Option(
        "--score", metavar="NAME", rich_help_panel=SETTINGS, help="Score to use.", show_default="the data set's first"
    ),
]
MovedData = Annotated[
    str | None,
    typer.Option("--data", metavar="PATH", rich_help_panel=SETTINGS, help="Where the data set's rows are now."),
]
MlflowUri = Annotated[
    str | None,
    typer.Option(
        "--uri",
        metavar="URI",
        help="MLflow server or database.",
        show_default="$MLFLOW_TRACKING_URI, else mlflow.db in the results folder",
    ),
]
TrainingOut = Annotated[
    str, typer.Option("--out", metavar="DIR", rich_help_panel=OUTPUT, help="Training folder; training resumes from it.")
]
TrainingMlflow = Annotated[
    str | None,
    typer.Option(
        "--mlflow",
        metavar="URI|off",
        rich_help_panel=OUTPUT,
        help="MLflow URI for training metrics.",
        show_default="off",
    ),
]
Device = Annotated[
    str,
    typer.Option("--device", metavar="auto|cpu|cuda", rich_help_panel=EXECUTION, help="Device to train on."),
]
Skills = Annotated[
    list[str],
    typer.Option("--skill", metavar="NAME,...", rich_help_panel=WHAT, help="Only these skills; may be repeated."),
]


@dataclass(frozen=True)
class Selection:
    """What to run and with which settings; shared by run, validate and show."""

    method: Annotated[
        list[str],
        typer.Option(
            "--method",
            "-m",
            metavar="NAME,...",
            rich_help_panel=WHAT,
            help="Methods (harness list methods).",
            autocompletion=presets("methods"),
        ),
    ] = field(default_factory=list)
    dataset: Annotated[
        list[str],
        typer.Option(
            "--dataset",
            "-d",
            metavar="NAME,...",
            rich_help_panel=WHAT,
            help="Data sets (harness list datasets).",
            autocompletion=presets("datasets"),
        ),
    ] = field(default_factory=list)
    suite: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=WHAT,
            help="A named set of methods and data sets (harness list suites).",
            autocompletion=presets("suites"),
        ),
    ] = None
    model: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=WHAT,
            help="Model preset (harness list models), model folder, or hub id owner/name.",
            show_default="pocket-llama, the embedded model",
            autocompletion=presets("models"),
        ),
    ] = None
    data: Annotated[
        str | None,
        typer.Option(metavar="PATH", rich_help_panel=WHAT, help="Local file or folder to load instead of the hub."),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            rich_help_panel=WHAT,
            help="Only the first N questions. A larger N continues the run.",
            show_default="all",
        ),
    ] = None
    require_full: Annotated[
        bool,
        typer.Option(
            "--require-full",
            rich_help_panel=WHAT,
            help="Fail where the data set cannot be loaded, instead of using the bundled sample.",
        ),
    ] = False
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            rich_help_panel=SETTINGS,
            help="A named set of settings (harness list profiles).",
            autocompletion=presets("profiles"),
        ),
    ] = None
    config: Annotated[
        list[str],
        typer.Option(
            "--config", metavar="FILE", rich_help_panel=SETTINGS, help="YAML file with settings, or a run.yaml."
        ),
    ] = field(default_factory=list)
    sets: Annotated[
        list[str],
        typer.Option(
            "--set",
            metavar="KEY=VALUE ...",
            rich_help_panel=SETTINGS,
            help="Any setting: method.x=1 dataset.y=2 model.z=3 roles.builder=NAME.",
        ),
    ] = field(default_factory=list)
    seed: Annotated[
        int | None,
        typer.Option(metavar="N", rich_help_panel=SETTINGS, help="Random seed.", show_default="0"),
    ] = None

    def choices(self, method: str | None = None, dataset: str | None = None) -> Choices:
        """The selection as Choices, for one method and one data set. Raises UserError for an unreadable suite."""
        from harness.config import suites
        from harness.config.layers import Choices

        return Choices(
            method=method,
            dataset=dataset,
            data=self.data,
            model=self.model,
            profile=self.profile,
            limit=self.limit,
            seed=self.seed,
            sets=sets_of(self.sets),
            files=tuple(self.config),
            require_full=self.require_full,
            suite=None if self.suite is None else suites.read(self.suite),
        )


@dataclass(frozen=True)
class TableOutput:
    """How a table of runs is shown; shared by compare and report."""

    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            rich_help_panel=OUTPUT,
            help="text, md, csv, latex or json.",
            show_default="by the ending of --out, else text",
        ),
    ] = None
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="FILE", rich_help_panel=OUTPUT, help="Write to a file: .txt, .md, .csv, .tex or .json."
        ),
    ] = None
    columns: Annotated[
        str | None,
        typer.Option(
            "--columns",
            metavar="NAME,...",
            rich_help_panel=OUTPUT,
            help="Columns to show.",
            show_default="those that fit a terminal",
        ),
    ] = None
    everything: Annotated[bool, typer.Option("--all", rich_help_panel=OUTPUT, help="Show every column.")] = False
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference",
            metavar="NAME",
            rich_help_panel=SETTINGS,
            help="Compare with this method, run folder or run hash.",
            show_default="full-context",
        ),
    ] = None
    convention: Convention = None


@dataclass(frozen=True)
class FigureOutput:
    """How a figure is shown; shared by `harness report` figures and studies."""

    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="NAME",
            rich_help_panel=OUTPUT,
            help="text, md, csv, latex, json, svg or html.",
            show_default="by the ending of --out, else text",
        ),
    ] = None
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            metavar="FILE",
            rich_help_panel=OUTPUT,
            help="Write to a file: .svg and .html hold the figure; .txt, .md, .csv, .tex and .json its numbers.",
        ),
    ] = None


def split(names: Iterable[str]) -> list[str]:
    """["a,b", "c"] -> ["a", "b", "c"], each once, in order."""
    found = [part.strip() for name in names for part in name.split(",")]
    return list(dict.fromkeys(name for name in found if name))


def sets_of(texts: Iterable[str]) -> dict[str, Any]:
    """["method.k=3"] -> {"method.k": Raw("3")}. Raises ConfigError for what is no assignment, or given twice."""
    found, problems = assignments(texts, "--set ")
    if problems:
        raise ConfigError(problems)
    return found
