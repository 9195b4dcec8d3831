"""What PECAN asks of a model, played with the method's own functions, so that prompts and training stay the same."""

from __future__ import annotations

from collections.abc import Callable

from harness.method import Scene, Skill, Tools
from methods.pecan.config import PecanConfig
from methods.pecan.graph import feed_nodes
from methods.pecan.prompts import second_turn
from methods.pecan.search import feed_node, finish, open_search

__all__ = ["skills"]


def _summary(level: int) -> Callable[[Scene, Tools], None]:
    def play(scene: Scene, tools: Tools) -> None:
        model = tools.model("builder")
        with model.session() as s:
            feed_nodes(s, scene.texts, level)
            s.write(s.room() - model.turn_tokens())

    return play


def skills(config: PecanConfig) -> list[Skill]:
    """Points of chunks, points of points, and the search with its probes and its answer."""

    def search(scene: Scene, tools: Tools) -> None:
        with tools.model("searcher").session() as s:
            asked = open_search(s, scene.question)
            for text in scene.texts:
                feed_node(s, text, asked)
                s.probe([config.yes, config.no])
            if scene.replies:
                finish(s, config.yes, second_turn(scene.task.instruction), scene.task.max_answer_tokens)

    return [
        Skill("pecan search", "sufficiency", search),
        Skill("pecan points", "points", _summary(2)),
        Skill("pecan points of points", "gathered", _summary(3)),
    ]
