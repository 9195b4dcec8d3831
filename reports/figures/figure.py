"""A figure with its tables, and the formats that it can be written in.

figure = Figure("Stop rules", table, sections, panels)
figure.written("svg")               its drawing: svg, pdf or png
figure.written("csv")               its numbers: csv or json, with every column
figure.written("text")              its tables for people: text, md, latex, or html with the drawing
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pandas as pd

from harness.errors import UserError
from reports.columns import sections, with_legend
from reports.figures.plot import FORMS, Panel, draw, inline_svg
from reports.html_tables import tables_page
from reports.markup import Html
from reports.section import Section
from reports.table_formats import render, render_sections

Titled = tuple[str, pd.DataFrame]
"""(title, table for people)."""

COLUMNS_IN_TITLE = ["dataset", "model", "score"]
"""Columns that are the same for all rows of a table for people: their values stand in its title."""


@dataclass(frozen=True)
class Figure:
    """A figure before it is written: its numbers, its tables, and what is drawn."""

    title: str
    whole: pd.DataFrame
    """Its numbers, with every column."""
    sections: Sequence[Titled] | None = None
    """Tables for people; None for one a data set."""
    panels: Sequence[Panel] = ()
    """What is drawn."""
    drawing: Callable[[str], bytes] | None = None
    """Gives the file of a form of plot.FORMS, for a figure that is not made of panels."""

    def written(self, form: str) -> str | bytes:
        """The figure in a format: bytes for a drawing, else text.

        Args:
            form: One of plot.FORMS for the drawing; "csv" or "json" for its numbers; "html" for a
                page with both; else a format of tables for people, such as "text".

        Raises:
            UserError: A drawing is asked for, and there is nothing to draw.
        """
        if form in FORMS:
            return self._drawing(form)
        if form in ("csv", "json"):
            return render(self.whole, form)
        tables = self._tables()
        if form == "html":
            titled = [(table.title, table.frame) for table in tables]
            return tables_page(self.title, self._inline_drawing(), titled)
        return render_sections(tables, form)

    def _tables(self) -> list[Section]:
        """The tables for people: those that the figure has, or one a data set made of its
        numbers."""
        if self.sections is None:
            return sections(self.whole, ())
        return [Section(title, frame) for title, frame in self.sections]

    @property
    def _is_drawn(self) -> bool:
        """Whether the figure has something to draw, beside its tables."""
        return self.drawing is not None or bool(self.panels)

    def _drawing(self, form: str) -> bytes:
        """The drawing as the content of a file.

        Raises:
            UserError: There is nothing to draw.
        """
        if self.drawing is not None:
            return self.drawing(form)
        if not self.panels:
            hint = f"leave out --format and --out FILE.{form}"
            raise UserError(f"nothing here can be drawn; the table says why: {hint}")
        return draw(self.panels, self.title, form)

    def _inline_drawing(self) -> Html | None:
        """The drawing as an element of a page; None where there is nothing to draw."""
        if not self._is_drawn:
            return None
        return inline_svg(self._drawing("svg"))


def by_score(
    table: pd.DataFrame,
    ending: str = "",
    hidden: Sequence[str] = (),
    *,
    best_first: bool = False,
    **names: str,
) -> list[Titled]:
    """A table for people for each data set, model and score, titled by data set, model and
    `ending`.

    Args:
        table: Rows with the columns COLUMNS_IN_TITLE and mean.
        ending: The last words of each title.
        hidden: More columns to leave out.
        best_first: Whether the highest mean comes first; else the order stays.
        names: Columns that people read by another name.
    """
    tables = []
    for (dataset, model, _), rows in table.groupby(COLUMNS_IN_TITLE, sort=False):
        parts_of_title = (str(dataset), str(model), ending)
        title = " · ".join(part for part in parts_of_title if part)
        if best_first:
            rows = rows.sort_values("mean", ascending=False, kind="stable")
        tables.append(for_people(title, rows.reset_index(drop=True), hidden, **names))
    return tables


def for_people(title: str, rows: pd.DataFrame, hidden: Sequence[str] = (), **names: str) -> Titled:
    """A titled table for people from rows with one score: the columns "mean", "mean.low" and
    "mean.high" get the score's name ("flashrag.em"), and those of COLUMNS_IN_TITLE are left out.

    Args:
        title: The title of the table.
        rows: Rows with the columns COLUMNS_IN_TITLE and mean.
        hidden: More columns to leave out.
        names: Columns that people read by another name.
    """
    score = rows["score"].iloc[0]
    renamed = {"mean": score, "mean.low": f"{score}.low", "mean.high": f"{score}.high", **names}
    shown_rows = rows.drop(columns=[*COLUMNS_IN_TITLE, *hidden])
    return title, with_legend(shown_rows.rename(columns=renamed))
