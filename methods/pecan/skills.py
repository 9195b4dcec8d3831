"""What PECAN asks of a model, played with the method's own functions, so that prompts and training stay the same."""

from __future__ import annotations

from collections.abc import Callable

from harness.method import Scene, Skill, Tools
from methods import summary
from methods.pecan.build import feed_nodes
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import second_turn
from methods.pecan.search import feed_node, finish, open_search


def _points(level: int, config: PecanConfig) -> Callable[[Scene, Tools], None]:
    def play(scene: Scene, tools: Tools) -> None:
        model = tools.model("builder")
        with model.session() as s:
            feed_nodes(s, scene.texts, level, config, model)
            s.write(s.room() - model.turn_tokens())

    return play


def skills(config: PecanConfig) -> list[Skill]:
    """The texts written by the builder, and the search with its probes and its answer.

    Points of chunks and points of points, or the shared summary where the graph is a tree. A search in other words is
    another skill, which no model was trained on until a curriculum names it.
    """

    def search(scene: Scene, tools: Tools) -> None:
        with tools.model("searcher").session() as s:
            question = open_search(s, scene.question, config)
            for text in scene.texts:
                feed_node(s, text, question)
                s.probe([config.yes, config.no])
            if scene.replies:
                turn = second_turn(scene.task.instruction, scene.question, config)
                finish(s, config.yes, turn, scene.task.max_answer_tokens)

    name = "pecan search" if config.probe_wording == "printed" else f"pecan search, {config.probe_wording} wording"
    written = [
        Skill("pecan points", "points", _points(2, config)),
        Skill("pecan points of points", "gathered", _points(3, config)),
    ]
    return [
        Skill(name, "sufficiency", search),
        *(summary.skills(summary.DETAILED.of(config)) if config.graph == "tree" else written),
    ]
