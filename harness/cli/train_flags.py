"""The verb `harness train` and its flags."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.flag_groups import takes_flags


@dataclass(frozen=True)
class AdapterFlags:
    """What is trained on, how, and how much."""

    model: Annotated[
        str | None, typer.Option(help="The base: preset, folder, or hub id. Default: the embedded pocket-llama.")
    ] = None
    teacher: Annotated[
        str | None, typer.Option(metavar="MODEL", help="Who labels --dataset. Without: the synthetic world's scenes.")
    ] = None
    dataset: Annotated[str | None, typer.Option("--dataset", "-d", help="What the teacher labels.")] = None
    data: Annotated[str | None, typer.Option(help="A file or folder with the rows, instead of the hub.")] = None
    profile: Annotated[
        str | None, typer.Option(help="paper or pocket. Default: pocket for an embedded base, else paper.")
    ] = None
    config: Annotated[str | None, typer.Option("--config", metavar="FILE", help="Settings of one's own (YAML).")] = None
    sets: Annotated[
        list[str],
        typer.Option("--set", metavar="KEY=VALUE ...", help="rank=8 selection.rate=1e-3 model.dtype=bfloat16 ..."),
    ] = field(default_factory=list)
    task: Annotated[
        list[str], typer.Option("--task", metavar="NAME", help="Only this adapter; again, or a,b, for more.")
    ] = field(default_factory=list)
    seed: Annotated[int, typer.Option(help="Seed of the adapters, of the order and of every text.")] = 0
    steps: Annotated[int | None, typer.Option(min=1, help="Stop after so many steps in all.")] = None
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")] = "auto"
    mlflow: Annotated[
        str | None, typer.Option(metavar="URI|off", help="An MLflow store that is told how it goes. Default: none.")
    ] = None


def train(
    method: Annotated[str, typer.Argument(metavar="METHOD", help="A method with adapters, for instance longrefiner.")],
    flags: AdapterFlags,
    out: Annotated[str, typer.Option("--out", metavar="DIR", help="Where the training is kept; it resumes there.")],
    eval_only: Annotated[bool, typer.Option("--eval", help="Only measure what DIR holds, and write its card.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the measures as JSON.")] = False,
) -> int:
    """Train a method's adapters and measure them before and after; the same command goes on where it stopped."""
    from harness.cli import train as body
    from harness.cli import train_reader

    if method == train_reader.NAME:
        return train_reader.main(flags, Path(out), eval_only)
    return body.main(method, flags, body.Asked(Path(out), eval_only, json))


def add_train(app: typer.Typer) -> None:
    """Register the verb."""
    app.command("train")(takes_flags(train))
