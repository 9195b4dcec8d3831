"""What the exam asks of each skill: a table of cells, a kind of question by a kind of text.

    cells(skill)            the cells of a skill the exam knows, else one of its scene's kind at 250 tokens
    general("points")       that one

Lengths are in tokens of the world, characters / 4.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.method.hooks import Skill
from pocket.tasks.recipes import Recipe

READ = ("musique", "narrativeqa", "qasper")  # one kind of each of the three schemas
NEEDED = "needed facts only"
ASKED = {
    "one": "one hop",
    "two": "two hops",
    "compare": "compare",
    "same": "same (yes/no)",
    "nothing": "unanswerable",
}
# Only the papers' instruction speaks of what the text does not say.
_KINDS = {"one": READ, "two": READ, "compare": ("hotpotqa", "qasper"), "same": ("hotpotqa", "qasper")}
_PAPER = ("qasper",)
_CHOICE = ("quality",)
_LENGTHS = (250, 500, 1000, 1500)
_FACT = 15  # tokens of a sentence, about
_DRAWN = 12  # facts drawn, from which the needed ones are taken


@dataclass(frozen=True)
class Cell:
    """One cell of the exam.

    asked, text: row and column of its table; recipe: of the texts; ask: the kind of question, None if the scene has
    none or several kinds; needed: show only the facts that prove the answer; share: of the exam's questions a cell.
    """

    asked: str
    text: str
    recipe: Recipe
    ask: str | None = None
    needed: bool = False
    share: float = 1.0


def _sizes(skill: str, ask: str, kinds: tuple[str, ...]) -> list[Cell]:
    """A kind of question over 8 facts and whole documents."""
    texts: list[tuple[str, dict[str, Any]]] = [("8 facts", {"facts": (8, 8)})]
    texts += [(f"{n} tokens", {"tokens": (n, n)}) for n in _LENGTHS]
    return [
        Cell(ASKED[ask], text, Recipe(skill=skill, kinds=kinds, ask={ask: 1.0}, **size), ask) for text, size in texts
    ]


def _answer(skill: str) -> list[Cell]:
    rows: list[Cell] = []
    for ask in ASKED:
        kinds = _KINDS.get(ask, _PAPER)
        if ask != "nothing":  # it has no facts that prove it
            recipe = Recipe(skill=skill, kinds=kinds, facts=(_DRAWN, _DRAWN), ask={ask: 1.0})
            rows.append(Cell(ASKED[ask], NEEDED, recipe, ask, needed=True))
        rows += _sizes(skill, ask, kinds)
    return rows


def _choose(skill: str) -> list[Cell]:
    return [cell for ask in ("one", "two") for cell in _sizes(skill, ask, _CHOICE)]


def _search(skill: str) -> list[Cell]:
    rows: list[Cell] = []
    for ask in ("one", "two"):
        for n in (250, 500):
            # As a search meets them: points one by one, or chunks of about 100 tokens that may cut a sentence.
            points = Recipe(skill=skill, kinds=READ, facts=(n // _FACT, n // _FACT), pieces=2, ask={ask: 1.0})
            chunks = Recipe(skill=skill, kinds=READ, tokens=(n, n), pieces=n // 100 + 1, ask={ask: 1.0})
            rows.append(Cell(ASKED[ask], f"points, {n} tokens", points, ask))
            rows.append(Cell(ASKED[ask], f"chunks, {n} tokens", chunks, ask))
    return rows


def _points(skill: str) -> list[Cell]:
    # A document has at least 200 tokens, so 100 are sentences in one piece.
    recipes = [(100, Recipe(skill=skill, kinds=READ, facts=(7, 7)))]
    recipes += [(n, Recipe(skill=skill, kinds=READ, tokens=(n, n), pieces=2)) for n in (250, 400)]
    return [Cell("points", f"{n} tokens", recipe, share=0.25) for n, recipe in recipes]


def _gathered(skill: str) -> list[Cell]:
    recipes = [(n, Recipe(skill=skill, kinds=READ, facts=(n // _FACT, n // _FACT), pieces=2)) for n in (100, 250, 400)]
    cells = [Cell("names", f"{n} tokens", recipe, share=0.25) for n, recipe in recipes]
    level = Recipe(skill=skill, kinds=READ, tokens=(1640, 1640), pieces=2)
    return [*cells, Cell("names", "of a document", level, share=0.5)]


_CELLS = {
    "answer": _answer,
    "choose": _choose,
    "pecan search": _search,
    "pecan points": _points,
    "pecan points of points": _gathered,
}


def general(scene: str, skill: str = "") -> Cell:
    """One cell for a kind of scene: one and two hops at 250 tokens."""
    share = 0.25 if scene in ("points", "gathered") else 1.0
    if scene == "gathered":
        recipe = Recipe(skill=skill, kinds=READ, facts=(250 // _FACT, 250 // _FACT), pieces=2)
    else:
        kinds = _CHOICE if scene == "choice" else READ
        pieces = {"sufficiency": 3, "points": 2, "followed": 3}.get(scene, 1)
        recipe = Recipe(skill=skill, kinds=kinds, tokens=(250, 250), ask={"one": 1.0, "two": 1.0}, pieces=pieces)
    return Cell("one and two hops", "250 tokens", recipe, share=share)


def cells(skill: Skill) -> list[Cell]:
    """The cells of `skill`; a skill the exam does not know has the one of its kind of scene."""
    if skill.name in _CELLS:
        return _CELLS[skill.name](skill.name)
    return [general(skill.scene, skill.name)]
