"""One self-contained HTML page of all runs: no network, no other file, text from data escaped
everywhere.

    page(runs) ─► "<!doctype html>..."
      top            title, description, a sentence a data set         (finding.py)
      leaderboard    all runs, grouped by data set, method or model    (leaderboard.py), if they differ
      a data set     means · score against FLOPs · paired differences · what packages add · questions
      end            date, models, code, commands, each run            (provenance.py)

A package adds a section to each data set by an entry point of "harness.page_sections": a function
of [(StoredRun, Rows), ...] that returns Html or None. A page that follows open runs has none.

What is seen first needs no script. Questions, searches and the figures' files are compressed blocks
(compressed_json.py), which templates/*.js unpack when they are read; they write text nodes only. A
content security policy lets no other script run, and nothing load but pictures that the page made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
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
from reports.compressed_json import compress_bytes
from reports.details import Limits, Questions, questions
from reports.figures import front
from reports.finding import finding
from reports.gold_rows import rows_of
from reports.html_tables import table
from reports.leaderboard import leaderboard
from reports.main_table import REFERENCE, frame
from reports.markup import Html, filled, read_template, sha256
from reports.methods_by_dataset import sections as wide_sections
from reports.methods_by_dataset import wide_table
from reports.provenance import Written, header

_SCRIPTS = ("page", "save", "player", "answers", "differences", "questions", "leaderboard", "start")


@dataclass(frozen=True)
class Comparison:
    """How the runs of a page are compared.

    reference, force: as in reports.compare.compare; runs that must not be compared get no paired
    differences, and the page says why. convention: how FLOPs are counted, see main_table.frame; by
    default DEFAULT, and beside published numbers the papers' own. margin: points of a score, or
    percent of a cost, within which a measured number is called equivalent to the published one;
    None for a page without published numbers.
    """

    reference: str | None = None
    force: bool = False
    convention: str | None = None
    margin: float | None = None


PLAIN, LIMITS = Comparison(), Limits()


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

    title, description: the heading, and a paragraph below it; written: when and by which command,
    None for a page that equal runs make again; live: for a page that `harness watch` serves,
    seconds between two versions of it; what runs answer meanwhile stands on top.
    """
    if runs or live is None:
        facts.check_runs(runs)
    by_name: dict[str, list[StoredRun]] = {}
    for run in runs:
        by_name.setdefault(facts.run_key(run)[0], []).append(run)
    answers = sum(len(run.records) for run in runs)
    heads, shown, means, blocks = [], [], [], dict[str, Html]()
    top = [description] * bool(description)
    for number, (name, group) in enumerate(sorted(by_name.items())):
        tables, problem = _compared(group, comparison)
        place = {
            run: i for i, run in enumerate(tables.means["run"])
        }  # every list on the page has the table's order
        group.sort(key=lambda run: place[run.name])
        part = sum(len(run.records) for run in group) / answers
        share = replace(limits, size=int(limits.size * part), graphs=int(limits.graphs * part))
        section, listed, files = _section(name, group, tables, comparison, share, live is None)
        heads.append(listed.head)
        shown.append(section | {"problem": problem})
        means.append(tables.means)
        blocks |= {f"d{number}-{key}": Html(text) for key, text in (files | listed.blocks).items()}
        if live is None:  # while runs go on, nothing has been found yet
            sentence = finding(tables.means, group)
            top.append(f"{name}: {sentence}" if len(by_name) > 1 else sentence)
    links = {
        name: f"#d={quote(name, safe='')}" for name in sorted(by_name)
    }  # links to questions begin like this
    several = len({(facts.run_key(run)[0], run.config["model"]["name"]) for run in runs}) > 1
    style = read_template("page.css")
    scripts = [*_SCRIPTS, *(["live"] if live is not None else [])]
    script = Html("").join(read_template(f"{name}.js") for name in scripts)
    policy = f"default-src 'none'; img-src blob:; style-src '{sha256(style)}'; script-src '{sha256(script)}'"
    policy += "" if live is None else "; connect-src 'self'"
    board = leaderboard(pd.concat(means), runs, links) if several else ""
    about = header(runs, written) if runs else ""
    parts = {
        "sections": shown,
        "links": links,
        "board": board,
        "about": about,
        "heads": heads,
        "blocks": blocks,
    }
    code = {"style": style, "script": script, "policy": policy}
    return str(
        filled("page.html", title=title, top=top, live=live, answers=answers, **parts, **code)
    )


