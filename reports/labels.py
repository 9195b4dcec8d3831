"""Labels that people give answers, and what they say of a judge.

read_labels(Path("labels.csv"), note)       one rater, by question id
read_labels(Path("sheet.xlsx"), note)       two people, by the item of a sheet (label_sheet.py)
label_agreements(run, labels)               -> [Raters("judge.m", "person 1", Agreement(...))]
people_means(run, labels)                   -> [PeopleMean("judge.m", 30, ...)]
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
from reports.label_sheet import item_of, read_sheet
from reports.table_cell import Row

LABELS = "labels"
_WORDS = {"true": "yes", "false": "no"}
_POINTS = {"yes": 1.0, "no": 0.0}


@dataclass(frozen=True)
class HandLabels:
    """Labels that people gave answers.

    Args:
        raters: Name of a rater -> question id, or item of a sheet -> label: "yes", "no", or the
            number of a rubric.
        by_item: Whether they are of a sheet, which asks whether an answer is right; the inner keys
            are then items.
    """

    raters: Mapping[str, Mapping[str, str]]
    by_item: bool = False

    def of(self, run: StoredRun) -> dict[str, dict[str, str]]:
        """The labels of a run's answers: {"person 1": {"q1": "yes"}, ...}, by question id."""
        found: dict[str, dict[str, str]] = {}
        for rater, given in self.raters.items():
            own: dict[str, str] = {}
            for record in run.records:
                key = record.question_id
                if self.by_item:
                    key = item_of(run, key)
                if key in given:
                    own[record.question_id] = given[key]
            found[rater] = own
        return found


def label_agreements(run: StoredRun, labels: HandLabels) -> list[Raters]:
    """How far each judge of the run agrees with each person, then the people with each other.

    Only questions that both of a pair rated count. Beside a sheet, only judges of correctness are
    taken.
    """
    raters = labels.of(run)
    judges = facts.judges(run)
    if labels.by_item:
        judges = correctness_judges(run)
    clusters = _clusters(run)
    found = []
    for judge in judges:
        verdicts = _verdicts(run, judge)
        for name, given in raters.items():
            found.append(_raters(judge, verdicts, name, given, clusters))
    for one, other in combinations(raters, 2):
        found.append(_raters(one, raters[one], other, raters[other], clusters))
    return found


def _raters(
    one: str,
    its: Mapping[str, str],
    other: str,
    others: Mapping[str, str],
    clusters: Mapping[str, int],
) -> Raters:
    """Two raters and how far they agree on the questions that both rated.

    Args:
        one: Name of the first.
        its: Question id -> what the first says.
        other: Name of the second.
        others: Question id -> what the second says.
        clusters: Question id -> the cluster of the question, a number.
    """
    pairs = []
    pair_clusters = []
    for question, label in others.items():
        if question in its:
            pairs.append((its[question], label))
            pair_clusters.append(clusters[question])
    return Raters(one, other, agreement(pairs, pair_clusters))


def _clusters(run: StoredRun) -> dict[str, int]:
    """Question id -> the cluster of the question, a number."""
    names = [record.question_id for record in run.records]
    return dict(zip(names, facts.question_clusters(run).tolist(), strict=True))


def _verdicts(run: StoredRun, judge: str) -> dict[str, str]:
    """Question id -> the verdict of this judge, of the questions that it judged."""
    verdicts = {}
    for record in run.records:
        judged = record.judgements.get(judge)
        if judged:
            verdicts[record.question_id] = judged["verdict"]
    return verdicts


@dataclass(frozen=True)
class PeopleMean:
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
            **_mean_columns("judge", self.by_judge),
            **_mean_columns("labels", self.by_labels),
            **_mean_columns("joined", self.joined),
        }


def _mean_columns(name: str, found: Interval) -> dict[str, float | None]:
    """The columns NAME.mean, NAME.low and NAME.high of a mean with its interval."""
    return {f"{name}.mean": found.mean, f"{name}.low": found.low, f"{name}.high": found.high}


