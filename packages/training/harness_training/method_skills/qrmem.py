"""The skills of QRMeM, played with its own prompts.

The texts of their scenes, lists a line an item and "" for none (pocket/tasks/entity_memory.py):

"entities"    summary, questions, segment              "relations"   summary, entities, questions, segment
"doubts"      summary, segment, entities, relations    "fusion"      summary, segment, relation, segment, relation
"reflection"  segments                                 "trial"       reason, chosen, others, segments
"elaborated"  entities, relations
"""

from harness.prompts import Pieces
from harness_training.method_skills import reading
from harness_training.method_skills.reading import request_skill
from harness_training.method_skills.summary import summary_skill
from harness_training.tasks import Scene, Skill
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.prompts import Relation, Requests
from methods.summary import SUMMARY


def skills(config: QRMeMConfig) -> list[Skill]:
    """The skills of summaries, of what the memory and its navigation ask for, and of reading."""
    return [
        summary_skill(SUMMARY.with_replacements(config)),
        *_memory_skills(config),
        *reading.skills(config),
    ]


def _memory_skills(config: QRMeMConfig) -> list[Skill]:
    """A skill for each kind of request of the memory and its navigation, in the prompts of
    `config`.

    The functions inside make the request of each for a scene; how a scene's texts are ordered
    stands at the head of this file.
    """

    def requests_about(scene: Scene, summary: str = "") -> Requests:
        """What writes the method's requests about the scene's question; `summary` is of the whole
        document."""
        return Requests(config, scene.question, summary)

    def entities(scene: Scene) -> Pieces:
        """The method's request for the entities of a segment."""
        summary, questions, segment = scene.texts
        return requests_about(scene, summary).entities(segment, questions.splitlines())

    def relations(scene: Scene) -> Pieces:
        """The method's request for the relations of a segment."""
        summary, entity_names, questions, segment = scene.texts
        return requests_about(scene, summary).relations(
            segment, entity_names.splitlines(), questions.splitlines()
        )

    def doubts(scene: Scene) -> Pieces:
        """The method's request for questions about what a segment's graph lacks."""
        summary, segment, entity_names, relation_lines = scene.texts
        return requests_about(scene, summary).questions(
            segment, entity_names.splitlines(), relation_lines.splitlines()
        )

    def fusion(scene: Scene) -> Pieces:
        """The method's request for questions about two relations, before they are merged."""
        summary, first, text, second, other = scene.texts
        return requests_about(scene, summary).fusion_questions(
            Relation(first, text), Relation(second, other)
        )

    def fused(scene: Scene) -> list[str]:
        """The turn after `fusion`, which asks for the one relation."""
        return [requests_about(scene).fusion_relation()]

    def ask(scene: Scene) -> Pieces:
        """The method's request for the answer from the scene's segments."""
        return requests_about(scene).ask(scene.texts, scene.task.instruction)

    def trial(scene: Scene) -> Pieces:
        """The method's request for the entities to look up next."""
        reason, chosen, others, *segments = scene.texts
        return requests_about(scene).trial(
            segments, reason, chosen.splitlines(), others.splitlines()
        )

    def elaborate(scene: Scene) -> Pieces:
        """The method's request for an elaborated question."""
        entity_names, relation_lines = scene.texts
        return requests_about(scene).elaborate(
            entity_names.splitlines(), relation_lines.splitlines()
        )

    return [
        request_skill("qrmem entities", "entities", "builder", entities),
        request_skill("qrmem relations", "relations", "builder", relations),
        request_skill("qrmem questions", "doubts", "builder", doubts),
        request_skill("qrmem fusion", "fusion", "builder", fusion, fused),
        request_skill("qrmem ask", "reflection", "reader", ask),
        request_skill("qrmem entity trial", "trial", "searcher", trial),
        request_skill("qrmem elaborated question", "elaborated", "searcher", elaborate),
    ]
