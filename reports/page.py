"""One self-contained HTML page of all runs: no network, no other file, text from data escaped
everywhere.

    page(runs) ─► "<!doctype html>..."
      top            title, description; of each data set questions, methods, verdict,
                     quality, money, time and failures                 (opening.py, finding.py)
      leaderboard    all runs, grouped by data set, method or model    (leaderboard.py), if they differ
      a data set     means · score against FLOPs · paired differences · what packages add · questions
      end            date, models, code, commands, each run            (provenance.py)

A package adds a section to each data set by an entry point of "harness.page_sections": a function
of [(StoredRun, Rows), ...] that returns Html or None. A page that follows open runs has none.

What is seen first needs no script. Questions, searches and the figures' files are compressed blocks
(compressed_json.py), which templates/*.js unpack when they are read; they write text nodes only. A
content security policy lets no other script run, and nothing load but pictures that the page made.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import NamedTuple
from urllib.parse import quote

from harness.config import plugins, registry
from harness.cost.flops import DEFAULT_CONVENTION
from harness.errors import UserError
from harness.storage.run_folder import StoredRun
from reports import facts, paper
from reports.by_kind import CRITERIA, kinds_by_criterion, split_by_kind
from reports.checks import Checks
from reports.columns import sections, with_short_texts
from reports.compare import SideBySide, side_by_side
from reports.compressed_json import compress_bytes
from reports.details import PageLimits, PageQuestions, page_questions
from reports.figures import front
from reports.gold_rows import QuestionRows, read_rows_of_runs
from reports.html_tables import table_html
from reports.leaderboard import leaderboard
from reports.main_table import REFERENCE, as_frame, best_first, table_rows
from reports.markup import Html, csp_hash, fill_template, read_template
from reports.methods_by_dataset import wide_table
from reports.not_checked import not_checked_phrases
from reports.opening import Opening, opening
from reports.provenance import PageOrigin, provenance_section
from reports.section import Section
from reports.table_row import TableRow

_SCRIPTS = ("page", "save", "player", "answers", "differences", "questions", "leaderboard", "start")


@dataclass(frozen=True)
class Comparison:
    """How the runs of a page are compared.

    Args:
        reference: A label, a preset's name, or a run folder's name or hash; by default full-context
            where it was run, else the first run.
        force: Whether runs are compared that differ in more than the method. Without it they get no
            paired differences, and the page says why.
        convention: How FLOPs are counted; None for the default, and beside published numbers for
            the papers' own.
        margin: Points of a score, or percent of a cost, within which a measured number is called
            equivalent to the published one; None for a page without published numbers.
    """

    reference: str | None = None
    force: bool = False
    convention: str | None = None
    margin: float | None = None

    @property
    def table_convention(self) -> str:
        """The convention by which tables of runs count FLOPs."""
        return self.convention or DEFAULT_CONVENTION


PLAIN = Comparison()
LIMITS = PageLimits()


@dataclass(frozen=True)
class PageOptions:
    """What a page shows besides its runs.

    Args:
        title: The heading.
        description: A paragraph below it.
        comparison: How the runs are compared.
        limits: How much of the questions is there.
        written: When and by which command; None for a page that equal runs make again.
        workbook: Where the .xlsx file of the tables lies, from the page's folder; None for none.
        live: For a page that `harness watch` serves, the seconds between two versions of it; what
            runs answer meanwhile stands on top.
        damaged: The names of damaged runs that were left out.
    """

    title: str = "Runs"
    description: str = ""
    comparison: Comparison = PLAIN
    limits: PageLimits = LIMITS
    written: PageOrigin | None = None
    live: float | None = None
    workbook: str | None = None
    damaged: Sequence[str] = ()

    @property
    def is_live(self) -> bool:
        """Whether runs go on while the page is read."""
        return self.live is not None


PLAIN_PAGE = PageOptions()


def page(
    runs: Sequence[StoredRun], options: PageOptions = PLAIN_PAGE, checks: Checks | None = None
) -> str:
    """The HTML page of the runs as text.

    Args:
        runs: Stored runs.
        options: What it shows besides.
        checks: What was found in the runs; by default they are read for it.

    Raises:
        UserError: There are no runs, unless the page is live, or runs without records.
    """
    is_live = options.is_live
    if runs or not is_live:
        facts.check_runs(runs)
    checks = checks or Checks()
    parts = _dataset_parts(runs, options, checks)
    links = {part.name: _link(part.name) for part in parts}
    style = read_template("page.css")
    script = _script(is_live=is_live)
    return str(
        fill_template(
            "page.html",
            title=options.title,
            description=options.description,
            openings=_openings(parts, is_live=is_live),
            workbook=options.workbook,
            damaged=options.damaged,
            live=options.live,
            answers=_count_answers(runs),
            sections=[part.section for part in parts],
            links=links,
            board=_leaderboard(parts, links),
            about=_provenance_section(runs, options, checks),
            heads=[asdict(part.questions.head) for part in parts],
            blocks=_compressed_blocks(parts),
            style=style,
            script=script,
            policy=_content_security_policy(style, script, is_live=is_live),
        )
    )


@dataclass(frozen=True)
class DatasetSection:
    """What templates/section.html shows of a data set.

    Args:
        name: The data set.
        title: Its heading, with the model where all runs share it.
        main: The main table with the columns that fit a screen.
        full: The main table with all columns.
        figure: The figure of score against cost.
        not_in_figure: Which runs the figure lacks, and why; "" for none.
        kinds: Titled tables of the headline by kinds of question.
        problem: Why the runs cannot be compared, or None.
        differences: Titled tables of paired differences.
        added: What packages add.
        printed: Tables beside published numbers; None where these were not wanted.
        legend: Sentences that explain these tables; None likewise.
        notes: Sentences above the questions.
    """

    name: str
    title: str
    main: Html
    full: Html
    figure: Html
    not_in_figure: str
    kinds: Sequence[tuple[str, Sequence[Html]]]
    problem: str | None
    differences: Sequence[tuple[str, Html]]
    added: Sequence[Html | None]
    printed: Sequence[Html] | None
    legend: Sequence[str] | None
    notes: Sequence[str]


@dataclass(frozen=True)
class _DatasetPart:
    """All that the page has of one data set.

    Args:
        name: The data set.
        rows: The rows of the main table, best first.
        section: What its section shows.
        questions: Its questions, and what is unpacked of them.
        files: The files of its figure, compressed, by the names of their blocks: "front-svg".
    """

    name: str
    rows: Sequence[TableRow]
    section: DatasetSection
    questions: PageQuestions
    files: Mapping[str, str]


def _dataset_parts(
    runs: Sequence[StoredRun], options: PageOptions, checks: Checks
) -> list[_DatasetPart]:
    """The parts of the page, one a data set, in the order of their names.

    Each data set gets that share of the limits that it has of all answers.
    """
    limits = options.limits
    parts = []
    for name, dataset_runs in sorted(facts.runs_by_dataset(runs).items()):
        share = _count_answers(dataset_runs) / _count_answers(runs)
        dataset_limits = replace(
            limits,
            max_bytes=int(limits.max_bytes * share),
            max_graph_bytes=int(limits.max_graph_bytes * share),
        )
        dataset_options = replace(options, limits=dataset_limits)
        parts.append(_dataset_part(name, dataset_runs, dataset_options, checks))
    return parts


def _count_answers(runs: Sequence[StoredRun]) -> int:
    """The number of records of all runs."""
    return sum(len(run.records) for run in runs)


def _dataset_part(
    name: str, runs: Sequence[StoredRun], options: PageOptions, checks: Checks
) -> _DatasetPart:
    """What the page has of one data set: tables, figure, differences, tables by kind of question,
    printed values, what packages add (not on a live page), and questions.

    Args:
        name: The data set.
        runs: Its runs.
        options: Those of the page, with the data set's share of the limits.
        checks: What was found in the runs.
    """
    comparison = options.comparison
    compared = _tables_of_runs(runs, comparison, checks)
    tables = compared.tables
    rows = tables.rows
    ordered_runs = [row.run for row in rows]  # every list on the page has the table's order
    rows_by_run = read_rows_of_runs(ordered_runs)
    labels = [row.label for row in rows]
    reference = _reference_position(tables)
    questions = page_questions(
        ordered_runs, labels, reference, rows_by_run, options.limits, comparison.table_convention
    )
    figure = _figure_of_costs(rows, questions.head.score)
    frame = as_frame(rows)
    (main_table,) = sections(frame)  # one, as the rows are of one data set
    (full_table,) = sections(frame, ())  # with all columns
    published = _published_tables(ordered_runs, comparison)
    added_html: list[Html | None] = []
    if not options.is_live:
        added_html = _sections_of_packages(ordered_runs, rows_by_run)
    section = DatasetSection(
        name=name,
        title=main_table.title,
        main=table_html(main_table.frame, sortable=True),
        full=table_html(full_table.frame.drop(columns=["scorers", "notes"]), sortable=True),
        figure=figure.html,
        not_in_figure=figure.lacking_runs,
        kinds=_tables_by_kind(name, ordered_runs, checks),
        problem=compared.problem,
        differences=_titled_tables(tables.paired()),
        added=added_html,
        printed=published.tables,
        legend=published.legend,
        notes=questions.notes,
    )
    return _DatasetPart(name, rows, section, questions, files=figure.files)


class _FigureOfCosts(NamedTuple):
    """The figure of score against cost of one data set.

    Attributes:
        html: The drawing.
        lacking_runs: A sentence on the runs that it lacks; "" for none.
        files: It as compressed files to download: {"front-svg": "...", "front-pdf": "..."}.
    """

    html: Html
    lacking_runs: str
    files: Mapping[str, str]


def _figure_of_costs(rows: Sequence[TableRow], score: str) -> _FigureOfCosts:
    """The figure of score against cost: FLOPs with the index, or money where no FLOPs are known.

    Args:
        rows: The rows of the data set.
        score: The name of the score.
    """
    cost = _figure_cost(rows)
    points = front.points(rows, cost=cost)
    html, content_by_form = front.to_html(points, score)
    files = {}
    for form, content in content_by_form.items():
        files[f"front-{form}"] = compress_bytes(content)
    return _FigureOfCosts(html, _not_in_figure(rows, cost), files)


class _ComparedTables(NamedTuple):
    """The tables of the runs of one data set.

    Attributes:
        tables: Means and paired differences; means only where there is a problem.
        problem: Why the runs cannot be compared; None where they can.
    """

    tables: SideBySide
    problem: str | None


def _tables_of_runs(
    runs: Sequence[StoredRun], comparison: Comparison, checks: Checks
) -> _ComparedTables:
    """The tables of the runs of one data set, compared if they may be; else the means alone, with
    the reason as `problem`.

    Args:
        runs: The runs.
        comparison: How they are compared.
        checks: What was found in them.
    """
    reference = None
    if len(runs) > 1:
        reference = comparison.reference
    try:
        tables = side_by_side(
            runs,
            reference=reference,
            force=comparison.force,
            convention=comparison.table_convention,
            checks=checks,
        )
    except UserError as error:
        rows = table_rows(
            runs,
            convention=comparison.table_convention,
            reference=comparison.reference or REFERENCE,
            checks=checks,
        )
        return _ComparedTables(SideBySide(best_first(rows)), problem=str(error))
    return _ComparedTables(tables, problem=None)


def _reference_position(tables: SideBySide) -> int:
    """The place in the table of the run that the differences are to; 0 where there are none."""
    if not tables.pairs:
        return 0
    name = tables.pairs[0].pair.base.name
    for position, row in enumerate(tables.rows):
        if row.run.name == name:
            return position
    return 0


def _figure_cost(rows: Sequence[TableRow]) -> str:
    """The cost that the figure shows: "total" (FLOPs with the index), or "money" where no run's
    FLOPs are known."""
    for row in rows:
        if row.numbers.tflops_total.mean is not None:
            return "total"
    return "money"


def _not_in_figure(rows: Sequence[TableRow], cost: str) -> str:
    """Which runs the figure lacks as their cost is unknown: "Not in the figure, as TFLOPs are
    unknown: bot."; "" for none.

    Args:
        rows: The rows of the data set.
        cost: The cost that the figure shows, a key of front.COSTS.
    """
    kind = front.COSTS[cost]
    unknown = [row.label for row in rows if kind.cost_of_row(row) is None]
    if not unknown:
        return ""
    return f"Not in the figure, as {kind.unit} of these are unknown: {', '.join(unknown)}."


def _titled_tables(parts: Sequence[Section]) -> list[tuple[str, Html]]:
    """The tables as HTML that a reader can sort, each with its title: [("musique", table), ...]."""
    titles = [part.title for part in parts]
    return list(zip(titles, _tables(parts), strict=True))


def _tables(parts: Sequence[Section]) -> list[Html]:
    """The tables as HTML that a reader can sort, in their order."""
    return [table_html(part.frame, sortable=True, gaps=part.gaps) for part in parts]


def _sections_of_packages(
    runs: Sequence[StoredRun], rows: Sequence[QuestionRows]
) -> list[Html | None]:
    """What each installed package adds to the section of a data set; None where it adds nothing.

    A package names a function under the entry point "harness.page_sections", which gets the runs
    with their texts and rows.

    Args:
        runs: Its runs.
        rows: The data set's rows as each run read them.
    """
    runs_with_texts = []
    for run, run_rows in zip(runs, rows, strict=True):
        run_with_texts = replace(run, records=run.records_with_texts)
        runs_with_texts.append((run_with_texts, run_rows))
    sections_of_packages = []
    for target in plugins.targets("harness.page_sections").values():
        make_section = registry.import_target(target)
        sections_of_packages.append(make_section(runs_with_texts))
    return sections_of_packages


class _PublishedTables(NamedTuple):
    """Tables of published numbers beside measured ones; None where they were not wanted.

    Attributes:
        tables: The tables; [] where no number was published for these runs.
        legend: Sentences that explain them.
    """

    tables: list[Html] | None
    legend: Sequence[str] | None


def _published_tables(runs: Sequence[StoredRun], comparison: Comparison) -> _PublishedTables:
    """Tables of published numbers beside those of the runs, where a margin was given for them."""
    margin = comparison.margin
    if margin is None:
        return _PublishedTables(None, None)
    published = paper.frame(runs, margin=margin, convention=comparison.convention)
    if published.empty:
        return _PublishedTables([], paper.legend(margin))
    all_columns = ()
    parts = sections(with_short_texts(published, "row"), all_columns)
    return _PublishedTables(_tables(parts), paper.legend(margin))


def _tables_by_kind(
    name: str, runs: Sequence[StoredRun], checks: Checks
) -> list[tuple[str, list[Html]]]:
    """Titled tables of the headline by kinds of question: a row a method, a column a kind.

        -> [("f1 by hops", [table]), ("f1 by length", [table])]

    A criterion by which fewer than two kinds are known has no table.

    Args:
        name: The data set.
        runs: Its runs.
        checks: What was found in them.
    """
    kinds_by_run = [kinds_by_criterion(run) for run in runs]
    titled_tables = []
    for criterion in CRITERIA:
        kinds: set[str | None] = set()
        for kinds_of_run in kinds_by_run:
            kinds.update(kinds_of_run[criterion])
        known_kinds = kinds - {None}
        if len(known_kinds) < 2:
            continue
        rows = table_rows(split_by_kind(runs, criterion, kinds_by_run), checks=checks)
        rows_by_kind = _with_kind_as_dataset(rows, prefix=f"{name}, {criterion} ")
        table = wide_table(rows_by_kind, intervals=True)
        kind_sections = replace(table, only_cells=True).sections()
        titled_tables.append((f"{rows[0].headline} by {criterion}", _tables(kind_sections)))
    return titled_tables


def _with_kind_as_dataset(rows: Sequence[TableRow], prefix: str) -> list[TableRow]:
    """The rows with their kind and its number of questions, "2 (n = 5)", in place of the data set,
    and without notes.

    Args:
        rows: The rows of runs that were split by kind.
        prefix: What stands before the kind in the names of their data sets.
    """
    n_questions_by_dataset: dict[str, int] = {}  # the most of any run
    for row in rows:
        n_before = n_questions_by_dataset.get(row.dataset, 0)
        n_questions_by_dataset[row.dataset] = max(row.n_questions, n_before)
    renamed_rows = []
    for row in rows:
        kind = row.dataset.removeprefix(prefix)
        name = f"{kind} (n = {n_questions_by_dataset[row.dataset]})"
        renamed_rows.append(replace(row, dataset=name, notes=[]))
    return renamed_rows


def _link(name: str) -> str:
    """The link to a data set's section, "#d=musique"; links to its questions start with it."""
    return f"#d={quote(name, safe='')}"