def people_means(run: StoredRun, labels: HandLabels) -> list[PeopleMean]:
    """The share of answers that people would call right, by each judge of correctness.

    [] where no answer has a label of yes or no.
    """
    points = _points(labels.of(run))
    found = []
    for judge in correctness_judges(run):
        mean = _people_mean(run, judge, points)
        if mean is not None:
            found.append(mean)
    return found


def _people_mean(run: StoredRun, judge: str, points: Mapping[str, float]) -> PeopleMean | None:
    """The share of answers that people would call right, by one judge; None where no answer that it
    scored has a label.

    Args:
        run: The run.
        judge: Name of its score.
        points: Question id -> the mean of people's labels, from 0 to 1.
    """
    scores: list[float] = []
    labels: list[float | None] = []
    clusters: list[int] = []
    known: list[float] = []
    known_clusters: list[int] = []
    for record, cluster in zip(run.records, facts.question_clusters(run), strict=True):
        if not record.has_answer or judge not in record.scores:
            continue
        label = points.get(record.question_id)
        scores.append(record.scores[judge])
        labels.append(label)
        clusters.append(int(cluster))
        if label is not None:
            known.append(label)
            known_clusters.append(int(cluster))
    if not known:
        return None
    return PeopleMean(
        judge=judge,
        by_judge=interval(scores, clusters),
        by_labels=interval(known, known_clusters),
        joined=prediction_powered(scores, labels, np.asarray(clusters, dtype=np.int32)),
    )


def _points(raters: Mapping[str, Mapping[str, str]]) -> dict[str, float]:
    """Question id -> the mean of its labels, where yes is 1 and no is 0; other labels do not
    count."""
    given: dict[str, list[float]] = {}
    for labels in raters.values():
        for question, label in labels.items():
            if label in _POINTS:
                given.setdefault(question, []).append(_POINTS[label])
    means = {}
    for question, points in given.items():
        means[question] = sum(points) / len(points)
    return means


def read_labels(path: Path, note: Callable[[str], None]) -> HandLabels:
    """Read labels given by hand.

    Args:
        path: A sheet (.xlsx), or JSON lines or CSV with `question_id` and `label`: yes or no (true,
            false), or a number of a rubric.
        note: Gets a sentence where the file is not UTF-8 and its encoding was guessed.

    Raises:
        UserError: The file cannot be read, or a row lacks one of the two.
    """
    if path.suffix.lower() == ".xlsx":
        return HandLabels(read_sheet(path), by_item=True)
    try:
        rows = _label_rows(path, note)
    except OSError as error:
        raise UserError(f"--labels {path}: cannot be read ({error.strerror})") from None
    labels = {}
    for number, row in enumerate(rows, start=1):
        if isinstance(row, BrokenRow) or not _is_labelled(row):
            raise UserError(f"--labels {path}: row {number} needs question_id and label")
        text = str(row["label"]).strip().lower()
        labels[str(row["question_id"])] = _WORDS.get(text, text)
    return HandLabels({LABELS: labels})


def _label_rows(path: Path, note: Callable[[str], None]) -> list[RawRow | BrokenRow]:
    """The rows of a file of labels, by column name; one that cannot be read is a BrokenRow.

    Args:
        path: A file of JSON lines or CSV.
        note: Gets a sentence where a CSV file is not UTF-8 and its encoding was guessed.
    """
    if path.suffix.lower() != ".csv":
        return [row for _, row in read_rows(path)]
    decoded = read_text_file(path)
    if decoded.guessed_encoding:
        note(f"{path.name} is not UTF-8 and was read as {decoded.guessed_encoding}")
    return [row for _, row in read_table_of_any_separator(path.name, decoded.text)]


def _is_labelled(row: RawRow) -> bool:
    """Whether a row names a question and has a label."""
    return bool(row.get("question_id")) and row.get("label") not in (None, "")
