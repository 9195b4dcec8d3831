"""The skills of DECOM."""

from functools import cache

from harness.method import MethodConfig
from harness.prompts import Pieces, Prompt
from harness_training.method_skills import reading
from harness_training.tasks import Scene, Skill
from methods.decompose import DECOMPOSE


def skills(config: MethodConfig) -> list[Skill]:
    """The skills "decompose", "answer" and "choose", in the prompts of `config`."""
    return [_decompose_skill(DECOMPOSE.with_replacements(config)), *reading.skills(config)]


@cache
def _decompose_skill(prompt: Prompt) -> Skill:
    """The skill "decompose": sub-questions of a question, as `prompt` asks for them."""

    def decompose(scene: Scene) -> Pieces:
        """The prompt with the scene's question."""
        return prompt.fill(question=[scene.question.text])

    return reading.request_skill("decompose", "decomposed", "searcher", decompose)
