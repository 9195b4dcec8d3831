"""Score and answer recall by the length of what a question is asked about (LongRefiner, figures 3
and 4).

    length         tokens of all documents of a question, counted by the reader's tokenizer (handed in)
    edges          500, 900     ->     up to 500 | 501 to 900 | over 900
                   three, that part the questions of a data set into four about equal groups

The buckets are the same for all runs over the same rows with the same model. The row "all" holds
all questions. Runs over texts that are made for several lengths (dataset.tokens) are a point each,
those of a method a line; several such data sets of one family (ruler/vt, ruler/cwe) have their mean
below: they are samples of their own, so the errors of their means add in quadrature, as in
reports/paper/measured.py.

dataset method model length                 the bucket's name
tokens.from tokens.mean tokens.to           shortest, mean and longest of its questions
score mean mean.low mean.high               the score's name, its mean in [0, 1], 95 % interval clustered by document
answer_recall answer_recall.low .high       share of questions whose gold answer stands in what the reader was shown,
                                            in whole words; questions with no answer but yes, no and the like left out
answer_recall_substring (.low .high)        share of questions of whose shown texts one contains a gold answer as a
                                            substring, over all questions (FlashRAG's retrieval recall)
n failed notes run
"""

import functools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pandas as pd

from harness.errors import UserError
from harness.stats.bootstrap import NOTHING, Interval, interval
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.answer_recall import was_answer_shown, was_answer_shown_as_substring
from reports.figures import plot
from reports.figures.figure import COLUMNS_IN_TITLE, Figure, by_score
from reports.figures.plot import Axis, Panel
from reports.figures.tokens import TextGroup, text_group, token_counter
from reports.gold_rows import QuestionRows, runs_with_rows
from reports.run_notes import run_notes

ALL = "all"
GROUPS = 4
_RECALL_COLUMN = "answer_recall"
_SUBSTRING_COLUMN = "answer_recall_substring"
_MADE_LENGTH_OPTION = "tokens"  # the option of a data set whose texts are made for a length


@dataclass(frozen=True)
class LengthRow:
    """A row of the table: the questions of one run whose texts have a length.

    Args:
        dataset: Name of the data set, or of a family of data sets.
        method: The method's name in tables.
        model: The reader's name.
        length: The bucket's name.
        shortest: Fewest tokens that one of its questions is asked about.
        mean_tokens: Mean tokens of its questions.
        longest: Most tokens of one of its questions.
        score: The name of the score.
        mean: Of the score.
        recall: Share of questions whose gold answer was shown.
        recall_substring: The same for an answer inside any word.
        n: Questions.
        failed: Those of them that failed.
        notes: What limits the numbers.
        run: The run folder; None for the mean of several.
    """

    dataset: str
    method: str
    model: str
    length: str
    shortest: int
    mean_tokens: float
    longest: int
    score: str
    mean: Interval
    recall: Interval
    recall_substring: Interval
    n: int
    failed: int
    notes: tuple[str, ...]
    run: str | None

    def columns(self) -> dict[str, object]:
        """The row as the columns of the table: {"dataset": "musique", "length": "up to 500",
        "mean": 0.41, "mean.low": 0.38, "mean.high": 0.44, ...}."""
        return {
            "dataset": self.dataset,
            "method": self.method,
            "model": self.model,
            "length": self.length,
            "tokens.from": self.shortest,
            "tokens.mean": self.mean_tokens,
            "tokens.to": self.longest,
            "score": self.score,
            **facts.interval_columns("mean", self.mean),
            **facts.interval_columns(_RECALL_COLUMN, self.recall),
            **facts.interval_columns(_SUBSTRING_COLUMN, self.recall_substring),
            "n": self.n,
            "failed": self.failed,
            "notes": self.notes,
            "run": self.run,
        }


@dataclass(frozen=True)
class Measured:
    """A run together with what the lengths of its questions are counted from.

    Args:
        run: The run.
        rows: The rows of its data set, with their texts.
        tokens: A function: id of a document -> its number of tokens.
    """

    run: StoredRun
    rows: QuestionRows
    tokens: Callable[[str], int]

    def tokens_by_question(self) -> dict[str, int]:
        """Question id -> tokens of its documents, each counted once; without questions that have no
        row."""
        tokens_by_question: dict[str, int] = {}
        for record in self.run.records:
            example = self.rows.examples.get(record.question_id)
            if example is not None:
                documents = set(example.question.document_ids)
                tokens_by_question[record.question_id] = sum(map(self.tokens, documents))
        return tokens_by_question


