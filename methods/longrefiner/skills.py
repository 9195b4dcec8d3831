"""What LongRefiner asks of a model, for training: its three tasks. Reading is the shared skill.

"breadth"    texts: none                              verdict: True where the answer is clear and fixed (Local)
"outline"    texts: a document                        reply: its outline
"titles"     texts: title, abstract, lines of titles  reply: ['title']
"""

from __future__ import annotations

from harness.method import Scene, Skill, Tools
from harness.prompts import feed
from methods.longrefiner import prompts
from methods.longrefiner.asking import question_text
from methods.longrefiner.config import LongRefinerConfig


def skills(config: LongRefinerConfig) -> list[Skill]:
    """The three tasks in the prompts that `config` leaves or puts in place."""

    def analysis(scene: Scene, tools: Tools) -> None:
        with tools.model("refiner").session() as s:
            feed(s, prompts.analysis(question_text(scene.question), config))
            s.probe(prompts.LABELS, after=prompts.LABEL_BEGIN)

    def structuring(scene: Scene, tools: Tools) -> None:
        model = tools.model("refiner")
        with model.session() as s:
            feed(s, prompts.structuring(scene.texts, config))
            s.write(s.room() - model.turn_tokens())

    def selection(scene: Scene, tools: Tools) -> None:
        model = tools.model("refiner")
        title, abstract, lines = scene.texts
        with model.session() as s:
            feed(s, prompts.selection(question_text(scene.question), title, abstract, lines, config))
            s.write(s.room() - model.turn_tokens())

    return [
        Skill("longrefiner analysis", "breadth", analysis),
        Skill("longrefiner structuring", "outline", structuring),
        Skill("longrefiner selection", "titles", selection),
    ]


SKILLS = skills(LongRefinerConfig())
