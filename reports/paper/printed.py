"""What the papers print, and which of it a run here measures: the two data files together.

paper_results.csv   1,065 printed values ─┐
mapping.yaml        what they mean here  ─┴─► load() ─► (Value(entry, rules, metric, printed=35.8, digits=1), ...)
"""

import math
from dataclasses import dataclass
from functools import cache
from importlib import resources

from harness.errors import DataError
from reports.paper.mapping import (
    DatasetRule,
    Entry,
    Mapping,
    MeanRule,
    Metric,
    Paper,
    parse_mapping,
)
from reports.paper.tables_and_figures import Printed, parse_printed, printed

_EMPTY_CELL = "-"  # a cell in which a paper prints nothing


@dataclass(frozen=True)
class Value:
    """One printed value with all that is said of it; `digits` after its decimal point.

    place: the data set as printed; rules: the data sets that it means, several where the value is a
    mean over them;
    stand_ins: made-up data sets, a run on any of which stands for all `rules`; label: of the
    metric; line: in paper_results.csv; deviations: known differences from the paper; recording:
    parameters that change neither answers nor costs.
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


def load(results: str | None = None, mapping: str | None = None) -> tuple[Value, ...]:
    """The printed values that mapping.yaml ties to methods, data sets and scorers here, in its
    order.

    results, mapping: texts of paper_results.csv and mapping.yaml; by default the files in this
    folder. Raises DataError for an entry with a metric that has no printed value, ValueError where
    a printed value is no number.
    """
    rules = _shipped_rules() if mapping is None else parse_mapping(mapping)
    table: dict[tuple[str, ...], Printed] = {}
    for row in printed() if results is None else parse_printed(results):
        table.setdefault((row.source, row.table, row.method, row.dataset, row.metric), row)
    values: list[Value] = []
    for entry in rules.entries:
        paper = _paper_of(entry, rules.papers[entry.source])
        datasets = {**rules.datasets, **paper.datasets}
        deviations = tuple(
            rule.note
            for rule in rules.deviations
            if entry.preset in (rule.presets or (entry.preset,))
            and entry.source in (rule.papers or (entry.source,))
        )
        printed_as = {metric: rules.metrics[metric].label or metric for metric in entry.metrics}
        of_row = entry.source, entry.table, entry.method
        cells = {
            (label, metric): table[*of_row, label, name]
            for label in datasets
            for metric, name in printed_as.items()
            if (*of_row, label, name) in table
        }
        for metric in entry.metrics:
            if not any(metric == cell_metric for _, cell_metric in cells):
                problem = f"{entry.method} ({entry.table}): no printed value of '{metric}'"
                raise DataError("reports/paper/mapping.yaml", None, "entries", problem)
        for (label, metric), cell in cells.items():
            if cell.value.strip() == _EMPTY_CELL:
                continue
            rule, of_label = rules.metrics[metric], datasets[label]
            labels = of_label.mean_of if isinstance(of_label, MeanRule) else (label,)
            meant = tuple(one for name in labels if isinstance(one := datasets[name], DatasetRule))
            if of_label.tokens is not None:  # the length of texts that the label is for
                meant = tuple(one.model_copy(update={"tokens": of_label.tokens}) for one in meant)
            number = _parse_number(cell.value, paper.scale if rule.in_points else 1.0)
            labelled = (label, meant, of_label.stand_ins, metric, rule)
            values.append(
                Value(entry, paper, *labelled, *number, cell.line, deviations, rules.recording)
            )
    return tuple(values)


@cache
def _shipped_rules() -> Mapping:
    """The content of mapping.yaml, read once: a page asks for it for each of its data sets."""
    file = resources.files("reports.paper").joinpath("mapping.yaml")
    return parse_mapping(file.read_text(encoding="utf-8"))


def _paper_of(entry: Entry, paper: Paper) -> Paper:
    """The paper as this entry has it: with its own models; `questions` are the whole set where
    others have a subset."""
    changes: dict[str, object] = {"roles": {**paper.roles, **entry.roles}}
    if entry.questions is not None:
        full_set = {"questions": entry.questions, "subset": None}
        changes["datasets"] = {
            label: rule.model_copy(update=full_set)
            if isinstance(rule, DatasetRule) and rule.subset
            else rule
            for label, rule in paper.datasets.items()
        }
    if entry.model is not None:
        changes["model"] = entry.model
    return paper.model_copy(update=changes)


def _parse_number(text: str, scale: float) -> tuple[float, int]:
    """A printed number and its digits behind the point; with a scale of 0.01, "0.7207" is 72.07 of
    100 points."""
    plain = text.replace(",", "").strip()
    number, digits = float(plain), len(plain.partition(".")[2])
    if scale == 1:
        return number, digits
    left = max(digits - max(round(-math.log10(scale)), 0), 0)
    return round(number / scale, left), left
