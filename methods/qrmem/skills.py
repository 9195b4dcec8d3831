"""What QRMeM asks of a model, played with the method's own prompts.

The texts of a scene, lists a line an item and "" for none (pocket/tasks/entity_memory.py):
"entities"    summary, questions, segment              "relations"   summary, entities, questions, segment
"doubts"      summary, segment, entities, relations    "fusion"      summary, segment, relation, segment, relation
"reflection"  segments                                 "trial"       reason, chosen, others, segments
"elaborated"  entities, relations
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.method import Scene, Skill, Tools
from harness.prompts import feed
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.prompts import Asking, Relation


def skills(config: QRMeMConfig) -> list[Skill]:
    """A skill for each request."""

    def asking_of(scene: Scene, summary: str = "") -> Asking:
        return Asking(config, scene.question, summary)

    def reply(tools: Tools, role: str, *turns: Sequence[str]) -> None:
        model = tools.model(role)
        with model.session() as s:
            for pieces in turns:
                feed(s, pieces)
                s.write(s.room() - model.turn_tokens())

    def entities(scene: Scene, tools: Tools) -> None:
        summary, guide, segment = scene.texts
        reply(tools, "builder", asking_of(scene, summary).entities(segment, guide.splitlines()))

    def relations(scene: Scene, tools: Tools) -> None:
        summary, names, guide, segment = scene.texts
        pieces = asking_of(scene, summary).relations(segment, names.splitlines(), guide.splitlines())
        reply(tools, "builder", pieces)

    def doubts(scene: Scene, tools: Tools) -> None:
        summary, segment, names, triples = scene.texts
        request = asking_of(scene, summary).questions(
            segment, names.splitlines(), triples.splitlines(), config.questions
        )
        reply(tools, "builder", request)

    def fusion(scene: Scene, tools: Tools) -> None:
        summary, first, text, second, other = scene.texts
        parts = Relation(first, text), Relation(second, other)
        asking = asking_of(scene, summary)
        reply(tools, "builder", asking.fuse(*parts, config.questions), [asking.fused()])

    def ask(scene: Scene, tools: Tools) -> None:
        reply(tools, "reader", asking_of(scene).ask(scene.texts, scene.task.instruction))

    def trial(scene: Scene, tools: Tools) -> None:
        reason, chosen, others, *segments = scene.texts
        reply(
            tools,
            "searcher",
            asking_of(scene).trial(segments, reason, chosen.splitlines(), others.splitlines()),
        )

    def elaborate(scene: Scene, tools: Tools) -> None:
        names, triples = scene.texts
        reply(tools, "searcher", asking_of(scene).elaborate(names.splitlines(), triples.splitlines()))

    return [
        Skill("qrmem entities", "entities", entities),
        Skill("qrmem relations", "relations", relations),
        Skill("qrmem questions", "doubts", doubts),
        Skill("qrmem fusion", "fusion", fusion),
        Skill("qrmem ask", "reflection", ask),
        Skill("qrmem entity trial", "trial", trial),
        Skill("qrmem elaborated question", "elaborated", elaborate),
    ]
