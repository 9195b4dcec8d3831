"""Every printed value of the papers beside ours: measured, not run yet, or with a reason why it is
not compared."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.html_tables import page
from reports.paper.matching import incomplete
from reports.paper.printed import load
from reports.paper.tables_and_figures import (
    EMPTY,
    PAPERS,
    TableOrFigure,
    printed,
    tables_and_figures,
)
from reports.paper.verdicts import KINDS, MARGIN, legend, measured_rows, with_lines
from reports.table_formats import render_sections

NOT_RUN, NOT_COMPARED = "no run yet", "not compared"
TITLE = "The papers' tables and ours"
COLUMNS = (
    "place", "row", "dataset", "metric", "printed", "ours", "ours.low", "ours.high", "n", "ours minus printed",
    "verdict", "method", "model", "notes", "run",
)  # fmt: skip
_TEXT_TITLE = "Values of the text"


def lines_of(methods: Collection[str], datasets: Collection[str]) -> set[int]:
    """The lines of paper_results.csv that these presets on these data sets measure; an empty
    collection means all of them."""
    lines = set()
    for value in load():
        places = {*value.stand_ins, *(rule.dataset for rule in value.rules)}
        of_method = not methods or value.entry.preset in methods
        if of_method and (not datasets or places.intersection(datasets)):
            lines.add(value.line)
    return lines


def frame(
    runs: Sequence[StoredRun],
    *,
    margin: float = MARGIN,
    lines: Collection[int] | None = None,
) -> pd.DataFrame:
    """Printed values beside ours, in the order of paper_results.csv.

    Args:
        runs: The runs; there may be none.
        margin: As in reports.paper.frame.
        lines: The lines of paper_results.csv to show; None for all.

    Returns:
        COLUMNS; `printed` in points of 100 for scores, as reports.paper.frame. notes: each
        condition in which a run differs, then what is known to differ.

    Raises:
        UserError: As reports.paper.frame.
    """
    values = load()
    measured: dict[int, list[dict[str, Any]]] = {}
    found = measured_rows(runs, values, margin=margin) if runs else []
    for row in found:
        cells = {key: row.cells[key] for key in COLUMNS[4:]}
        cells |= {"dataset": row.value.place, "metric": row.value.label}
        measured.setdefault(row.value.line, []).append(cells)
    mapped = {value.line: value for value in reversed(values)}  # the first of each line
    rows: list[dict[str, Any]] = []
    for entry in printed():
        if lines is not None and entry.line not in lines:
            continue
        places = (p.label for p in tables_and_figures() if p.has_row(entry.source, entry.table))
        place = next(places, f"{PAPERS[entry.source]}: {_TEXT_TITLE}")
        head = {
            "place": place,
            "row": entry.method,
            "dataset": entry.dataset,
            "metric": entry.metric,
        }
        its_value, own_rows = mapped.get(entry.line), measured.get(entry.line, [])
        rows += [{**head, **row} for row in own_rows]
        if its_value is not None and not own_rows:
            rows.append({**head, "printed": its_value.printed, "verdict": NOT_RUN, "notes": ()})
        elif not own_rows:
            notes = () if entry.reason == EMPTY else (entry.reason,)
            number = re.search(
                r"\d+(?:\.\d+)?", entry.value.replace(",", "")
            )  # 22.3 of "22.3%", 7 of "Top-7"
            verdict = NOT_COMPARED if notes else EMPTY
            rows.append(
                {**head, "printed": number and float(number[0]), "verdict": verdict, "notes": notes}
            )
    return facts.as_floats(pd.DataFrame(rows, columns=list(COLUMNS)))


def tables(
    runs: Sequence[StoredRun],
    chosen: TableOrFigure | None = None,
    *,
    margin: float = MARGIN,
    lines: Collection[int] | None = None,
) -> list[tuple[str, pd.DataFrame]]:
    """Titled frames: a summary, then one for each table with printed values; chosen: that table
    alone, with the one whose rows it runs too; margin, lines: as in `frame`."""
    whole, frames = frame(runs, margin=margin, lines=lines), []
    for place, group in whole.groupby("place", sort=False):
        item = next((p for p in tables_and_figures() if p.label == place), None)
        if chosen is None or (
            item is not None and item.name is not None and item.name in (chosen.name, chosen.like)
        ):
            title = f"{place}: {item.title}" if item is not None else str(place)
            frames.append((title, group.drop(columns=["place"]).reset_index(drop=True)))
    order = [f"{place.label}: {place.title}" for place in tables_and_figures()]
    frames.sort(key=lambda named: order.index(named[0]) if named[0] in order else len(order))
    return [("Summary", _summary(frames)), *frames] if chosen is None else frames


def text(
    runs: Sequence[StoredRun],
    named: Sequence[tuple[str, pd.DataFrame]],
    form: str,
    margin: float = MARGIN,
) -> str:
    """The tables `named` (title, table) as html, markdown, latex or text, with the legend of the
    verdicts below."""
    below = [*(incomplete(runs) if runs else ()), *legend(margin)]
    if form == "html":
        return page(TITLE, None, [*named, ("How to read it", pd.DataFrame({"": below}))])
    return with_lines(render_sections(named, form), below, form)


def _summary(named: Sequence[tuple[str, pd.DataFrame]]) -> pd.DataFrame:
    """How many printed values of each table have which verdict; a value that two runs measure
    counts twice."""
    kinds = (*KINDS, NOT_RUN, NOT_COMPARED, EMPTY)
    rows = []
    for title, table in named:
        count = Counter(
            next(kind for kind in kinds if str(verdict).startswith(kind))
            for verdict in table["verdict"]
        )
        rows.append(
            {
                "table": title,
                "values": str(len(table)),
                **{kind: str(count[kind]) for kind in kinds},
            }
        )
    return pd.DataFrame(rows)
