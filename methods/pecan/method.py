"""PECAN as the engine sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import ClassVar

from harness.errors import QuestionError
from harness.method import Index, Indexes, Method, Needs, Tools, Traits
from harness.prompts import Prompt
from harness.storage.records import StoredStep
from harness.types import Answer, Document, Question
from methods.graph import Graph
from methods.pecan.build import build_graph
from methods.pecan.config import PecanConfig
from methods.pecan.prompts import prompts_of
from methods.pecan.recording import RecordingSearch
from methods.pecan.search import Search, StopRule, may_stop, replay
from methods.retrieval import similarity_to


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
        """The prompts that it sends: those that the paper prints, and RAPTOR's for summaries where
        the graph is a tree."""
        return prompts_of(self.config.graph)

    def model_problems(self, role: str, window: int, sizes: Mapping[str, object]) -> list[str]:
        """A sentence where the builder's window is taken up by what is written, so that no text of
        a document fits a call; else [].

        Args:
            role: "builder" or "searcher"; only the builder reserves `reserve` tokens.
            window: The window of the model in tokens; 0 where it is unknown.
            sizes: Not used.
        """
        if role != "builder" or window == 0:
            return []
        window = min(window, self.config.window)
        if window > self.config.reserve:
            return []
        sentence = (
            f"a window of {window} tokens leaves no room for text beside the {self.config.reserve} "
            "tokens that a call may write (method.reserve); lower method.reserve, or choose a "
            "model with a larger window"
        )
        return [sentence]

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: its graph (`Graph.to_index`), and "embeddings" of its nodes
        [nodes, width]."""
        graph = build_graph(document, self.config, tools)
        return {**graph.to_index(), "embeddings": tools.encoder().encode(graph.text, "passage")}

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Search the document's graph, then answer from the visited nodes.

        Raises:
            QuestionError: The question has no text.
            WindowExceeded: The question alone does not fit the window.
        """
        (document,) = documents
        (index,) = indexes
        if not question.text.strip():
            raise QuestionError(
                f"the question '{question.id}' has no text, so there is nothing to search for"
            )
        with tools.phase("search"):
            cosine = similarity_to(question.text, index["embeddings"], tools)
        search_class = Search
        if self.config.record_stops is not None:
            search_class = RecordingSearch
        graph = Graph.from_index(index)
        search = search_class(graph, cosine, document, self.config, tools, tools.model("searcher"))
        return search.run(question)

    def stop_rule(self) -> dict[str, float | None]:
        """The rule by which a search ends, {"t_n": ..., "t_p": ...}: at the t_n-th probe with p_yes
        above t_p, or, with a t_p of None, whose likeliest token is Yes."""
        return asdict(self._own_rule())

    def recorded_rule(self) -> dict[str, float | None]:
        """The rule by which the recording ends, {"t_n": ..., "t_p": ...}: record_stops and
        record_t_p, where these are set."""
        return asdict(self._recorded_rule())

    def replay(self, steps: Sequence[StoredStep], *, t_n: int, t_p: float | None) -> int | None:
        """Find where a recorded search would have stopped by another rule.

        Args:
            steps: The steps of a record.
            t_n: Stop at this many Yes.
            t_p: A probe counts as Yes above this; None: where Yes was its likeliest token.

        Returns:
            The index of the step whose probe ends the search; None where the recording ends before.
        """
        return replay(steps, StopRule(t_n, t_p), self._recorded_rule())

    def _own_rule(self) -> StopRule:
        """The rule by which the search ends."""
        return StopRule(self.config.t_n, self.config.threshold)

    def _recorded_rule(self) -> StopRule:
        """The rule by which the recording ends; the search's own where nothing else is recorded."""
        rule = self._own_rule()
        if self.config.record_stops is None:
            return rule
        t_p = rule.t_p
        if self.config.record_t_p is not None:
            t_p = self.config.record_t_p
        return StopRule(self.config.record_stops, t_p)

    def may_stop(self, reason: str, steps: Sequence[StoredStep]) -> bool:
        """Whether a search with these steps of a record ends after the last of them, and for this
        stop reason."""
        return may_stop(reason, steps, self._own_rule())
