"""Options that several commands share; those of a run are fields of its request
(harness/api/run_request.py)."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.api.option import LocalData as LocalData
from harness.api.option import Out as Out
from harness.api.option import RetryFailed as RetryFailed
from harness.api.option import Traces as Traces
from harness.api.option import choice, execution, output, setting
from harness.api.option import split_names as split_names

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
Quiet = Annotated[
    bool, output("--quiet -q", "Print no progress; warnings, errors and results are printed.")
]
Json = Annotated[bool, output("--json", "Print JSON instead of text.")]
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
RowsToCompare = Annotated[
    str | None,
    setting(
        "--data PATH",
        "The data set's rows, to compare questions, gold answers and passages with.",
    ),
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
TrainingOut = Annotated[str, output("--out DIR", "Training folder; training resumes from it.")]
TrainingMlflow = Annotated[
    str | None, output("--mlflow URI|off", "MLflow URI for training metrics.", "off")
]
Device = Annotated[str, execution("--device auto|cpu|cuda", "Device to train on.")]
Skills = Annotated[list[str], choice("--skill NAME,...", "Only these skills; may be repeated.")]
