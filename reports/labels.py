"""Labels that people give answers, and what they say of a judge.

read_labels(Path("labels.csv"), note)       one rater, by question id
read_labels(Path("sheet.xlsx"), note)       two people, by the item of a sheet (label_sheet.py)
label_agreements(run, labels)               -> [Raters("judge.m", "person 1", Agreement(...))]
means_by_labels(run, labels)                   -> [MeanByLabels("judge.m", 30, ...)]
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import numpy as np

from harness.datasets.files import read_rows, read_text_file
from harness.datasets.raw_rows import RawRow
from harness.datasets.row_places import BrokenRow
from harness.datasets.tables import read_table_of_any_separator
from harness.errors import UserError
from harness.stats.bootstrap import Interval, interval
from harness.stats.prediction_powered import prediction_powered
from harness.storage.run_folder import StoredRun
from reports import facts
from reports.judges import Raters, agreement, correctness_judges
from reports.label_sheet import answer_item, read_sheet
from reports.table_cell import Row

ONLY_RATER = "labels"
_LABEL_OF_TRUTH_VALUE = {"true": "yes", "false": "no"}
_POINTS_OF_LABEL = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True)
class HandLabels:
    """Labels that people gave answers.

    Args:
        labels_by_rater: {"person 1": {"q1": "yes"}}: name of a rater -> question id, or item of a
            sheet -> label: "yes", "no", or the number of a rubric.
        is_keyed_by_item: Whether the inner keys are items of a sheet (label_sheet.py), which asks
            whether an answer is right.
    """

    labels_by_rater: Mapping[str, Mapping[str, str]]
    is_keyed_by_item: bool = False

    def by_question_id(self, run: StoredRun) -> dict[str, dict[str, str]]:
        """The labels of a run's answers: {"person 1": {"q1": "yes"}, ...}, by question id.

        A sheet holds answers of several runs under a hash of run and question ("item"), so that who
        labels does not see whose they are.
        """
        labels: dict[str, dict[str, str]] = {}
        for rater, labels_by_key in self.labels_by_rater.items():
            labels_by_question: dict[str, str] = {}
            for record in run.records:
                key = record.question_id
                if self.is_keyed_by_item:
                    key = answer_item(run, record.question_id)
                if key in labels_by_key:
                    labels_by_question[record.question_id] = labels_by_key[key]
            labels[rater] = labels_by_question
        return labels


def label_agreements(run: StoredRun, labels: HandLabels) -> list[Raters]:
    """How far each judge of the run agrees with each person, then the people with each other.

    Only questions that both of a pair rated count. A sheet (keyed by item, not by question) asks
    whether answers are right, so beside it only judges of correctness are taken.
    """
    labels_by_rater = labels.by_question_id(run)
    judges = facts.judge_names(run)
    if labels.is_keyed_by_item:
        judges = correctness_judges(run)
    clusters = _clusters_by_question(run)
    agreements = []
    for judge in judges:
        verdicts = _verdicts_by_question(run, judge)
        for rater_name, labels_of_rater in labels_by_rater.items():
            agreements.append(
                _agreement_of_raters(judge, verdicts, rater_name, labels_of_rater, clusters)
            )
    for rater, other_rater in combinations(labels_by_rater, 2):
        own_labels = labels_by_rater[rater]
        other_labels = labels_by_rater[other_rater]
        agreements.append(
            _agreement_of_raters(rater, own_labels, other_rater, other_labels, clusters)
        )
    return agreements


def _agreement_of_raters(
    rater: str,
    labels: Mapping[str, str],
    other_rater: str,
    other_labels: Mapping[str, str],
    clusters: Mapping[str, int],
) -> Raters:
    """Two raters and how far they agree on the questions that both rated.

    Args:
        rater: Name of the first.
        labels: Question id -> what the first says.
        other_rater: Name of the second.
        other_labels: Question id -> what the second says.
        clusters: Question id -> the cluster of the question, a number.
    """
    pairs = []
    pair_clusters = []
    for question, label in other_labels.items():
        if question in labels:
            pairs.append((labels[question], label))
            pair_clusters.append(clusters[question])
    return Raters(rater, other_rater, agreement(pairs, pair_clusters))


def _clusters_by_question(run: StoredRun) -> dict[str, int]:
    """Question id -> the cluster of the question, a number."""
    question_ids = [record.question_id for record in run.records]
    return dict(zip(question_ids, facts.question_clusters(run).tolist(), strict=True))


def _verdicts_by_question(run: StoredRun, judge: str) -> dict[str, str]:
    """Question id -> the verdict of this judge, of the questions that it judged."""
    verdicts = {}
    for record in run.records:
        judgement = record.judgements.get(judge)
        if judgement:
            verdicts[record.question_id] = judgement["verdict"]
    return verdicts


@dataclass(frozen=True)
class MeanByLabels:
    """The share of right answers among those that were answered, by three ways to know it.

    Args:
        judge: Name of the judge's score.
        by_judge: The share by the judge alone.
        by_labels: The share by people's labels alone; where two people differ an answer is half
            right.
        joined: The share by both, prediction-powered.
    """

    judge: str
    by_judge: Interval
    by_labels: Interval
    joined: Interval

    def columns(self) -> Row:
        """The means as a row of a table: {"judge": "judge.m", "n": 200, "labelled": 30,
        "judge.mean": 0.8, ...}."""
        return {
            "judge": self.judge,
            "n": self.by_judge.n,
            "labelled": self.by_labels.n,
            **_interval_cells("judge", self.by_judge),
            **_interval_cells("labels", self.by_labels),
            **_interval_cells("joined", self.joined),
        }


def _interval_cells(name: str, mean: Interval) -> dict[str, float | None]:
    """The columns NAME.mean, NAME.low and NAME.high of a mean with its interval."""
    return {f"{name}.mean": mean.mean, f"{name}.low": mean.low, f"{name}.high": mean.high}


def means_by_labels(run: StoredRun, labels: HandLabels) -> list[MeanByLabels]:
    """The share of answers that people would call right, by each judge of correctness.

    [] where no answer has a label of yes or no.
    """
    points = _mean_points_by_question(labels.by_question_id(run))
    means = []
    for judge in correctness_judges(run):
        mean = _mean_by_labels(run, judge, points)
        if mean is not None:
            means.append(mean)
    return means


def _mean_by_labels(run: StoredRun, judge: str, points: Mapping[str, float]) -> MeanByLabels | None:
    """The share of answers that people would call right: by one judge, by the labels alone, and by
    both joined (prediction-powered inference). None where no answer that it scored has a label.

    Args:
        run: The run.
        judge: Name of its score.
        points: Question id -> the mean of people's labels, from 0 to 1.
    """
    scores: list[float] = []
    points_or_none: list[float | None] = []
    clusters: list[int] = []
    known_points: list[float] = []
    known_clusters: list[int] = []
    for record, cluster in zip(run.records, facts.question_clusters(run), strict=True):
        if not record.has_answer or judge not in record.scores:
            continue
        points_of_answer = points.get(record.question_id)
        scores.append(record.scores[judge])
        points_or_none.append(points_of_answer)
        clusters.append(int(cluster))
        if points_of_answer is not None:
            known_points.append(points_of_answer)
            known_clusters.append(int(cluster))
    if not known_points:
        return None
    return MeanByLabels(
        judge=judge,
        by_judge=interval(scores, clusters),
        by_labels=interval(known_points, known_clusters),
        joined=prediction_powered(scores, points_or_none, np.asarray(clusters, dtype=np.int32)),
    )


def _mean_points_by_question(labels_by_rater: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    """Question id -> the mean of its labels, where yes is 1 and no is 0; other labels do not
    count."""
    points_by_question: dict[str, list[float]] = {}
    for labels in labels_by_rater.values():
        for question, label in labels.items():
            if label in _POINTS_OF_LABEL:
                points_by_question.setdefault(question, []).append(_POINTS_OF_LABEL[label])
    means = {}
    for question, points in points_by_question.items():
        means[question] = sum(points) / len(points)
    return means


def read_labels(path: Path, add_note: Callable[[str], None]) -> HandLabels:
    """Read labels given by hand.

    Args:
        path: A sheet (.xlsx), or JSON lines or CSV with `question_id` and `label`: yes or no (true,
            false), or a number of a rubric.
        add_note: Gets a sentence where the file is not UTF-8 and its encoding was guessed.

    Raises:
        UserError: The file cannot be read, or a row lacks one of the two.
    """
    if path.suffix.lower() == ".xlsx":
        return HandLabels(read_sheet(path), is_keyed_by_item=True)
    try:
        rows = _label_rows(path, add_note)
    except OSError as error:
        raise UserError(f"--labels {path}: cannot be read ({error.strerror})") from None
    labels = {}
    for number, row in enumerate(rows, start=1):
        if isinstance(row, BrokenRow) or not _is_labelled(row):
            raise UserError(f"--labels {path}: row {number} needs question_id and label")
        label = str(row["label"]).strip().lower()
        labels[str(row["question_id"])] = _LABEL_OF_TRUTH_VALUE.get(label, label)
    return HandLabels({ONLY_RATER: labels})


def _label_rows(path: Path, add_note: Callable[[str], None]) -> list[RawRow | BrokenRow]:
    """The rows of a file of labels, by column name; one that cannot be read is a BrokenRow.

    Args:
        path: A file of JSON lines or CSV.
        add_note: Gets a sentence where a CSV file is not UTF-8 and its encoding was guessed.
    """
    if path.suffix.lower() != ".csv":
        return [row for _, row in read_rows(path)]
    decoded = read_text_file(path)
    if decoded.guessed_encoding:
        add_note(f"{path.name} is not UTF-8 and was read as {decoded.guessed_encoding}")
    return [row for _, row in read_table_of_any_separator(path.name, decoded.text)]


def _is_labelled(row: RawRow) -> bool:
    """Whether a row names a question and has a label."""
    return bool(row.get("question_id")) and row.get("label") not in (None, "")
