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

_INCHES_PER_METHOD = 0.32  # height of the figure for each bar
_INCHES_OF_TITLE_AND_AXIS = 0.9  # height beside the bars of a panel
_LEGEND_AREA = 7.0  # square inches: it is higher where the figure is narrow
_LEGEND_CHARACTERS_PER_INCH = 14  # of a line of the legend
_WIDE_INCHES = 7.0  # both columns of a paper
_NARROW_INCHES = 3.6  # a telephone
_MAX_LINKS_PER_CLASS = 5  # to questions, on a page
_MIN_LABELLED_PERCENT = 5.0  # share of the questions from which a part of a bar has its count
_DARK_CLASSES = {"read", "right", "failed", "misread", "not retrieved", "stopped too early"}
"""Classes of a dark colour, on which the count is white."""


def draw(table: pd.DataFrame, form: str = "svg", width: float = _WIDE_INCHES) -> bytes:
    """Draw a panel for each data set and model, one below the other, with a stacked bar for each
    method; below them the legend of the classes that occur.

    Args:
        table: The rows of autopsy.frame.
        form: The format of the file, one of plot.FORMS.
        width: In inches.

    Returns:
        The bytes of the file.
    """
    groups = [group for _, group in table.groupby(["dataset", "model"], sort=False)]
    methods_per_panel = [group["method"].nunique() for group in groups]
    height_of_titles_and_axes = _INCHES_OF_TITLE_AND_AXIS * len(methods_per_panel)
    height_of_bars = _INCHES_PER_METHOD * sum(methods_per_panel)
    height_of_legend = _LEGEND_AREA / width
    height = height_of_titles_and_axes + height_of_bars + height_of_legend
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height))
        grid = figure.subplots(len(groups), 1, squeeze=False, height_ratios=methods_per_panel)
        panels = grid[:, 0]
        bars_by_class: dict[str, BarContainer] = {}  # filled by the calls
        for ax, group in zip(panels, groups, strict=True):
            _draw_and_collect_bars(ax, group, bars_by_class)
        class_names = [kind for kind in autopsy.CLASSES if kind in bars_by_class]
        legend_below(
            panels[-1],
            [bars_by_class[kind] for kind in class_names],
            class_names,
            max_characters=int(_LEGEND_CHARACTERS_PER_INCH * width),
        )
        return figure_file(figure, "Where questions were lost", form)


def to_html(table: pd.DataFrame) -> Html:
    """The figure for a page, wide and narrow, and below it, folded, a paragraph for each class of
    each run with links to some of its questions.

    Args:
        table: autopsy.frame: a row for each run (data set, method, model) and class of its
            questions.
    """
    paragraphs = map(_paragraph_of_links, table.to_dict("records"))
    wide = element("div", inline_svg(draw(table)), class_="on-wide")
    narrow = element("div", inline_svg(draw(table, width=_NARROW_INCHES)), class_="on-narrow")
    details = element("details", element("summary", "questions of each class"), *paragraphs)
    return join_html(wide, narrow, details)


def _paragraph_of_links(row: Mapping[Hashable, Any]) -> Html:
    """ "bm25 · misread (12): q3 q7 ... and 7 more": a paragraph with links to the first questions
    of a row of autopsy.frame."""
    dataset = quote(row["dataset"], safe="")
    question_ids = list(row["examples"])
    parts: list[Html | str] = [f"{row['method']} · {row['class']} ({row['count']}): "]
    for question_id in question_ids[:_MAX_LINKS_PER_CLASS]:
        parts.append(
            element("a", question_id, href=f"#d={dataset}&q={quote(question_id, safe='')}")
        )
        parts.append(" ")
    n_not_linked = len(question_ids) - _MAX_LINKS_PER_CLASS
    if n_not_linked > 0:
        parts.append(f" and {n_not_linked} more")
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


def _draw_and_collect_bars(
    ax: Axes, group: pd.DataFrame, bars_by_class: dict[str, BarContainer]
) -> None:
    """Draw a stacked bar for each method: the share of each class, with its count where the part is
    wide enough. Also stores the bars of each class in `bars_by_class`, for the legend.

    Args:
        ax: The panel.
        group: The rows of autopsy.frame of one data set and model.
        bars_by_class: Class -> the bars that were drawn for it; changed.
    """
    methods: list[str] = list(dict.fromkeys(group["method"]))
    drawn_percent = np.zeros(len(methods))  # % of each bar that is drawn already
    for kind in autopsy.CLASSES:
        class_rows = group[group["class"] == kind].set_index("method")
        if class_rows.empty:
            continue
        percent_of_bars = (100 * class_rows["share"]).reindex(methods, fill_value=0.0).to_numpy()
        bars_by_class[kind] = ax.barh(
            range(len(methods)),
            percent_of_bars,
            left=drawn_percent,
            height=0.7,
            color=autopsy.CLASSES[kind].colour,
            edgecolor="#7b8694",
            linewidth=0.4,
        )
        for bar_index, method in enumerate(methods):
            if percent_of_bars[bar_index] >= _MIN_LABELLED_PERCENT:
                middle = drawn_percent[bar_index] + percent_of_bars[bar_index] / 2
                _label_bar(ax, middle, bar_index, kind, int(class_rows["count"][method]))
        drawn_percent = drawn_percent + percent_of_bars
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
    if kind in _DARK_CLASSES:
        colour = "#ffffff"
    ax.text(x, y, str(count), ha="center", va="center", color=colour, fontsize=7)
