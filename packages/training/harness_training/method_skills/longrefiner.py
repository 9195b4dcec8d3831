"""The skills of LongRefiner's three tasks. Reading is the shared skill.

"breadth"    texts: none                              verdict: True where the answer is clear and fixed (Local)
"outline"    texts: a document                        reply: its outline (LongRefiner 3.2)
"titles"     texts: title, abstract, lines of titles  reply: ['title'], those that help
"""

from harness.method import Tools
from harness.prompts import Pieces, feed
from harness_training.method_skills import reading
from harness_training.tasks import Scene, Skill
from methods.longrefiner import prompts
from methods.longrefiner.config import LongRefinerConfig
from methods.reading import question_text


def skills(config: LongRefinerConfig) -> list[Skill]:
    """The skills of those of the three tasks that `config` uses, and those of short answers and
    choices."""
    used_skills: list[Skill] = []
    # config.tasks() -> {"analysis": True, "structuring": True, "selection": False}
    for skill, is_used in zip(task_skills(config), config.tasks().values(), strict=True):
        if is_used:
            used_skills.append(skill)
    return [*used_skills, *reading.skills(config)]


def task_skills(config: LongRefinerConfig) -> list[Skill]:
    """The skills of analysis, structuring and selection, in this order, in the prompts of
    `config`."""

    def analysis(scene: Scene, tools: Tools) -> None:
        """Ask whether the scene's question is local or global, and probe which of the two labels
        the reply begins with."""
        with tools.model("refiner").session() as session:
            feed(session, prompts.analysis(question_text(scene.question), config))
            session.probe(prompts.LABELS, after=prompts.LABEL_BEGIN)

    def structuring(scene: Scene) -> Pieces:
        """The method's request for the outline of the scene's text."""
        return prompts.structuring(scene.texts, config)

    def selection(scene: Scene) -> Pieces:
        """The method's request for the parts of a document that help; the scene's texts are title,
        abstract and lines of titles."""
        title, abstract, lines = scene.texts
        return prompts.selection(question_text(scene.question), title, abstract, lines, config)

    return [
        Skill("longrefiner analysis", "breadth", analysis),
        reading.request_skill("longrefiner structuring", "outline", "refiner", structuring),
        reading.request_skill("longrefiner selection", "titles", "refiner", selection),
    ]
