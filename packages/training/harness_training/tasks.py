"""What is said of a method's requests to train on them: scenes with the right replies, skills, and
the tasks of adapters. Which method has which stands in method_skills/.

Skill("answer", "question", play)      `play(scene, tools)` makes the method's requests for one scene
TrainingTask("analysis", skill, ...)   an adapter for a skill: how its scenes are made and its replies measured
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, Protocol, TypeVar

from harness.types import Document, Question

if TYPE_CHECKING:
    from harness.cost.meter import Meter
    from harness.method.tools import Task, Tools
    from harness.models import MeteredModel

T = TypeVar("T")


@dataclass(frozen=True)
class Scene:
    """A question with its texts and the right replies; models are trained and tested on scenes.

    texts: passages in the order they are shown; verdicts: for each probe in turn, whether its first
    label is right;
    replies: the right reply to each call of `write` in turn.
    """

    question: Question
    texts: tuple[str, ...]
    task: Task
    replies: tuple[str, ...] = ()
    verdicts: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Skill:
    """A kind of request that a method makes of a model.

    name: as on the pocket model's card; scene: the kind of scene it is trained on, one of SCENES in
    pocket.tasks.scenes; play(scene, tools): makes the same calls of the tools as the method would
    for that scene.
    """

    name: str
    scene: str
    play: Callable[[Scene, Tools], None]


@dataclass
class SceneOutcome:
    """A model's replies in one scene.

    written: text of each reply; p_first: probability of the first label of each probe; scored: mean
    log-probability (nats) of each scored text; failed: the scene ended early, and what is missing
    counts as wrong.
    """

    written: list[str] = field(default_factory=list)
    p_first: list[float] = field(default_factory=list)
    scored: list[float] = field(default_factory=list)
    failed: bool = False


class Labelling(Protocol):
    """What `TrainingTask.label` is given: the model that writes the labels, the model in training,
    and limits.

    task: the data set's instruction, which becomes part of the scenes; asked: a prompt in place of
    the method's, or "".
    """

    task: Task
    asked: str
    meter: Meter

    def teacher(self) -> MeteredModel:
        """The model whose replies are the labels."""

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""

    def once(self, key: str, fn: Callable[[], T]) -> T:
        """Return fn(), or its result of an earlier call, kept for the latest keys; calls for one
        key never overlap."""

    def most(self, tokens: int) -> int:
        """The limit of a long reply of the teacher: `tokens`, or fewer where a training row holds
        less."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`, by the tokenizer of the model that is trained;
        no weights."""


@dataclass(frozen=True)
class TrainingTask:
    """How one adapter is trained and measured.

    measure: (scene, outcome) -> named values, which are averaged over scenes; headline: the name of
    the main one;
    floor: its expected value for guessing, where that is known; label: makes scenes of a question
    and its documents, or of a document (per "document"); asked: the prompt that the teacher's
    labels answer, part of the label file's identity; after: tasks whose adapters must be trained
    before its labels are made; classes: what a scene's first verdict says, (if true, if false), ()
    where it has none.
    """

    name: str
    skill: Skill
    headline: str
    measure: Callable[[Scene, SceneOutcome], dict[str, float]]
    label: Callable[[Question | None, Sequence[Document], Labelling], list[Scene]]
    per: Literal["question", "document"] = "question"
    after: tuple[str, ...] = ()
    floor: Callable[[Sequence[Scene]], float] | None = None
    asked: str = ""
    classes: tuple[str, ...] = ()
