"""What a page opens with, for who decides: which questions were asked of which methods, the verdict
in words, and a table of quality, money, time and failures.

    Opening("30 questions about 60 documents of wiki", "bm25, hybrid", "bm25 scores ...", rows)
    rows: "bm25"  "85.0 [70.1, 93.2]"  "0.42 EUR a 1,000 questions"  "0.8 / 1.9 s"  "0 / 0 of 30"

What nobody measured is a dash.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from harness.engine.model_warnings import embedded_caveat, is_made_for
from harness.stats.bootstrap import with_interval
from harness.stats.question_clusters import has_clusters_of_one
from reports import costs, facts
from reports.application_pairs import application_sentences
from reports.cells import MISSING
from reports.finding import finding_text
from reports.number_formats import money_text, points_of_100, three_digits
from reports.table_row import TableRow

MONEY_QUESTIONS = 1000
"""Money is said of so many questions: that of one is a number with too many zeros."""


@dataclass(frozen=True)
class OpeningRow:
    """A run in the table that a page opens with; all values are texts.

    Args:
        method: Its name, with the model where runs have several.
        role: "floor", "upper bound", "does not fit", "copied answers", "another seed", "other
            questions", "not finished", or "".
        quality: Its headline score in points of 100.
        interval: "[70.1, 93.2]"; "" where there is none.
        scored_questions: "over 28 of 30 questions"; "" where the score is a mean over all.
        money: Money of 1,000 questions with their share of the indexes.
        seconds: Median and 95th percentile of a question, "0.8 / 1.9".
        failed: Questions that failed, that were left out, and all, "0 / 0 of 30".
    """

    method: str
    role: str
    quality: str
    interval: str
    scored_questions: str
    money: str
    seconds: str
    failed: str


@dataclass(frozen=True)
class Opening:
    """What a page opens with of a data set.

    Args:
        questions: The question set: "wiki, 30 questions about 60 documents".
        methods: The names of the methods, joined by commas.
        verdict: The sentences of finding.py.
        applications: Sentences on each application beside the best of the other methods.
        model_caveats: Sentences on rows that an embedded model answered, which say nothing of their
            methods.
        warnings: Sentences on what may make a row's numbers wrong or not comparable.
        score_name: The name of the score that is called quality.
        money_unit: Per how many questions money is, and in which currency.
        rows: A row a run, best first.
        money_notes: Why a row's money is unknown, a sentence each.
    """

    questions: str
    methods: str
    verdict: str
    applications: Sequence[str]
    model_caveats: Sequence[str]
    warnings: Sequence[str]
    score_name: str
    money_unit: str
    rows: Sequence[OpeningRow]
    money_notes: Sequence[str]


def opening(rows: Sequence[TableRow], *, with_name: bool) -> Opening:
    """What a page opens with of one data set: the sentences and the small table for who decides on a
    method.

    Args:
        rows: The rows of the data set's main table, best first.
        with_name: Whether the verdict says which data set it is about, as the page has several.
    """
    dataset = rows[0].dataset
    verdict = finding_text(rows)
    if with_name:
        verdict = f"{dataset}: {verdict}"
    models = set()
    # the keys of these serve as ordered sets
    labels: dict[str, None] = {}
    warnings: dict[str, None] = {}
    for row in rows:
        if not facts.is_application(row.run):
            models.add(row.model)
        labels[row.label] = None
        warnings.update(dict.fromkeys(row.warnings))
    return Opening(
        questions=f"{dataset}, {_counts_in_words(rows)}",
        methods=", ".join(labels),
        verdict=verdict,
        applications=application_sentences(rows),
        model_caveats=_caveats_on_models(rows),
        warnings=list(warnings),
        score_name=rows[0].headline,
        money_unit=_money_unit(rows),
        rows=[_opening_row(row, several_models=len(models) > 1) for row in rows],
        money_notes=_why_money_is_unknown(rows),
    )


def _counts_in_words(rows: Sequence[TableRow]) -> str:
    """The numbers of questions and documents, "30 questions about 60 documents"; of rows with other
    numbers, the largest.

    "30 questions" where each has a document of its own, all are about one corpus, or the documents
    of a folder were not counted.
    """
    n_questions = max(row.n_questions for row in rows)
    n_documents = max(_count_documents(row) for row in rows)
    each_has_its_own = n_documents == n_questions and not rows[0].asks_whole_folder
    questions = _with_noun(n_questions, "question")
    if n_documents == 0 or each_has_its_own:
        return questions
    return f"{questions} about {_with_noun(n_documents, 'document')}"


def _count_documents(row: TableRow) -> int:
    """The number of documents that a run's questions are about; 0 for a corpus, and for a folder
    whose documents were not counted."""
    if row.asks_whole_folder:
        return row.n_documents or 0
    if has_clusters_of_one(row.run.config.dataset.format):
        return 0
    return len(facts.document_ids(row.run, row.run.columns.id_set))


def _caveats_on_models(rows: Sequence[TableRow]) -> list[str]:
    """Sentences on rows that the small model in the package answered, which was made for other
    questions, "bm25, sbert: ..."; rows with the same caveat in one."""
    labels_by_caveat: dict[str, list[str]] = {}
    for row in rows:
        model = row.run.config.model
        dataset = row.run.config.dataset
        if model.embedded and not is_made_for(dataset):
            labels_by_caveat.setdefault(embedded_caveat(model, dataset), []).append(row.label)
    return [f"{', '.join(labels)}: {caveat}" for caveat, labels in labels_by_caveat.items()]


def common_currency(rows: Sequence[TableRow]) -> str:
    """The currency of all rows that have money; "" where nobody said it, or they differ."""
    currencies: set[str | None] = set()
    for row in rows:
        if row.money is not None:
            currencies.add(row.run.config.currency)
    if len(currencies) != 1:
        return ""
    currency = currencies.pop()
    return currency or ""


def _money_unit(rows: Sequence[TableRow]) -> str:
    """The unit of the column of money: "EUR per 1,000 questions", or "per 1,000 questions, currency
    not named"."""
    unit = f"per {MONEY_QUESTIONS:,} questions"
    currency = common_currency(rows)
    if currency:
        return f"{currency} {unit}"
    no_row_has_money = all(row.money is None for row in rows)
    if no_row_has_money:
        return unit
    return f"{unit}, currency not named"


