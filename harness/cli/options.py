"""Options that several commands share: single ones, and groups of them as dataclasses
(command.py)."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Annotated

import typer

from harness.cli.command import choice, execution, output, setting

RESULTS = "results"
"""The folder of runs that is written, and read, where none is named."""
Runs = Annotated[
    list[str], typer.Argument(metavar="RUN", help="Run folders, or folders that hold runs.")
]
RunsFolders = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="RUNS", help="Run folders, or folders that hold runs.", show_default=RESULTS
    ),
]
LocalData = Annotated[
    str | None, choice("--data PATH", "Local file or folder to load instead of the hub.")
]
RetryFailed = Annotated[bool, execution("--retry-failed", "Run the questions that failed again.")]
Quiet = Annotated[
    bool, output("--quiet -q", "Print no progress; warnings, errors and results are printed.")
]
Json = Annotated[bool, output("--json", "Print JSON instead of text.")]
Out = Annotated[str, output("--out DIR", "Folder for the results.")]
Convention = Annotated[
    str | None,
    output(
        "--convention NAME",
        "How FLOPs are counted: all-params (as in the papers), full, causal or executed.",
        "all-params",
    ),
]
Score = Annotated[str | None, setting("--score NAME", "Score to use.", "the data set's first")]
Common = Annotated[
    bool,
    setting("--common", "Reduce runs of a data set to the questions that all of them were asked."),
]
AllCode = Annotated[
    bool, setting("--all-code", "Show runs too whose code or prompts were edited and run again.")
]
MovedData = Annotated[str | None, setting("--data PATH", "Where the data set's rows are now.")]
MlflowUri = Annotated[
    str | None,
    setting(
        "--uri URI",
        "MLflow server or database; wandb:PROJECT for Weights & Biases.",
        "$MLFLOW_TRACKING_URI, else mlflow.db in the results folder",
    ),
]
Traces = Annotated[
    int, output("--traces N", "Questions of a run that MLflow shows as traces, 0 for none.", min=0)
]
TrainingOut = Annotated[str, output("--out DIR", "Training folder; training resumes from it.")]
TrainingMlflow = Annotated[
    str | None, output("--mlflow URI|off", "MLflow URI for training metrics.", "off")
]
Device = Annotated[str, execution("--device auto|cpu|cuda", "Device to train on.")]
Skills = Annotated[list[str], choice("--skill NAME,...", "Only these skills; may be repeated.")]
Sweep = Annotated[
    list[str] | None,
    setting(
        "--sweep KEY=A,B,... ...",
        "Run each combination of these values; a key is one that --set takes.",
    ),
]
Repeat = Annotated[
    int | None,
    setting(
        "--repeat N",
        "Repeat every run with N seeds, from --seed on (harness report --average-seeds).",
        min=1,
        max=10_000,
    ),
]


@dataclass(frozen=True)
class RunOptions:
    """Which runs of a suite are executed, and with which settings; shared by run, validate, show
    and reproduce."""

    method: Annotated[
        list[str],
        choice("--method -m NAME,...", "Methods (harness list methods).", complete="methods"),
    ] = field(default_factory=list)
    dataset: Annotated[
        list[str],
        choice("--dataset -d NAME,...", "Data sets (harness list datasets).", complete="datasets"),
    ] = field(default_factory=list)
    unset: Annotated[
        list[str], setting("--unset KEY,...", "Leave out these settings of the suite.")
    ] = field(default_factory=list)
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
        list[str], setting("--config FILE", "YAML file with settings, or a run.yaml.")
    ] = field(default_factory=list)
    sets: Annotated[
        list[str],
        setting(
            "--set KEY=VALUE ...",
            "Any setting: method.x=1 dataset.y=2 datasets.nq.z=3 roles.builder=NAME.",
        ),
    ] = field(default_factory=list)
    seed: Annotated[int | None, setting("--seed N", "Random seed.", "0")] = None


@dataclass(frozen=True)
class Selection(RunOptions):
    """What to run and with which settings; shared by run, validate and show."""

    suite: Annotated[
        str | None,
        choice(
            "--suite NAME",
            "A named set of methods and data sets (harness list suites).",
            complete="suites",
        ),
    ] = None


def split_names(names: Iterable[str]) -> list[str]:
    """["a,b", 'c,"d,e"'] -> ["a", "b", "c", "d,e"], each once, in order."""
    rows = csv.reader([line for name in names for line in name.splitlines()], skipinitialspace=True)
    parts = [part.strip() for row in rows for part in row]
    return list(dict.fromkeys(filter(None, parts)))
