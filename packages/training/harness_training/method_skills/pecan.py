"""The skills of PECAN, played with its own functions: training sees the same prompts."""

from functools import partial

from harness.method import Tools
from harness_training.method_skills.summary import summary_skill
from harness_training.tasks import Scene, Skill
from methods import summary
from methods.pecan.build import feed_nodes
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import second_turn
from methods.pecan.search import ask_for_answer, feed_node, open_search


def skills(config: PecanConfig) -> list[Skill]:
    """The skills of what the builder writes, and of the search with its probes and its answer.

    The builder writes points of chunks and points of points, or the shared summary where the graph
    is a tree. A search in other words is another skill, which no model was trained on until a
    curriculum names it.
    """
    name = "pecan search"
    if config.probe_wording != "printed":
        name = f"pecan search, {config.probe_wording} wording"
    search = Skill(name, "sufficiency", partial(_play_search, config))
    if config.graph == "tree":
        return [search, summary_skill(summary.DETAILED.with_replacements(config))]
    return [
        search,
        # Level 2 of the graph has points of chunks, level 3 points of points.
        Skill("pecan points", "points", partial(_play_points, config, 2)),
        Skill("pecan points of points", "gathered", partial(_play_points, config, 3)),
    ]


def _play_points(config: PecanConfig, level: int, scene: Scene, tools: Tools) -> None:
    """Let the model write points over the texts of a scene.

    Args:
        config: The method's settings, which have the prompts.
        level: The level of the graph that is written; 2 for points of chunks.
        scene: The texts.
        tools: Give the model.
    """
    model = tools.model("builder")
    with model.session() as session:
        feed_nodes(session, scene.texts, level, config, model)
        session.write(session.room() - model.turn_tokens())


def _play_search(config: PecanConfig, scene: Scene, tools: Tools) -> None:
    """Show the model the texts of a scene with a probe after each; ask for the answer where the
    scene has a reply.

    Args:
        config: The method's settings, which have the prompts.
        scene: The question and the texts.
        tools: Give the model.
    """
    with tools.model("searcher").session() as session:
        # Feeds the beginning of the prompt; returns what is repeated after each text.
        question = open_search(session, scene.question, config)
        for text in scene.texts:
            feed_node(session, text, question)
            session.probe([config.yes, config.no])
        if scene.replies:
            turn = second_turn(scene.task.instruction, scene.question, config)
            ask_for_answer(session, config.yes, turn, scene.task.max_answer_tokens)