def figure(
    runs: Sequence[StoredRun], *, score: str | None, data: str | None, warn: Callable[[str], None]
) -> Figure:
    """The figure of score and answer recall by length in tokens; runs whose rows or tokenizer
    cannot be loaded are left out with a warning.

    Args:
        runs: The runs.
        score: The name of the score; None for each run's headline.
        data: The file of the rows; None for the place that each run names.
        warn: Called with each warning.

    Raises:
        UserError: No rows or tokenizer can be loaded, or no question has a score.
        UnknownName: A run does not have the score.
    """
    # For the runs over the same texts with the same tokenizer one function, document id -> tokens,
    # which counts a document once.
    counter_by_group: dict[TextGroup, Callable[[str], int]] = {}
    measured_runs: list[Measured] = []
    problems: list[UserError] = []
    for run, rows in runs_with_rows(runs, data, warn, with_documents=True):
        try:
            group = text_group(run)
            if group not in counter_by_group:
                count_document = functools.partial(_document_tokens, rows, token_counter(run))
                counter_by_group[group] = functools.cache(count_document)
        except UserError as error:
            problems.append(error)
            continue
        rows_with_texts = replace(rows, texts=run.texts(run.records))
        measured_runs.append(Measured(run, rows_with_texts, tokens=counter_by_group[group]))
    if not measured_runs:
        raise problems[0]
    for problem in problems:
        warn(f"warning: left out: {problem}")
    table = frame(measured_runs, score)
    # For people the column "length" is called "tokens of the documents".
    titled_tables = by_score(
        table, hidden=["run", "tokens.from", "tokens.to"], length="tokens of the documents"
    )
    return Figure("Length of the documents", table, titled_tables, panels(table))


def _document_tokens(rows: QuestionRows, count: Callable[[str], int], document_id: str) -> int:
    """The number of tokens of a document.

    Args:
        rows: Rows that hold the document.
        count: A function: text -> its number of tokens.
        document_id: The document's id.
    """
    return count(rows.documents[document_id].text)


def quantiles(lengths: Sequence[int]) -> tuple[int, ...]:
    """Edges that part lengths into GROUPS groups of about equal size; fewer where many lengths are
    equal.

        [100, 200, 300, 400, 500, 600, 700, 800] -> (200, 400, 600)

    An edge is the largest length of its group; the last group has none, and an edge that no length
    is above is left out.
    """
    sorted_lengths = sorted(lengths)
    edges: set[int] = set()
    for group in range(1, GROUPS):
        index_of_last = math.ceil(len(sorted_lengths) * group / GROUPS) - 1
        if sorted_lengths and sorted_lengths[index_of_last] < sorted_lengths[-1]:
            edges.add(sorted_lengths[index_of_last])
    return tuple(sorted(edges))


def bucket_name(edges: Sequence[int], number: int) -> str:
    """ "up to 500", "501 to 900", "over 900": the names of the buckets 0, 1 and 2 between the edges
    500 and 900.

    Args:
        edges: The largest length of each bucket but the last, rising; at least one.
        number: Which bucket, from 0.
    """
    if number == 0:
        return f"up to {edges[0]:,}"
    if number == len(edges):
        return f"over {edges[-1]:,}"
    low = edges[number - 1] + 1
    high = edges[number]
    if low == high:
        return f"{high:,}"
    return f"{low:,} to {high:,}"


