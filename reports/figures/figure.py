"""A figure with its tables, and the formats that it can be written in.

figure = Figure("Stop rules", table, sections, panels)
figure.written("svg")               its drawing: svg, pdf or png
figure.written("csv")               its numbers: csv or json, with every column
figure.written("text")              its tables for people: text, md, latex, or html with the drawing above them
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.errors import UserError
from reports.columns import legended, sections
from reports.figures.plot import FORMS, Panel, draw, inline_svg
from reports.html_tables import page
from reports.table_formats import render, render_sections

Titled = tuple[str, pd.DataFrame]
"""(title, table for people)."""

SAME = ["dataset", "model", "score"]
"""What is the same for all rows of a table for people, and stands in its title."""


@dataclass(frozen=True)
class Figure:
    """A figure before it is written. whole: its numbers; sections: tables for people, by default
    one a data set.

    panels: what is drawn; drawing: the file of a form of plot.FORMS, where the figure is not made
    of panels.
    """

    title: str
    whole: pd.DataFrame
    sections: Sequence[Titled] | None = None
    panels: Sequence[Panel] = ()
    drawing: Callable[[str], bytes] | None = None

    def written(self, form: str) -> str | bytes:
        """The figure in a format. Raises UserError for a drawing of nothing."""
        if form in FORMS:
            if (drawn := self._drawing_bytes(form)) is None:
                hint = f"leave out --format and --out FILE.{form}"
                raise UserError(f"nothing here can be drawn; the table says why: {hint}")
            return drawn
        if form in ("csv", "json"):
            return render(self.whole, form)
        tables = sections(self.whole, ()) if self.sections is None else self.sections
        if form == "html":
            svg = self._drawing_bytes("svg")
            return page(self.title, None if svg is None else inline_svg(svg), tables)
        return render_sections(tables, form)

    def _drawing_bytes(self, form: str) -> bytes | None:
        if self.drawing is not None:
            return self.drawing(form)
        return draw(self.panels, self.title, form) if self.panels else None


def by_score(
    table: pd.DataFrame,
    ending: str = "",
    hidden: Sequence[str] = (),
    *,
    best_first: bool = False,
    **names: str,
) -> list[Titled]:
    """A table for people for each data set, model and score, as `for_people`; ending: the last
    words of its title."""
    tables = []
    for (dataset, model, _), rows in table.groupby(SAME, sort=False):
        title = " · ".join(filter(None, (str(dataset), str(model), ending)))
        ranked = rows.sort_values("mean", ascending=False, kind="stable") if best_first else rows
        tables.append(for_people(title, ranked.reset_index(drop=True), hidden, **names))
    return tables


def for_people(title: str, rows: pd.DataFrame, hidden: Sequence[str] = (), **names: str) -> Titled:
    """Rows with one score as a table: their mean has the score's name, and what the title says is
    left out.

    hidden: more columns to leave out; names: those that people read by another name.
    """
    score = rows["score"].iloc[0]
    renamed = {f"mean{end}": f"{score}{end}" for end in ("", ".low", ".high")} | names
    return title, legended(rows.drop(columns=[*SAME, *hidden]).rename(columns=renamed))
