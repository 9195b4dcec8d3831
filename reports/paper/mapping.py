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
    """The data set of ours that a label means; questions: how many the paper used; stand_ins:
    made-up ones like it.

    settings: what the run's data set must have been set to, by the name that --set takes behind
    "dataset."; subset: what the paper says of the questions where they are some of the data set's,
    and it does not name them; tokens: the length that texts are made for, where runs at other
    lengths are of other labels.
    """

    dataset: str
    split: str
    questions: int = Field(gt=0)
    stand_ins: tuple[str, ...] = ()
    settings: dict[str, Any] = Field(default_factory=dict)
    subset: str | None = None
    tokens: int | None = None


class MeanRule(_Strict):
    """A label that is a mean over other labels' data sets, each counting the same; stand_ins,
    tokens: as above."""

    mean_of: tuple[str, ...] = Field(min_length=1)
    stand_ins: tuple[str, ...] = ()
    tokens: int | None = None


LabelRule = DatasetRule | MeanRule


class Paper(_Strict):
    """name: as tables say it; model: of every role that `roles` does not name, the last part of its
    hub id; roles: another model for a role, or null where any will do; model_settings: of all its
    models, where they differ from profile paper, null for what does not matter; scale: what 1 point
    of 100 is printed as; datasets: labels that mean other data than in the other papers."""

    name: str
    model: str
    roles: dict[str, str | None] = Field(default_factory=dict)
    model_settings: dict[str, Any] = Field(default_factory=dict)
    scale: float = Field(default=1.0, gt=0)
    datasets: dict[str, LabelRule] = Field(default_factory=dict)


class Metric(_Strict):
    """A score of the records or of all answers together (times 100), a cost in TFLOPs, requests a
    question, or none.

    label: the column as printed, where it is read in several ways; score, instead: the score, and
    others that measure the same for a run without it; corpus: a scorer of kind corpus, measured
    from the counts that the records keep;
    requests: whether it is requests; phases: those whose TFLOPs it adds; convention: of the printed
    FLOPs; asked: the one that the reader wants to see instead, never in mapping.yaml; problem: why
    none of them can be had.
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
        """Check that exactly one kind of metric is set, and that its phases are search and
        answer."""
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

    params: where the row differs from the preset under profile paper; adapters: of a role's model,
    trained ones that the run must have; truncated: whether the paper's contexts were cut; unlike:
    why the row is another method;
    per_document: the cost of the index instead; questions_per_document: its share is added;
    questions: how many, where this row has the whole data set and others a subset.

    model, roles and settings come before those of the paper and of its data sets; in roles and
    settings null is for what does not matter to this row.
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
    """What the project knows to do otherwise than a paper; of all presets, or papers, where none is
    named."""

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
    """The mapping of a YAML text. tests/reports/test_paper.py checks the shipped one's names."""
    return Mapping.model_validate(yaml.safe_load(text))