def frame(runs: Sequence[Measured], score: str | None = None) -> pd.DataFrame:
    """Score and recall by length: a row for each run and bucket of lengths, with the columns
    dataset, method, model, length, tokens.from, tokens.mean, tokens.to, score, mean, answer_recall,
    answer_recall_substring (these three with .low and .high), n, failed, notes, run.

    The buckets are quarters of the questions, by the lengths that all runs over the same texts have
    together. A run over texts that are made for a length (ruler at 4k, 8k, ...) is one bucket; such
    runs are sorted by length, and families of data sets get rows of their own.

    Args:
        runs: The runs, with what their lengths are counted from.
        score: The name of the score; by default each run's headline.

    Raises:
        UserError: No question of any run has a score.
        UnknownName: A run does not have the score.
    """
    length_by_question_of_group: dict[TextGroup, dict[str, int]] = {}
    for measured in runs:
        length_by_question = length_by_question_of_group.setdefault(text_group(measured.run), {})
        length_by_question.update(measured.tokens_by_question())
    stored_runs = [measured.run for measured in runs]
    made_length_by_run = _made_length_by_run(stored_runs)
    settings_not_in_labels: list[str] = []
    if made_length_by_run:
        settings_not_in_labels.append(f"dataset.{_MADE_LENGTH_OPTION}")
    labels = facts.run_labels(stored_runs, settings_not_in_labels)
    rows: list[LengthRow] = []
    for measured, label in zip(runs, labels, strict=True):
        buckets = _Buckets(measured, label, score or facts.headline_score(measured.run))
        made_length = made_length_by_run.get(str(measured.run.path))
        if made_length:
            rows += buckets.rows(names={ALL: f"{made_length:,}"})
        else:
            length_by_question = length_by_question_of_group[text_group(measured.run)]
            rows += buckets.rows(edges=quantiles(list(length_by_question.values())))
    if made_length_by_run:
        rows.sort(
            key=lambda row: (labels.index(row.method), made_length_by_run.get(str(row.run), 0))
        )
    if not rows:
        raise UserError(
            "no question of these runs has a score: every one failed and was left out of the scores"
        )
    rows += _family_rows(rows, made_length_by_run)
    return facts.as_floats(pd.DataFrame([row.columns() for row in rows]))


@dataclass(frozen=True, order=True)
class _Cell:
    """What the rows that have a mean together share: family of data sets, reader, method and length
    in tokens."""

    family: str
    model: str
    method: str
    tokens: int


def _family_rows(
    rows: Sequence[LengthRow], made_length_by_run: Mapping[str, int]
) -> list[LengthRow]:
    """A row for each method, reader and length of a family of data sets (ruler/vt, ruler/cwe are of
    the family "ruler"): the mean of its data sets. There is one only where all data sets of the
    family have a row for it, two at least. Only runs over texts that are made for a length count.

    Args:
        rows: The rows of all runs.
        made_length_by_run: Run folder -> length in tokens, of runs over texts that are made for a
            length.
    """
    datasets_by_family: dict[str, set[str]] = defaultdict(set)
    rows_by_cell: dict[_Cell, dict[str, LengthRow]] = defaultdict(dict)
    for row in rows:
        family, slash, _ = row.dataset.partition("/")
        if slash and row.run is not None and row.run in made_length_by_run:
            datasets_by_family[family].add(row.dataset)
            cell = _Cell(family, row.model, row.method, made_length_by_run[row.run])
            rows_by_cell[cell][row.dataset] = row
    mean_rows = []
    for cell in sorted(rows_by_cell):
        row_by_dataset = rows_by_cell[cell]
        if len(row_by_dataset) > 1 and row_by_dataset.keys() == datasets_by_family[cell.family]:
            name = f"{cell.family}, mean of {len(row_by_dataset)}"
            mean_rows.append(_family_mean(name, list(row_by_dataset.values())))
    return mean_rows


