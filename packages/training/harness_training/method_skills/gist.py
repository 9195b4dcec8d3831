"""The skills of ReadAgent."""

from harness.prompts import Pieces
from harness_training.method_skills import reading
from harness_training.method_skills.summary import summary_skill
from harness_training.tasks import Scene, Skill
from methods.gist import SHORTEN, Gist, break_request, lookup_request


def skills(config: Gist.Config) -> list[Skill]:
    """The skills of page breaks, the look-up, summaries, short answers and choices, in the prompts
    of `config`."""

    def page_break(scene: Scene) -> Pieces:
        """The method's request for the place of a page break."""
        return break_request(scene.texts, config)

    def lookup(scene: Scene) -> Pieces:
        """The method's request for the pages to read again."""
        return lookup_request(scene.question, scene.texts, config)

    return [
        reading.request_skill("gist page break", "pause", "builder", page_break),
        reading.request_skill("gist look-up", "lookup", "searcher", lookup),
        summary_skill(SHORTEN.with_replacements(config)),
        *reading.skills(config),
    ]
