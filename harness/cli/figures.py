"""What all figures and studies share: their output format, and how they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from harness.cli.options import split
from harness.cli.output import ENDINGS, format_of, say, write
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
    """A figure before it is written. whole: for csv and json; sections: titled tables for people; panels: drawn.

    drawing: the file of a form of plot.FORMS, where the figure is not made of panels.
    """

    title: str
    whole: pd.DataFrame
    sections: Sequence[tuple[str, pd.DataFrame]]
    panels: Sequence[Panel] = ()
    drawing: Callable[[str], bytes] | None = None


def form_of(form: str | None, out: str | None, *, drawn: bool = True) -> str:
    """The format to write: svg, pdf, png, html, or one of reports.tables.FORMATS. drawn: whether there is a figure.

    Raises UnknownName for an unknown format, UserError for an unknown ending or a figure that does not exist.
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
        raise UserError(f"no format ends in '{Path(out).suffix}' ('{out}'); use {known}, or name it with --format")
    return format_of(form, out)


def replayed(runs: Sequence[StoredRun], read: Callable[[StoredRun], R | None]) -> list[tuple[StoredRun, R]]:
    """The runs with a stop rule, each with what `read` makes of it.

    A run whose method cannot be loaded is left out with a warning.
    """
    pairs = []
    for run in runs:
        try:
            made = read(run)
        except UserError as error:
            say(f"warning: left out: {run.path}: {error}")
            continue
        if made:
            pairs.append((run, made))
    return pairs


def show(figure: Figure, form: str, out: str | None) -> None:
    """Print or write a figure. Raises SaveError, and UserError for a drawing of nothing."""
    from reports.figures.plot import draw
    from reports.figures.sheet import formatted, page
    from reports.render import render, render_sections

    drawn = figure.drawing or (lambda form: draw(figure.panels, figure.title, form))
    something = bool(figure.drawing or figure.panels)
    if form in ("svg", "pdf", "png"):
        if not something:
            raise UserError(f"nothing here can be drawn; the table says why: leave out --format and --out FILE.{form}")
        write(drawn(form), out)
        return
    if form in ("csv", "json"):
        write(render(figure.whole, form), out)
        return
    tables = [(title, formatted(frame)) for title, frame in figure.sections]
    if form == "html":
        write(page(figure.title, drawn("svg") if something else None, tables), out)
    else:
        write(render_sections(tables, form), out)


def sections_of(table: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """One table a data set, with what is the same for all rows in its title."""
    from reports.columns import sections

    return [(section.title, section.frame) for section in sections(table, ())]


def numbers(text: str, flag: str, kind: Callable[[str], T], valid: Callable[[T], bool], expected: str) -> list[T]:
    """The numbers of a list with commas. Raises UserError for an empty list or a number that is not `valid`."""
    try:
        values = [kind(part) for part in split([text])]
    except ValueError:
        values = []
    if not values or not all(valid(number) for number in values):
        raise UserError(f"{flag} {text}: should be {expected}, separated by commas")
    return values
