"""The columns of the main table: all that one of them is stands in its entry of COLUMNS.

    # What is read, and what is written.
    Column("tokens.in", tokens_in, whole, Shown.WITHOUT_FLOPS)
    row_cells(row)      -> {"dataset": "musique", "method": "bm25", ..., "n": 20, ...}

A new column is a function of the row and an entry. It is exported to csv and json in the place where
it stands here.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from enum import Enum, auto

from harness.stats.bootstrap import Interval
from harness.storage.run_folder import StoredRun
from harness.types import SCHEMA_NOT_FOLLOWED
from reports import costs, facts
from reports.number_formats import (
    as_factor,
    money_text,
    p_value_text,
    points_of_100,
    three_digits,
    with_sign,
    without_decimals,
)
from reports.search_notes import count_declined
from reports.table_cell import Cell, Row
from reports.table_row import TableRow, known_mean


class Shown(Enum):
    """When a column is printed without being named."""

    WITH_FLOPS = auto()
    """Where the FLOPs of a run are known."""
    WITHOUT_FLOPS = auto()
    """Where they are not, as with a server: money and time say what an answer costs."""
    ALWAYS = auto()
    WHEN_NOT_ZERO = auto()
    NAMED = auto()
    """Only where the user names it or wants all columns."""
    NEVER = auto()
    """It says something about the row to what ranks, titles or explains it."""


@dataclass(frozen=True)
class Column:
    """A column of the main table."""

    name: str
    value: Callable[[TableRow], Cell | Interval]
    """Its cell; of an Interval the mean, with the ends in columns `name`.low and `name`.high."""
    format: Callable[[float], str] | None = None
    """A number as text; None for texts and truth values."""
    shown: Shown = Shown.NAMED
    comes_first: bool = False
    """Whether it is printed before the others of its kind."""
    legend: str = ""
    """A sentence below a table that shows it. What the user need not read there is a comment at the
    entry."""


def row_cells(row: TableRow) -> Row:
    """The row as cells by column name, in the order of csv and json.

    These are the columns of COLUMNS; settings in which runs differ stand after `hash8`, scores
    before `tokens.index`. A mean with an interval has two more cells, NAME.low and NAME.high.
    """
    cells: dict[str, Cell] = {}
    for column in COLUMNS:
        if column.name == _COLUMN_AFTER_SCORES:
            cells |= _score_cells(row)
        cells |= _value_cells(column.name, column.value(row))
        if column.name == _COLUMN_BEFORE_SETTINGS:
            cells |= row.settings_cells()
    return cells


def _value_cells(name: str, value: Cell | Interval) -> Row:
    """The cells of one value: {"n": 20}, or of an Interval {"f1": 0.4, "f1.low": 0.3, "f1.high":
    0.5}."""
    if isinstance(value, Interval):
        return facts.interval_columns(name, value)
    return {name: value}


def _score_cells(row: TableRow) -> Row:
    """The scores of a row, each as NAME, NAME.low and NAME.high: the mean in [0, 1] with its 95 %
    interval by cluster (harness/stats/bootstrap.py). A score of all answers (hf_bleu.corpus_bleu4)
    has its value, where a run has it."""
    cells: dict[str, Cell] = {}
    for name, estimate in row.scores.items():
        cells |= facts.interval_columns(name, estimate)
    return cells


def column_names_shown(shown: Shown) -> list[str]:
    """The names of the columns of a kind in the order in which they are printed: those that come
    first, then the others."""
    columns = [column for column in COLUMNS if column.shown is shown]
    first_names = [column.name for column in columns if column.comes_first]
    other_names = [column.name for column in columns if not column.comes_first]
    return [*first_names, *other_names]


def legends(names: Collection[str]) -> list[str]:
    """The legends of the columns with these names, in the order of COLUMNS; those of columns that
    are shown where FLOPs are known come last."""
    other_legends = []
    flops_legends = []
    for column in COLUMNS:
        if not column.legend or column.name not in names:
            continue
        if column.shown is Shown.WITH_FLOPS:
            flops_legends.append(column.legend)
        else:
            other_legends.append(column.legend)
    return [*other_legends, *flops_legends]


def _was_answered_elsewhere(run: StoredRun) -> bool:
    """Whether another program answered, so that it is not known what it cut or declined."""
    return facts.is_imported(run) or facts.is_application(run)


def _count_not_parsed(row: TableRow) -> int | None:
    """The number of replies that do not follow the answer schema; None where the data set has
    none."""
    if not row.run.config.dataset.answer_schema:
        return None
    return row.run.columns.notes.count(lambda notes: SCHEMA_NOT_FOLLOWED in notes)


def _count_truncated(row: TableRow) -> int | None:
    """The number of questions whose context was cut; None where another program answered."""
    if _was_answered_elsewhere(row.run):
        return None
    return int(row.run.columns.truncated.sum())


def _count_cut_texts(row: TableRow) -> int | None:
    """The number of texts that encoders and rerankers cut; None where another program answered."""
    if _was_answered_elsewhere(row.run):
        return None
    return facts.count_cut_texts(row.run).cut


def _search_tokens(row: TableRow) -> float | None:
    """Mean tokens of the search; None where unknown, as of an application, whose search is not
    seen."""
    if facts.is_application(row.run):
        return None
    return known_mean(row.numbers.search.tokens)


def _count_declined(row: TableRow) -> int | None:
    """The number of questions declined at first; None where another program answered."""
    if _was_answered_elsewhere(row.run):
        return None
    return count_declined(row.run.columns)


def _mean_searches(row: TableRow) -> float | None:
    """Searches in a corpus per question; None where another program answered, or no question
    made one."""
    if _was_answered_elsewhere(row.run):
        return None
    columns = row.run.columns
    searches_by_record = columns.cost("search", "searches", "requests")
    searches_by_record = searches_by_record + columns.cost("answer", "searches", "requests")
    if not searches_by_record.any():
        return None
    return float(searches_by_record.mean())


def _ratio(row: TableRow) -> float | None:
    """TFLOPs with the index over those of the reference; None where there is no ratio."""
    if row.ratio is None:
        return None
    return row.ratio.value


def _ratio_search(row: TableRow) -> float | None:
    """TFLOPs without the index over those of the reference; None where there is no ratio."""
    if row.ratio_search is None:
        return None
    return row.ratio_search.value


_COLUMN_BEFORE_SETTINGS = "hash8"
_COLUMN_AFTER_SCORES = "tokens.index"

COLUMNS = (
    # The run, in front of those settings in which runs differ (reports/settings.py).
    Column("dataset", lambda row: row.dataset),
    # The preset, with the settings in which runs of it differ: "bm25 k=3".
    Column("method", lambda row: row.label),
    Column("model", lambda row: row.model),
    Column("hash8", lambda row: facts.hash8(row.run), shown=Shown.NEVER),
    # The name of the score that runs are known by.
    Column("headline", lambda row: row.headline, shown=Shown.NEVER),
    # Whether the evidence alone was shown.
    Column("upper_bound", lambda row: row.is_upper_bound, shown=Shown.NEVER),
    # Whether it only marks what others must beat.
    Column("floor", lambda row: row.is_floor, shown=Shown.NEVER),
    # Whether questions may be missing.
    Column("unfinished", lambda row: row.is_unfinished, shown=Shown.NEVER),
    # Whether it asked other questions than most finished methods; it is not ranked then.
    Column("asked_otherwise", lambda row: row.asked_otherwise, shown=Shown.NEVER),
    # Counts of questions.
    # Questions recorded.
    Column("n", lambda row: row.n_questions, without_decimals, Shown.ALWAYS),
    # The clusters of harness/stats/question_clusters.py.
    Column("documents", lambda row: row.n_documents, without_decimals, Shown.ALWAYS),
    # They score 0 unless the run says skip.
    Column("failed", lambda row: row.n_failed, without_decimals, Shown.ALWAYS),
    # Questions with cut context.
    Column("truncated", _count_truncated, without_decimals, Shown.ALWAYS),
    Column(
        "not_parsed",
        _count_not_parsed,
        without_decimals,
        Shown.WHEN_NOT_ZERO,
        legend="not_parsed: replies that do not follow the answer schema; they score 0",
    ),
    # Questions without a record, left out by the loader.
    Column(
        "left_out",
        lambda row: facts.count_left_out(row.run),
        without_decimals,
        Shown.WHEN_NOT_ZERO,
        comes_first=True,
    ),
    # Texts that an encoder or reranker read only in part; the notes say of how many.
    Column("texts_cut", _count_cut_texts, without_decimals, Shown.WHEN_NOT_ZERO),
    # Questions answered only by a second request, over the whole document.
    Column("declined", _count_declined, without_decimals, Shown.WHEN_NOT_ZERO),
    Column(
        "searches",
        _mean_searches,
        "{:.1f}".format,
        Shown.WHEN_NOT_ZERO,
        legend="searches: in the corpus, per question",
    ),
    # Tokens through a model, and TFLOPs, by phase: per document for the index, else per question.
    Column("tokens.index", lambda row: known_mean(row.numbers.index.tokens), without_decimals),
    Column("tokens.search", _search_tokens, without_decimals),
    Column("tokens.answer", lambda row: known_mean(row.numbers.answer.tokens), without_decimals),
    Column(
        "tflops.index",
        lambda row: known_mean(row.numbers.index.tflops),
        three_digits,
        Shown.WITH_FLOPS,
    ),
    Column(
        "tflops.search",
        lambda row: known_mean(row.numbers.search.tflops),
        three_digits,
        Shown.WITH_FLOPS,
    ),
    Column(
        "tflops.answer",
        lambda row: known_mean(row.numbers.answer.tflops),
        three_digits,
        Shown.WITH_FLOPS,
    ),
    # The part of the search that probes took; missing for a method without probes.
    Column("tokens.probes", lambda row: known_mean(row.numbers.probes.tokens), without_decimals),
    Column("tflops.probes", lambda row: known_mean(row.numbers.probes.tflops), three_digits),
    # The part of search and answer that a reasoning model thought; else missing.
    Column(
        "tokens.thinking",
        lambda row: known_mean(row.numbers.thinking.tokens),
        without_decimals,
        Shown.WHEN_NOT_ZERO,
        comes_first=True,
    ),
    Column("tflops.thinking", lambda row: known_mean(row.numbers.thinking.tflops), three_digits),
    # Search and answer together, per question.
    Column("tokens", lambda row: row.tokens, without_decimals, Shown.WITH_FLOPS, comes_first=True),
    Column(
        "tokens.in",
        lambda row: known_mean(row.numbers.tokens_in),
        without_decimals,
        Shown.WITHOUT_FLOPS,
    ),
    Column(
        "tokens.out",
        lambda row: known_mean(row.numbers.tokens_out),
        without_decimals,
        Shown.WITHOUT_FLOPS,
    ),
    # Requests to servers (harness/cost/usage.py): per question with its share of the index; then
    # per document, and of all questions and indexes.
    Column(
        "money",
        lambda row: row.money,
        money_text,
        Shown.WITHOUT_FLOPS,
        legend="money by model.price or as an application says, per question with its share of the "
        "index; money.run: of the whole run",
    ),
    Column("money.index", lambda row: known_mean(costs.index_money(row.run)), money_text),
    Column("money.run", lambda row: costs.run_money(row.run), money_text, Shown.WITHOUT_FLOPS),
    # 1e12 FLOPs, with an interval; then with the index, which its document's questions share.
    Column("tflops", lambda row: row.numbers.tflops, three_digits),
    Column("tflops.total", lambda row: row.numbers.tflops_total, three_digits),
    # tflops.total over the reference's (same data set, model and questions), over the questions
    # that both answered; then tflops over the reference's likewise: what the papers print.
    Column(
        "ratio",
        _ratio,
        as_factor,
        Shown.WITH_FLOPS,
        legend="ratio: cost against full-context (or --reference), an index shared by the "
        "questions of its document; ratio.search: without the index, as the papers print it",
    ),
    Column("ratio.search", _ratio_search, as_factor, Shown.WITH_FLOPS),
    # The time that a question's own calls ran.
    Column("seconds", lambda row: known_mean(row.numbers.seconds), three_digits),
    # The median of that over questions, and what 95 % of them do not exceed; missing for an older
    # run of several questions at once: its times hold the queue.
    Column("seconds.p50", lambda row: row.numbers.latency(50), three_digits, Shown.WITHOUT_FLOPS),
    Column(
        "seconds.p95",
        lambda row: row.numbers.latency(95),
        three_digits,
        Shown.WITHOUT_FLOPS,
        legend="seconds: the time of a question's own requests, without the queue",
    ),
    # What a question's calls waited for others or before a retry.
    Column("seconds.queue", lambda row: known_mean(row.numbers.queued), three_digits),
    # Per document.
    Column("seconds.index", lambda row: known_mean(row.numbers.index.seconds), three_digits),
    # What explains the row.
    # How FLOPs are counted: one of harness.cost.flops.CONVENTIONS.
    Column("convention", lambda row: row.numbers.convention, shown=Shown.NEVER),
    # Their versions.
    Column("scorers", lambda row: (facts.scorer_versions(row.run),), shown=Shown.NEVER),
    # Sentences to print below the table.
    Column("notes", lambda row: tuple(row.notes), shown=Shown.NEVER),
    # The name of its folder.
    Column("run", lambda row: row.run.name, shown=Shown.NEVER),
)


def _one_decimal(value: float) -> str:
    """A number with one decimal: "12.3"."""
    return f"{value:.1f}"


def _two_decimals(value: float) -> str:
    """A number with two decimals: "12.34"."""
    return f"{value:.2f}"


def _three_decimals(value: float) -> str:
    """A number with three decimals: "12.345"."""
    return f"{value:.3f}"


_OTHER_FORMATS: dict[str, Callable[[float], str]] = {
    **dict.fromkeys(
        ("t_n", "lowest", "highest", "covered", "break even", "trials"), without_decimals
    ),
    **dict.fromkeys(("nodes", "retries", "requests"), _one_decimal),
    **dict.fromkeys(("mu", "sigma"), _two_decimals),
    "ks": _three_decimals,
    "questions per document": "{:.3g}".format,
    "ours": three_digits,
    **dict.fromkeys(("p", "p_holm"), p_value_text),
    "printed": "{:g}".format,
    "ours minus printed": with_sign,
    **dict.fromkeys(("mean", "reference mean", "difference", "detectable"), points_of_100),
}
"""Of columns of figures, comparisons and printed values."""


def number_format(name: str) -> Callable[[float], str] | None:
    """The function that writes the numbers of a column as text.

    It is looked up by the column's name, else by the part before the first dot ("tokens.min" as
    "tokens"); None where neither is known.
    """
    formats = dict(_OTHER_FORMATS)
    for column in COLUMNS:
        if column.format is not None:
            formats[column.name] = column.format
    return formats.get(name) or formats.get(name.partition(".")[0])
