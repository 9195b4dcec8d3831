"""What the printed values mean here: mapping.yaml.

Mapping
├── papers     {source: Paper}        a paper's models, its unit, and labels that mean data of its own
├── datasets   {label: DatasetRule or MeanRule}
├── metrics    {label: Metric}
├── entries    (Entry, ...)           a printed row, and the preset that measures it under profile paper
├── deviations (Deviation, ...)       what the presets are known to do otherwise than a paper; forbids no verdict
└── recording  (parameter, ...)       parameters that keep more of a run and change neither answers nor costs
"""

from __future__ import annotations

from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.cost.flops import DEFAULT


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetRule(_Strict):
    """The data set of ours that a label means; questions: how many the paper used; stand_ins: made-up ones like it.

    settings: as --set has them; subset: what the paper says of some questions that it does not name; tokens: the length
    of texts, where other lengths have other labels.
    """

    dataset: str
    split: str
    questions: int = Field(gt=0)
    stand_ins: tuple[str, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    subset: str | None = None
    tokens: int | None = None


class MeanRule(_Strict):
    """A mean over other labels' data sets, each counting the same."""

    mean_of: tuple[str, ...] = Field(min_length=1)
    stand_ins: tuple[str, ...] = ()
    tokens: int | None = None


LabelRule = DatasetRule | MeanRule


class Paper(_Strict):
    """model: the last part of its hub id; roles: another model for a role, null for any; model_settings: where they
    differ from profile paper; scale: what 1 point of 100 is printed as; datasets: labels with another meaning."""

    name: str
    model: str
    roles: dict[str, str | None] = Field(default_factory=dict)
    model_settings: dict[str, Any] = Field(default_factory=dict)
    scale: float = Field(default=1.0, gt=0)
    datasets: dict[str, LabelRule] = Field(default_factory=dict)


class Metric(_Strict):
    """A score of the records or of all answers together (times 100), a cost in TFLOPs, requests a question, or none.

    label: the column as printed; instead: other scores that measure the same; corpus: a scorer of kind corpus; phases:
    whose TFLOPs it adds; convention: of these; asked: another one, never in mapping.yaml; problem: why there is none.
    """

    label: str | None = None
    score: str | None = None
    instead: tuple[str, ...] = ()
    corpus: str | None = None
    requests: bool = False
    phases: tuple[str, ...] = ()
    convention: str = DEFAULT
    asked: str | None = None
    problem: str | None = None

    @property
    def in_points(self) -> bool:
        """Whether it is a score, in points of 100; a cost or a number of requests otherwise."""
        return self.score is not None or self.corpus is not None

    @model_validator(mode="after")
    def _one_kind(self) -> Metric:
        """Check that exactly one kind of metric is set, and its phases."""
        named = (self.score, self.corpus, self.problem)
        if sum((*(name is not None for name in named), bool(self.phases), self.requests)) != 1:
            raise ValueError("set exactly one of score, corpus, phases, requests and problem")
        if self.instead and self.score is None:
            raise ValueError("instead: only for a score")
        if self.phases and self.phases != ("search", "answer"):
            raise ValueError("phases: only [search, answer] is printed by the papers")
        return self


class Entry(_Strict):
    """A printed row and the preset that measures it.

    params: other than in the preset; adapters: trained ones of a role's model; truncated: contexts were cut; unlike:
    why the row is another method; per_document: the cost of the index; questions_per_document: its share is added;
    questions: how many, where others have a subset; model, roles, settings: before the paper's, null for any.
    """

    source: str
    table: str
    method: str
    preset: str
    metrics: tuple[str, ...] = Field(min_length=1)
    params: dict[str, Any] = Field(default_factory=dict)
    model: str | None = None
    roles: dict[str, str | None] = Field(default_factory=dict)
    adapters: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    settings: dict[str, Any] = Field(default_factory=dict)
    truncated: bool = False
    unlike: str | None = None
    per_document: bool = False
    questions_per_document: int | None = Field(default=None, gt=0)
    questions: int | None = Field(default=None, gt=0)


class Deviation(_Strict):
    """What is known to differ from a paper; of all presets or papers by default."""

    note: str
    presets: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()


class Mapping(_Strict):
    """mapping.yaml."""

    papers: dict[str, Paper]
    datasets: dict[str, LabelRule]
    metrics: dict[str, Metric]
    entries: tuple[Entry, ...]
    deviations: tuple[Deviation, ...] = ()
    recording: tuple[str, ...] = ()


def parse_mapping(text: str) -> Mapping:
    """The mapping of a YAML text."""
    return Mapping.model_validate(yaml.safe_load(text))
