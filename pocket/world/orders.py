"""Input and output of a renderer; each `render_*` module has one `make(order) -> Made`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from harness.stats.rng import Dice
from harness.types import Example
from pocket.world.fact_graph import Asked
from pocket.world.facts import FactBase
from pocket.world.layout import Page

CHARACTERS = 4  # a token, in characters: the usual rule of thumb for English


@dataclass(frozen=True)
class Order:
    """One document (or set of eight): which kind, its id, how many characters, the hops to choose from, questions."""

    kind: str
    id: str
    dice: Dice
    room: int
    hops: tuple[int, ...]
    questions: int = 1


@dataclass(frozen=True)
class Made:
    """Pages and questions; `asked` is parallel to `examples`; rows: in the official format of the data set, if any."""

    pages: tuple[Page, ...]
    examples: tuple[Example, ...]
    asked: tuple[Asked, ...]
    base: FactBase
    rows: tuple[Mapping[str, Any], ...] = field(default=())


def questions_that_fit(order: Order) -> int:
    """The number of questions ordered, or fewer if the text is too short for their facts."""
    return max(1, min(order.questions, order.room // (250 * max(order.hops) + 500)))


def facts_room(room: int) -> int:
    """The characters that facts may take; the rest is for titles and sentences that state none."""
    return room * 85 // 100
