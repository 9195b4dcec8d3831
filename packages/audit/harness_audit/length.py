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
                                            in whole words; questions with no answer but yes, no and
                                            the like left out
answer_recall_substring (.low .high)        share of questions of whose shown texts one contains a gold answer as a
                                            substring, over all questions (FlashRAG's retrieval
                                            recall)
n failed notes run
"""

import functools
import math
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pandas as pd

from harness.errors import UserError
from harness.stats.bootstrap import NOTHING
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.answer_recall import answer_shown, answer_shown_as_substring
from reports.figures import plot
from reports.figures.figure import SAME, Figure, by_score
from reports.figures.plot import Axis, Panel
from reports.figures.tokens import TextGroup, text_group, token_counter
from reports.gold_rows import Rows, with_rows
from reports.run_notes import run_notes

ALL = "all"
GROUPS = 4
_RECALL = "answer_recall"
_SUBSTRING = "answer_recall_substring"
_MADE = "tokens"  # the option of a data set whose texts are made for a length


@dataclass(frozen=True)
class Measured:
    """A run with the rows of its data set and its texts, and what counts the tokens of a document
    of that id."""

    run: StoredRun
    rows: Rows
    tokens: Callable[[str], int]

    def lengths(self) -> dict[str, int]:
        """Question -> tokens of its documents, each counted once."""
        lengths: dict[str, int] = {}
        for record in self.run.records:
            example = self.rows.examples.get(record.question_id)
            if example is not None:
                question = example.question
                lengths[question.id] = sum(map(self.tokens, set(question.document_ids)))
        return lengths


def figure(
    runs: Sequence[StoredRun], *, score: str | None, data: str | None, warn: Callable[[str], None]
) -> Figure:
    """The figure of the runs; those whose rows or tokenizer cannot be loaded are left out with a
    warning.

    score: as in `frame`; data: where the rows are now. Raises UserError where nothing is loaded, or
    as `frame`.
    """
    counts: dict[TextGroup, Callable[[str], int]] = {}
    measured: list[Measured] = []
    problems: list[UserError] = []
    for run, rows in with_rows(runs, data, warn, whole=True):
        try:
            key = text_group(run)
            if key not in counts:
                counts[key] = functools.cache(
                    functools.partial(_document_tokens, rows, token_counter(run))
                )
        except UserError as error:
            problems.append(error)
            continue
        measured.append(Measured(run, replace(rows, texts=run.texts(run.records)), counts[key]))
    if not measured:
        raise problems[0]
    for problem in problems:
        warn(f"warning: left out: {problem}")
    table = frame(measured, score)
    named = by_score(
        table, hidden=["run", "tokens.from", "tokens.to"], length="tokens of the documents"
    )
    return Figure("Length of the documents", table, named, panels(table))


def _document_tokens(rows: Rows, count: Callable[[str], int], document_id: str) -> int:
    return count(rows.documents[document_id].text)


def quantiles(lengths: Sequence[int]) -> tuple[int, ...]:
    """Edges that part the lengths into GROUPS about equal groups; fewer where many are the same."""
    rising = sorted(lengths)
    cuts: set[int] = set()
    for group in range(1, GROUPS):
        last = math.ceil(len(rising) * group / GROUPS) - 1  # of the group
        if rising and rising[last] < rising[-1]:
            cuts.add(rising[last])
    return tuple(sorted(cuts))


def bucket_name(edges: Sequence[int], number: int) -> str:
    """ "up to 500", "501 to 900", "over 900": the name of bucket `number` between the edges 500 and
    900, from 0 on."""
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
    """Score and recall by length (columns: see the module). score: by default the first.

    Raises UserError where no question of any run has a score, UnknownName for a score that a run
    does not have.
    """
    lengths_of_group: dict[TextGroup, dict[str, int]] = {}
    for measured in runs:
        group = lengths_of_group.setdefault(text_group(measured.run), {})
        group.update(measured.lengths())
    stored = [measured.run for measured in runs]
    made = _lengths_of_made_texts(stored)
    hidden = {f"dataset.{_MADE}"} if made else ()
    labels = facts.labels(stored, hidden)
    rows: list[dict[str, Any]] = []
    for measured, label in zip(runs, labels, strict=True):
        buckets = _Buckets(measured, label, score or facts.headline(measured.run))
        tokens = made.get(str(measured.run.path))
        if tokens:
            rows += buckets.rows(names={ALL: f"{tokens:,}"})
        else:
            lengths = lengths_of_group[text_group(measured.run)]
            rows += buckets.rows(quantiles(list(lengths.values())))
    if made:
        rows.sort(key=lambda row: (labels.index(row["method"]), made.get(row["run"], 0)))
    if not rows:
        raise UserError(
            "no question of these runs has a score: every one failed and was left out of the scores"
        )
    rows += _family_rows(rows, made)
    return facts.as_floats(pd.DataFrame(rows))


def _family_rows(
    rows: Sequence[Mapping[str, Any]], made: Mapping[str, int]
) -> list[dict[str, Any]]:
    """A row for each method and length of a family of data sets (ruler/vt, ruler/cwe): their mean.

    Args:
        rows: Of all runs.
        made: Run folder -> length in tokens, of texts that are made for a length.
    """
    families: dict[str, set[str]] = defaultdict(set)
    cells: dict[tuple[str, str, str, int], dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for row in rows:
        family, slash, _ = row["dataset"].partition("/")
        if slash and row["run"] in made:
            families[family].add(row["dataset"])
            cell = cells[family, row["model"], row["method"], made[row["run"]]]
            cell[row["dataset"]] = row
    means = []
    for (family, *_), by_dataset in sorted(cells.items()):
        if len(by_dataset) > 1 and by_dataset.keys() == families[family]:
            name = f"{family}, mean of {len(by_dataset)}"
            means.append(_family_mean(name, list(by_dataset.values())))
    return means


class _Buckets:
    """The rows of one run: for each bucket of lengths, and for all its questions.

    Args:
        measured: The run.
        label: The method's name in tables.
        score: The name of the score.
    """

    def __init__(self, measured: Measured, label: str, score: str) -> None:
        self.run = measured.run
        self.score = score
        self.head = facts.head_columns(measured.run, label)
        self.scored = facts.scored(measured.run, score)
        self.lengths = measured.lengths()
        self.failed: set[str] = set()
        self.recalled: dict[str, float | None] = {}  # None: the answers of the question say nothing
        self.contained: dict[str, float] = {}
        for record in measured.run.records:
            question = record.question_id
            if record.error is not None:
                self.failed.add(question)
            example = measured.rows.examples.get(question)
            if example is not None:
                self.recalled[question] = answer_shown(record, example, measured.rows)
                contained = answer_shown_as_substring(record, example, measured.rows)
                self.contained[question] = float(contained)
        self.with_length = [i for i, q in enumerate(self.scored.ids) if q in self.lengths]
        self.notes = self._all_notes()

    def rows(
        self, edges: Sequence[int] = (), names: Mapping[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """A row for each bucket between the edges that has questions, then the one for all.

        Args:
            edges: Lengths in tokens; without edges there is the row for all alone.
            names: Other names of buckets.
        """
        buckets: dict[str, list[int]] = {}
        if edges:
            buckets = self._places_by_bucket(edges)
        if self.with_length:
            buckets[ALL] = self.with_length
        rows = []
        for bucket, places in buckets.items():
            name = (names or {}).get(bucket, bucket)
            rows.append(self._row(name, places))
        return rows

    def _places_by_bucket(self, edges: Sequence[int]) -> dict[str, list[int]]:
        """Name of a bucket -> places of its questions among the scored ones, shortest first."""
        places: dict[int, list[int]] = {}
        for i in self.with_length:
            number = bisect_left(edges, self.lengths[self.scored.ids[i]])
            places.setdefault(number, []).append(i)
        return {bucket_name(edges, number): places[number] for number in sorted(places)}

    def _row(self, name: str, places: Sequence[int]) -> dict[str, Any]:
        """The row of the questions at `places` among the scored ones (columns: see the module)."""
        questions = [self.scored.ids[i] for i in places]
        tokens = [self.lengths[question] for question in questions]
        scores: list[float] = []
        contained: list[float] = []
        recalled: list[float] = []
        clusters: list[str] = []
        clusters_of_recalled: list[str] = []
        for i, question in zip(places, questions, strict=True):
            scores.append(self.scored.values[i])
            clusters.append(self.scored.clusters[i])
            contained.append(self.contained[question])
            found = self.recalled.get(question)
            if found is not None:
                recalled.append(float(found))
                clusters_of_recalled.append(self.scored.clusters[i])
        row = dict(self.head)
        row["length"] = name
        row["tokens.from"] = min(tokens)
        row["tokens.mean"] = sum(tokens) / len(tokens)
        row["tokens.to"] = max(tokens)
        row["score"] = self.score
        row.update(self._mean("mean", scores, clusters))
        row.update(self._mean(_RECALL, recalled, clusters_of_recalled))
        row.update(self._mean(_SUBSTRING, contained, clusters))
        row["n"] = len(questions)
        row["failed"] = len(self.failed.intersection(questions))
        row["notes"] = self.notes
        row["run"] = str(self.run.path)
        return row

    def _mean(
        self, name: str, values: Sequence[float], clusters: Sequence[str]
    ) -> dict[str, float | None]:
        """Columns `name` with the mean of the values and its interval, by cluster."""
        return facts.mean_columns(name, values, clusters, seed=self.run.config.seed)

    def _all_notes(self) -> tuple[str, ...]:
        """The notes of the run, and how many questions have no answer that could stand in a
        text."""
        notes = list(run_notes(self.run))
        silent = 0
        for i in self.with_length:
            silent += self.recalled.get(self.scored.ids[i]) is None
        if silent:
            count = f"{silent} of {len(self.with_length)} questions"
            notes.append(
                f"{count} have no answer that could stand in a text and are left out of {_RECALL}"
            )
        return tuple(notes)


def panels(table: pd.DataFrame) -> list[Panel]:
    """Two drawings for each data set, model and score: the score and the answer recall against the
    length."""
    panel_list = []
    x = Axis("tokens of the documents, mean of the bucket")
    for (dataset, model, score), rows in table.groupby(SAME, sort=False):
        buckets = rows[rows["length"] != ALL]
        if buckets.empty:
            buckets = rows
        drawn = buckets.sort_values("method", kind="stable")
        names = {"mean": f"{score} × 100", _RECALL: "answer in the text shown, % of questions"}
        for value, name in names.items():
            lines = plot.lines(drawn[drawn[value].notna()], "tokens.mean", value, 100)
            panel_list += plot.panels(f"{dataset} · {model}", x, Axis(name, zero=True), lines)
    return panel_list


def _lengths_of_made_texts(runs: Sequence[StoredRun]) -> dict[str, int]:
    """Run folder -> length in tokens, of data sets that one model read at several lengths."""
    by_text: dict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    for run in runs:
        dataset = run.config.dataset
        tokens = dataset.options.get(_MADE)
        if isinstance(tokens, int):
            lengths = by_text[dataset.name, run.config.model.name]
            lengths[str(run.path)] = tokens
    made: dict[str, int] = {}
    for lengths in by_text.values():
        if len(set(lengths.values())) > 1:
            made.update(lengths)
    return made


def _family_mean(dataset: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Summarise the data sets of a family at one length in one row, each weighing the same.

    Scores, recalls and mean tokens are averaged; questions and failures are added up; the range of
    tokens covers all. Other columns, such as method and model, are equal in all rows.

    Args:
        dataset: Name of the family.
        rows: A row of the table for each data set.
    """
    table = pd.DataFrame(rows)
    notes = dict.fromkeys(chain.from_iterable(table["notes"]))
    row = dict(rows[0])
    row["dataset"] = dataset
    row["tokens.from"] = int(table["tokens.from"].min())
    row["tokens.mean"] = sum(table["tokens.mean"]) / len(rows)
    row["tokens.to"] = int(table["tokens.to"].max())
    if table["score"].nunique() > 1:
        row["score"] = "score"
    for name in ("mean", _RECALL, _SUBSTRING):
        row.update(_mean_of_column(name, rows))
    row["n"] = int(table["n"].sum())
    row["failed"] = int(table["failed"].sum())
    row["notes"] = tuple(notes)
    row["run"] = None
    return row


def _mean_of_column(name: str, rows: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """The mean of column `name` over rows, with its interval; None where a row has no value, or no
    interval."""
    values = [row[name] for row in rows]
    if None in values:
        return facts.interval_columns(name, NOTHING)
    ends = [(row[f"{name}.low"], row[f"{name}.high"]) for row in rows]
    mean, interval = facts.mean_of_samples(values, ends)
    low, high = interval or (None, None)
    return {name: mean, f"{name}.low": low, f"{name}.high": high}
