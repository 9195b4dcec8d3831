"""What MemWalker asks of a model, played with the method's own prompts.

The texts of a scene: "shortened" has the summaries of consecutive parts; "triage" the working memory, a line each (""
for none), then the summaries to choose from; "leaf" the working memory, then the segment.
"""

from __future__ import annotations

from harness.method import Scene, Skill, Tools
from harness.prompts import Pieces, feed
from methods import summary
from methods.memwalker import prompts
from methods.memwalker.config import MemWalkerConfig


def skills(config: MemWalkerConfig) -> list[Skill]:
    """Summaries of segments and of summaries, the choice of a part, and its reading."""

    def reply(tools: Tools, role: str, pieces: Pieces) -> None:
        model = tools.model(role)
        with model.session() as s:
            feed(s, pieces)
            s.write(s.room() - model.turn_tokens())

    def parents(scene: Scene, tools: Tools) -> None:
        reply(tools, "builder", prompts.parents(scene.texts, config))

    def triage(scene: Scene, tools: Tools) -> None:
        memory, *summaries = scene.texts
        request = prompts.triage(scene.question, memory.splitlines(), summaries, config, back=config.inner_revert)
        reply(tools, "searcher", request)

    def leaf(scene: Scene, tools: Tools) -> None:
        memory, segment = scene.texts
        instruction = scene.task.instruction
        request = prompts.leaf(scene.question, memory.splitlines(), segment, instruction, config)
        reply(tools, "reader", request)

    return [
        *summary.skills(prompts.SEGMENT.of(config)),
        Skill("memwalker parents", "shortened", parents),
        Skill("memwalker triage", "triage", triage),
        Skill("memwalker leaf", "leaf", leaf),
    ]
