"""One self-contained HTML page of all runs: no network, no other file, text from data escaped everywhere.

    page(runs) ─► "<!doctype html>..."
      top            title, description, a sentence a data set         (finding.py)
      leaderboard    all runs, grouped by data set, method or model    (leaderboard.py), if they differ
      a data set     means · score against FLOPs · paired differences · what packages add · questions
      end            date, models, code, commands, each run            (provenance.py)

A package adds a section to each data set by an entry point of "harness.page_sections": a function of the runs with
their rows, [(StoredRun, Rows), ...], that returns Html or None. A page that follows open runs has none.

Tables and the first figure need no script. Questions, their searches and the figures' files follow the tables as
compressed blocks (compressed_json.py), which templates/*.js unpack when they are read: what is seen first does not wait
for them. Scripts write text nodes only. A content security policy lets nothing load but pictures that the page itself
made, and no other script run, even if an escape were missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from string import Template
from typing import Any
from urllib.parse import quote

import pandas as pd

from harness.config import registry
from harness.cost.flops import DEFAULT
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts, paper
from reports.by_kind import BY, kinds_of, split_by_kind
from reports.columns import ordered, sections, shortened
from reports.compare import SideBySide, side_by_side
from reports.compressed_json import block, compress_bytes
from reports.details import Limits, Questions, questions
from reports.figures import front
from reports.finding import finding
from reports.gold_rows import rows_of
from reports.html_tables import read_template, sha256, table
from reports.leaderboard import leaderboard
from reports.main_table import REFERENCE, frame
from reports.markup import Html, el, joined, script_json
from reports.methods_by_dataset import sections as wide_sections
from reports.methods_by_dataset import wide_table
from reports.provenance import Written, header

LIMITS = Limits()
_SCRIPTS = ("page", "save", "player", "answers", "differences", "questions", "leaderboard", "start")


@dataclass(frozen=True)
class Comparison:
    """How the runs of a page are compared.

    reference, force: as in reports.compare.compare; runs that must not be compared get no paired differences, and the
    page says why. convention: how FLOPs are counted, see main_table.frame; by default DEFAULT, and beside published
    numbers the papers' own. margin: points of a score, or percent of a cost, within which a measured number is called
    equivalent to the published one; None for a page without published numbers.
    """

    reference: str | None = None
    force: bool = False
    convention: str | None = None
    margin: float | None = None


PLAIN = Comparison()


@dataclass(frozen=True)
class _Group:
    """The runs of one data set with their tables; problem: why they cannot be compared, None where they can."""

    name: str
    runs: list[StoredRun]
    tables: SideBySide
    problem: str | None
    comparison: Comparison


def page(
    runs: Sequence[StoredRun],
    *,
    title: str = "Runs",
    description: str = "",
    comparison: Comparison = PLAIN,
    limits: Limits = LIMITS,
    written: Written | None = None,
    live: float | None = None,
) -> str:
    """The page as text. Raises UserError for no runs, unless it is live, or runs without records.

    title, description: the heading, and a paragraph below it; written: when and by which command, None for a page that
    equal runs make again; live: for a page that `harness watch` serves, seconds between two versions of it; what runs
    answer meanwhile stands on top.
    """
    if runs or live is None:
        facts.check_runs(runs)
    by_name: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_name.setdefault(facts.run_key(run)[0], []).append(run)
    groups = [_group(name, own, comparison) for name, own in sorted(by_name.items())]
    answers = sum(len(run.records) for run in runs)
    heads, blocks, parts = [], [], []
    for number, group in enumerate(groups):
        part = sum(len(run.records) for run in group.runs) / answers
        share = replace(limits, size=int(limits.size * part), graphs=int(limits.graphs * part))
        means, differences = group.tables.means, group.tables.differences
        # By default the reference of the differences is the first run.
        base = None if differences is None else differences["reference_run"].iloc[0]
        reference = next((i for i, run in enumerate(group.runs) if run.name == base), 0)
        rows, counted = rows_of(group.runs), comparison.convention or DEFAULT
        listed = questions(group.runs, list(means["method"]), reference, rows, share, counted)
        cost = "money" if means["tflops.whole"].isna().all() else "whole"
        figure, files = front.to_html(front.points(means, group.runs, cost=cost), listed.head["score"])
        heads.append(listed.head)
        whole = [(replace(run, records=run.whole_records), own) for run, own in zip(group.runs, rows, strict=True)]
        plugins = registry.plugins("harness.page_sections").values() if live is None else ()
        added = [registry.import_target(plugin)(whole) for plugin in plugins]
        parts.append(_section(group, number, listed, figure, added))
        compressed = {f"front-{form}": compress_bytes(file) for form, file in files.items()} | listed.blocks
        blocks += [block(f"d{number}-{name}", text) for name, text in compressed.items()]
    live_section = None if live is None else el("section", id="live", data_pause=live, data_answered=answers)
    top = [description] * bool(description)
    for group in groups if live is None else ():  # while runs go on, nothing has been found yet
        sentence = finding(group.tables.means, group.runs, group.problem is None)
        top.append(f"{group.name}: {sentence}" if len(groups) > 1 else sentence)
    head = el("header", el("h1", title), *(el("p", text, class_="finding") for text in top))
    links = {group.name: f"#{_anchor(group.name)}" for group in groups}
    contents = [el("nav", *(el("a", name, href=link) for name, link in links.items()))] * (len(groups) > 1)
    if len({(facts.run_key(run)[0], run.config["model"]["name"]) for run in runs}) > 1:
        contents.append(leaderboard(pd.concat([group.tables.means for group in groups]), runs, links))
    body = joined(head, live_section, *contents, *parts, header(runs, written) if runs else None)
    return _filled_template(title, body, heads, joined(*blocks), live_section is not None)


def _group(name: str, runs: list[StoredRun], comparison: Comparison) -> _Group:
    """The runs of one data set with their tables; where they cannot be compared, `problem` says why."""
    counted, problem = comparison.convention or DEFAULT, None
    reference = comparison.reference if len(runs) > 1 else None
    try:
        tables = side_by_side(runs, reference=reference, force=comparison.force, convention=counted)
    except UserError as e:
        means = frame(runs, convention=counted, reference=comparison.reference or REFERENCE)
        tables, problem = SideBySide(ordered(means), None), str(e)
    place = {run: i for i, run in enumerate(tables.means["run"])}  # every list on the page has the table's order
    return _Group(name, sorted(runs, key=lambda r: place[r.name]), tables, problem, comparison)


def _anchor(name: str) -> str:
    """The id of a data set's section; links to its questions begin with the same text."""
    return f"d={quote(name, safe='')}"


