"""PECAN as the engine sees it, and its skills, played with its own functions: training sees the
same prompts."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from harness.errors import QuestionError
from harness.method import Index, Indexes, Method, Needs, Tools, Traits
from harness.method.training import Scene, Skill
from harness.prompts import Prompt
from harness.types import Answer, Document, Question
from methods import summary
from methods.graph import Graph
from methods.pecan.build import build_graph, feed_nodes
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import prompts_of, second_turn
from methods.pecan.recording import RecordingSearch
from methods.pecan.search import Search, feed_node, finish, open_search, replay
from methods.retrieval import similarity_to


def skills(config: PecanConfig) -> list[Skill]:
    """The texts written by the builder, and the search with its probes and its answer.

    Points of chunks and points of points, or the shared summary where the graph is a tree. A search
    in other words is another skill, which no model was trained on until a curriculum names it.
    """
    name = "pecan search"
    if config.probe_wording != "printed":
        name = f"pecan search, {config.probe_wording} wording"
    search = Skill(name, "sufficiency", partial(_play_search, config))
    if config.graph == "tree":
        return [search, *summary.skills(summary.DETAILED.of(config))]
    return [
        search,
        Skill("pecan points", "points", partial(_play_points, config, 2)),
        Skill("pecan points of points", "gathered", partial(_play_points, config, 3)),
    ]


def _play_points(config: PecanConfig, level: int, scene: Scene, tools: Tools) -> None:
    """Write points of `level` over the texts of a scene."""
    model = tools.model("builder")
    with model.session() as s:
        feed_nodes(s, scene.texts, level, config, model)
        s.write(s.room() - model.turn_tokens())


def _play_search(config: PecanConfig, scene: Scene, tools: Tools) -> None:
    """Read the texts of a scene with a probe after each; answer where the scene has a reply."""
    with tools.model("searcher").session() as s:
        question = open_search(s, scene.question, config)
        for text in scene.texts:
            feed_node(s, text, question)
            s.probe([config.yes, config.no])
        if scene.replies:
            turn = second_turn(scene.task.instruction, scene.question, config)
            finish(s, config.yes, turn, scene.task.max_answer_tokens)


class Pecan(Method):
    """Hierarchical graph of Information Points, searched until the model says that it can
    answer."""

    Config = PecanConfig
    summary = "graph of summary points weighted by attention, searched until the model can answer (arXiv 2410.04790)"
    traits = Traits(draws=False)
    needs: ClassVar[Needs] = {
        "builder": frozenset({"attention"}),
        "searcher": frozenset({"attention", "probe"}),
    }
    encoders = ("encoder",)
    scope = "document"
    index_roles = ("builder", "encoder")
    index_version = "6"
    from_other_runs: Mapping[str, str] = {"max_nodes": "nodes"}

    def templates(self) -> Sequence[Prompt]:
        """The printed prompts, with their tables; RAPTOR's summary where the graph is a tree."""
        return prompts_of(self.config.graph)

    def skills(self) -> list[Skill]:
        """The texts written by the builder, the probe, and the answer after it."""
        return skills(self.config)

    def index(self, document: Document, tools: Tools) -> Index:
        """The graph and an embedding of every node [nodes, width]."""
        graph = build_graph(document, self.config, tools)
        return {**graph.to_index(), "embeddings": tools.encoder().encode(graph.text, "passage")}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Search the document's graph, then answer from the visited nodes.

        Raises QuestionError for a question without text, WindowExceeded for one that fits no
        window.
        """
        (document,) = documents
        (index,) = indexes
        if not question.text.strip():
            raise QuestionError(
                f"the question '{question.id}' has no text, so there is nothing to search for"
            )
        with tools.phase("search"):
            cosine = similarity_to(question.text, index["embeddings"], tools)
        kind = Search
        if self.config.record_stops is not None:
            kind = RecordingSearch
        graph = Graph.from_index(index)
        search = kind(graph, cosine, document, self.config, tools, tools.model("searcher"))
        return search.run(question)

    def stop_rule(self) -> dict[str, Any]:
        """Stop at the t_n-th probe with p_yes above t_p; a t_p of None: whose likeliest token is
        Yes."""
        return {"t_n": self.config.t_n, "t_p": self.config.threshold}

    def recorded_rule(self) -> dict[str, Any]:
        """The rule of the recording: record_stops and record_t_p."""
        rule = self.stop_rule()
        if self.config.record_stops is None:
            return rule
        rule["t_n"] = self.config.record_stops
        if self.config.record_t_p is not None:
            rule["t_p"] = self.config.record_t_p
        return rule

    def replay(self, steps: Sequence[Mapping[str, Any]], **rule: Any) -> int | None:
        """The index of the step whose probe ends a search by `rule`; None where the recording ends
        before."""
        recorded = self.recorded_rule()
        return replay(steps, rule["t_n"], rule["t_p"], recorded["t_n"], recorded["t_p"])
