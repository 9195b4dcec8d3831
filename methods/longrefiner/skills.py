"""What LongRefiner asks of a model, for training: its three tasks. Reading is the shared skill.

"breadth"    texts: none                              verdict: True where one fact in one place suffices (Local)
"outline"    texts: a document                        reply: its outline
"titles"     texts: title, abstract, lines of titles  reply: ['title']
"""

from __future__ import annotations

from harness.method import Scene, Skill, Tools
from methods.longrefiner import prompts
from methods.longrefiner.asking import asked

__all__ = ["SKILLS"]


def _analysis(scene: Scene, tools: Tools) -> None:
    with tools.model("refiner").session() as s:
        prompts.feed(s, prompts.analysis(asked(scene.question)))
        s.probe(prompts.LABELS, after=prompts.LABEL_BEGIN)


def _structuring(scene: Scene, tools: Tools) -> None:
    model = tools.model("refiner")
    with model.session() as s:
        prompts.feed(s, prompts.structuring(scene.texts))
        s.write(s.room() - model.turn_tokens())


def _selection(scene: Scene, tools: Tools) -> None:
    model = tools.model("refiner")
    title, abstract, lines = scene.texts
    with model.session() as s:
        prompts.feed(s, prompts.selection(asked(scene.question), title, abstract, lines))
        s.write(s.room() - model.turn_tokens())


SKILLS = [
    Skill("longrefiner analysis", "breadth", _analysis),
    Skill("longrefiner structuring", "outline", _structuring),
    Skill("longrefiner selection", "titles", _selection),
]