class _Buckets:
    """The rows of one run: for each bucket of lengths, and for all its questions."""

    def __init__(self, measured: Measured, label: str, score: str) -> None:
        """Collect scores, failures and answer recall of the run's questions, and their lengths: the
        tokens of a question's documents, read or not.

        Args:
            measured: The run, with the rows and the tokenizer that these tokens are counted by. A
                question without a row has no length and no recall.
            label: The method's name in tables.
            score: The name of the score.
        """
        self.run = measured.run
        self.score = score
        self.first_columns = facts.first_cells(measured.run, label)
        self.score_values = facts.score_values(measured.run, score)
        self.tokens_by_question = measured.tokens_by_question()
        self.failed_ids: set[str] = set()
        # Of a question whose gold answers could stand in no text: None.
        self.recall_by_question: dict[str, float | None] = {}
        self.substring_recall_by_question: dict[str, float] = {}
        for record in measured.run.records:
            question_id = record.question_id
            if record.error is not None:
                self.failed_ids.add(question_id)
            example = measured.rows.examples.get(question_id)
            if example is not None:
                recall = was_answer_shown(record, example, measured.rows)
                self.recall_by_question[question_id] = recall
                is_substring = was_answer_shown_as_substring(record, example, measured.rows)
                self.substring_recall_by_question[question_id] = float(is_substring)
        # Of the questions whose length is known: their indices into `score_values.ids`.
        self.indices_with_length: list[int] = []
        for index, question_id in enumerate(self.score_values.ids):
            if question_id in self.tokens_by_question:
                self.indices_with_length.append(index)
        self.notes = self._all_notes()

    def rows(
        self, edges: Sequence[int] = (), names: Mapping[str, str] | None = None
    ) -> list[LengthRow]:
        """A row for each bucket that has questions, shortest first, then one for all questions.

        Args:
            edges: The largest length of each bucket but the last, in tokens; without edges there is
                only the row for all.
            names: Name of a bucket -> another name that its row gets.
        """
        indices_by_bucket: dict[str, list[int]] = {}
        if edges:
            indices_by_bucket = self._indices_by_bucket(edges)
        if self.indices_with_length:
            indices_by_bucket[ALL] = self.indices_with_length
        rows = []
        for bucket, indices in indices_by_bucket.items():
            name = bucket
            if names is not None:
                name = names.get(bucket, bucket)
            rows.append(self._row(name, indices))
        return rows

    def _indices_by_bucket(self, edges: Sequence[int]) -> dict[str, list[int]]:
        """Name of each bucket that has questions -> indices of these into the ids of
        `score_values`; shortest bucket first.

        Args:
            edges: The largest length of each bucket but the last, in tokens.
        """
        indices_by_number: dict[int, list[int]] = {}  # number of a bucket -> its questions
        for i in self.indices_with_length:
            length = self.tokens_by_question[self.score_values.ids[i]]
            number = bisect_left(edges, length)
            indices_by_number.setdefault(number, []).append(i)
        indices_by_name: dict[str, list[int]] = {}
        for number in sorted(indices_by_number):
            indices_by_name[bucket_name(edges, number)] = indices_by_number[number]
        return indices_by_name

    def _row(self, name: str, indices: Sequence[int]) -> LengthRow:
        """The row of one bucket.

        Args:
            name: The bucket's name.
            indices: Its questions, as indices into the ids of `score_values`; at least one.
        """
        questions = [self.score_values.ids[i] for i in indices]
        token_counts = [self.tokens_by_question[question] for question in questions]
        scores: list[float] = []
        substring_recalls: list[float] = []
        recalls: list[float] = []
        clusters: list[int] = []
        clusters_of_recalled: list[int] = []
        for i, question in zip(indices, questions, strict=True):
            scores.append(self.score_values.values[i])
            clusters.append(self.score_values.clusters[i])
            substring_recalls.append(self.substring_recall_by_question[question])
            recall = self.recall_by_question.get(question)
            if recall is not None:
                recalls.append(float(recall))
                clusters_of_recalled.append(self.score_values.clusters[i])
        return LengthRow(
            dataset=str(self.first_columns["dataset"]),
            method=str(self.first_columns["method"]),
            model=str(self.first_columns["model"]),
            length=name,
            shortest=min(token_counts),
            mean_tokens=sum(token_counts) / len(token_counts),
            longest=max(token_counts),
            score=self.score,
            mean=self._mean(scores, clusters),
            recall=self._mean(recalls, clusters_of_recalled),
            recall_substring=self._mean(substring_recalls, clusters),
            n=len(questions),
            failed=len(self.failed_ids.intersection(questions)),
            notes=self.notes,
            run=str(self.run.path),
        )

    def _mean(self, values: Sequence[float], clusters: Sequence[int]) -> Interval:
        """The mean of values in [0, 1], with an interval that is bootstrapped by cluster.

        Args:
            values: The values.
            clusters: The cluster of each value.
        """
        seed = self.run.config.seed
        return interval(values, clusters, seed=seed, bounds=(0.0, 1.0))

    def _all_notes(self) -> tuple[str, ...]:
        """The notes of the run, and a sentence on how many questions have no gold answer that could
        stand in a text (yes, no), so that they are left out of the recall."""
        notes = list(run_notes(self.run))
        n_without_answer = 0
        for i in self.indices_with_length:
            if self.recall_by_question.get(self.score_values.ids[i]) is None:
                n_without_answer += 1
        if n_without_answer:
            count = f"{n_without_answer} of {len(self.indices_with_length)} questions"
            notes.append(
                f"{count} have no answer that could stand in a text and are left out of "
                f"{_RECALL_COLUMN}"
            )
        return tuple(notes)


