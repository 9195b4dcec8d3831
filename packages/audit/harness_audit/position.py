"""Score by where the supporting parts stand in the text, and by how far apart they are (QRMeM,
section on positions).

    text     |-----head-----|----middle----|-----tail-----|      thirds of all characters
    support         [A]                          [B]             centres 0.25 and 0.72 of the text

    where        head, middle, tail: every supporting part has its centre there; apart: they are in several
    distance     from the first centre to the last, a share of the text; questions with one supporting part have none

In a data set as it is, questions of different places differ in more than the place. The paper
places the parts: runs over `dataset.place=head`, `middle`, `tail` or `dataset.distance=...`
(harness/datasets/placing.py) hold the same questions, and those that differ in nothing else are one
line here. Documents of a question count in order as one text.

dataset placed method model     placed: whether an option of the data set put the parts somewhere
study part from to              study "where" or "distance"; the part's name; its ends, shares of the text
score mean mean.low mean.high   the score's name, its mean in [0, 1], 95 % interval clustered by document
n failed notes run              run: the folders that the questions are from, " + " between
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from harness.config.schema import json_sha256
from harness.errors import UserError
from harness.stats.bootstrap import Interval, interval
from harness.storage.run_folder import StoredRun
from harness.types import GAP, Example
from reports import facts
from reports.figures import plot
from reports.figures.figure import Figure, Titled, for_people
from reports.figures.plot import Axis, Panel
from reports.gold_rows import QuestionRows, runs_with_rows
from reports.run_notes import run_notes
from reports.settings import distinct_labels

PARTS = ("head", "middle", "tail")
APART = "apart"
_PLACING_OPTIONS = ("place", "distance")
"""Options of a data set that put the supporting parts somewhere."""
_PANEL_COLUMNS = ["dataset", "placed", "model", "score", "study"]
_AXIS_NAME_BY_STUDY = {
    "where": "where the supporting parts stand, share of the text",
    "distance": "first to last supporting part, share of the text",
}


@dataclass(frozen=True)
class Part:
    """A third of the text, or of the distances.

    Args:
        name: "head", "33-67 %" or APART.
        low: Where it begins, as a share of the text; None for APART.
        high: Where it ends, likewise.
    """

    name: str
    low: float | None
    high: float | None


@dataclass(frozen=True)
class PositionRow:
    """A row of the table: the questions of a line whose support is in one part.

    Args:
        dataset: Name of the data set.
        placed: Whether an option of the data set put the supporting parts somewhere.
        method: The method's name in tables.
        model: The reader's name.
        study: "where" or "distance".
        part: Of the text, or of the distances.
        score: The name of the score.
        mean: Of the score.
        n: Questions.
        failed: Those of them that failed.
        notes: What limits the numbers.
        run: The folders that the questions are from.
    """

    dataset: str
    placed: bool
    method: str
    model: str
    study: str
    part: Part
    score: str
    mean: Interval
    n: int
    failed: int
    notes: tuple[str, ...]
    run: str

    def columns(self) -> dict[str, object]:
        """The row as the columns of the table: {"dataset": "musique", "study": "where", "part":
        "middle", "from": 0.33, "to": 0.67, "mean": 0.41, "mean.low": 0.38, ...}."""
        return {
            "dataset": self.dataset,
            "placed": self.placed,
            "method": self.method,
            "model": self.model,
            "study": self.study,
            "part": self.part.name,
            "from": self.part.low,
            "to": self.part.high,
            "score": self.score,
            **facts.interval_columns("mean", self.mean),
            "n": self.n,
            "failed": self.failed,
            "notes": self.notes,
            "run": self.run,
        }


@dataclass(frozen=True)
class SupportPosition:
    """Centres of a question's supporting parts, sorted, as shares of its text in [0, 1]."""

    centres: tuple[float, ...]

    def third_of_text(self) -> int | None:
        """The third of the text, 0 to 2, that holds the centres of all supporting parts; None where
        they are in several."""
        first_third = _third_of_share(self.centres[0])
        last_third = _third_of_share(self.centres[-1])
        if first_third != last_third:
            return None
        return first_third

    def distance(self) -> float | None:
        """How far apart the first and the last centre are, as a share of the text; None for a
        single supporting part."""
        if len(self.centres) == 1:
            return None
        return self.centres[-1] - self.centres[0]


