"""Every printed value of the papers beside ours: measured, not run yet, or with a reason why it is
not compared."""

import re
from collections import Counter
from collections.abc import Collection, Sequence

import pandas as pd

from harness.storage.run_folder import StoredRun
from reports import facts
from reports.html_tables import tables_page
from reports.paper.matching import incomplete_means
from reports.paper.printed import Value, load
from reports.paper.tables_and_figures import (
    EMPTY,
    PAPERS,
    Printed,
    TableOrFigure,
    printed,
    tables_and_figures,
)
from reports.paper.verdicts import KINDS, MARGIN, legend, measured_rows, with_lines
from reports.section import Section
from reports.table_cell import Row
from reports.table_formats import render_sections

NOT_RUN = "no run yet"
NOT_COMPARED = "not compared"
TITLE = "The papers' tables and ours"
COLUMNS = (
    "place", "row", "dataset", "metric", "printed", "ours", "ours.low", "ours.high", "n", "ours minus printed",
    "verdict", "method", "model", "notes", "run",
)  # fmt: skip
_TEXT_TITLE = "Values of the text"
_ALL_KINDS = (*KINDS, NOT_RUN, NOT_COMPARED, EMPTY)


def lines_of_paper_results(methods: Collection[str], datasets: Collection[str]) -> set[int]:
    """The lines of paper_results.csv whose values these presets measure on these data sets.

    Args:
        methods: Names of presets; empty for all.
        datasets: Names of data sets, also of made-up ones; empty for all.
    """
    lines = set()
    for value in load():
        measured_on = {*value.stand_ins, *value.datasets}  # stand-ins are made-up data sets
        is_of_method = not methods or value.entry.preset in methods
        is_of_dataset = not datasets or not measured_on.isdisjoint(datasets)
        if is_of_method and is_of_dataset:
            lines.add(value.line)
    return lines


def frame(
    runs: Sequence[StoredRun],
    *,
    margin: float = MARGIN,
    lines: Collection[int] | None = None,
) -> pd.DataFrame:
    """Printed values beside ours, a row each with the columns COLUMNS, in the order of
    paper_results.csv.

    `printed` is in points of 100 for scores. `notes` are the conditions in which a run differs,
    then what is known to differ.

    Args:
        runs: The runs; there may be none.
        margin: In points of 100 for scores, in percent of the printed value for costs and requests.
        lines: The lines of paper_results.csv to show; None for all.

    Raises:
        UserError: There is a run without records.
    """
    values = load()
    measured_rows_by_line = _measured_cells(runs, values, margin)
    value_by_line = {value.line: value for value in reversed(values)}  # the first of each line
    rows: list[Row] = []
    for cell in printed():
        if lines is not None and cell.line not in lines:
            continue
        first_cells = {
            "place": _place(cell),
            "row": cell.method,
            "dataset": cell.dataset,
            "metric": cell.metric,
        }
        rows_of_cell = measured_rows_by_line.get(cell.line)
        if not rows_of_cell:
            rows_of_cell = [_unmeasured_cells(cell, value_by_line.get(cell.line))]
        # a measured value says itself which data set and metric it is of
        rows += [{**first_cells, **row} for row in rows_of_cell]
    return facts.as_floats(pd.DataFrame(rows, columns=list(COLUMNS)))


def _measured_cells(
    runs: Sequence[StoredRun], values: Sequence[Value], margin: float
) -> dict[int, list[Row]]:
    """Line of paper_results.csv -> a row of cells for each run that measures its value.

    Args:
        runs: The runs; there may be none.
        values: The printed values.
        margin: In points of 100 for scores, in percent of the printed value for costs and requests.
    """
    rows_by_line: dict[int, list[Row]] = {}
    if not runs:
        return rows_by_line
    columns_after_names = COLUMNS[4:]  # after place, row, dataset and metric
    for row in measured_rows(runs, values, margin=margin):
        cells = {name: row.cells[name] for name in columns_after_names}
        cells["dataset"] = row.value.place
        cells["metric"] = row.value.label
        rows_by_line.setdefault(row.value.line, []).append(cells)
    return rows_by_line


def _place(entry: Printed) -> str:
    """The table or figure that a printed value is of, "GARLIC, Table 1"; else the text of its
    paper."""
    for place in tables_and_figures():
        if place.has_row(entry.source, entry.table):
            return place.label
    return f"{PAPERS[entry.source]}: {_TEXT_TITLE}"


