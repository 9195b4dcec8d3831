"""Where questions were lost as a stacked bar a method: shares of the questions in each class of
autopsy.py."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np
import pandas as pd

from harness.storage.run_folder import StoredRun
from harness_audit import autopsy
from reports import facts
from reports.figures.plot import Axis, figure_file, inline_svg, legend_below, paper_style, set_axis
from reports.gold_rows import QuestionRows
from reports.markup import Html, element, join_html

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.container import BarContainer

_BAR = 0.32  # inches a method
_WIDE = 7.0  # inches: both columns of a paper
_NARROW = 3.6  # inches: a telephone
_EXAMPLES = 5  # questions of a class that a page links
_LABELLED = 5.0  # % of the questions from which a part of a bar has its count
_DARK = {"read", "right", "failed", "misread", "not retrieved", "stopped too early"}


def draw(table: pd.DataFrame, form: str = "svg", width: float = _WIDE) -> bytes:
    """Draw a panel for each data set and model, with a stacked bar for each method.

    Args:
        table: The rows of autopsy.frame.
        form: The format of the file, one of plot.FORMS.
        width: In inches.

    Returns:
        The file.
    """
    groups = [group for _, group in table.groupby(["dataset", "model"], sort=False)]
    rows = table.groupby(["dataset", "model"], sort=False)["method"].nunique().tolist()
    height = 0.9 * len(rows) + _BAR * sum(rows) + 7.0 / width
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height))
        panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=rows)[:, 0]
        handles: dict[str, BarContainer] = {}
        for ax, group in zip(panels, groups, strict=True):
            _draw_bars(ax, group, handles)
        kinds = [kind for kind in autopsy.CLASSES if kind in handles]
        legend_below(
            panels[-1], [handles[kind] for kind in kinds], kinds, max_characters=int(14 * width)
        )
        return figure_file(figure, "Where questions were lost", form)


def to_html(table: pd.DataFrame) -> Html:
    """The figure for a page, wide and narrow, and below it links to some questions of each class.

    Args:
        table: The rows of autopsy.frame.
    """
    lists = map(_links_to_questions, table.to_dict("records"))
    wide = element("div", inline_svg(draw(table)), class_="on-wide")
    narrow = element("div", inline_svg(draw(table, width=_NARROW)), class_="on-narrow")
    details = element("details", element("summary", "questions of each class"), *lists)
    return join_html(wide, narrow, details)


def _links_to_questions(row: Mapping[Hashable, Any]) -> Html:
    """ "bm25 · misread (12): q3 q7 ... and 7 more": a paragraph with links to the first questions
    of a row of autopsy.frame."""
    dataset = quote(row["dataset"], safe="")
    questions = list(row["examples"])
    parts: list[Html | str] = [f"{row['method']} · {row['class']} ({row['count']}): "]
    for name in questions[:_EXAMPLES]:
        parts.append(element("a", name, href=f"#d={dataset}&q={quote(name, safe='')}"))
        parts.append(" ")
    more = len(questions) - _EXAMPLES
    if more > 0:
        parts.append(f" and {more} more")
    return element("p", *parts)


def page_section(pairs: Sequence[tuple[StoredRun, QuestionRows]]) -> Html | None:
    """The section of the page that says why questions were lost. None where no run on the evidence
    alone is there to compare with, or no run to explain.

    Args:
        pairs: Each run with its rows.
    """
    if not any(facts.is_oracle(run) for run, _ in pairs):
        return None
    cases = autopsy.cases_by_run(pairs)
    if not cases:
        return None
    legend = (
        "A question is lost where its score is below 0.5; each stands in one class (harness "
        "autopsy)."
    )
    heading = element("h3", "Why questions were lost")
    return join_html(heading, element("p", legend, class_="legend"), to_html(autopsy.frame(cases)))


def _draw_bars(ax: Axes, group: pd.DataFrame, handles: dict[str, BarContainer]) -> None:
    """Draw a stacked bar for each method: the share of each class, with its count. Also stores the
    bars of each class in `handles`, for the legend.

    Args:
        ax: The panel.
        group: The rows of autopsy.frame of one data set and model.
        handles: Class -> the bars that were drawn for it; changed.
    """
    methods: list[str] = list(dict.fromkeys(group["method"]))
    drawn = np.zeros(len(methods))  # % of each bar that is drawn already
    for kind in autopsy.CLASSES:
        class_rows = group[group["class"] == kind].set_index("method")
        if class_rows.empty:
            continue
        widths = (100 * class_rows["share"]).reindex(methods, fill_value=0.0).to_numpy()
        handles[kind] = ax.barh(
            range(len(methods)),
            widths,
            left=drawn,
            height=0.7,
            color=autopsy.CLASSES[kind].colour,
            edgecolor="#7b8694",
            linewidth=0.4,
        )
        for place, method in enumerate(methods):
            if widths[place] >= _LABELLED:
                middle = drawn[place] + widths[place] / 2
                _label_bar(ax, middle, place, kind, int(class_rows["count"][method]))
        drawn = drawn + widths
    set_axis(ax.xaxis, Axis("% of the questions", limits=(0.0, 100.0)))
    ax.set_yticks(range(len(methods)), methods)
    ax.invert_yaxis()
    ax.set_title(f"{group['dataset'].iloc[0]} · {group['model'].iloc[0]}")


def _label_bar(ax: Axes, x: float, y: float, kind: str, count: int) -> None:
    """Write the count of a class into its part of a bar.

    Args:
        ax: The panel.
        x: The middle of the part, in % of the questions.
        y: The number of the bar, from 0.
        kind: The class, which decides the colour of the text.
        count: How many questions are of the class.
    """
    colour = "#1d2430"
    if kind in _DARK:
        colour = "#ffffff"
    ax.text(x, y, str(count), ha="center", va="center", color=colour, fontsize=7)
