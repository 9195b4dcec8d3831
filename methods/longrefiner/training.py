"""The three adapters as `harness train longrefiner` trains and measures them.

analysis      accuracy: the likelier of Local and Global is right; the floor is the commoner of the two
structuring   F1 of outlines: parts (kind and title) and clips (head, tail and where they stand) of what was written
selection     F1 of selected titles; where none helps, 1 for an empty list and 0 for any other
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Sequence
from typing import TYPE_CHECKING

from harness.method import Scene, TrainingTask
from methods.longrefiner import prompts, skills
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.grammar import Clip, Part, parse
from methods.longrefiner.teacher_labels import (
    PROMPTS,
    Selection,
    label_breadth,
    label_outline,
    most_breadth,
    most_outline,
)

if TYPE_CHECKING:
    from harness.method import SceneOutcome


def tasks(config: LongRefinerConfig) -> list[TrainingTask]:
    """The tasks in the order they are trained: titles are selected from outlines of the trained model."""
    skill = {item.name.removeprefix("longrefiner "): item for item in skills.skills(config)}
    selecting = Selection(config.model_copy(update={"structuring": True}))
    analysis = TrainingTask(
        "analysis",
        skill["analysis"],
        "accuracy",
        _analysis,
        label_breadth,
        most_breadth,
        floor=_commoner,
        asked=PROMPTS["analysis"],
        classes=prompts.LABELS,
    )
    structuring = TrainingTask(
        "structuring",
        skill["structuring"],
        "outline F1",
        _structuring,
        label_outline,
        most_outline,
        per="document",
        asked=prompts.STRUCTURING.text,
    )
    selection = TrainingTask(
        "selection",
        skill["selection"],
        "selection F1",
        _selection,
        selecting,
        selecting.most,
        after=("structuring",),
        asked=PROMPTS["selection"],
    )
    return [analysis, structuring, selection]


def f1(predicted: Collection[Hashable], right: Collection[Hashable]) -> float:
    """Harmonic mean of precision and recall of multisets; 1 where both are empty."""
    if not predicted and not right:
        return 1.0
    both = sum((Counter(predicted) & Counter(right)).values())
    return 2 * both / (len(predicted) + len(right))


def pieces(outline: Part, under: str = "") -> list[Hashable]:
    """Parts as (kind, case-folded title), and clips as (their part, head, tail)."""
    items: list[Hashable] = []
    for child in outline.children:
        if isinstance(child, Clip):
            items.append((under, child.head, child.tail))
        else:
            here = prompts.folded(child.title) or child.kind
            items += [(child.kind, here), *pieces(child, here)]
    return items


def _analysis(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    return {"accuracy": float((outcome.p_first[0] > 0.5) == scene.verdicts[0])}


def _commoner(scenes: Sequence[Scene]) -> float:
    local = sum(scene.verdicts[0] for scene in scenes) / len(scenes)
    return max(local, 1 - local)


def _structuring(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    predicted, right = (pieces(parse(text)) for text in (outcome.written[0], scene.replies[0]))
    titles, true = (
        [item for item in some if isinstance(item, tuple) and len(item) == 2] for some in (predicted, right)
    )
    return {"outline F1": f1(predicted, right), "title F1": f1(titles, true), "exact": float(predicted == right)}


def _selection(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    predicted, right = prompts.titles(outcome.written[0]), prompts.titles(scene.replies[0])
    is_list = "[" in outcome.written[0]  # no list at all is not the same as an empty one
    score = f1(predicted, right) if is_list else 0.0
    return {"selection F1": score, "exact": float(is_list and predicted == right)}
