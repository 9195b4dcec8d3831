"""The skill "summary", and the skills of methods that summarise and then read."""

from functools import cache

from harness.method import MethodConfig, Tools
from harness.prompts import Prompt
from harness_training.method_skills import reading
from harness_training.tasks import Scene, Skill
from methods.summary import DETAILED, SUMMARY, summarise


@cache
def summary_skill(prompt: Prompt) -> Skill:
    """The skill "summary": a summary as `prompt` asks for it."""

    def summary(scene: Scene, tools: Tools) -> None:
        """Summarise the scene's texts as a method does."""
        model = tools.model("builder")
        summarise(scene.texts, model, model.window, prompt)

    return Skill("summary", "summary", summary)


def shared_skills(config: MethodConfig) -> list[Skill]:
    """The skills "summary" by the shared prompt, "answer" and "choose"."""
    return [summary_skill(SUMMARY.with_replacements(config)), *reading.skills(config)]


def detailed_skills(config: MethodConfig) -> list[Skill]:
    """The skills "summary" by RAPTOR's prompt, "answer" and "choose"."""
    return [summary_skill(DETAILED.with_replacements(config)), *reading.skills(config)]
