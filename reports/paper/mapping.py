"""What the printed values mean here: mapping.yaml.

PaperRules
├── papers     {source: Paper}        a paper's models, its unit, and labels that mean data of its own
├── datasets   {label: DatasetRule or MeanRule}
├── metrics    {label: Metric}
├── entries    (Entry, ...)           a printed row, and the preset that measures it under profile paper
├── deviations (Deviation, ...)       what the presets are known to do otherwise than a paper; forbids no verdict
└── recording  (parameter, ...)       parameters that keep more of a run and change neither answers nor costs
"""

from __future__ import annotations

import yaml
from pydantic import BaseModel, ConfigDict, Field, model_validator

from harness.cost.flops import DEFAULT_CONVENTION


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class DatasetRule(_Strict):
    """The data set of ours that a label means.

    Attributes:
        dataset: Its name.
        split: The split that the paper used.
        questions: How many the paper used.
        stand_ins: Made-up data sets like it.
        settings: What the run's data set must have been set to, by the name that --set takes after
            "dataset.".
        subset: What the paper says of the questions where they are some of the data set's, and it
            does not name them.
        tokens: The length that texts are made for, where runs at other lengths are of other labels.
    """

    dataset: str
    split: str
    questions: int = Field(gt=0)
    stand_ins: tuple[str, ...] = ()
    settings: dict[str, object] = Field(default_factory=dict)
    subset: str | None = None
    tokens: int | None = None


class MeanRule(_Strict):
    """A label that is a mean over other labels' data sets, each counting the same.

    Attributes:
        mean_of: These labels.
        stand_ins: As of DatasetRule.
        tokens: As of DatasetRule.
    """

    mean_of: tuple[str, ...] = Field(min_length=1)
    stand_ins: tuple[str, ...] = ()
    tokens: int | None = None


LabelRule = DatasetRule | MeanRule


class Paper(_Strict):
    """A paper.

    Attributes:
        name: As tables say it.
        model: Of every role that `roles` does not name, the last part of its hub id.
        roles: Another model for a role, or None where any will do.
        model_settings: Of all its models, where they differ from profile paper; None for what does
            not matter.
        scale: What 1 point of 100 is printed as.
        datasets: Labels that mean other data than in the other papers.
    """

    name: str
    model: str
    roles: dict[str, str | None] = Field(default_factory=dict)
    model_settings: dict[str, object] = Field(default_factory=dict)
    scale: float = Field(default=1.0, gt=0)
    datasets: dict[str, LabelRule] = Field(default_factory=dict)


class Metric(_Strict):
    """A score of the records or of all answers together (times 100), a cost in TFLOPs, requests a
    question, or none.

    Attributes:
        label: The column as printed, where it is read in several ways.
        score: The name of a score.
        instead: Others that measure the same, for a run without it.
        corpus: A scorer of all answers together, measured from the counts in the records.
        requests: Whether it is requests a question.
        phases: Those whose TFLOPs it adds.
        convention: How the printed FLOPs are counted.
        requested_convention: How the reader wants them counted instead; never in mapping.yaml.
        problem: Why none of them can be had.
    """

    label: str | None = None
    score: str | None = None
    instead: tuple[str, ...] = ()
    corpus: str | None = None
    requests: bool = False
    phases: tuple[str, ...] = ()
    convention: str = DEFAULT_CONVENTION
    requested_convention: str | None = None
    problem: str | None = None

    @property
    def in_points(self) -> bool:
        """Whether it is a score, in points of 100; a cost or a number of requests otherwise."""
        return self.score is not None or self.corpus is not None

    @model_validator(mode="after")
    def _one_kind(self) -> Metric:
        """Check that exactly one kind of metric is set, and that phases are search and answer.

        Raises:
            ValueError: They are not, or `instead` is set for what is no score.
        """
        kinds = (
            self.score is not None,
            self.corpus is not None,
            self.problem is not None,
            bool(self.phases),
            self.requests,
        )
        if kinds.count(True) != 1:
            raise ValueError("set exactly one of score, corpus, phases, requests and problem")
        if self.instead and self.score is None:
            raise ValueError("instead: only for a score")
        if self.phases and self.phases != ("search", "answer"):
            raise ValueError("phases: only [search, answer] is printed by the papers")
        return self


class Entry(_Strict):
    """A printed row and the preset that measures it.

    `model`, `roles` and `settings` come before those of the paper and of its data sets; in roles
    and settings None is for what does not matter to this row.

    Attributes:
        source: The key of its paper.
        table: The table, as printed.
        method: The row, as printed.
        preset: What measures it, under profile paper.
        metrics: Labels of the columns that are measured.
        params: Where the row differs from the preset.
        model: The model of every role that `roles` does not name.
        roles: The model of a role.
        adapters: Trained ones that a role's model must have.
        settings: Of the data set.
        truncated: Whether the paper's contexts were cut.
        unlike: Why the row is another method.
        per_document: Whether it is the cost of a document's index.
        questions_per_document: So many questions share the index whose cost is added.
        questions: How many, where this row has the whole data set and others a subset.
    """

    source: str
    table: str
    method: str
    preset: str
    metrics: tuple[str, ...] = Field(min_length=1)
    params: dict[str, object] = Field(default_factory=dict)
    model: str | None = None
    roles: dict[str, str | None] = Field(default_factory=dict)
    adapters: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    settings: dict[str, object] = Field(default_factory=dict)
    truncated: bool = False
    unlike: str | None = None
    per_document: bool = False
    questions_per_document: int | None = Field(default=None, gt=0)
    questions: int | None = Field(default=None, gt=0)


class Deviation(_Strict):
    """What the project knows to do otherwise than a paper.

    Attributes:
        note: A sentence.
        presets: The presets that it is about; () for all.
        papers: The papers that it is about; () for all.
    """

    note: str
    presets: tuple[str, ...] = ()
    papers: tuple[str, ...] = ()


class PaperRules(_Strict):
    """What mapping.yaml says.

    Attributes:
        papers: Source, as paper_results.csv names it, -> paper.
        datasets: Label -> what it means, for papers that have no label of their own.
        metrics: Label -> metric.
        entries: The printed rows that are measured.
        deviations: What is known to be done otherwise than in a paper.
        recording: Parameters that keep more of a run and change neither answers nor costs.
    """

    papers: dict[str, Paper]
    datasets: dict[str, LabelRule]
    metrics: dict[str, Metric]
    entries: tuple[Entry, ...]
    deviations: tuple[Deviation, ...] = ()
    recording: tuple[str, ...] = ()


def parse_mapping(text: str) -> PaperRules:
    """The rules in a YAML text of the form of mapping.yaml.

    Raises:
        ValueError: A key is unknown, missing, or has a wrong value.
    """
    return PaperRules.model_validate(yaml.safe_load(text))
