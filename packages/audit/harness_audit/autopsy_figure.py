"""Where questions were lost as a stacked bar a method: shares of the questions in each class of
autopsy.py."""

from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

import pandas as pd

from harness.storage.run_folder import StoredRun
from harness_audit import autopsy
from reports import facts
from reports.figures.plot import Axis, figure_file, inline_svg, legend_below, paper_style, set_axis
from reports.gold_rows import Rows
from reports.markup import Html, el, joined

_BAR = 0.32  # inches a method
_WIDE, _NARROW = 7.0, 3.6  # inches: both columns of a paper; a telephone
_EXAMPLES = 5  # questions of a class that a page links


def draw(table: pd.DataFrame, form: str = "svg", width: float = _WIDE) -> bytes:
    """Draw the rows of autopsy.frame, a panel a data set and model; form: of plot.FORMS; width: in
    inches."""
    groups = [group for _, group in table.groupby(["dataset", "model"], sort=False)]
    rows = [len(set(group["method"])) for group in groups]
    with paper_style():
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, sum(0.9 + _BAR * count for count in rows) + 7.0 / width))
        panels = figure.subplots(len(groups), 1, squeeze=False, height_ratios=rows)[:, 0]
        handles: dict[str, Any] = {}
        for ax, group in zip(panels, groups, strict=True):
            _draw_bars(ax, group, handles)
        kinds = [kind for kind in autopsy.CLASSES if kind in handles]
        legend_below(panels[-1], [handles[kind] for kind in kinds], kinds, room=int(14 * width))
        return figure_file(figure, "Where questions were lost", form)


def to_html(table: pd.DataFrame) -> Html:
    """The figure for a page, and below it links to questions of each class."""
    lists = []
    for row in table.to_dict("records"):
        questions = list(row["examples"])
        links = [
            el("a", name, href=f"#d={quote(row['dataset'], safe='')}&q={quote(name, safe='')}")
            for name in questions
        ]
        more = f" and {len(links) - _EXAMPLES} more" if len(links) > _EXAMPLES else ""
        spaced = [part for link in links[:_EXAMPLES] for part in (link, " ")]
        lists.append(el("p", f"{row['method']} · {row['class']} ({row['count']}): ", *spaced, more))
    drawn = {"on-wide": draw(table), "on-narrow": draw(table, width=_NARROW)}
    figures = (el("div", inline_svg(svg), class_=name) for name, svg in drawn.items())
    return joined(*figures, el("details", el("summary", "questions of each class"), *lists))


def page_section(pairs: Sequence[tuple[StoredRun, Rows]]) -> Html | None:
    """Why questions were lost, for the page, where a run on the evidence alone is there to compare
    with."""
    if not any(facts.is_oracle(run) for run, _ in pairs) or not (
        cases := autopsy.cases_by_run(pairs)
    ):
        return None
    legend = "A question is lost where its score is below 0.5; each stands in one class (harness autopsy)."
    head = el("h3", "Why questions were lost"), el("p", legend, class_="legend")
    return joined(*head, to_html(autopsy.frame(cases)))


def _draw_bars(ax: Any, group: pd.DataFrame, handles: dict[str, Any]) -> None:
    """Draw a stacked bar a method: the share of each class, with its count; adds class -> artist to
    `handles`."""
    methods: Sequence[str] = list(dict.fromkeys(group["method"]))
    left = dict.fromkeys(methods, 0.0)
    for kind in autopsy.CLASSES:
        class_rows = group[group["class"] == kind]
        if class_rows.empty:
            continue
        widths = {row["method"]: 100 * row["share"] for row in class_rows.to_dict("records")}
        values = [widths.get(method, 0.0) for method in methods]
        style = {"color": autopsy.CLASSES[kind][1], "edgecolor": "#7b8694", "linewidth": 0.4}
        handles[kind] = ax.barh(
            range(len(methods)), values, left=[left[m] for m in methods], height=0.7, **style
        )
        for place, method in enumerate(methods):
            count = class_rows[class_rows["method"] == method]["count"]
            if widths.get(method, 0.0) >= 5:
                dark = kind in (
                    "read",
                    "right",
                    "failed",
                    "misread",
                    "not retrieved",
                    "stopped too early",
                )
                middle, colour = left[method] + widths[method] / 2, "#ffffff" if dark else "#1d2430"
                ax.text(
                    middle,
                    place,
                    str(int(count.iloc[0])),
                    ha="center",
                    va="center",
                    color=colour,
                    fontsize=7,
                )
            left[method] += widths.get(method, 0.0)
    set_axis(ax.xaxis, Axis("% of the questions", limits=(0.0, 100.0)))
    ax.set_yticks(range(len(methods)), list(methods))
    ax.invert_yaxis()
    ax.set_title(f"{group['dataset'].iloc[0]} · {group['model'].iloc[0]}")
