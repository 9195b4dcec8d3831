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
from methods.longrefiner.teacher_labels import PROMPTS, Selection, label_breadth, label_outline

if TYPE_CHECKING:
    from harness.method import SceneOutcome


def tasks(config: LongRefinerConfig) -> list[TrainingTask]:
    """The tasks in the order they are trained: titles are selected from outlines of the trained model."""
    skill = {one.name.removeprefix("longrefiner "): one for one in skills.skills(config)}
    selecting = Selection(LongRefinerConfig(scoring="bm25", prompts=config.prompts))
    analysis = TrainingTask(
        "analysis", skill["analysis"], "accuracy", _analysis, label_breadth, floor=_commoner, asked=PROMPTS["analysis"]
    )
    structuring = TrainingTask(
        "structuring",
        skill["structuring"],
        "outline F1",
        _structuring,
        label_outline,
        per="document",
        asked=prompts.STRUCTURING.text,
    )
    selection = TrainingTask(
        "selection",
        skill["selection"],
        "selection F1",
        _selection,
        selecting,
        after=("structuring",),
        asked=PROMPTS["selection"],
    )
    return [analysis, structuring, selection]


def f1(found: Collection[Hashable], right: Collection[Hashable]) -> float:
    """Harmonic mean of precision and recall of multisets; 1 where both are empty."""
    if not found and not right:
        return 1.0
    both = sum((Counter(found) & Counter(right)).values())
    return 2 * both / (len(found) + len(right))


def pieces(outline: Part, under: str = "") -> list[Hashable]:
    """Parts as (kind, folded title), and clips as (the part they stand in, head, tail)."""
    found: list[Hashable] = []
    for child in outline.children:
        if isinstance(child, Clip):
            found.append((under, child.head, child.tail))
        else:
            here = prompts.folded(child.title) or child.kind
            found += [(child.kind, here), *pieces(child, here)]
    return found


def _analysis(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    return {"accuracy": float((outcome.p_first[0] > 0.5) == scene.verdicts[0])}


def _commoner(scenes: Sequence[Scene]) -> float:
    local = sum(scene.verdicts[0] for scene in scenes) / len(scenes)
    return max(local, 1 - local)


def _structuring(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    told, right = (pieces(parse(text)) for text in (outcome.written[0], scene.replies[0]))
    titles, true = ([one for one in some if isinstance(one, tuple) and len(one) == 2] for some in (told, right))
    return {"outline F1": f1(told, right), "title F1": f1(titles, true), "exact": float(told == right)}


def _selection(scene: Scene, outcome: SceneOutcome) -> dict[str, float]:
    told, right = prompts.titles(outcome.written[0]), prompts.titles(scene.replies[0])
    said = "[" in outcome.written[0]  # no list at all is not the same as an empty one
    score = f1(told, right) if said else 0.0
    return {"selection F1": score, "exact": float(said and told == right)}