def support_position(example: Example, rows: QuestionRows) -> SupportPosition | None:
    """Where the supporting parts of a question stand in its documents, taken as one text in their
    order.

    Args:
        example: The question with its supporting parts.
        rows: Rows that know the lengths of its documents.

    Returns:
        The centres of the parts as shares of the text, from 0 to 1, sorted; None where no part is
        marked, a length is not known, or the text is empty.
    """
    characters_by_document = rows.document_lengths(example.question.document_ids)
    if characters_by_document is None:
        return None
    start_by_document: dict[str, int] = {}  # where each document starts in the text
    offset = 0
    for document_id in example.question.document_ids:
        start_by_document[document_id] = offset
        offset += characters_by_document[document_id] + len(GAP)
    n_characters = offset - len(GAP)  # there is no gap after the last one
    supporting = [part for part in example.gold.supporting if part.document_id in start_by_document]
    if not supporting or n_characters <= 0:
        return None
    centres: list[float] = []
    for part in supporting:
        centre_in_document = (part.start + part.end) / 2
        centre = start_by_document[part.document_id] + centre_in_document
        centres.append(centre / n_characters)
    return SupportPosition(tuple(sorted(centres)))


def figure(
    runs: Sequence[StoredRun], *, score: str | None, data: str | None, warn: Callable[[str], None]
) -> Figure:
    """The figure of the score by position; runs whose rows cannot be loaded are left out with a
    warning.

    Args:
        runs: The runs.
        score: The name of the score; None for each run's headline.
        data: The file of the rows; None for the place that each run names.
        warn: Called with each warning.

    Raises:
        UserError: No rows can be loaded, or no question has a supporting part that is marked.
        UnknownName: A run does not have the score.
    """
    table = frame(runs_with_rows(runs, data, warn), score)
    return Figure("Place of the supporting parts", table, sections(table), panels(table))


def frame(runs: Sequence[tuple[StoredRun, QuestionRows]], score: str | None = None) -> pd.DataFrame:
    """The score by place and by distance of the supporting parts: a row for each part of the text,
    or of the distances, that has a question. Columns: dataset, placed, method, model, study, part,
    from, to, score, mean, mean.low, mean.high, n, failed, notes, run.

    Runs that differ only in where their data set puts the supporting parts are taken together as
    one line; it is named as a run without that option, and lines of one table get distinct names.

    Args:
        runs: Runs with the rows of their data sets.
        score: The name of the score; by default each run's headline.

    Raises:
        UserError: No question of any run has a supporting part that is marked.
        UnknownName: A run does not have the score.
    """
    rows: list[PositionRow] = []
    lines = _grouped_into_lines(runs, score)
    first_runs = [line.first for line in lines]
    settings_not_in_labels = [f"dataset.{name}" for name in _PLACING_OPTIONS]
    labels = facts.run_labels(first_runs, settings_not_in_labels)
    table_of_line = [line.table() for line in lines]
    for line, label in zip(lines, distinct_labels(labels, first_runs, table_of_line), strict=True):
        rows += _part_rows(line, label)
    if not rows:
        raise UserError(
            "no question of these runs has supporting parts marked, so there is no place to tell; "
            "use a data set that marks them: musique, hotpotqa, 2wikimultihopqa, qasper or a pocket one"
        )
    return facts.as_floats(pd.DataFrame([row.columns() for row in rows]))


@dataclass(frozen=True)
class _PlacedQuestion:
    """A scored question with the position of its supporting parts.

    Args:
        value: Its score.
        cluster: The number of its cluster, by which it is resampled.
        failed: Whether it failed.
        run: The run that it is from.
        position: Where its supporting parts stand.
    """

    value: float
    cluster: int
    failed: bool
    run: StoredRun
    position: SupportPosition


@dataclass(frozen=True)
class _Table:
    """What the lines of one table share; placed: whether their supporting parts were placed."""

    dataset: str
    placed: bool
    model: str


