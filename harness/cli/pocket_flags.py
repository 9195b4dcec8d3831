"""The flags of `harness pocket train` as Typer reads them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import typer


@dataclass(frozen=True)
class TrainFlags:
    """What is learnt, from where, and for how long."""

    curriculum: Annotated[
        str | None, typer.Option("--curriculum", metavar="FILE", help="Stages of recipes. Default: the project's own.")
    ] = None
    begin: Annotated[
        str | None, typer.Option("--from", metavar="FOLDER", help="Begin from the weights of this model folder.")
    ] = None
    seed: Annotated[int, typer.Option(help="Seed of the first weights and of every text.")] = 0
    steps: Annotated[
        int | None, typer.Option(min=1, help="Stop after so many steps in all. Default: when all is learnt.")
    ] = None
    device: Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where to compute.")] = "auto"
    skill: Annotated[
        list[str], typer.Option("--skill", metavar="NAME", help="Only this skill; again, or a,b, for more.")
    ] = field(default_factory=list)
    mlflow: Annotated[
        str | None, typer.Option(metavar="URI|off", help="An MLflow store that is told how it goes. Default: none.")
    ] = None
