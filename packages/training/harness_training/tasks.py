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

    Args:
        question: The question.
        texts: Passages in the order they are shown.
        task: How the question is to be answered.
        replies: The right reply to each call of `write` in turn.
        verdicts: For each probe in turn, whether its first label is right.
    """

    question: Question
    texts: tuple[str, ...]
    task: Task
    replies: tuple[str, ...] = ()
    verdicts: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Skill:
    """A kind of request that a method makes of a model.

    Args:
        name: Its name on the pocket model's card.
        scene: The kind of scene it is trained on, one of SCENES in pocket.tasks.catalog.
        play: (scene, tools) -> None; makes the same calls of the tools as the method would for that
            scene.
    """

    name: str
    scene: str
    play: Callable[[Scene, Tools], None]


@dataclass
class SceneOutcome:
    """A model's replies in one scene.

    Args:
        written: Text of each reply.
        p_first: Probability of the first label of each probe.
        scored: Mean log-probability (nats) of each scored text.
        failed: Whether the scene ended early; what is missing counts as wrong.
    """

    written: list[str] = field(default_factory=list)
    p_first: list[float] = field(default_factory=list)
    scored: list[float] = field(default_factory=list)
    failed: bool = False


class Labelling(Protocol):
    """What `TrainingTask.label` is given: the model that writes the labels, the model in training,
    and limits.

    Args:
        task: The data set's instruction, which becomes part of the scenes.
        asked: A prompt in place of the method's, or "".
        meter: Counts what the models read and write.
    """

    task: Task
    asked: str
    meter: Meter

    def teacher(self) -> MeteredModel:
        """The model whose replies are the labels."""

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""

    def once(self, key: str, fn: Callable[[], T]) -> T:
        """The result of `fn`, computed at the first call with this key and kept for the latest
        keys; calls for one key never overlap."""

    def at_most_a_row(self, tokens: int) -> int:
        """The limit of a long reply of the teacher: `tokens`, or fewer where a training row holds
        fewer."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """(start, end) of every token of `text` in characters, by the tokenizer of the model that
        is trained; no weights are loaded."""


@dataclass(frozen=True)
class TrainingTask:
    """How one adapter is trained and measured.

    Args:
        name: The name of the adapter.
        skill: The request that it learns.
        headline: The name of the main measure.
        measure: (scene, outcome) -> named values, which are averaged over scenes.
        label: (question, documents, labelling) -> scenes, with the labels of a teacher.
        per: Whether `label` gets a question with its documents, or a document alone.
        after: Tasks whose adapters must be trained before its labels are made.
        floor: Scenes -> expected value of the headline for guessing, where that is known.
        asked: The prompt that the teacher's labels answer, part of the label file's identity.
        classes: What a scene's first verdict says, (if true, if false); () where it has none.
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