def panels(table: pd.DataFrame) -> list[Panel]:
    """Two drawings for each data set, model and score: the score, and the answer recall, against
    the length; a line for each method. The bucket "all" is drawn only where there is no other."""
    panel_list = []
    length_axis = Axis("tokens of the documents, mean of the bucket")
    for (dataset, model, score), rows in table.groupby(COLUMNS_IN_TITLE, sort=False):
        buckets = rows[rows["length"] != ALL]
        if buckets.empty:
            buckets = rows
        sorted_rows = buckets.sort_values("method", kind="stable")
        axis_name_by_column = {
            "mean": f"{score} × 100",
            _RECALL_COLUMN: "answer in the text shown, % of questions",
        }
        for column, name in axis_name_by_column.items():
            rows_with_value = sorted_rows[sorted_rows[column].notna()]
            lines = plot.lines(rows_with_value, "tokens.mean", column, scale=100)
            value_axis = Axis(name, starts_at_zero=True)
            panel_list += plot.panels(f"{dataset} · {model}", length_axis, value_axis, lines)
    return panel_list


def _made_length_by_run(runs: Sequence[StoredRun]) -> dict[str, int]:
    """Run folder -> length in tokens that its texts were made for (the option "tokens" of its data
    set).

    Only runs whose data set was read by the same model at several lengths are in it.
    """
    lengths_by_dataset_and_model: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for run in runs:
        dataset = run.config.dataset
        made_length = dataset.options.get(_MADE_LENGTH_OPTION)
        if isinstance(made_length, int):
            length_by_run = lengths_by_dataset_and_model[dataset.name, run.config.model.name]
            length_by_run[str(run.path)] = made_length
    made_length_by_run: dict[str, int] = {}
    for length_by_run in lengths_by_dataset_and_model.values():
        if len(set(length_by_run.values())) > 1:
            made_length_by_run.update(length_by_run)
    return made_length_by_run


def _family_mean(dataset: str, rows: Sequence[LengthRow]) -> LengthRow:
    """One row for several data sets of a family at one length, each weighing the same.

    Scores, recalls and mean tokens are averaged; questions and failures are added up; the range of
    tokens covers all, and each note stands once. Method, model and length are equal in all rows;
    where the names of their scores differ, the row's is "score".

    Args:
        dataset: What the row calls the family.
        rows: A row for each data set.
    """
    first = rows[0]
    notes = dict.fromkeys(chain.from_iterable(row.notes for row in rows))
    score = first.score
    if any(row.score != score for row in rows):
        score = "score"
    return replace(
        first,
        dataset=dataset,
        shortest=min(row.shortest for row in rows),
        mean_tokens=sum(row.mean_tokens for row in rows) / len(rows),
        longest=max(row.longest for row in rows),
        score=score,
        mean=_mean_of_samples([row.mean for row in rows]),
        recall=_mean_of_samples([row.recall for row in rows]),
        recall_substring=_mean_of_samples([row.recall_substring for row in rows]),
        n=sum(row.n for row in rows),
        failed=sum(row.failed for row in rows),
        notes=tuple(notes),
        run=None,
    )


def _mean_of_samples(samples: Sequence[Interval]) -> Interval:
    """The mean of several samples' means, each weighing the same, with its interval. NOTHING where
    a sample has no mean; without an interval where a sample has none."""
    means: list[float] = []
    for sample in samples:
        if sample.mean is None:
            return NOTHING
        means.append(sample.mean)
    ends = [(sample.low, sample.high) for sample in samples]
    mean, ends_of_mean = facts.mean_of_samples(means, ends)
    low, high = ends_of_mean or (None, None)
    n = sum(sample.n for sample in samples)
    n_clusters = sum(sample.clusters for sample in samples)
    return Interval(mean, low, high, n, n_clusters)
