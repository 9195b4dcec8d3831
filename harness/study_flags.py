"""The verb `harness study` with its studies, and their flags."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.verbs import takes_flags

__all__ = ["add_study"]


def position(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, or a folder that holds runs.")],
    score: Annotated[str | None, typer.Option(help="The score to study. Default: the data set's first.")] = None,
    parts: Annotated[int, typer.Option("--parts", metavar="N", min=2, help="Equal parts of the text.")] = 3,
    form: Annotated[
        str | None, typer.Option("--format", help="text, md, csv, latex, json, svg or html; default: text.")
    ] = None,
    out: Annotated[
        str | None,
        typer.Option("--out", metavar="FILE", help="Write to a file: .svg or .html draws; .txt .md .csv .tex .json."),
    ] = None,
    data: Annotated[str | None, typer.Option(help="Where the rows are now, if they were moved.")] = None,
) -> int:
    """Score by where the supporting parts stand in the text, and by how far apart they are."""
    from harness.commands import study as body

    return body.position(runs, body.Options(form, out, score, parts, data))


def add_study(app: typer.Typer) -> None:
    """Register the verb."""
    study = typer.Typer(name="study", help="Studies over stored runs; no model is loaded.", no_args_is_help=True)
    study.command("position")(takes_flags(position))

    @study.callback()
    def _group() -> None:
        """Studies over stored runs; no model is loaded."""

    app.add_typer(study)
