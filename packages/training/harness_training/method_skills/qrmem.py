"""The skills of QRMeM, played with its own prompts.

The texts of their scenes, lists a line an item and "" for none (pocket/tasks/entity_memory.py):

"entities"    summary, questions, segment              "relations"   summary, entities, questions, segment
"doubts"      summary, segment, entities, relations    "fusion"      summary, segment, relation, segment, relation
"reflection"  segments                                 "trial"       reason, chosen, others, segments
"elaborated"  entities, relations
"""

from functools import partial

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
    `config`: (name of the skill, kind of scene, role whose model is asked, request of each turn).
    """
    return [
        request_skill(
            "qrmem entities", "entities", "builder", partial(_request_for_entities, config)
        ),
        request_skill(
            "qrmem relations", "relations", "builder", partial(_request_for_relations, config)
        ),
        request_skill(
            "qrmem questions", "doubts", "builder", partial(_request_for_questions, config)
        ),
        request_skill(
            "qrmem fusion",
            "fusion",
            "builder",
            partial(_request_for_fusion_questions, config),
            partial(_request_for_fused_relation, config),
        ),
        request_skill("qrmem ask", "reflection", "reader", partial(_request_for_answer, config)),
        request_skill(
            "qrmem entity trial",
            "trial",
            "searcher",
            partial(_request_for_next_entities, config),
        ),
        request_skill(
            "qrmem elaborated question",
            "elaborated",
            "searcher",
            partial(_request_for_elaborated_question, config),
        ),
    ]


def _request_for_entities(config: QRMeMConfig, scene: Scene) -> Pieces:
    """The method's request for the entities of a segment. The scene's texts are a summary of the
    whole document, questions (a line each), and the segment."""
    summary, questions, segment = scene.texts
    requests = Requests(config, scene.question, summary)
    return requests.entities(segment, questions.splitlines())


def _request_for_relations(config: QRMeMConfig, scene: Scene) -> Pieces:
    """The method's request for the relations of a segment. The scene's texts are a summary of the
    whole document, entities and questions (a line each), and the segment."""
    summary, entity_names, questions, segment = scene.texts
    requests = Requests(config, scene.question, summary)
    return requests.relations(segment, entity_names.splitlines(), questions.splitlines())


def _request_for_questions(config: QRMeMConfig, scene: Scene) -> Pieces:
    """The method's request for questions about what a segment's graph lacks. The scene's texts are
    a summary of the whole document, the segment, and the graph's entities and relations (a line
    each)."""
    summary, segment, entity_names, relation_lines = scene.texts
    requests = Requests(config, scene.question, summary)
    return requests.questions(segment, entity_names.splitlines(), relation_lines.splitlines())


def _request_for_fusion_questions(config: QRMeMConfig, scene: Scene) -> Pieces:
    """The method's request for questions about two relations, before they are merged. The scene's
    texts are a summary of the whole document, then twice a segment and its relation."""
    summary, first_segment, first_relation, second_segment, second_relation = scene.texts
    requests = Requests(config, scene.question, summary)
    return requests.fusion_questions(
        Relation(first_segment, first_relation), Relation(second_segment, second_relation)
    )


def _request_for_fused_relation(config: QRMeMConfig, scene: Scene) -> list[str]:
    """The method's next turn after the questions about two relations: it asks for one relation in
    their place."""
    return [Requests(config, scene.question).fusion_relation()]


def _request_for_answer(config: QRMeMConfig, scene: Scene) -> Pieces:
    """The method's request for the answer from the scene's texts, which are segments."""
    return Requests(config, scene.question).ask(scene.texts, scene.task.instruction)


def _request_for_next_entities(config: QRMeMConfig, scene: Scene) -> Pieces:
    """The method's request for the entities to look up next. The scene's texts are why the answer
    is not known yet, the entities chosen so far and the others (a line each), and segments."""
    reason, chosen, others, *segments = scene.texts
    requests = Requests(config, scene.question)
    return requests.trial(segments, reason, chosen.splitlines(), others.splitlines())


def _request_for_elaborated_question(config: QRMeMConfig, scene: Scene) -> Pieces:
    """The method's request for an elaborated question. The scene's texts are entities and relations
    (a line each)."""
    entity_names, relation_lines = scene.texts
    requests = Requests(config, scene.question)
    return requests.elaborate(entity_names.splitlines(), relation_lines.splitlines())