def _compared(runs: Sequence[StoredRun], comparison: Comparison) -> tuple[SideBySide, str | None]:
    """(tables of the runs of one data set, why they cannot be compared or None)."""
    counted = comparison.convention or DEFAULT
    reference = comparison.reference if len(runs) > 1 else None
    try:
        return side_by_side(
            runs, reference=reference, force=comparison.force, convention=counted
        ), None
    except UserError as e:
        means = frame(runs, convention=counted, reference=comparison.reference or REFERENCE)
        return SideBySide(ordered(means), None), str(e)


def _section(
    name: str,
    runs: Sequence[StoredRun],
    tables: SideBySide,
    comparison: Comparison,
    limits: Limits,
    with_plugins: bool,
) -> tuple[dict[str, Any], Questions, dict[str, str]]:
    """What section.html shows of a data set; its questions; blocks of its figure."""
    means, differences = tables.means, tables.differences
    # By default the reference of the differences is the first run.
    base = None if differences is None else differences["reference_run"].iloc[0]
    reference = next((i for i, run in enumerate(runs) if run.name == base), 0)
    rows = rows_of(runs)
    listed = questions(
        runs, list(means["method"]), reference, rows, limits, comparison.convention or DEFAULT
    )
    cost = "money" if means["tflops.total"].isna().all() else "total"
    figure, files = front.to_html(front.points(means, runs, cost=cost), listed.head["score"])
    whole = [
        (replace(run, records=run.whole_records), loaded)
        for run, loaded in zip(runs, rows, strict=True)
    ]
    plugins = registry.plugins("harness.page_sections").values() if with_plugins else ()
    (main,), (full,) = (sections(means, columns) for columns in (None, ()))
    printed = legend = None  # published numbers beside the runs', where they were asked for
    if (margin := comparison.margin) is not None:
        beside = paper.frame(runs, margin=margin, convention=comparison.convention)
        printed = (
            [] if beside.empty else [part.frame for part in sections(shortened(beside, "row"), ())]
        )
        legend = paper.legend(margin)
    shown = {
        "name": name,
        "title": main.title,
        "main": table(main.frame, sortable=True),
        "full": table(full.frame.drop(columns=["scorers", "notes"]), sortable=True),
        "figure": figure,
        "kinds": _by_kind(name, runs),
        "differences": [(part.title, table(part.frame, sortable=True)) for part in tables.paired()],
        "added": [registry.import_target(plugin)(whole) for plugin in plugins],
        "printed": printed if printed is None else [table(part, sortable=True) for part in printed],
        "legend": legend,
        "notes": listed.notes,
    }
    return shown, listed, {f"front-{form}": compress_bytes(file) for form, file in files.items()}


def _by_kind(name: str, runs: Sequence[StoredRun]) -> list[tuple[str, list[Html]]]:
    """The headline by kinds of question: a row a method, a column a kind."""
    kind_tables = []
    kinds_by_run = [kinds_of(run) for run in runs]
    for by in BY:
        if len({kind for run_kinds in kinds_by_run for kind in run_kinds[by]} - {None}) > 1:
            means = frame(split_by_kind(runs, by, kinds_by_run))
            most = means.groupby("dataset")["n"].transform("max")
            names = (
                means["dataset"].str.removeprefix(f"{name}, {by} ")
                + " (n = "
                + most.astype(str)
                + ")"
            )
            means["dataset"], means["notes"] = (
                names,
                pd.Series([()] * len(means), index=means.index),
            )
            counted = wide_table(
                means, intervals=True
            ).drop(  # kinds are no data sets: no mean of them
                columns=["mean", "mean.low", "mean.high", "notes"]
            )
            tables = [table(rows, sortable=True) for _, rows in wide_sections(counted)]
            kind_tables.append((f"{means['headline'].iloc[0]} by {by}", tables))
    return kind_tables