@dataclass
class _PlacedRuns:
    """A line of the figure: one run, or several that differ only in where their data set puts the
    supporting parts.

    Args:
        first: The first of the runs.
        score: The name of the score.
        questions: The questions of all runs whose position is known.
        n_without_position: How many questions have none.
    """

    first: StoredRun
    score: str
    questions: list[_PlacedQuestion] = field(default_factory=list)
    n_without_position: int = 0

    @property
    def placed(self) -> bool:
        """Whether an option of the data set put the supporting parts somewhere."""
        return _is_placed(self.first)

    def table(self) -> _Table:
        """The table that the line stands in, by what tells it from others: data set, whether the
        supporting parts were placed, model."""
        config = self.first.config
        return _Table(config.dataset.name, self.placed, config.model.name)

    def add(self, run: StoredRun, rows: QuestionRows) -> None:
        """Add the scored questions of a run whose position is known, and count the others.

        Args:
            run: The run.
            rows: The rows of its data set.
        """
        score_values = facts.score_values(run, self.score)
        failed_ids = {record.question_id for record in run.records if record.error is not None}
        scored_questions = zip(
            score_values.ids, score_values.values, score_values.clusters, strict=True
        )
        for question, value, cluster in scored_questions:
            example = rows.examples.get(question)
            position = None
            if example is not None:
                position = support_position(example, rows)
            if position is None:
                self.n_without_position += 1
            else:
                placed_question = _PlacedQuestion(
                    value=value,
                    cluster=cluster,
                    failed=question in failed_ids,
                    run=run,
                    position=position,
                )
                self.questions.append(placed_question)

    def notes(self, runs: Iterable[StoredRun]) -> tuple[str, ...]:
        """The notes of some runs of the line, each once, and a sentence on how many questions of
        the line are left out."""
        notes: dict[str, None] = {}
        for run in runs:
            notes.update(dict.fromkeys(run_notes(run)))
        if self.n_without_position:
            n_questions = self.n_without_position + len(self.questions)
            count = f"{self.n_without_position} of {n_questions} questions"
            notes[f"{count} have no supporting part marked and are left out"] = None
        return tuple(notes)


def _dataset_options(run: StoredRun) -> Mapping[str, object]:
    """The options of the run's data set."""
    return run.config.dataset.options


def _is_placed(run: StoredRun) -> bool:
    """Whether the run's data set was told where to put the supporting parts (dataset.place or
    dataset.distance)."""
    options = _dataset_options(run)
    return any(options.get(name) is not None for name in _PLACING_OPTIONS)


def _grouped_into_lines(
    runs: Sequence[tuple[StoredRun, QuestionRows]], score: str | None
) -> list[_PlacedRuns]:
    """Group the runs into the lines of the figure: placed runs that differ in nothing but the place
    of the supporting parts are one line, any other run is a line of its own.

    Args:
        runs: The runs with their rows.
        score: The name of the score; None for the headline of the first run of each line.
    """
    lines: dict[str, _PlacedRuns] = {}
    for run, rows in runs:
        key = str(run.path)
        if _is_placed(run):
            key = _digest_of_other_settings(run)
        line = lines.setdefault(key, _PlacedRuns(run, score or facts.headline_score(run)))
        line.add(run, rows)
    return list(lines.values())


def _digest_of_other_settings(run: StoredRun) -> str:
    """A digest of a run's settings, without the options that place the supporting parts and the
    limit of questions."""
    options = dict(_dataset_options(run))
    for name in _PLACING_OPTIONS:
        options.pop(name, None)
    settings = run.config.with_dataset(options=options).without("limit")
    return json_sha256(settings.to_json())


def _part_rows(line: _PlacedRuns, label: str) -> list[PositionRow]:
    """The rows of a line: one for each part of the text that has questions, then one for each range
    of distances.

    Args:
        line: The runs of the line.
        label: The method's name in tables.
    """
    questions_by_third: dict[int, list[_PlacedQuestion]] = {}
    questions_by_distance: dict[int, list[_PlacedQuestion]] = {}
    for question in line.questions:
        third = question.position.third_of_text()
        if third is None:  # in several thirds: a part of its own, after the last third
            third = len(PARTS)
        questions_by_third.setdefault(third, []).append(question)
        distance = question.position.distance()
        if distance is not None:
            questions_by_distance.setdefault(_third_of_share(distance), []).append(question)
    rows = []
    for part in sorted(questions_by_third):
        row = _part_row(line, label, "where", part, questions_by_third[part])
        rows.append(row)
    for part in sorted(questions_by_distance):
        row = _part_row(line, label, "distance", part, questions_by_distance[part])
        rows.append(row)
    return rows


