"""What a page opens with, for who decides: which questions were asked of which methods, the verdict
in words, and a table of quality, money, time and failures.

    Opening("30 questions about 60 documents of wiki", "bm25, hybrid", "bm25 scores ...", rows)
    rows: "bm25"  "85.0 [70.1, 93.2]"  "0.42 EUR a 1,000 questions"  "0.8 / 1.9 s"  "0 / 0 of 30"

What nobody measured is a dash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

from harness.engine.model_warnings import embedded_caveat, is_made_for
from harness.stats.bootstrap import with_interval
from reports import costs, facts
from reports.application_pairs import application_sentences
from reports.cells import MISSING
from reports.finding import finding
from reports.number_formats import money, percent, three_digits
from reports.table_row import TableRow

PER_QUESTIONS = 1000
"""Money is said of so many questions: that of one is a number with too many zeros."""


@dataclass(frozen=True)
class Decided:
    """A run in the table that a page opens with; all values are texts.

    Args:
        method: Its name, with the model where runs have several.
        role: "floor", "upper bound", "other questions", "not finished", or "".
        quality: Its headline score in points of 100.
        interval: "[70.1, 93.2]"; "" where there is none.
        counted: "over 28 of 30 questions", where the score is no mean over all; else "".
        money: Money of 1,000 questions with their share of the indexes.
        seconds: Median and 95th percentile of a question, "0.8 / 1.9".
        failed: Questions that failed, that were left out, and all, "0 / 0 of 30".
    """

    method: str
    role: str
    quality: str
    interval: str
    counted: str
    money: str
    seconds: str
    failed: str


@dataclass(frozen=True)
class Opening:
    """What a page opens with of a data set.

    Args:
        asked: The question set: "wiki, 30 questions about 60 documents".
        methods: The names of the methods, joined by commas.
        verdict: The sentences of finding.py.
        applications: Sentences on each application beside the best of the other methods.
        weak: Sentences on rows that say nothing of their methods, as an embedded model answered.
        marks: Sentences on what may make a row's numbers wrong or not comparable.
        score: The name of the score that is called quality.
        money: What the column of money is: per how many questions, in which currency.
        rows: A row a run, best first.
        unknown: Why a row's money is unknown, a sentence each.
    """

    asked: str
    methods: str
    verdict: str
    applications: Sequence[str]
    weak: Sequence[str]
    marks: Sequence[str]
    score: str
    money: str
    rows: Sequence[Decided]
    unknown: Sequence[str]


def opening(rows: Sequence[TableRow], *, with_name: bool) -> Opening:
    """What a page opens with of one data set: the sentences and the small table for who decides.

    Args:
        rows: The rows of the data set's main table, best first.
        with_name: Whether the verdict says which data set it is about, as the page has several.
    """
    dataset = rows[0].dataset
    verdict = finding(rows)
    if with_name:
        verdict = f"{dataset}: {verdict}"
    models = set()
    # As ordered sets:
    labels: dict[str, None] = {}
    marks: dict[str, None] = {}
    for row in rows:
        if not facts.is_application(row.run):
            models.add(row.model)
        labels[row.label] = None
        marks.update(dict.fromkeys(row.marks))
    return Opening(
        asked=f"{dataset}, {_extent(rows)}",
        methods=", ".join(labels),
        verdict=verdict,
        applications=application_sentences(rows),
        weak=_weak_models(rows),
        marks=list(marks),
        score=rows[0].headline,
        money=_money_unit(rows),
        rows=[_opening_row(row, len(models) > 1) for row in rows],
        unknown=_unknown_money(rows),
    )


def _extent(rows: Sequence[TableRow]) -> str:
    """The numbers of questions and documents, "30 questions about 60 documents"; of rows with other
    numbers, the largest.

    "30 questions" where each has a document of its own, or the documents of a folder were not
    counted.
    """
    questions = max(map(attrgetter("n_questions"), rows))
    documents = max(row.n_documents or 0 for row in rows)
    if not documents or (documents == questions and not rows[0].asks_whole_folder):
        return _number_of(questions, "question")
    return f"{_number_of(questions, 'question')} about {_number_of(documents, 'document')}"


def _weak_models(rows: Sequence[TableRow]) -> list[str]:
    """Sentences on rows that were answered by an embedded model which is none for these questions,
    "bm25, sbert: ..."."""
    methods: dict[str, list[str]] = {}
    for row in rows:
        model = row.run.config.model
        dataset = row.run.config.dataset
        if model.embedded and not is_made_for(dataset):
            methods.setdefault(embedded_caveat(model, dataset), []).append(row.label)
    return [f"{', '.join(labels)}: {caveat}" for caveat, labels in methods.items()]


def currency_of(rows: Sequence[TableRow]) -> str:
    """The currency of all rows that have money; "" where nobody said it, or they differ."""
    named: set[str | None] = set()
    for row in rows:
        if row.money is not None:
            named.add(row.run.config.currency)
    if len(named) != 1:
        return ""
    return named.pop() or ""


def _money_unit(rows: Sequence[TableRow]) -> str:
    """The unit of the column of money: "EUR per 1,000 questions", or "per 1,000 questions, currency
    not named"."""
    unit = f"per {PER_QUESTIONS:,} questions"
    currency = currency_of(rows)
    if currency:
        return f"{currency} {unit}"
    if all(row.money is None for row in rows):
        return unit
    return f"{unit}, currency not named"


