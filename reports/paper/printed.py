"""What the papers print, and which of it a run here measures: the two data files, checked before use.

paper_results.csv   1,056 printed values ─┐
mapping.yaml        what they mean here  ─┴─► load() ─► (Value(entry, dataset, metric, printed=35.8, digits=1), ...)
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from importlib import resources
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from harness.errors import DataError

__all__ = ["DatasetRule", "Entry", "Mapping", "Metric", "Paper", "Value", "load", "parse"]

COLUMNS = ("source", "table", "method", "dataset", "metric", "value")
_EMPTY = "-"  # a cell in which a paper prints nothing
_CSV, _YAML = "reports/paper/paper_results.csv", "reports/paper/mapping.yaml"


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetRule(_Strict):
    """The data set of ours that a label means; questions: how many the paper used; stand_ins: made-up ones like it.

    subset: what the paper says of the questions where they are some of the data set's, and it does not name them.
    """

    dataset: str
    split: str
    questions: int = Field(gt=0)
    stand_ins: tuple[str, ...] = ()
    subset: str | None = None


class Paper(_Strict):
    """name: as tables say it; model: of every role, the last part of its hub id; scale: what 1 point of 100 is printed
    as; datasets: labels that mean other data than in the other papers."""

    name: str
    model: str
    scale: float = Field(default=1.0, gt=0)
    datasets: dict[str, DatasetRule] = Field(default_factory=dict)


class Metric(_Strict):
    """A score of the records (times 100), a cost in TFLOPs, requests a question, or why none of them can be had.

    label: the column as printed, where it is read in several ways; instead: scores that measure the same, for a run
    without `score`; tolerance: how far apart two values may be and still agree, as a share of the printed one.
    """

    label: str | None = None
    score: str | None = None
    instead: tuple[str, ...] = ()
    requests: bool = False
    phases: tuple[str, ...] = ()
    convention: str = "full"
    tolerance: float = Field(default=0.0, ge=0)
    problem: str | None = None

    @model_validator(mode="after")
    def _one_kind(self) -> Metric:
        if sum((self.score is not None, bool(self.phases), self.requests, self.problem is not None)) != 1:
            raise ValueError("set exactly one of score, phases, requests and problem")
        if self.instead and self.score is None:
            raise ValueError("instead: only for a score")
        if self.phases and self.phases != ("search", "answer"):
            raise ValueError("phases: only [search, answer] is printed by the papers")
        return self


class Entry(_Strict):
    """A printed row and the preset that measures it.

    params and encoder: what the run must have; truncated: whether the paper's contexts were cut; unlike: why the row is
    another method; per_document: the cost of the index instead; questions_per_document: its share is added; model:
    where the paper has several; questions: how many, where this row has the whole data set and others a subset.
    """

    source: str
    table: str
    method: str
    preset: str
    metrics: tuple[str, ...] = Field(min_length=1)
    params: dict[str, Any] = Field(default_factory=dict)
    encoder: str | None = None
    truncated: bool = False
    unlike: str | None = None
    per_document: bool = False
    questions_per_document: int | None = Field(default=None, gt=0)
    model: str | None = None
    questions: int | None = Field(default=None, gt=0)


class Mapping(_Strict):
    """mapping.yaml."""

    papers: dict[str, Paper]
    datasets: dict[str, DatasetRule]
    metrics: dict[str, Metric]
    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class Value:
    """One printed value with all that is said of it; `digits` after its decimal point."""

    entry: Entry
    paper: Paper
    dataset: DatasetRule
    label: str
    metric: Metric
    printed: float
    digits: int


def load(results: str | None = None, mapping: str | None = None) -> tuple[Value, ...]:
    """The mapped values, in the order of the mapping. The texts default to the two files of this folder.

    Raises DataError for a column, key or label that is unknown, or a mapped value that is no number.
    """
    here = resources.files("reports.paper")
    results = here.joinpath("paper_results.csv").read_text(encoding="utf-8") if results is None else results
    rules = parse(here.joinpath("mapping.yaml").read_text(encoding="utf-8") if mapping is None else mapping)
    table = _table(results)
    found: list[Value] = []
    for entry in rules.entries:
        paper = _of(entry, rules.papers[entry.source])
        datasets = {**rules.datasets, **paper.datasets}
        known = [
            (label, metric, key)
            for label in datasets
            for metric in entry.metrics
            if (key := (entry.source, entry.table, entry.method, label, rules.metrics[metric].label or metric)) in table
        ]
        for metric in set(entry.metrics) - {metric for _, metric, _ in known}:
            raise DataError(_YAML, None, "entries", f"{entry.method} ({entry.table}): no printed value of '{metric}'")
        for label, metric, key in known:
            line, text = table[key]
            if text.strip() == _EMPTY:
                continue
            printed, digits = _number(text, line)
            if rules.metrics[metric].score is not None and paper.scale != 1:
                printed, digits = _scaled(printed, digits, paper.scale)
            found.append(Value(entry, paper, datasets[label], metric, rules.metrics[metric], printed, digits))
    return tuple(found)


def _of(entry: Entry, paper: Paper) -> Paper:
    """The paper as this entry has it: with its own model; `questions` are the whole set where others have a subset."""
    if entry.questions is not None:
        whole = {"questions": entry.questions, "subset": None}
        rules = {k: r.model_copy(update=whole) if r.subset else r for k, r in paper.datasets.items()}
        paper = paper.model_copy(update={"datasets": rules})
    return paper if entry.model is None else paper.model_copy(update={"model": entry.model})


def _scaled(printed: float, digits: int, scale: float) -> tuple[float, int]:
    """A printed 0.7207 as 72.07 of 100 points, with as many digits as are left."""
    left = max(digits - max(round(-math.log10(scale)), 0), 0)
    return round(printed / scale, left), left


def parse(text: str) -> Mapping:
    """The mapping of a YAML text. Raises DataError that names the first key that is wrong."""
    try:
        rules = Mapping.model_validate(yaml.safe_load(text))
    except yaml.YAMLError as error:
        raise DataError(_YAML, None, None, f"not valid YAML ({error})") from None
    except ValidationError as error:
        first = error.errors()[0]
        raise DataError(_YAML, None, ".".join(str(part) for part in first["loc"]), first["msg"]) from None
    for entry in rules.entries:
        for metric in entry.metrics:
            if metric not in rules.metrics:
                raise DataError(_YAML, None, "entries", f"{entry.method}: metrics has no '{metric}'")
        if entry.source not in rules.papers:
            raise DataError(_YAML, None, "entries", f"{entry.method}: papers has no '{entry.source}'")
    return rules


def _table(text: str) -> dict[tuple[str, ...], tuple[int, str]]:
    """(source, table, method, dataset, metric) -> (line, value as printed)."""
    rows = csv.DictReader(io.StringIO(text))
    if tuple(rows.fieldnames or ()) != COLUMNS:
        raise DataError(_CSV, 1, None, f"the columns should be {', '.join(COLUMNS)}")
    found: dict[tuple[str, ...], tuple[int, str]] = {}
    for row in rows:
        key = tuple(row[name] for name in COLUMNS[:-1])
        if key in found and found[key][1] != row["value"]:
            raise DataError(_CSV, rows.line_num, None, f"another value for {' / '.join(key)} (line {found[key][0]})")
        found.setdefault(key, (rows.line_num, row["value"]))
    return found


def _number(text: str, line: int) -> tuple[float, int]:
    plain = text.replace(",", "").strip()
    try:
        return float(plain), len(plain.partition(".")[2])
    except ValueError:
        raise DataError(_CSV, line, "value", f"'{text}' is not a number") from None