def _part_row(
    line: _PlacedRuns,
    label: str,
    study: str,
    part_number: int,
    questions: Sequence[_PlacedQuestion],
) -> PositionRow:
    """The row of the questions of one part.

    Args:
        line: The runs of the line.
        label: The method's name in tables.
        study: "where" or "distance".
        part_number: The number of the part, from 0, as `_numbered_part` takes it.
        questions: The questions of the part; at least one.
    """
    values = [question.value for question in questions]
    clusters = [question.cluster for question in questions]
    runs = {str(question.run.path): question.run for question in questions}
    table = line.table()
    seed = line.first.config.seed
    return PositionRow(
        dataset=table.dataset,
        placed=table.placed,
        method=label,
        model=table.model,
        study=study,
        part=_numbered_part(study, part_number),
        score=line.score,
        mean=interval(values, clusters, seed=seed, bounds=(0.0, 1.0)),
        n=len(questions),
        failed=sum(question.failed for question in questions),
        notes=line.notes(runs.values()),
        run=" + ".join(runs),
    )


def _third_of_share(share: float) -> int:
    """Which third, 0 to 2, a share in [0, 1] is in: 0.4 -> 1."""
    return min(int(share * len(PARTS)), len(PARTS) - 1)


def _numbered_part(study: str, part_number: int) -> Part:
    """The part of a number: 0 to 2 for the thirds of the text or of the distances, 3 for APART.

    ("where", 1)    -> Part("middle", 0.33, 0.67)
    ("distance", 1) -> Part("33-67 %", 0.33, 0.67)
    """
    if part_number == len(PARTS):
        return Part(APART, None, None)
    low = part_number / len(PARTS)
    high = (part_number + 1) / len(PARTS)
    name = f"{100 * low:.0f}-{100 * high:.0f} %"
    if study == "where":
        name = PARTS[part_number]
    return Part(name, low, high)


def sections(table: pd.DataFrame) -> list[Titled]:
    """Titled tables for people: one for each data set, model, score and study, from the rows of
    `frame`."""
    tables = []
    for (dataset, placed, model, _, study), rows in table.groupby(_PANEL_COLUMNS, sort=False):
        part = "distance of the supports"
        if study == "where":
            part = "support at"
        title = f"{_dataset_title(dataset, placed)} · {model} · {part}"
        hidden = ["placed", "study", "from", "to", "run"]
        tables.append(for_people(title, rows, hidden, part=part))
    return tables


def panels(table: pd.DataFrame) -> list[Panel]:
    """A drawing for each data set, model, score and study, from the rows of `frame`: a line for
    each method, with a point in the middle of each part. Rows without a place (parts that stand far
    apart) or without a mean are left out."""
    panel_list = []
    drawable_rows = table[table["from"].notna() & table["mean"].notna()]
    sorted_rows = drawable_rows.sort_values("method", kind="stable")
    groups = sorted_rows.groupby(_PANEL_COLUMNS, sort=False)
    for (dataset, placed, model, score, study), rows in groups:
        middles = rows.assign(middle=(rows["from"] + rows["to"]) / 2)
        place_axis = Axis(_AXIS_NAME_BY_STUDY[str(study)], limits=(0, 1))
        score_axis = Axis(f"{score} × 100", starts_at_zero=True)
        lines = plot.lines(middles, "middle", "mean", scale=100)
        title = f"{_dataset_title(dataset, placed)} · {model}"
        panel_list += plot.panels(title, place_axis, score_axis, lines)
    return panel_list


def _dataset_title(dataset: object, placed: object) -> str:
    """ "musique", or "musique, support placed" where an option placed it."""
    if placed:
        return f"{dataset}, support placed"
    return str(dataset)