def _unknown_money(rows: Sequence[TableRow]) -> list[str]:
    """For each reason, a sentence on the rows whose money is unknown for it.

    -> ["Money of hybrid-rerank is unknown: reranker.price of the reranker is not set."]
    """
    labels: dict[str, dict[str, None]] = {}
    for row in rows:
        if row.money is not None:
            continue
        reason = costs.why_money_is_unknown(row.run)
        if reason:
            labels.setdefault(reason, {})[row.label] = None
    return [f"Money of {', '.join(named)} is unknown: {why}." for why, named in labels.items()]


def money_of_many(row: TableRow) -> float | None:
    """Money of 1,000 questions with their share of the indexes; None where it is unknown."""
    if row.money is None:
        return None
    return PER_QUESTIONS * row.money


def _number_of(number: int, noun: str) -> str:
    """A number with its noun: "1 question", "1,200 questions"."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun}s"


def _opening_row(row: TableRow, several_models: bool) -> Decided:
    """The row of the opening's table that a row of the main table gives.

    Args:
        row: The row.
        several_models: Whether rows have different models, so that a method is named with its own.
    """
    method = row.label
    if several_models:
        method = row.label_with_model
    quality, interval = _quality(row)
    return Decided(
        method=method,
        role=_role(row),
        quality=quality,
        interval=interval,
        counted=_counted(row),
        money=_money(row),
        seconds=f"{_seconds(row, 50)} / {_seconds(row, 95)}",
        failed=f"{row.n_failed} / {facts.left_out(row.run)} of {_all_questions(row)}",
    )


def _all_questions(row: TableRow) -> int:
    """The number of questions of a row's run, with those that were left out."""
    return row.n_questions + facts.left_out(row.run)


def _quality(row: TableRow) -> tuple[str, str]:
    """The headline score and its interval as two texts, ("85.0", "[70.1, 93.2]"); ("–", "") without
    a score."""
    score = row.score(row.headline)
    if score.mean is None:
        return MISSING, ""
    quality, _, interval = with_interval(percent, score.mean, score.low, score.high).partition(" ")
    return quality, interval


def _counted(row: TableRow) -> str:
    """Over how many questions the headline score is; "" where that is all of the run, or unknown."""
    if row.headline not in facts.score_names(row.run):
        return ""
    n_counted = len(facts.scored(row.run, row.headline).ids)
    if n_counted == row.n_questions:
        return ""
    return f"over {n_counted} of {_number_of(row.n_questions, 'question')}"


def _money(row: TableRow) -> str:
    """Money of 1,000 questions as a text; "–" where it is unknown."""
    amount = money_of_many(row)
    if amount is None:
        return MISSING
    return money(amount)


def _seconds(row: TableRow, share: int) -> str:
    """Seconds that `share` percent of the answers do not exceed, as a text; "–" where unknown."""
    latency = row.numbers.latency(share)
    if latency is None:
        return MISSING
    return three_digits(latency)


def _role(row: TableRow) -> str:
    """What keeps a row from being chosen, such as "floor"; "" for a method like the others."""
    if row.asked_otherwise:
        return "other questions"
    if row.is_floor:
        return "floor"
    if row.is_upper_bound:
        return "upper bound"
    if row.is_unfinished:
        return "not finished"
    return ""