def _unmeasured_cells(entry: Printed, value: Value | None) -> Row:
    """The cells of a printed value that no run measures: its number, and why there is none of ours.

    Args:
        entry: The value as it is printed.
        value: What mapping.yaml says of it; None where nothing here is compared with it.
    """
    if value is not None:
        return {"printed": value.printed, "verdict": NOT_RUN, "notes": ()}
    number = None
    found = re.search(r"\d+(?:\.\d+)?", entry.value.replace(",", ""))
    if found is not None:
        number = float(found[0])  # 22.3 of "22.3%", 7 of "Top-7"
    if entry.reason == EMPTY:
        return {"printed": number, "verdict": EMPTY, "notes": ()}
    return {"printed": number, "verdict": NOT_COMPARED, "notes": (entry.reason,)}


def tables(
    runs: Sequence[StoredRun],
    chosen: TableOrFigure | None = None,
    *,
    margin: float = MARGIN,
    lines: Collection[int] | None = None,
) -> list[tuple[str, pd.DataFrame]]:
    """Titled tables: a summary, then one for each table with printed values.

    Args:
        runs: The runs; there may be none.
        chosen: Show only this table and the one whose rows it reuses (`like`), and no summary.
        margin: In points of 100 for scores, in percent of the printed value for costs and requests.
        lines: The lines of paper_results.csv to show; None for all.
    """
    rows = frame(runs, margin=margin, lines=lines)
    rows_by_label = {}
    for label, group in rows.groupby("place", sort=False):
        if chosen is None or _is_chosen(str(label), chosen):
            rows_by_label[str(label)] = group.drop(columns=["place"]).reset_index(drop=True)
    title_by_label = {item.label: f"{item.label}: {item.title}" for item in tables_and_figures()}
    all_labels = dict.fromkeys(
        [*title_by_label, *rows_by_label]
    )  # each once, in the order of titles
    labels = [label for label in all_labels if label in rows_by_label]
    titled_tables = [(title_by_label.get(label, label), rows_by_label[label]) for label in labels]
    if chosen is not None:
        return titled_tables
    return [("Summary", _summary(titled_tables)), *titled_tables]


def _is_chosen(label: str, chosen: TableOrFigure) -> bool:
    """Whether a table is the chosen one, or the one whose rows the chosen one reuses.

    Args:
        label: The table: "GARLIC, Table 1".
        chosen: The chosen one.
    """
    for item in tables_and_figures():
        if item.label == label:
            return item.name is not None and item.name in (chosen.name, chosen.like)
    return False


def text(
    runs: Sequence[StoredRun],
    titled_tables: Sequence[tuple[str, pd.DataFrame]],
    form: str,
    margin: float = MARGIN,
) -> str:
    """Tables as text, with the legend of the verdicts below.

    Args:
        runs: The runs; there may be none.
        titled_tables: (title, table) of each table.
        form: "html", "markdown", "latex" or "text".
        margin: In points of 100 for scores, in percent of the printed value for costs and requests.
    """
    sentences_below = legend(margin)
    if runs:
        sentences_below = [*incomplete_means(runs), *sentences_below]
    if form == "html":
        how_to_read = ("How to read it", pd.DataFrame({"": sentences_below}))
        return tables_page(TITLE, drawing=None, tables=[*titled_tables, how_to_read])
    sections = [Section(title, table) for title, table in titled_tables]
    return with_lines(render_sections(sections, form), sentences_below, form)


def _summary(titled_tables: Sequence[tuple[str, pd.DataFrame]]) -> pd.DataFrame:
    """How many printed values of each table have which verdict, a row a table.

    A value that two runs measure counts twice.

    Args:
        titled_tables: (title, table) of each table.
    """
    rows = []
    for title, table in titled_tables:
        count_by_kind = Counter(map(_kind, table["verdict"]))
        row = {"table": title, "values": str(len(table))}
        for kind in _ALL_KINDS:
            row[kind] = str(count_by_kind[kind])
        rows.append(row)
    return pd.DataFrame(rows)


def _kind(verdict: str) -> str:
    """The kind of a verdict, which is how it begins: "differs (by more than 2 points)" ->
    "differs".

    Raises:
        ValueError: It begins like no kind.
    """
    for kind in _ALL_KINDS:
        if verdict.startswith(kind):
            return kind
    raise ValueError(f"no kind of verdict: {verdict}")
