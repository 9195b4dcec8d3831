"""The memory is built for one document and one question (QRMeM 2.1, figure 2).

    T       a summary of the whole document
    each segment    entities by the model and by the recogniser ─► relations ─► questions about what is missing
                    the questions that are new to the pool ─► entities and relations again, guided by them
    all segments    names that are one entity, relations of one pair fused, an edge each

The summary, and the graphs before their update, are shared with memories that have the same ones (tools.share).
What the model lists is kept only where it stands in the segment. A pronoun or question word is no entity, at the start
of a sentence either: "which" and "They" would make every question name one. A request that was never understood leaves
what is there without it, and the memory's notes say so.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.entities.recogniser import opens, recogniser
from harness.method import IndexTools
from harness.models import MeteredModel
from harness.prompts import Pieces, texts_of
from harness.types import Document, Question
from methods.condense import one_summary
from methods.qrmem import prompts, replies
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.fusion import Fusing
from methods.qrmem.memory import Memory
from methods.qrmem.merge import FUNCTION, SubGraph, merge_entities, merge_relations, normal, occurs, places
from methods.qrmem.pool import Pool
from methods.retry import Retry, ask_parsed, fitting, window_of
from methods.segments import packed
from methods.summary import SUMMARY

_QUOTES = "\"'“”‘’«»"
# The prompts of a first extraction.
_FIRST = (prompts.ENTITIES, prompts.RELATIONS, prompts.ABOUT)


def retry_of(config: QRMeMConfig, seed: int) -> Retry:
    """The rule of repetition that the config asks for."""
    return Retry(config.retries, config.temperature, config.top_p, config.window, seed)


def build_memory(document: Document, question: Question, config: QRMeMConfig, tools: IndexTools) -> Memory:
    """The memory of `document` for `question`. Raises QuestionError where a request does not fit the window."""
    model, encoder = tools.model("builder"), tools.encoder()
    spans = packed(document.text, config.segment_tokens, model)
    segments = [document.text[a:b].strip() for a, b in spans]
    prompt = SUMMARY.of(config)
    summary = one_summary(segments, config.summary_tokens, tools, model, config.window, prompt)
    building = _Building(question, summary, segments, config, tools)
    graphs = building.graphs()
    entities = merge_entities(graphs, segments)
    memory = Memory(spans, entities.names, entities.mentions, entities.places)
    memory.questions, memory.document_summary = building.pool.questions, summary
    fusing = Fusing(question, summary, segments, config, retry_of(config, tools.seed))
    relations = list(merge_relations(graphs, entities).items())
    fused = tools.map(lambda relation: fusing.fuse(relation[0], relation[1], model, tools), relations)
    memory.edges = [(a, b, text) for ((a, b), _), (text, _) in zip(relations, fused, strict=True)]
    memory.notes = building.notes()
    if invalid := sum(not understood for _, understood in fused):
        memory.notes.append(f"{invalid} of {len(fused)} edges have relations that were never fused")
    if not segments:
        memory.notes.append("the document has no text, so there is nothing to read")
    elif not memory.names:
        memory.notes.append("no entity was found")
    memory.edge_vectors = encoder.encode([memory.edge_text(i) for i in range(len(memory.edges))], "passage")
    memory.segment_vectors = encoder.encode(segments, "passage")
    return memory


@dataclass
class _Building:
    """The graphs of all segments, segment by segment in each step."""

    question: Question
    summary: str
    segments: list[str]
    config: QRMeMConfig
    tools: IndexTools
    pool: Pool = field(init=False)
    _lost: dict[str, list[int]] = field(default_factory=dict)
    _cut: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.pool = Pool(self.config.novelty)
        self.asking = prompts.Asking(self.config, self.question, self.summary)

    def graphs(self) -> list[SubGraph]:
        """A graph for each segment, completed by questions where the config asks for it."""
        numbers = range(len(self.segments))
        graphs = self._first()
        if not self.config.update:
            return graphs
        lists = self.tools.map(lambda k: self._doubt(k, graphs[k]), numbers)
        # In the order of the document: whether a question is new depends on those before it.
        new = [[q for q in questions if self.pool.add(q)] for questions in lists]
        return self.tools.map(lambda k: self._extract(k, graphs[k], new[k]) if new[k] else graphs[k], numbers)

    def _first(self) -> list[SubGraph]:
        """The graphs before any update, which memories with and without one share."""
        config = self.config
        fields = ("entity_tokens", "relation_tokens", "window", "open_entities", "recogniser")
        needs = {
            "question": prompts.question_text(self.question),
            "summary": self.summary,
            "segments": self.segments,
            "prompts": texts_of(p.of(config) for p in _FIRST),
            "config": {name: getattr(config, name) for name in (*fields, "retries", "temperature", "top_p")},
            "model window": self.tools.model("builder").window,
            "version": 4,
        }

        def extract() -> dict[str, Any]:
            numbers = range(len(self.segments))
            graphs = self.tools.map(lambda k: self._extract(k, SubGraph(), []), numbers)
            return {"graphs": [[g.names, g.relations] for g in graphs], "lost": self._lost, "cut": sorted(self._cut)}

        record = self.tools.share("qrmem-graphs", "builder", needs, extract)
        self._lost = {what: list(where) for what, where in record["lost"].items()}
        self._cut = set(record["cut"])
        return [
            SubGraph(list(names), [(a, b, text) for a, b, text in relations]) for names, relations in record["graphs"]
        ]

    def notes(self) -> list[str]:
        """A sentence for each kind of request that was never understood, and for those that were too long."""
        lost = [
            f"{what} of {len(where)} of {len(self.segments)} segments were never understood"
            for what, where in sorted(self._lost.items())
        ]
        cut = f"the lists of {len(self._cut)} of {len(self.segments)} segments were cut to fit the window"
        return [*lost, cut] if self._cut else lost

    def _extract(self, k: int, graph: SubGraph, guide: list[str]) -> SubGraph:
        """The graph extended by an extraction: the first one, or one guided by questions."""
        config, segment, name = self.config, self.segments[k], "guided" if guide else "first"
        names = list(graph.names)
        if not names:
            names = [item for item in recogniser(config.recogniser).names(segment) if not _function(item, segment)]
        if config.open_entities:
            pieces = self._fitting(
                k,
                lambda n: self.asking.entities(segment, guide[:n]),
                len(guide),
                config.entity_tokens,
            )
            listed = self._hear(k, f"{name} entities", pieces, config.entity_tokens, replies.names)
            names += [mention for item in listed if (mention := _written(item, segment))]
        names = _distinct(names)
        relations = list(graph.relations)
        if len(names) > 1:
            pieces = self._fitting(
                k,
                lambda n: self.asking.relations(segment, names[:n], guide[: max(0, n - len(names))]),
                len(names) + len(guide),
                config.relation_tokens,
            )
            listed = self._hear(k, f"{name} relations", pieces, config.relation_tokens, replies.triples)
            here = {normal(item) for item in names}
            triples = [(a, b, text) for a, b, text in listed if {normal(a), normal(b)} <= here]
            relations += [item for item in triples if item not in relations]
        return SubGraph(names, relations)

    def _doubt(self, k: int, graph: SubGraph) -> list[str]:
        """Questions about the segment's graph (the paper's Q_k = LLM(T, S_k, E_k, R_k))."""
        config = self.config
        relations = [" | ".join(triple) for triple in graph.relations]
        names = graph.names
        pieces = self._fitting(
            k,
            lambda n: self.asking.questions(
                self.segments[k], names[:n], relations[: max(0, n - len(names))], config.questions
            ),
            len(names) + len(relations),
            config.question_tokens,
        )
        questions = self._hear(k, "questions", pieces, config.question_tokens, replies.questions)
        return [str(question) for question in questions][: config.questions]

    def _fitting(self, k: int, pieces: Callable[[int], Pieces], lines: int, limit: int) -> Pieces:
        """The request with as many of its listed lines as leave room for a reply of `limit` tokens."""
        model: MeteredModel = self.tools.model("builder")
        made, n = fitting(pieces, lines, window_of(self.config.window, model) - limit, model)
        if n < lines:
            self._cut.add(k)
        return made

    def _hear(self, k: int, what: str, pieces: Pieces, limit: int, parse: Callable[[str], Any]) -> list[Any]:
        """The parsed reply, [] if none could be parsed; cached, so that a stopped build resumes."""
        model: MeteredModel = self.tools.model("builder")
        how = retry_of(self.config, self.tools.seed)
        items = self.tools.keep(f"{what} {k}", lambda: ask_parsed(model, pieces, limit, parse, how).found)
        self.tools.progress(k + 1, len(self.segments), what)
        if items is None:
            self._lost.setdefault(what, []).append(k)
        return list(items or [])


def _distinct(names: list[str]) -> list[str]:
    """The names in order, each spelling of one normal form once; those without a letter or digit fall away."""
    surfaces: dict[tuple[str, ...], str] = {}
    for name in names:
        surfaces.setdefault(normal(name), name)
    return [name for form, name in surfaces.items() if form]


def _written(name: str, segment: str) -> str:
    """The name as the segment writes it; "" where it does not, or writes no name."""
    if not occurs(name, segment):
        at = segment.casefold().find(name.casefold())
        spelled = segment[at : at + len(name)] if at >= 0 else ""
        if spelled.casefold() != name.casefold() or not occurs(spelled, segment):
            return ""
        name = spelled
    return "" if _function(name, segment) else name


def _function(name: str, segment: str) -> bool:
    """Whether `name` is no name but function words: "who", and "They" where it only ever begins a sentence.

    "The Who", "US", and "It" in the middle of a sentence are names.
    """
    form = normal(name)
    if not set(form) <= FUNCTION:
        return False
    if name.islower() or "i" in form:
        return True
    if any(word[0].isupper() for word in name.split()[1:]):
        return False
    return all(_begins(segment, at, at + len(name)) for at in places(name, segment))


def _begins(segment: str, start: int, end: int) -> bool:
    """Whether a sentence begins at `start`, or quoted speech; a quoted word alone is a title."""
    if segment[end : end + 1] and segment[end] in _QUOTES and start and segment[start - 1] in _QUOTES:
        return False
    return opens(segment, start) or (start > 0 and segment[start - 1] in _QUOTES)
