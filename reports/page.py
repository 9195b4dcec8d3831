"""One self-contained HTML page of all runs: no network, no other file, text from data escaped everywhere.

    page(runs) ─► "<!doctype html>..."
      a data set   means · score against FLOPs (SVG) · paired differences · differences by question · questions

Tables and the chart are made here and need no script; the per-question parts are drawn by templates/page.js from JSON,
as text nodes only, and searches over a graph are played by templates/player.js. A content security policy lets nothing
load and no other script run, even if an escape were missed.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import resources
from string import Template
from typing import TYPE_CHECKING, Any

import pandas as pd

from harness.cost.flops import DEFAULT
from harness.errors import UserError
from reports import stored as facts
from reports.columns import ordered, sections, shortened
from reports.compare import SideBySide, side_by_side
from reports.details import Limits, details
from reports.figures import front
from reports.gold_rows import rows_of
from reports.markup import Html, el, joined, script_json
from reports.render import Cells
from reports.tables import REFERENCE, frame

if TYPE_CHECKING:
    from harness.storage.run_folder import StoredRun


LIMITS = Limits()
_LONG = 48  # characters of a cell that may be broken into lines


@dataclass(frozen=True)
class _Group:
    """The runs of one data set, and their rows of the tables."""

    name: str
    runs: list[StoredRun]
    found: SideBySide
    problem: str | None
    limits: Limits
    convention: str | None


def page(
    runs: Sequence[StoredRun],
    *,
    title: str = "Runs",
    reference: str | None = None,
    limits: Limits = LIMITS,
    margin: float | None = None,
    convention: str | None = None,
) -> str:
    """The page as text. Raises UserError for no runs or runs without records.

    reference: as in reports.compare.compare. Runs that must not be compared get no paired differences; the page says
    why. margin: points of a score, or percent of a cost, within which a measured number is called equivalent to the
    published one; None for a page without published numbers. convention: how FLOPs are counted, see
    reports.tables.frame.
    """
    facts.check_runs(runs)
    by_name: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_name.setdefault(facts.key(run)[0], []).append(run)
    share = Limits(limits.questions, limits.size // len(by_name), limits.graphs // len(by_name))
    groups = [_group(name, found, reference, share, convention) for name, found in sorted(by_name.items())]
    data, parts = [], []
    for number, group in enumerate(groups):
        detail = _details(group)
        data.append(detail)
        parts.append(_section(group, number, detail, margin))
    return _fill(title, joined(_contents(groups), *parts), data)


def _group(name: str, runs: list[StoredRun], reference: str | None, limits: Limits, convention: str | None) -> _Group:
    counted = convention or DEFAULT
    problem = None
    try:
        found = side_by_side(runs, reference=reference if len(runs) > 1 else None, convention=counted)
    except UserError as e:
        means = frame(runs, convention=counted, reference=reference or REFERENCE)
        found, problem = SideBySide(ordered(means), None), str(e)
    # The order of the table is that of every list on the page.
    place = {run: i for i, run in enumerate(found.means["run"])}
    return _Group(name, sorted(runs, key=lambda r: place[r.path.name]), found, problem, limits, convention)


def _details(group: _Group) -> dict[str, Any]:
    labels = list(group.found.means["method"])
    differences = group.found.differences
    base = None if differences is None else differences["reference_run"].iloc[0]
    reference = next((i for i, run in enumerate(group.runs) if run.path.name == base), 0)
    score = facts.headline(group.runs[0])
    counted = group.convention or DEFAULT
    return details(group.runs, labels, reference, score, rows_of(group.runs), group.limits, counted)


def _contents(groups: Sequence[_Group]) -> Html:
    if len(groups) == 1:
        return joined()
    return el("nav", *(el("a", group.name, href=f"#data-{i}") for i, group in enumerate(groups)))


def _section(group: _Group, number: int, detail: dict[str, Any], margin: float | None) -> Html:
    score = detail["score"]
    means = group.found.means
    (few,), (every,) = sections(means), sections(means, ())
    return el(
        "section",
        el("h2", few.title),
        _table(few.frame),
        el("details", el("summary", "every column"), _table(every.frame.drop(columns=["scorers", "notes"]))),
        el("h3", "Score against cost"),
        front.element(front.points(means, group.runs), score),
        el(
            "p",
            "Error bars are 95 % intervals, bootstrap by document (by question where passages are retrieved). Point at "
            "a mark to read its numbers. Building an index is not in the cost.",
            class_="legend",
        ),
        _differences(group),
        None if margin is None else _paper(group, margin),
        el("div", class_="differences", data_place=number),
        el("h3", "Questions"),
        *(el("p", note, class_="note") for note in detail["notes"]),
        el("div", class_="questions", data_place=number),
        id=f"data-{number}",
    )


def _differences(group: _Group) -> Html:
    if group.problem is not None:
        return joined(el("h3", "Paired differences"), el("p", group.problem, class_="note pre"))
    paired = group.found.paired()
    return joined(*(joined(el("h3", f"Paired differences: {s.title}"), _table(s.frame)) for s in paired))


def _paper(group: _Group, margin: float) -> Html:
    """Published numbers beside those of the group's runs."""
    from reports.paper import frame as beside
    from reports.paper import legend

    found = beside(group.runs, margin=margin, convention=group.convention)
    if found.empty:
        return el("p", "None of these runs measures a value printed in a paper.", class_="none")
    (section,) = sections(shortened(found, "row"), ())
    told = (el("p", sentence, class_="legend") for sentence in legend(margin))
    return joined(el("h3", "Printed and measured"), _table(section.frame), *told)


def _table(table: pd.DataFrame) -> Html:
    """A sortable table: the cells of the text table, the number itself in data-value, footnotes below."""
    told = Cells(table)
    rows = table.to_dict("records")
    head = [
        el("th", el("button", name, type="button"), class_="number" if numeric else None, scope="col")
        for name, numeric in zip(told.heads, told.numeric, strict=True)
    ]
    body = []
    for row, line in zip(rows, told.rows, strict=True):
        tds = []
        for name, numeric, cell in zip(told.heads, told.numeric, line, strict=True):
            value = row.get(name) if numeric else None
            known = value is not None and not pd.isna(value)
            tds.append(el("td", _cell(cell), class_="number" if numeric else None, data_value=value if known else None))
        body.append(el("tr", *tds))
    made = el("table", el("thead", el("tr", *head)), el("tbody", *body), class_="sortable")
    notes = [el("p", note, class_="note") for note in told.common]
    notes += [el("p", f"[{i}] {note}", class_="note") for i, note in enumerate(told.footnotes, 1)]
    return joined(el("div", made, class_="wide"), *notes)


def _cell(cell: str) -> Html:
    """A value, its interval in small type."""
    value, bracket, interval = cell.partition(" [")
    return joined(value, el("small", f" [{interval}")) if bracket and interval.endswith("]") else joined(cell)


def _fill(title: str, body: Html, data: list[dict[str, Any]]) -> str:
    style, script = _template("page.css"), _template("player.js") + _template("page.js")
    policy = f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'"
    return Template(_template("page.html")).substitute(
        title=joined(title), policy=joined(policy), style=style, body=body, data=script_json(data), script=script
    )


def _template(name: str) -> str:
    return resources.files("reports").joinpath("templates", name).read_text(encoding="utf-8")


def _hash(code: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
