"""Groups of flags as Typer reads them: what a run is made of, how it is run, how a table is shown."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer

Convention = Annotated[
    str | None,
    typer.Option(
        "--convention",
        metavar="NAME",
        help="How FLOPs are counted: all-params (default, the papers' way), full, causal or executed.",
    ),
]


@dataclass(frozen=True)
class Flags:
    """What a run is made of; shared by run, validate and show."""

    method: Annotated[
        list[str], typer.Option("--method", "-m", help="Method preset, or several: a,b,c.  (harness list methods)")
    ] = field(default_factory=list)
    dataset: Annotated[
        list[str], typer.Option("--dataset", "-d", help="Data set, or several: a,b.  (harness list datasets)")
    ] = field(default_factory=list)
    data: Annotated[str | None, typer.Option(help="A file or folder with the rows, instead of the hub.")] = None
    model: Annotated[
        str | None, typer.Option(help="Model preset, folder, or hub id owner/name. Default: the embedded pocket-llama.")
    ] = None
    limit: Annotated[int | None, typer.Option(help="Only the first N questions; a larger N continues the run.")] = None
    seed: Annotated[int | None, typer.Option(help="Seed of everything drawn at random. Default: 0.")] = None
    suite: Annotated[str | None, typer.Option(help="Methods and data sets to run.  (harness list suites)")] = None
    profile: Annotated[str | None, typer.Option(help="A set of settings.  (harness list profiles)")] = None
    config: Annotated[list[str], typer.Option("--config", help="A YAML file with settings, or a run.yaml.")] = field(
        default_factory=list
    )
    sets: Annotated[
        list[str],
        typer.Option(
            "--set", metavar="KEY=VALUE ...", help="Any setting: method.x=1 dataset.y=2 model.z=3 roles.builder=NAME."
        ),
    ] = field(default_factory=list)
    require_full: Annotated[
        bool, typer.Option("--require-full", help="Refuse the bundled sample where the data set cannot be had.")
    ] = False


@dataclass(frozen=True)
class RunFlags:
    """How a run is made and what it records beside its answers; of `harness run` alone."""

    record_stops: Annotated[
        int | None,
        typer.Option(
            "--record-stops",
            metavar="N",
            min=1,
            help="Search on behind the stop, up to N Yes (QRMeM: N updates), and record what every stop would answer.",
        ),
    ] = None
    record_t_p: Annotated[
        float | None,
        typer.Option(
            "--record-t-p", metavar="X", min=0, max=1, help="Record so for every t_p up to X. Default: the run's t_p."
        ),
    ] = None
    parallel: Annotated[
        int,
        typer.Option(
            "--parallel",
            metavar="N",
            min=1,
            help="Questions in flight at once; in bfloat16 and float16 rounding can change an answer.",
        ),
    ] = 1
    plan: Annotated[
        bool, typer.Option("--plan", help="Only say what would be run and what it would cost, as far as is known.")
    ] = False
    convention: Convention = None


@dataclass(frozen=True)
class TableFlags:
    """How a table is shown; shared by compare and report."""

    form: Annotated[str | None, typer.Option("--format", help="text, md, csv, latex or json; default: text.")] = None
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write to a file: .txt, .md, .csv, .tex or .json says the format."),
    ] = None
    columns: Annotated[
        str | None, typer.Option("--columns", metavar="A,B", help="These columns instead of those that fit a terminal.")
    ] = None
    everything: Annotated[bool, typer.Option("--all", help="Every column.")] = False
    reference: Annotated[
        str | None,
        typer.Option(
            "--reference", metavar="NAME_OR_RUN", help="A method, or a run's folder or hash. Default: full-context."
        ),
    ] = None
    convention: Convention = None
