"""The skills "answer" and "choose" of all methods that answer with the shared reading prompts."""

from collections.abc import Callable, Sequence
from functools import cache

from harness.method import MethodConfig, Tools
from harness.prompts import Prompt, feed
from harness_training.tasks import Scene, Skill
from methods.reading import PROMPTS, Reading, ask


def skills(config: MethodConfig | None = None) -> list[Skill]:
    """The skills "answer" and "choose": short answers and choices after a text, in the prompts of
    `config` (None: the shared ones)."""
    return _skills_in_prompts(tuple(prompt.with_replacements(config) for prompt in PROMPTS))


def no_skills(_config: MethodConfig) -> list[Skill]:
    """[]: there is nothing to learn about the answer to a question without its text."""
    return []


def request_skill(
    name: str, scene: str, role: str, *requests: Callable[[Scene], Sequence[str]]
) -> Skill:
    """A skill that makes some requests in one session, a turn each.

    Args:
        name: The name of the skill.
        scene: The kind of scene that it is trained on.
        role: The role whose model is asked.
        *requests: For each turn a function: scene -> the pieces of the prompt.
    """

    def play(played: Scene, tools: Tools) -> None:
        """Play the scene; replies are as long as the window allows."""
        model = tools.model(role)
        with model.session() as session:
            for request in requests:
                feed(session, request(played))
                session.write(session.room() - model.turn_tokens())

    return Skill(name, scene, play)


@cache
def _skills_in_prompts(prompts: tuple[Prompt, ...]) -> list[Skill]:
    """The skills "answer" and "choose", with `prompts` in place of the shared ones of the same
    names. Both are played alike; only their scenes differ (a choice has options)."""
    replaced_prompts: dict[str, str | dict[str, str]] = {
        prompt.name: {"user": prompt.text, "system": prompt.system} for prompt in prompts
    }

    def answer(scene: Scene, tools: Tools) -> None:
        """Answer the scene's question as a method's last request does."""
        request = Reading(scene.task, config=MethodConfig(prompts=replaced_prompts))
        ask(scene.question, scene.texts, tools, tools.model(), request)

    return [Skill("answer", "question", answer), Skill("choose", "choice", answer)]
