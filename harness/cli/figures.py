"""`harness report nodes | queries`, and what all figures share: the runs they are made of, and where they go.

harness report nodes results --out nodes.svg
harness report queries results --per-document 1,2,4,8,100 --paper
harness report queries results --format csv
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.cli.common import split
from harness.cli.output import ENDINGS, format_of, write
from harness.cost.flops import DEFAULT
from harness.errors import UnknownName, UserError

if TYPE_CHECKING:
    import pandas as pd

    from harness.storage.run_folder import StoredRun
    from reports.figures.plot import Panel


T = TypeVar("T", int, float)
R = TypeVar("R")
_DRAWN = {".svg": "svg", ".pdf": "pdf", ".png": "png", ".html": "html", ".htm": "html"}


@dataclass(frozen=True)
class Figure:
    """A figure before it is written. whole: for csv and json; sections: titled tables for people; panels: drawn."""

    title: str
    whole: pd.DataFrame
    sections: Sequence[tuple[str, pd.DataFrame]]
    panels: Sequence[Panel] = ()


@dataclass(frozen=True)
class Queries:
    """How `report queries` is shown. per_document: "1,2,4,8"; paper: printed numbers below the
    measured ones; convention: how FLOPs are counted.
    """

    form: str | None = None
    out: str | None = None
    per_document: str | None = None
    reference: str | None = None
    paper: bool = False
    convention: str | None = None


def form_of(form: str | None, out: str | None, *, drawn: bool = True) -> str:
    """The format asked for: svg, pdf, png, html, or one of reports.tables.FORMATS. drawn: whether there is a drawing.

    Raises UnknownName for another one, UserError for an ending that tells none or a drawing that there is not.
    """
    chosen = form if form is not None else _DRAWN.get(Path(out).suffix.lower() if out is not None else "")
    if chosen in ("svg", "pdf", "png", "html"):
        if chosen != "html" and not drawn:
            raise UserError("this is a table and has no drawing; use --format text, md, csv, latex, json or html")
        if chosen in ("pdf", "png") and out is None:
            raise UserError(f"--format {chosen} needs a file to write to; add --out FILE.{chosen}")
        return chosen
    if form is not None and form not in ("text", "md", "markdown", "csv", "latex", "json"):
        raise UnknownName("format", form, ("text", "md", "csv", "latex", "json", "svg", "pdf", "png", "html"))
    if form is None and out is not None and Path(out).suffix.lower() not in ENDINGS:
        known = ", ".join([*ENDINGS, *((".svg", ".pdf", ".png") if drawn else ()), ".html"])
        raise UserError(f"no format ends in '{Path(out).suffix}' ('{out}'); use {known}, or say it with --format")
    return format_of(form, out)


def folder_of(folder: str | None, figure: str) -> str:
    """The folder named, or the default one. Raises UserError where a folder has the figure's name and none was named:
    `harness report nodes` may then mean either."""
    if folder is not None:
        return folder
    if Path(figure).is_dir():
        raise UserError(
            f"'{figure}' is a figure and a folder here; its tables: harness report ./{figure}, or name the folder of "
            f"runs: harness report {figure} RUNS_DIR"
        )
    return "results"


def stored(folder: str) -> tuple[list[StoredRun], int]:
    """Every run at or below `folder`, and how many damaged ones had to be left out. Raises as `harness report`."""
    from harness.cli.report import stored as read

    return read(folder)


def replayed(runs: Sequence[StoredRun], read: Callable[[StoredRun], R | None]) -> list[tuple[StoredRun, R]]:
    """Each run with what `read` makes of its stop rule, where it has one; one whose method cannot be loaded is left out
    with a warning.
    """
    found = []
    for run in runs:
        try:
            made = read(run)
        except UserError as error:
            sys.stderr.write(f"warning: left out: {run.path}: {error}\n")
            continue
        if made:
            found.append((run, made))
    return found


def show(figure: Figure, form: str, out: str | None) -> None:
    """Print or write a figure. Raises SaveError, and UserError for a drawing of nothing."""
    from reports.figures.plot import draw
    from reports.figures.sheet import formatted, page
    from reports.render import render, render_sections

    if form in ("svg", "pdf", "png"):
        if not figure.panels:
            raise UserError(f"nothing here can be drawn; the table says why: leave out --format and --out FILE.{form}")
        write(draw(figure.panels, figure.title, form), out)
        return
    if form in ("csv", "json"):
        write(render(figure.whole, form), out)
        return
    tables = [(title, formatted(frame)) for title, frame in figure.sections]
    if form == "html":
        write(page(figure.title, draw(figure.panels, figure.title) if figure.panels else None, tables), out)
    else:
        write(render_sections(tables, form), out)


def nodes(folder: str | None, form: str | None, out: str | None) -> int:
    """Nodes retrieved per question; 3 when a damaged run was left out. Raises UserError or SaveError."""
    form = form_of(form, out)
    runs, damaged = stored(folder_of(folder, "nodes"))
    from reports.figures.nodes import frame, panels

    table, fits = frame(runs)
    figure = Figure("Nodes retrieved per question", table, sections_of(table), panels(runs, fits))
    show(figure, form, out)
    return 3 if damaged else 0


def queries(folder: str | None, options: Queries) -> int:
    """TFLOPs per query with a shared index; 3 when a damaged run was left out. Raises UserError or SaveError."""
    form = form_of(options.form, options.out)
    per_document = _counts(options.per_document)
    runs, damaged = stored(folder_of(folder, "queries"))
    from reports.figures.queries import PER_DOCUMENT, frame, panels
    from reports.tables import REFERENCE

    chosen = per_document or PER_DOCUMENT
    table = frame(runs, chosen, options.reference or REFERENCE, options.convention or DEFAULT)
    sections = sections_of(table)
    whole = table
    if options.paper:
        whole, more = _printed(runs, options.convention)
        sections += more
    figure = Figure("TFLOPs per query", whole, sections, panels(table, chosen))
    show(figure, form, options.out)
    return 3 if damaged else 0


def sections_of(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """One table a data set, with what is the same for all rows in its title."""
    from reports.columns import sections

    return [(section.title, section.frame) for section in sections(table, ())]


def _printed(runs: list[StoredRun], convention: str | None) -> tuple[pd.DataFrame, list[tuple[str, pd.DataFrame]]]:
    """The papers' TFLOPs beside the runs', and as sections. Raises UserError where no run measures a printed one."""
    from reports.columns import shortened
    from reports.paper import frame
    from reports.paper.printed import load

    found = frame(runs, [value for value in load() if value.metric.phases], convention=convention)
    if found.empty:
        raise UserError("none of these runs measures TFLOPs that a paper prints; leave out --paper")
    parts = sections_of(shortened(found, "row", 52))  # so long that the number of queries stays
    return found, [(f"printed and measured: {title}", part) for title, part in parts]


def _counts(text: str | None) -> tuple[int, ...] | None:
    """ "1,2,4" -> (1, 2, 4). Raises UserError for what is no number of queries."""
    if text is None:
        return None
    return tuple(dict.fromkeys(numbers(text, "--per-document", int, lambda k: k >= 1, "whole numbers from 1 on")))


def numbers(text: str, flag: str, kind: Callable[[str], T], valid: Callable[[T], bool], wanted: str) -> list[T]:
    """The numbers of a list with commas. Raises UserError for an empty list or a number that is not `valid`."""
    try:
        found = [kind(part) for part in split([text])]
    except ValueError:
        found = []
    if not found or not all(valid(number) for number in found):
        raise UserError(f"{flag} {text}: should be {wanted}, with commas between")
    return found
