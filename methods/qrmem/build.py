"""The memory is built for one document and one question (QRMeM 2.1, figure 2).

    T       a summary of the whole document
    each segment    entities by the model and by the recogniser ─► relations ─► questions about what is missing
                    the questions that are new to the pool ─► entities and relations again, guided by them
    all segments    names that are one entity, relations of one pair fused, an edge each

The summary, and the graphs before their update, are shared with memories that have the same ones
(tools.share). What the model lists is kept only where it stands in the segment. A pronoun or
question word is no entity, at the start of a sentence either: "which" and "They" would make every
question name one. A request that was never understood leaves what is there without it, and the
memory's notes say so.

Relations of one pair of entities from several segments become one (QRMeM 2.1, appendix E "Relation
Update").

    segment 1: r1 ┐
    segment 2: r2 ┴─ which questions? ─► one relation ┐
    segment 5: r5 ────────────────────────────────────┴─ which questions? ─► one relation

Two requests a merge, in one session: first the questions Q_s, then the relation. With three
segments and more, what is merged is taken for the relation of the last segment that went into it,
so that a request never shows more than two.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from harness.entities.recogniser import is_opening, recogniser
from harness.method import IndexTools
from harness.models import MeteredModel
from harness.prompts import Pieces, feed, prompt_tokens, turn_texts
from harness.types import Document, Question
from harness.words import words
from methods.packing import packed
from methods.qrmem import prompts, replies
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.memory import (
    FUNCTION,
    Memory,
    SubGraph,
    find_all,
    merge_entities,
    merge_relations,
    name_key,
    occurs,
)
from methods.qrmem.prompts import Relation
from methods.reading import question_text
from methods.retry import ParsedReply, Retry, ask_parsed, fit_lines, sample_until_parsed, window_of
from methods.summary import SUMMARY, one_summary


class Pool:
    """Questions that differ (QRMeM 2.1, note 2). novelty: ROUGE-L with any of them that a new one
    must stay below."""

    def __init__(self, novelty: float) -> None:
        self.novelty = novelty
        self.questions: list[str] = []
        self._words: list[list[str]] = []

    def add(self, question: str) -> bool:
        """Add the question if it is new; returns whether it was. A question without words is never
        new."""
        tokens = words(question)
        if not tokens or any(rouge_l(tokens, other) >= self.novelty for other in self._words):
            return False
        self.questions.append(question)
        self._words.append(tokens)
        return True


def rouge_l(first: Sequence[str], second: Sequence[str]) -> float:
    """F1 of the longest common subsequence of words (Lin 2004, beta 1): 2 lcs / (n + m); 0.0 if
    both are empty.

    Words are those of harness/words.py: no stemming.
    """
    above = [0] * (len(second) + 1)
    for word in first:
        row = [0]
        for j, other in enumerate(second):
            row.append(above[j] + 1 if word == other else max(above[j + 1], row[j]))
        above = row
    return 2 * above[-1] / max(len(first) + len(second), 1)


_QUOTES = "\"'“”‘’«»"
# The prompts of a first extraction.
_FIRST = (prompts.ENTITIES, prompts.RELATIONS, prompts.ABOUT)


def retry_of(config: QRMeMConfig, seed: int) -> Retry:
    """How often and how a request is repeated, as the config asks for; seed: of the run."""
    return Retry(config.retries, config.temperature, config.top_p, config.window, seed)


def build_memory(
    document: Document, question: Question, config: QRMeMConfig, tools: IndexTools
) -> Memory:
    """The memory of `document` for `question`. Raises QuestionError where a request does not fit
    the window."""
    model, encoder = tools.model("builder"), tools.encoder()
    spans = packed(document.text, config.segment_tokens, model)
    segments = [document.text[a:b].strip() for a, b in spans]
    prompt = SUMMARY.of(config)
    summary = one_summary(segments, config.summary_tokens, tools, model, config.window, prompt)
    building = _GraphBuilder(question, summary, segments, config, tools)
    graphs = building.graphs()
    entities = merge_entities(graphs, segments)
    memory = Memory(spans, entities.names, entities.mentions, entities.places)
    memory.questions, memory.document_summary = building.pool.questions, summary
    relations = list(merge_relations(graphs, entities).items())
    fused = tools.map(lambda relation: building.merge(*relation), relations)
    memory.edges = [(a, b, text) for ((a, b), _), (text, _) in zip(relations, fused, strict=True)]
    memory.notes = building.notes()
    if invalid := sum(not understood for _, understood in fused):
        memory.notes.append(f"{invalid} of {len(fused)} edges have relations that were never fused")
    if not segments:
        memory.notes.append("the document has no text, so there is nothing to read")
    elif not memory.names:
        memory.notes.append("no entity was found")
    memory.edge_vectors = encoder.encode(
        [memory.edge_text(i) for i in range(len(memory.edges))], "passage"
    )
    memory.segment_vectors = encoder.encode(segments, "passage")
    return memory


@dataclass
class _GraphBuilder:
    """The graphs of all segments, segment by segment in each step, and the relations that are
    merged of them."""

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
        graphs = self._first_graphs()
        if not self.config.update:
            return graphs
        lists = self.tools.map(lambda k: self._ask_questions(k, graphs[k]), numbers)
        # In the order of the document: whether a question is new depends on those before it.
        new = [[q for q in questions if self.pool.add(q)] for questions in lists]
        return self.tools.map(
            lambda k: self._extract(k, graphs[k], new[k]) if new[k] else graphs[k], numbers
        )

    def _first_graphs(self) -> list[SubGraph]:
        """The graph of each segment before updates, kept for presets with and without them; sets
        `_lost` and `_cut`."""
        config = self.config
        fields = ("entity_tokens", "relation_tokens", "window", "open_entities", "recogniser")
        needs = {
            "question": question_text(self.question),
            "summary": self.summary,
            "segments": self.segments,
            "prompts": turn_texts(p.of(config) for p in _FIRST),
            "config": {
                name: getattr(config, name) for name in (*fields, "retries", "temperature", "top_p")
            },
            "model window": self.tools.model("builder").window,
            "version": 4,  # raise it when `_extract` changes
        }

        def extract() -> dict[str, Any]:
            numbers = range(len(self.segments))
            graphs = self.tools.map(lambda k: self._extract(k, SubGraph(), []), numbers)
            return {
                "graphs": [[g.names, g.relations] for g in graphs],
                "lost": self._lost,
                "cut": sorted(self._cut),
            }

        record = self.tools.share("qrmem-graphs", "builder", needs, extract)
        self._lost = {what: list(where) for what, where in record["lost"].items()}
        self._cut = set(record["cut"])
        return [
            SubGraph(list(names), [(a, b, text) for a, b, text in relations])
            for names, relations in record["graphs"]
        ]

    def notes(self) -> list[str]:
        """A sentence for each kind of request that was never understood, and for those that were
        too long."""
        lost = [
            f"{what} of {len(where)} of {len(self.segments)} segments were never understood"
            for what, where in sorted(self._lost.items())
        ]
        cut = f"the lists of {len(self._cut)} of {len(self.segments)} segments were cut to fit the window"
        return [*lost, cut] if self._cut else lost

    def _extract(self, k: int, graph: SubGraph, guide: list[str]) -> SubGraph:
        """`graph` with the names and relations that segment `k` adds; guide: its questions, [] at
        the first time."""
        config, segment, name = self.config, self.segments[k], "guided" if guide else "first"
        names = list(graph.names)
        if not names:
            recognised = recogniser(config.recogniser).names(segment)
            names = [name for name in recognised if not _is_function(name, segment)]
        if config.open_entities:
            pieces = self._fit_request(
                k,
                lambda n: self.asking.entities(segment, guide[:n]),
                len(guide),
                config.entity_tokens,
            )
            listed = self._ask_parsed(
                k, f"{name} entities", pieces, config.entity_tokens, replies.parse_names
            )
            names += [mention for item in listed if (mention := _as_in_segment(item, segment))]
        names = _distinct_names(names)
        relations = list(graph.relations)
        if len(names) > 1:
            # Where the window is short, questions go first, then names.
            pieces = self._fit_request(
                k,
                lambda n: self.asking.relations(
                    segment, names[:n], guide[: max(0, n - len(names))]
                ),
                len(names) + len(guide),
                config.relation_tokens,
            )
            listed = self._ask_parsed(
                k, f"{name} relations", pieces, config.relation_tokens, replies.parse_triples
            )
            here = {name_key(item) for item in names}
            triples = [(a, b, text) for a, b, text in listed if {name_key(a), name_key(b)} <= here]
            relations += [item for item in triples if item not in relations]
        return SubGraph(names, relations)

    def _ask_questions(self, k: int, graph: SubGraph) -> list[str]:
        """Questions about what the graph of segment `k` lacks (the paper's Q_k); [] if no reply
        could be parsed."""
        config = self.config
        relations = [" | ".join(triple) for triple in graph.relations]
        names = graph.names
        pieces = self._fit_request(
            k,
            lambda n: self.asking.questions(
                self.segments[k], names[:n], relations[: max(0, n - len(names))]
            ),
            len(names) + len(relations),
            config.question_tokens,
        )
        questions = self._ask_parsed(
            k, "questions", pieces, config.question_tokens, replies.parse_questions
        )
        return [str(question) for question in questions][: config.questions]

    def _fit_request(
        self, k: int, pieces: Callable[[int], Pieces], lines: int, limit: int
    ) -> Pieces:
        """pieces(n) about segment `k`, with the most of its `lines` that leave a reply of `limit`
        tokens room."""
        model: MeteredModel = self.tools.model("builder")
        made, n = fit_lines(pieces, lines, window_of(self.config.window, model) - limit, model)
        if n < lines:
            self._cut.add(k)
        return made

    def _ask_parsed(
        self, k: int, what: str, pieces: Pieces, limit: int, parse: Callable[[str], Any]
    ) -> list[Any]:
        """The parsed reply about segment `k`, [] if none could be parsed; cached by `what`, for a
        stopped build."""
        model: MeteredModel = self.tools.model("builder")
        retry = retry_of(self.config, self.tools.seed)
        items = self.tools.keep(
            f"{what} {k}", lambda: ask_parsed(model, pieces, limit, parse, retry).found
        )
        self.tools.progress(k + 1, len(self.segments), what)
        if items is None:
            self._lost.setdefault(what, []).append(k)
        return list(items or [])

    def merge(self, pair: tuple[int, int], relations: list[tuple[int, str]]) -> tuple[str, bool]:
        """Merge the `relations` (segment, text) of `pair` into one text; False if a reply failed or
        was too long.

        On failure the texts are joined with a space: no reply could be parsed, or two segments and
        their relations are longer than the window.
        """
        (place, text), *rest = relations
        understood = True
        for number, (k, other) in enumerate(rest):
            first, second = Relation(self.segments[place], text), Relation(self.segments[k], other)
            key = f"fusion {pair[0]} {pair[1]} {number}"
            merged = self.tools.keep(key, partial(self._merge_pair, first, second))
            understood &= merged is not None
            place, text = k, f"{text} {other}" if merged is None else str(merged)
        return text, understood

    def _merge_pair(self, first: Relation, second: Relation) -> str | None:
        """Ask for questions about two relations, then for one sentence that merges them.

        None where no reply was understood or the request is too long.
        """
        config, asking, model = self.config, self.asking, self.tools.model("builder")
        retry = retry_of(config, self.tools.seed)
        pieces = asking.fusion_questions(first, second)
        tokens = prompt_tokens(pieces, model)
        second_turn_tokens = 2 * model.turn_tokens() + model.count(asking.fusion_relation())
        if (
            tokens + config.question_tokens + second_turn_tokens + config.relation_tokens
            > window_of(config.window, model)
        ):
            return None
        with model.session() as s:
            feed(s, pieces)
            questions: ParsedReply[list[str]] = ParsedReply(tokens)
            sample_until_parsed(
                s, questions, config.question_tokens, replies.parse_questions, retry
            )
            s.reply("\n".join(f"* {doubt}" for doubt in questions.found or ["none"]))
            s.user(asking.fusion_relation())
            response: ParsedReply[str] = ParsedReply(s.length())
            return sample_until_parsed(
                s, response, config.relation_tokens, replies.parse_sentence, retry
            ).found


def _distinct_names(names: list[str]) -> list[str]:
    """The names in order, each spelling of one normal form once; those without a letter or digit
    fall away."""
    surfaces: dict[tuple[str, ...], str] = {}
    for name in names:
        surfaces.setdefault(name_key(name), name)
    return [name for form, name in surfaces.items() if form]


def _as_in_segment(name: str, segment: str) -> str:
    """The name as the segment writes it; "" where it does not, or writes no name."""
    if not occurs(name, segment):
        at = segment.casefold().find(name.casefold())
        spelled = segment[at : at + len(name)] if at >= 0 else ""
        if spelled.casefold() != name.casefold() or not occurs(spelled, segment):
            return ""
        name = spelled
    return "" if _is_function(name, segment) else name


def _is_function(name: str, segment: str) -> bool:
    """Whether `name` is no name but function words: "who", and "They" where it only ever begins a
    sentence.

    "The Who", "US", and "It" in the middle of a sentence are names.
    """
    form = name_key(name)
    if not set(form) <= FUNCTION:
        return False
    if name.islower() or "i" in form:
        return True
    if any(word[0].isupper() for word in name.split()[1:]):
        return False
    return all(_begins_sentence(segment, at, at + len(name)) for at in find_all(name, segment))


def _begins_sentence(segment: str, start: int, end: int) -> bool:
    """Whether a sentence begins at `start`, or quoted speech; a quoted word alone is a title."""
    if (
        segment[end : end + 1]
        and segment[end] in _QUOTES
        and start
        and segment[start - 1] in _QUOTES
    ):
        return False
    return is_opening(segment, start) or (start > 0 and segment[start - 1] in _QUOTES)
