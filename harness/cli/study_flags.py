"""The verb `harness study` with its studies, and their flags."""

from __future__ import annotations

from typing import Annotated

import typer

from harness.cli.flag_groups import takes_flags
from harness.cli.flags import Convention

Runs = Annotated[list[str], typer.Argument(metavar="RUN...", help="Run folders, or a folder that holds runs.")]
Score = Annotated[str | None, typer.Option(help="The score to study. Default: the data set's first.")]
Form = Annotated[
    str | None, typer.Option("--format", help="text, md, csv, latex, json, svg, pdf, png or html; default: text.")
]
Out = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="Write to a file: .svg .pdf .png .html draw; .txt .md .csv .tex .json."),
]
Data = Annotated[str | None, typer.Option(help="Where the rows are now, if they were moved.")]


def position(
    runs: Runs,
    score: Score = None,
    parts: Annotated[int, typer.Option("--parts", metavar="N", min=2, help="Equal parts of the text.")] = 3,
    form: Form = None,
    out: Out = None,
    data: Data = None,
) -> int:
    """Score by where the supporting parts stand in the text, and by how far apart they are."""
    from harness.cli import study as body

    return body.position(runs, body.Options(form, out, score, parts, data))


def trials(
    runs: Runs,
    score: Score = None,
    most: Annotated[
        int | None,
        typer.Option("--most", metavar="N", min=0, help="Maxima from 0 to N. Default: as far as was recorded."),
    ] = None,
    form: Form = None,
    out: Out = None,
    data: Data = None,
    convention: Convention = None,
) -> int:
    """Score and requests over the maximum of trials, out of runs made with --record-stops."""
    from harness.cli import study as body

    return body.trials(runs, body.TrialOptions(form, out, score, most, data, convention))


def requests(runs: Runs, score: Score = None, form: Form = None, out: Out = None) -> int:
    """Requests a question, construction of an index apart, beside the score."""
    from harness.cli import study as body

    return body.requests(runs, form, out, score)


def length(
    runs: Runs,
    score: Score = None,
    edges: Annotated[
        str | None,
        typer.Option("--edges", metavar="A,B", help="Tokens that part the buckets. Default: four about equal groups."),
    ] = None,
    form: Form = None,
    out: Out = None,
    data: Data = None,
) -> int:
    """Score, and share of questions whose answer was shown, by the length of the documents."""
    from harness.cli import length as body

    return body.length(runs, body.Options(form, out, score, edges, data))


def add_study(app: typer.Typer) -> None:
    """Register the verb."""
    study = typer.Typer(name="study", help="Studies over stored runs; no model is loaded.", no_args_is_help=True)
    for verb in (position, trials, requests, length):
        study.command(verb.__name__)(takes_flags(verb))

    @study.callback()
    def _group() -> None:
        """Studies over stored runs; no model is loaded."""

    app.add_typer(study)
