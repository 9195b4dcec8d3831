"""What a method says of one of its adapters, so that it can be trained.

    class Mine(Method):
        def training(self): return [TrainingTask("analysis", SKILL, measure, label)]

name: of the adapter; the method opens its sessions with it. A scene (harness.method.Scene) is a prompt with the reply
that is right; the synthetic world makes them by the skill's kind of scene, and for a real base `label` lets a teacher
make them out of a data set's questions and documents. It sees no gold answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol

if TYPE_CHECKING:
    from harness.llm.base import MeteredModel
    from harness.method import Scene, Skill, Task
    from harness.training.recorded_session import Heard
    from harness.types import Document, Question


class Labelling(Protocol):
    """What labels are made with. task: the data set's instruction, which scenes carry along."""

    task: Task

    def teacher(self) -> MeteredModel:
        """The model that knows what is right."""

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""


@dataclass(frozen=True)
class TrainingTask:
    """One adapter.

    measure: a scene and what was heard in it -> named values, each averaged over scenes; headline: the value that
    counts; floor: what guessing would reach of it, where that is known; label: scenes of a question and its documents,
    or of a document alone (per "document"); asked: the prompt that a teacher's labels come from, which their file is
    bound to; prompts: names of the method's prompts that the adapter learns, () = the one named as the adapter; after:
    tasks whose adapters must be trained before its labels are made.
    """

    name: str
    skill: Skill
    headline: str
    measure: Callable[[Scene, Heard], dict[str, float]]
    label: Callable[[Question | None, Sequence[Document], Labelling], list[Scene]]
    per: Literal["question", "document"] = "question"
    after: tuple[str, ...] = ()
    floor: Callable[[Sequence[Scene]], float] | None = None
    asked: str = ""
    prompts: tuple[str, ...] = ()