def _section(group: _Group, number: int, listed: Questions, figure: Html, added: Sequence[Html | None]) -> Html:
    """A data set's section, from means to questions; number: its place on the page; figure: score against cost."""
    (main,), (full,) = (sections(group.tables.means, columns) for columns in (None, ()))
    printed: list[Html] = []  # published numbers beside the group's, where they were asked for
    if (margin := group.comparison.margin) is not None:
        printed_rows = paper.frame(group.runs, margin=margin, convention=group.comparison.convention)
        for section in [] if printed_rows.empty else sections(shortened(printed_rows, "row"), ()):
            printed += [el("h3", "Printed and measured"), table(section.frame, sortable=True)]
            printed += [el("p", sentence, class_="legend") for sentence in paper.legend(margin)]
        if printed_rows.empty:
            printed.append(el("p", "None of these runs measures a value printed in a paper.", class_="none"))
    differences = [
        joined(el("h3", f"Paired differences: {paired.title}"), table(paired.frame, sortable=True))
        for paired in group.tables.paired()
    ]
    if group.problem is not None:
        differences = [el("h3", "Paired differences"), el("p", group.problem, class_="note pre")]
    return el(
        "section",
        el("h2", main.title),
        table(main.frame, sortable=True),
        el(
            "details",
            el("summary", "every column"),
            table(full.frame.drop(columns=["scorers", "notes"]), sortable=True),
        ),
        el("h3", "Score against cost"),
        figure,
        el("div", class_="save", data_file=f"d{number}-front", data_name=f"{group.name} score against cost"),
        el(
            "p",
            "Error bars are 95 % intervals, by document (by question where passages are retrieved). Point at "
            "a mark to read its numbers. The cost holds the index, shared by the questions of its document.",
            class_="legend",
        ),
        _kinds_table(group),
        *differences,
        *added,
        *printed,
        el("div", class_="differences", data_place=number),
        el("h3", "Questions"),
        *(el("p", note, class_="note") for note in listed.notes),
        el("div", class_="questions", data_place=number),
        id=_anchor(group.name),
    )


def _kinds_table(group: _Group) -> Html:
    """The headline by each kind of question of which there are several: a row a method, a column a kind."""
    tables = []
    kinds_by_run = [kinds_of(run) for run in group.runs]
    for by in BY:
        if len({kind for run_kinds in kinds_by_run for kind in run_kinds[by]} - {None}) > 1:
            means = frame(split_by_kind(group.runs, by, kinds_by_run))
            most = means.groupby("dataset")["n"].transform("max")
            names = means["dataset"].str.removeprefix(f"{group.name}, {by} ") + " (n = " + most.astype(str) + ")"
            means["dataset"], means["notes"] = names, pd.Series([()] * len(means), index=means.index)
            counted = wide_table(means, intervals=True).drop(  # kinds are no data sets: no mean of them
                columns=["mean", "mean.low", "mean.high", "notes"]
            )
            tables += [
                el("h4", f"{means['headline'].iloc[0]} by {by}"),
                *(table(rows, sortable=True) for _, rows in wide_sections(counted)),
            ]
    return el("details", el("summary", "by kind of question"), *tables) if tables else joined()


def _filled_template(title: str, body: Html, heads: list[dict[str, Any]], blocks: Html, live: bool) -> str:
    """The page's HTML with style, scripts and data in it; heads: of `Questions`; live: whether it follows open runs."""
    style = read_template("page.css")
    script = "".join(read_template(f"{name}.js") for name in (*_SCRIPTS, *(["live"] if live else [])))
    policy = f"default-src 'none'; img-src blob:; style-src '{sha256(style)}'; script-src '{sha256(script)}'"
    policy += "; connect-src 'self'" if live else ""
    return Template(read_template("page.html")).substitute(
        title=joined(title),
        policy=joined(policy),
        style=style,
        body=body,
        data=script_json(heads),
        blocks=blocks,
        script=script,
    )
