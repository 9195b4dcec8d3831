"""The verbs of two words, `harness report curves | nodes | queries | tokens`, and their flags.

join_figure(["report", "nodes", "results"])    ["report nodes", "results"]
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from harness.cli.flag_groups import takes_flags
from harness.cli.flags import Convention


@dataclass(frozen=True)
class FigureFlags:
    """Which runs a figure is made of, and how it is shown; shared by report curves, nodes, queries and tokens."""

    folder: Annotated[
        str | None, typer.Argument(metavar="[RUN_OR_FOLDER]", help="A run, or a folder of runs. Default: results.")
    ] = None
    form: Annotated[
        str | None, typer.Option("--format", help="text, md, csv, latex, json, svg, pdf, png or html; default: text.")
    ] = None
    out: Annotated[
        str | None,
        typer.Option(
            "--out", metavar="FILE", help="Write to a file: .svg .pdf .png .html draw; .txt .md .csv .tex .json."
        ),
    ] = None


def curves(
    figure: FigureFlags,
    score: Annotated[str | None, typer.Option(help="The score to draw. Default: the data set's first.")] = None,
    t_p: Annotated[
        str | None, typer.Option("--t-p", metavar="X,Y", help="Confidence thresholds. Default: 0.1 to 0.98.")
    ] = None,
    t_n: Annotated[int, typer.Option("--t-n", metavar="N", min=1, help="Stop patience from 1 to N.")] = 8,
    data: Annotated[str | None, typer.Option(help="Where the rows are now, if they were moved.")] = None,
    convention: Convention = None,
) -> int:
    """Score and TFLOPs of other stop rules, out of runs made with --record-stops."""
    from harness.cli import curves as body

    shown = (figure.form, figure.out)
    return body.main(figure.folder, body.Options(*shown, score, t_p, t_n, data, convention))


def nodes(figure: FigureFlags) -> int:
    """Nodes retrieved per question: histogram and log-normal fit."""
    from harness.cli import figures as body

    return body.nodes(figure.folder, figure.form, figure.out)


def queries(
    figure: FigureFlags,
    per_document: Annotated[
        str | None, typer.Option("--per-document", metavar="K,L", help="Queries per document. Default: 1,2,4,8.")
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option("--reference", metavar="NAME_OR_RUN", help="Break even with it. Default: full-context."),
    ] = None,
    paper: Annotated[bool, typer.Option("--paper", help="Printed numbers below the measured ones.")] = False,
    convention: Convention = None,
) -> int:
    """TFLOPs per query where queries share a document's index."""
    from harness.cli import figures as body

    shown = (figure.form, figure.out)
    return body.queries(figure.folder, body.Queries(*shown, per_document, reference, paper, convention))


def tokens(
    figure: FigureFlags,
    data: Annotated[str | None, typer.Option(help="Where the rows are now, if they were moved.")] = None,
) -> int:
    """Tokens of documents, questions and answers, by data set."""
    from harness.cli import tokens as body

    return body.main(figure.folder, figure.form, figure.out, data)


_VERBS = {"curves": curves, "nodes": nodes, "queries": queries, "tokens": tokens}
FIGURES = tuple(_VERBS)


def add_figures(app: typer.Typer) -> None:
    """Register the verbs; each is one command whose name has a space in it."""
    for name, verb in _VERBS.items():
        app.command(f"report {name}")(takes_flags(verb))


def join_figure(arguments: list[str]) -> list[str]:
    """Make the two words of a figure one, so that `harness report FOLDER` stays a verb with a folder."""
    if arguments[:1] == ["report"] and arguments[1:2] and arguments[1] in _VERBS:
        return [f"report {arguments[1]}", *arguments[2:]]
    return arguments
