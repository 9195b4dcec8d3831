"""The exam of the pocket model: every skill on fresh texts of evaluation seeds, through real sessions.

    rows = examine(model, questions=100, seed=0, progress=print)

cells.py defines the questions, metrics.py the measures. Nothing here depends on how the model was trained.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from harness.method.hooks import SceneOutcome, Skill
from harness.models import LanguageModel
from harness.stats.rng import Dice
from harness.training.exam import one_of, record_scene
from pocket.eval.cells import ASKED, Cell, cells
from pocket.eval.metrics import Measured, Sitting, alike, measure
from pocket.tasks.catalog import SCENES
from pocket.tasks.catalog import skills as declared
from pocket.tasks.parts import Shown
from pocket.tasks.scenes import show
from pocket.world.fact_graph import Asked
from pocket.world.questions import Asker

_TRIES = 60  # texts a question may take until one allows it; the rarest, comparisons in a story, take 5 on average
_LEAST = 2


@dataclass(frozen=True)
class Row:
    """One number of the exam.

    value: a share or an area in [0, 1], None where there was nothing to measure (n 0); low, high: its 95 % interval;
    n: of answers, probes, points or names; floor: the expected value of guessing without reading, if
    known; failed: scenes that ended with an error, counted as wrong.
    """

    skill: str
    asked: str
    text: str
    measure: str
    value: float | None
    low: float | None
    high: float | None
    n: int
    floor: float | None = None
    failed: int = 0


class _One(Asker):
    """An asker with one question, so that a scene and its proof stay together."""

    def __init__(self, asker: Asker, question: Asked) -> None:
        vars(self).update(vars(asker), **dict.fromkeys(ASKED, lambda *_: question))


def _needed(shown: Shown, question: Asked, dice: Dice) -> Shown:
    """The text with nothing in it but the facts that prove the answer."""
    facts = tuple(dice.shuffled(question.supports))
    return replace(shown, texts=(" ".join(shown.sentences[f] for f in facts),), stated=(facts,))


def _draw(skill: Skill, cell: Cell, dice: Dice) -> Sitting | None:
    """A scene of the cell with an empty outcome; None where the text allows no such question."""
    shown = show(cell.recipe, dice, "evaluation")
    question: Asked | None = None
    if cell.ask is not None:
        question = getattr(shown.asker, cell.ask)()
        if question is None:
            return None
        shown = replace(_needed(shown, question, dice) if cell.needed else shown, asker=_One(shown.asker, question))
    scenes = list(islice(SCENES[skill.scene](cell.recipe, shown, dice), 2))
    if not scenes:
        return None
    scene = one_of(scenes, dice)
    return Sitting(scene, SceneOutcome(), question, tuple(shown.asker.facts))


def take(skill: Skill, cell: Cell, count: int, seed: int) -> Iterator[Sitting]:
    """`count` scenes of a cell, each about a text of its own; fewer where texts that allow the question are rare.

    A function of cell, count and seed: skills with equal cells have the same texts.
    """
    taken = 0
    for number in range(count * _TRIES):
        drawn = _draw(skill, cell, Dice("exam", seed, cell.asked, cell.text, number))
        if drawn is not None:
            yield drawn
            taken += 1
        if taken == count:
            return


def examine(
    model: LanguageModel,
    *,
    questions: int,
    seed: int,
    progress: Callable[[str], None],
    skills: Iterable[Skill] | None = None,
) -> list[Row]:
    """Ask `questions` questions a cell (a quarter of that where a scene holds many points) and measure the replies.

    skills: default all that method presets declare; progress: called with a line a cell.
    Raises the model's errors, except those of a single question.
    """
    rows: list[Row] = []
    for skill in declared().values() if skills is None else skills:
        mixed: list[Sitting] = []
        for cell in cells(skill):
            count = max(_LEAST, round(questions * cell.share))
            sittings = [replace(s, outcome=record_scene(model, skill, s.scene)) for s in take(skill, cell, count, seed)]
            new = _rows((skill.name, cell.asked, cell.text), sittings, measure(skill.scene, sittings))
            rows += new
            mixed += [] if cell.needed else sittings
            progress(f"{skill.name}, {cell.asked}, {cell.text}: " + ", ".join(map(_told, new)))
        if skill.scene == "question" and any(s.asked for s in mixed):
            for asked, text, sittings, measured in alike(mixed):
                rows += _rows((skill.name, asked, text), sittings, measured)
    return rows


def _rows(head: tuple[str, str, str], sittings: Sequence[Sitting], measured: Measured) -> list[Row]:
    failed = sum(s.outcome.failed for s in sittings)
    return [Row(*head, name, v.mean, v.low, v.high, v.n, floor, failed) for name, (v, floor) in measured.items()]


def _told(row: Row) -> str:
    return f"{row.measure} {'-' if row.value is None else f'{100 * row.value:.0f} %'} of {row.n}"
