"""The skills of MemWalker, played with its own prompts.

The texts of a skill's scene: "shortened" has the summaries of consecutive parts; "triage" the
working memory, a line each ("" for none), then the summaries to choose from; "leaf" the working
memory, then the segment.
"""

from harness.prompts import Pieces
from harness_training.method_skills import reading
from harness_training.method_skills.summary import summary_skill
from harness_training.tasks import Scene, Skill
from methods.memwalker import prompts
from methods.memwalker.config import MemWalkerConfig


def skills(config: MemWalkerConfig) -> list[Skill]:
    """The skills of summaries of segments, summaries of summaries, the choice of a part, and its
    reading; with the fallback of short answers, too."""

    def parents(scene: Scene) -> Pieces:
        """The method's prompt for one summary of the scene's summaries."""
        return prompts.parent_request(scene.texts, config)

    def triage(scene: Scene) -> Pieces:
        """The method's prompt at a node; the scene's texts are the memory, then the summaries."""
        memory, *summaries = scene.texts
        return prompts.choice_request(
            scene.question, memory.splitlines(), summaries, config, may_go_back=config.inner_revert
        )

    def leaf(scene: Scene) -> Pieces:
        """The method's prompt at a segment; the scene's texts are the memory, then the segment."""
        memory, segment = scene.texts
        return prompts.segment_request(
            scene.question, memory.splitlines(), segment, scene.task.instruction, config
        )

    own = [
        summary_skill(prompts.SEGMENT.with_replacements(config)),
        reading.request_skill("memwalker parents", "shortened", "builder", parents),
        reading.request_skill("memwalker triage", "triage", "searcher", triage),
        reading.request_skill("memwalker leaf", "leaf", "reader", leaf),
    ]
    if not config.fallback:
        return own
    return [*own, *reading.skills(config)]
