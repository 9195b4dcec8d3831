"""What the papers print, and which of it a run here measures: the two data files together.

paper_results.csv   1,065 printed values ─┐
mapping.yaml        what they mean here  ─┴─► load() ─► (Value(entry, rules, metric, printed=35.8, digits=1), ...)
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import NamedTuple

from harness.errors import DataError
from reports.paper.mapping import (
    DatasetRule,
    Entry,
    MeanRule,
    Metric,
    Paper,
    PaperRules,
    parse_mapping,
)
from reports.paper.tables_and_figures import Printed, parse_printed, printed

_EMPTY_CELL = "-"
"""A cell in which a paper prints nothing."""


@dataclass(frozen=True)
class Value:
    """One printed value with all that is said of it.

    Args:
        entry: The printed row.
        paper: The paper, with what the row has in place of the paper's.
        place: The data set as printed.
        rules: The data sets that it means, several where the value is a mean over them.
        stand_ins: Made-up data sets, a run on any of which stands for all `rules`.
        label: The metric as mapping.yaml calls it.
        metric: What the metric is here.
        printed: The number, of scores in points of 100.
        digits: The number of digits after its decimal point.
        line: Its line in paper_results.csv.
        deviations: Sentences on known differences from the paper.
        recording: Parameters that change neither answers nor costs.
    """

    entry: Entry
    paper: Paper
    place: str
    rules: tuple[DatasetRule, ...]
    stand_ins: tuple[str, ...]
    label: str
    metric: Metric
    printed: float
    digits: int
    line: int
    deviations: tuple[str, ...] = ()
    recording: tuple[str, ...] = ()

    @property
    def datasets(self) -> list[str]:
        """The names of the data sets that it means."""
        return [rule.dataset for rule in self.rules]


def load(results: str | None = None, mapping: str | None = None) -> tuple[Value, ...]:
    """The printed values that mapping.yaml ties to methods, data sets and scorers here, in its
    order.

    Args:
        results: The text of paper_results.csv; by default of the file in this folder.
        mapping: The text of mapping.yaml; by default of the file in this folder.

    Raises:
        DataError: An entry has a metric without a printed value.
        ValueError: A printed value is no number.
    """
    rules = _shipped_rules()
    if mapping is not None:
        rules = parse_mapping(mapping)
    rows = printed()
    if results is not None:
        rows = parse_printed(results)
    printed_by_key: dict[_CellKey, Printed] = {}
    for row in rows:
        key = _CellKey(row.source, row.table, row.method, row.dataset, row.metric)
        printed_by_key.setdefault(key, row)
    values: list[Value] = []
    for entry in rules.entries:
        values += _printed_values(entry, rules, printed_by_key)
    return tuple(values)


class _CellKey(NamedTuple):
    """What names a printed cell, as paper_results.csv has it."""

    source: str
    table: str
    method: str
    dataset: str
    metric: str


@dataclass(frozen=True)
class _Cell:
    """A printed cell of an entry, with its data set and its metric as mapping.yaml calls them."""

    dataset: str
    metric: str
    printed: Printed


def _printed_values(
    entry: Entry, rules: PaperRules, printed_by_key: dict[_CellKey, Printed]
) -> list[Value]:
    """The printed values of an entry; cells in which the paper prints nothing are left out.

    Args:
        entry: The entry.
        rules: All of mapping.yaml.
        printed_by_key: The printed cells of all entries.
    """
    paper = _paper_with_changes_of_row(entry, rules.papers[entry.source])
    datasets = {**rules.datasets, **paper.datasets}
    values = []
    for cell in _printed_cells(entry, rules, list(datasets), printed_by_key):
        if cell.printed.value.strip() == _EMPTY_CELL:
            continue
        metric = rules.metrics[cell.metric]
        scale = 1.0
        if metric.in_points:
            scale = paper.scale
        number, digits = _number_and_digits(cell.printed.value, scale)
        value = Value(
            entry=entry,
            paper=paper,
            place=cell.dataset,
            rules=_datasets_meant(cell.dataset, datasets),
            stand_ins=datasets[cell.dataset].stand_ins,
            label=cell.metric,
            metric=metric,
            printed=number,
            digits=digits,
            line=cell.printed.line,
            deviations=_known_deviations(entry, rules),
            recording=rules.recording,
        )
        values.append(value)
    return values


def _printed_cells(
    entry: Entry,
    rules: PaperRules,
    dataset_labels: Sequence[str],
    printed_by_key: dict[_CellKey, Printed],
) -> list[_Cell]:
    """The printed cells of an entry, data set by data set.

    Args:
        entry: The entry.
        rules: All of mapping.yaml.
        dataset_labels: The data sets of its paper.
        printed_by_key: The printed cells of all entries.

    Raises:
        DataError: A metric of the entry has no printed cell.
    """
    cells = []
    for label in dataset_labels:
        for metric in entry.metrics:
            printed_metric = rules.metrics[metric].label or metric
            key = _CellKey(entry.source, entry.table, entry.method, label, printed_metric)
            if key in printed_by_key:
                cells.append(_Cell(label, metric, printed_by_key[key]))
    metrics_with_cell = {cell.metric for cell in cells}
    for metric in entry.metrics:
        if metric not in metrics_with_cell:
            problem = f"{entry.method} ({entry.table}): no printed value of '{metric}'"
            raise DataError("reports/paper/mapping.yaml", None, "entries", problem)
    return cells


def _datasets_meant(
    label: str, datasets: dict[str, DatasetRule | MeanRule]
) -> tuple[DatasetRule, ...]:
    """The data sets that a printed label means: itself, or those that it is a mean over.

    Args:
        label: The label.
        datasets: Label -> what it means, of all labels of the paper.
    """
    rule = datasets[label]
    labels: Sequence[str] = (label,)
    if isinstance(rule, MeanRule):
        labels = rule.mean_of
    meant = []
    for name in labels:
        dataset_rule = datasets[name]
        if not isinstance(dataset_rule, DatasetRule):  # a mean is over data sets alone
            continue
        if rule.tokens is not None:  # the length of texts that the label is for
            dataset_rule = dataset_rule.model_copy(update={"tokens": rule.tokens})
        meant.append(dataset_rule)
    return tuple(meant)


def _known_deviations(entry: Entry, rules: PaperRules) -> tuple[str, ...]:
    """Sentences on what is known to be done otherwise than in the paper, for this row's preset and
    paper."""
    sentences = []
    for rule in rules.deviations:
        applies_to_preset = not rule.presets or entry.preset in rule.presets
        applies_to_paper = not rule.papers or entry.source in rule.papers
        if applies_to_preset and applies_to_paper:
            sentences.append(rule.note)
    return tuple(sentences)


@cache
def _shipped_rules() -> PaperRules:
    """The content of mapping.yaml, read once: a page asks for it for each of its data sets."""
    file = resources.files("reports.paper").joinpath("mapping.yaml")
    return parse_mapping(file.read_text(encoding="utf-8"))


def _paper_with_changes_of_row(entry: Entry, paper: Paper) -> Paper:
    """The paper as this entry has it: with the entry's own models.

    An entry with `questions` is over the whole of a data set of which the paper's others have a
    subset.
    """
    changes: dict[str, object] = {"roles": {**paper.roles, **entry.roles}}
    if entry.questions is not None:
        datasets = dict(paper.datasets)
        for label, rule in paper.datasets.items():
            if isinstance(rule, DatasetRule) and rule.subset:
                full_set = {"questions": entry.questions, "subset": None}
                datasets[label] = rule.model_copy(update=full_set)
        changes["datasets"] = datasets
    if entry.model is not None:
        changes["model"] = entry.model
    return paper.model_copy(update=changes)


def _number_and_digits(text: str, scale: float) -> tuple[float, int]:
    """A printed number as a value and its digits after the point.

        ("1,065.50", 1.0)   -> (1065.5, 2)
        ("0.7207", 0.01)    -> (72.07, 2), of 100 points

    Args:
        text: The number as printed.
        scale: How 1 point of 100 is printed; 1 for a number that stays as it is.
    """
    plain_number = text.replace(",", "").strip()
    number = float(plain_number)
    digits = len(plain_number.partition(".")[2])
    if scale == 1:
        return number, digits
    digits_of_points = max(digits - max(round(-math.log10(scale)), 0), 0)
    return round(number / scale, digits_of_points), digits_of_points