def _openings(parts: Sequence[_DatasetPart], *, is_live: bool) -> list[Opening]:
    """What the page opens with of each data set; [] for a live page, as nothing has been found
    yet."""
    if is_live:
        return []
    several = len(parts) > 1
    return [opening(part.rows, with_name=several) for part in parts]


def _leaderboard(parts: Sequence[_DatasetPart], links: Mapping[str, str]) -> Html | str:
    """The table of all runs; "" where they are of one data set and model.

    Args:
        parts: The parts of the page.
        links: Data set -> link to its section.
    """
    rows: list[TableRow] = []
    for part in parts:
        rows += part.rows
    groups = {(row.dataset, row.model) for row in rows}
    if len(groups) < 2:
        return ""
    return leaderboard(rows, links)


def _provenance_section(
    runs: Sequence[StoredRun], options: PageOptions, checks: Checks
) -> Html | str:
    """The section on when, with what and by which commands the runs were made, and what was not
    checked of them; "" without a run.

    Args:
        runs: The runs.
        options: Those of the page.
        checks: What was found in the runs.
    """
    if not runs:
        return ""
    return provenance_section(runs, options.written, not_checked_phrases(runs, checks))


def _compressed_blocks(parts: Sequence[_DatasetPart]) -> dict[str, Html]:
    """The compressed blocks that scripts unpack when they are read: "d0-list", "d0-front-svg",
    where d0 is the first data set."""
    blocks = {}
    for number, part in enumerate(parts):
        for key, content in {**part.files, **part.questions.blocks}.items():
            blocks[f"d{number}-{key}"] = Html(content)
    return blocks


def _script(*, is_live: bool) -> Html:
    """All scripts of the page joined to one; a live page has the script "live" as well."""
    names = list(_SCRIPTS)
    if is_live:
        names.append("live")
    return Html("").join(read_template(f"{name}.js") for name in names)


def _content_security_policy(style: str, script: str, *, is_live: bool) -> str:
    """The content security policy: nothing runs but the page's own script.

    Args:
        style: The style of the page.
        script: Its script.
        is_live: Whether it may ask its server for news.
    """
    policy = (
        f"default-src 'none'; img-src blob:; style-src '{csp_hash(style)}'; "
        f"script-src '{csp_hash(script)}'"
    )
    if is_live:
        policy += "; connect-src 'self'"
    return policy