def _why_money_is_unknown(rows: Sequence[TableRow]) -> list[str]:
    """For each reason, a sentence on the rows whose money is unknown for it.

    -> ["Money of hybrid-rerank is unknown: reranker.price of the reranker is not set."]
    """
    labels_by_reason: dict[str, list[str]] = {}
    for row in rows:
        if row.money is not None:
            continue
        reason = costs.why_money_is_unknown(row.run)
        if reason:
            labels = labels_by_reason.setdefault(reason, [])
            if row.label not in labels:
                labels.append(row.label)
    sentences = []
    for reason, labels in labels_by_reason.items():
        sentences.append(f"Money of {', '.join(labels)} is unknown: {reason}.")
    return sentences


def money_of_1000_questions(row: TableRow) -> float | None:
    """Money of 1,000 questions with their share of the indexes; None where it is unknown."""
    if row.money is None:
        return None
    return MONEY_QUESTIONS * row.money


def _with_noun(count: int, noun: str) -> str:
    """A number with its noun: "1 question", "1,200 questions"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun}s"


def _opening_row(row: TableRow, *, several_models: bool) -> OpeningRow:
    """The row of the opening's table that a row of the main table gives.

    Args:
        row: The row.
        several_models: Whether rows have different models, so that a method is named with its own.
    """
    method = row.label
    if several_models:
        method = row.label_with_model
    score = _score_texts(row)
    return OpeningRow(
        method=method,
        role=_role(row),
        quality=score.points,
        interval=score.interval,
        scored_questions=_scored_questions_text(row),
        money=_money_text(row),
        seconds=f"{_seconds_text(row, 50)} / {_seconds_text(row, 95)}",
        failed=f"{row.n_failed} / {facts.count_left_out(row.run)} of {_count_all_questions(row)}",
    )


def _count_all_questions(row: TableRow) -> int:
    """The number of questions of a row's run, with those that were left out."""
    return row.n_questions + facts.count_left_out(row.run)


class _ScoreTexts(NamedTuple):
    """A score as texts: "85.0" and "[70.1, 93.2]"; the interval is "" where there is none."""

    points: str
    interval: str


def _score_texts(row: TableRow) -> _ScoreTexts:
    """The headline score of a row and its interval as texts; "–" without a score."""
    score = row.score(row.headline)
    if score.mean is None:
        return _ScoreTexts(MISSING, "")
    text = with_interval(points_of_100, score.mean, score.low, score.high)  # "85.0 [70.1, 93.2]"
    points, _, interval = text.partition(" ")
    return _ScoreTexts(points, interval)


def _scored_questions_text(row: TableRow) -> str:
    """Over how many questions the headline score is, "over 28 of 30 questions"; "" where that is
    all of the run, or unknown."""
    if row.headline not in facts.score_names(row.run):
        return ""
    n_scored = len(facts.score_values(row.run, row.headline).ids)
    if n_scored == row.n_questions:
        return ""
    return f"over {n_scored} of {_with_noun(row.n_questions, 'question')}"


def _money_text(row: TableRow) -> str:
    """Money of 1,000 questions as a text, "0.42"; "–" where it is unknown."""
    money = money_of_1000_questions(row)
    if money is None:
        return MISSING
    return money_text(money)


def _seconds_text(row: TableRow, percent_of_answers: int) -> str:
    """Seconds that so many percent of the answers do not exceed, as a text; "–" where unknown."""
    seconds = row.numbers.latency(percent_of_answers)
    if seconds is None:
        return MISSING
    return three_digits(seconds)


def _role(row: TableRow) -> str:
    """What keeps a row's method from being chosen, the first that holds, such as "floor"; "" for
    nothing."""
    if row.has_misfits:
        return "does not fit"
    if row.has_copied_answers:
        return "copied answers"
    if row.differs_in_seed_alone:
        return "another seed"
    if row.asked_otherwise:
        return "other questions"
    if row.is_floor:
        return "floor"
    if row.is_upper_bound:
        return "upper bound"
    if row.is_unfinished:
        return "not finished"
    return ""
