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

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypedDict, TypeVar

from harness.entities.recogniser import is_sentence_start, load_recogniser
from harness.method import IndexTools
from harness.models import MeteredModel
from harness.prompts import Pieces, feed, prompt_tokens, turn_texts
from harness.types import Document, Question
from harness.words import words
from methods.packing import clause_chunks
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
from methods.qrmem.replies import Triple
from methods.reading import question_text
from methods.retry import ParsedReply, Retry, ask_parsed, fit_lines, sample_until_parsed, window_of
from methods.summary import SUMMARY, one_summary

T = TypeVar("T")


class Pool:
    """Questions that differ from each other (QRMeM 2.1, note 2).

    Attributes:
        novelty: A new question must have a lower ROUGE-L than this with each of them.
        questions: Those that were added, in order.
    """

    def __init__(self, novelty: float) -> None:
        """Begin an empty pool; see the class for `novelty`."""
        self.novelty = novelty
        self.questions: list[str] = []
        self._words: list[list[str]] = []

    def add(self, question: str) -> bool:
        """Add a question if it is new, and return whether it was. One without words is never
        new."""
        tokens = words(question)
        if not tokens:
            return False
        for other in self._words:
            if rouge_l(tokens, other) >= self.novelty:
                return False
        self.questions.append(question)
        self._words.append(tokens)
        return True

    def add_new(self, questions: Sequence[str]) -> list[str]:
        """Add those of the questions that are new, one after the other, and return these."""
        return [question for question in questions if self.add(question)]


def rouge_l(first: Sequence[str], second: Sequence[str]) -> float:
    """F1 of the longest common subsequence of words (Lin 2004, beta 1): 2 lcs / (n + m); 0.0 if
    both are empty.

        ["who", "met", "ada"], ["who", "saw", "ada"] -> 2 * 2 / 6

    Words are those of harness/words.py: no stemming.
    """
    above = [0] * (len(second) + 1)  # lcs of the words so far and the first j words of `second`
    for word in first:
        row = [0]
        for j, other in enumerate(second):
            if word == other:
                row.append(above[j] + 1)
            else:
                row.append(max(above[j + 1], row[j]))
        above = row
    return 2 * above[-1] / max(len(first) + len(second), 1)


_QUOTES = "\"'“”‘’«»"
# The prompts of a first extraction.
_FIRST = (prompts.ENTITIES, prompts.RELATIONS, prompts.ABOUT)
# Its settings.
_FIRST_SETTINGS = (
    "entity_tokens",
    "relation_tokens",
    "window",
    "open_entities",
    "recogniser",
    "retries",
    "temperature",
    "top_p",
)


def retry_of(config: QRMeMConfig, seed: int) -> Retry:
    """How a request whose reply is not understood is repeated, by the method's settings.

    Args:
        config: The method's settings.
        seed: The seed of the run.
    """
    return Retry(config.retries, config.temperature, config.top_p, config.window, seed)


def build_memory(
    document: Document, question: Question, config: QRMeMConfig, tools: IndexTools
) -> Memory:
    """Build the memory of a document for a question: its segments, and the graph of their entities.

    Args:
        document: The document.
        question: The question.
        config: The method's settings.
        tools: The engine's tools.

    Raises:
        QuestionError: A request does not fit the window.
    """
    model = tools.model("builder")
    encoder = tools.encoder()
    spans = clause_chunks(document.text, config.segment_tokens, model)
    segments = [document.text[start:end].strip() for start, end in spans]
    summary = one_summary(
        segments,
        config.summary_tokens,
        tools,
        model,
        config.window,
        SUMMARY.with_replacements(config),
    )
    builder = _GraphBuilder(question, summary, segments, config, tools)
    graphs = builder.graphs()
    entities = merge_entities(graphs, segments)
    memory = Memory(spans, entities.names, entities.mentions, entities.places)
    memory.questions = builder.pool.questions
    memory.document_summary = summary
    relations = merge_relations(graphs, entities)
    fused = tools.map(lambda pair: builder.merge(pair, relations[pair]), list(relations))
    memory.edges = [edge.row for edge in fused]
    memory.notes = _notes(memory, builder, fused)
    edge_texts = [memory.edge_text(i) for i in range(len(memory.edges))]
    memory.edge_vectors = encoder.encode(edge_texts, "passage")
    memory.segment_vectors = encoder.encode(segments, "passage")
    return memory


def _notes(memory: Memory, builder: _GraphBuilder, fused: Sequence[_FusedEdge]) -> list[str]:
    """Sentences about what did not go as usual while a memory was built.

    Args:
        memory: The memory.
        builder: Knows which requests were never understood.
        fused: The merged relation of each pair of entities.
    """
    notes = builder.notes()
    invalid = sum(not edge.understood for edge in fused)
    if invalid:
        notes.append(f"{invalid} of {len(fused)} edges have relations that were never fused")
    if not memory.segments:
        notes.append("the document has no text, so there is nothing to read")
    elif not memory.names:
        notes.append("no entity was found")
    return notes


@dataclass(frozen=True)
class _FusedEdge:
    """The relation of two entities, merged from all segments.

    Attributes:
        pair: The numbers of the entities.
        text: The relation.
        understood: Whether every reply of the merge was understood.
    """

    pair: tuple[int, int]
    text: str
    understood: bool

    @property
    def row(self) -> tuple[int, int, str]:
        """The edge as the memory has it: (entity, entity, relation)."""
        return (*self.pair, self.text)


class StoredGraphs(TypedDict):
    """The first graphs of a document's segments, as memories share them.

    Attributes:
        graphs: Names and relations of each segment.
        lost: Kind of request -> the segments for which no reply was understood.
        cut: The segments whose lists were cut to fit the window.
    """

    graphs: list[tuple[list[str], list[Triple]]]
    lost: dict[str, list[int]]
    cut: list[int]


@dataclass
class _GraphBuilder:
    """Builds the graph of each segment, and merges the relations of two entities.

    Attributes:
        question: The question.
        summary: A summary of the whole document.
        segments: Their texts.
        config: The method's settings.
        tools: The engine's tools.
        pool: The questions of all segments that are new.
        _lost: Kind of request -> the segments for which no reply was understood.
        _cut: The segments whose lists were cut to fit the window.
    """

    question: Question
    summary: str
    segments: list[str]
    config: QRMeMConfig
    tools: IndexTools
    pool: Pool = field(init=False)
    _lost: dict[str, list[int]] = field(default_factory=dict)
    _cut: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with an empty pool of questions, and prepare the requests about this question and
        document."""
        self.pool = Pool(self.config.novelty)
        self.asking = prompts.Asking(self.config, self.question, self.summary)

    def graphs(self) -> list[SubGraph]:
        """The graph of each segment, in order; where the config asks for it completed by what its
        new questions find.

        Also adds the new questions to `pool`.
        """
        numbers = range(len(self.segments))
        graphs = self._first_graphs()
        if not self.config.update:
            return graphs
        lists = self.tools.map(lambda k: self._ask_questions(k, graphs[k]), numbers)
        # In the order of the document: whether a question is new depends on those before it.
        new = [self.pool.add_new(questions) for questions in lists]

        def updated(k: int) -> SubGraph:
            """The graph of segment k, completed by what its new questions find."""
            if not new[k]:
                return graphs[k]
            return self._extract(k, graphs[k], new[k])

        return self.tools.map(updated, numbers)

    def _first_graphs(self) -> list[SubGraph]:
        """The graph of each segment before updates, computed or as another memory stored it:
        presets with and without updates share it.

        Also sets `_lost` and `_cut` to what was stored with it.
        """
        config = self.config
        needs = {
            "question": question_text(self.question),
            "summary": self.summary,
            "segments": self.segments,
            "prompts": turn_texts(prompt.with_replacements(config) for prompt in _FIRST),
            "config": {name: getattr(config, name) for name in _FIRST_SETTINGS},
            "model window": self.tools.model("builder").window,
            "version": 4,  # raise it when `_extract` changes
        }
        stored: StoredGraphs = self.tools.share("qrmem-graphs", "builder", needs, self._extract_all)
        self._lost = {what: list(where) for what, where in stored["lost"].items()}
        self._cut = set(stored["cut"])
        graphs: list[SubGraph] = []
        for names, relations in stored["graphs"]:
            triples = [(first, second, text) for first, second, text in relations]
            graphs.append(SubGraph(list(names), triples))
        return graphs

    def _extract_all(self) -> StoredGraphs:
        """The first graphs of all segments, with what was lost and cut in extracting them."""
        numbers = range(len(self.segments))
        graphs = self.tools.map(lambda k: self._extract(k, SubGraph(), []), numbers)
        return {
            "graphs": [(graph.names, graph.relations) for graph in graphs],
            "lost": self._lost,
            "cut": sorted(self._cut),
        }

    def notes(self) -> list[str]:
        """A sentence for each kind of request without an understood reply, and one for lists that
        were cut.

            ["first entities of 2 of 9 segments were never understood"]
        """
        total = len(self.segments)
        notes: list[str] = []
        for what, where in sorted(self._lost.items()):
            notes.append(f"{what} of {len(where)} of {total} segments were never understood")
        if self._cut:
            notes.append(
                f"the lists of {len(self._cut)} of {total} segments were cut to fit the window"
            )
        return notes

    def _extract(self, k: int, graph: SubGraph, guide: list[str]) -> SubGraph:
        """The graph of a segment with the names and relations added that are found in it.

        Args:
            k: The number of the segment.
            graph: Its graph so far.
            guide: The questions that guide an update; [] at the first time.
        """
        names = list(graph.names)
        if not names:
            names = self._recognised_names(k)
        if self.config.open_entities:
            names += self._listed_names(k, guide)
        names = _distinct_names(names)
        if len(names) < 2:
            return SubGraph(names, list(graph.relations))
        listed = self._listed_relations(k, names, guide)
        new = [triple for triple in listed if triple not in graph.relations]
        return SubGraph(names, [*graph.relations, *new])

    def _recognised_names(self, k: int) -> list[str]:
        """The names that the recogniser finds in segment `k`, without function words such as
        "They"."""
        segment = self.segments[k]
        recognised = load_recogniser(self.config.recogniser).names(segment)
        return [name for name in recognised if not _is_function(name, segment)]

    def _listed_names(self, k: int, guide: list[str]) -> list[str]:
        """The names that the model lists for a segment, as the segment writes them; those that are
        not in it are left out.

        Args:
            k: The number of the segment.
            guide: The questions that guide an update; [] at the first time.
        """
        segment = self.segments[k]
        limit = self.config.entity_tokens
        pieces = self._fit_request(
            k, lambda n: self.asking.entities(segment, guide[:n]), len(guide), limit
        )
        what = f"{_round_name(guide)} entities"
        listed = self._ask_parsed(k, what, pieces, limit, replies.parse_names)
        spelled = [_as_in_segment(name, segment) for name in listed]
        return [name for name in spelled if name]

    def _listed_relations(self, k: int, names: list[str], guide: list[str]) -> list[Triple]:
        """The relations between names of a segment that the model lists.

        Where the window is short, guiding questions are left out first, then names.

        Args:
            k: The number of the segment.
            names: The names.
            guide: The questions that guide an update; [] at the first time.

        Returns:
            (name, name, relation) of each that joins two of the names.
        """
        segment = self.segments[k]
        limit = self.config.relation_tokens

        def request(n: int) -> Pieces:
            """The prompt for relations with the first n lines: names, then guiding questions."""
            shown_guide = guide[: max(0, n - len(names))]
            return self.asking.relations(segment, names[:n], shown_guide)

        pieces = self._fit_request(k, request, len(names) + len(guide), limit)
        what = f"{_round_name(guide)} relations"
        listed = self._ask_parsed(k, what, pieces, limit, replies.parse_triples)
        known = {name_key(name) for name in names}
        triples: list[Triple] = []
        for first, second, text in listed:
            if name_key(first) in known and name_key(second) in known:
                triples.append((first, second, text))
        return triples

    def _ask_questions(self, k: int, graph: SubGraph) -> list[str]:
        """The questions that the model asks about what a segment's graph lacks (the paper's Q_k);
        [] if no reply could be parsed.

        Args:
            k: The number of the segment.
            graph: The graph of the segment.
        """
        names = graph.names
        relations = [" | ".join(triple) for triple in graph.relations]
        limit = self.config.question_tokens

        def request(n: int) -> Pieces:
            """The prompt for questions with the first n lines: names, then relations."""
            shown_relations = relations[: max(0, n - len(names))]
            return self.asking.questions(self.segments[k], names[:n], shown_relations)

        pieces = self._fit_request(k, request, len(names) + len(relations), limit)
        questions = self._ask_parsed(k, "questions", pieces, limit, replies.parse_questions)
        return [str(question) for question in questions][: self.config.questions]

    def _fit_request(
        self, k: int, request_of: Callable[[int], Pieces], n_lines: int, limit: int
    ) -> Pieces:
        """The request about a segment, with as many listed lines as fit beside its reply.

        Also notes in `_cut` where lines of the segment were left out.

        Args:
            k: The number of the segment.
            request_of: Gives the request with the first n lines.
            n_lines: How many lines there are.
            limit: Most tokens of the reply.
        """
        model: MeteredModel = self.tools.model("builder")
        room = window_of(self.config.window, model) - limit
        request, n_shown = fit_lines(request_of, n_lines, room, model)
        if n_shown < n_lines:
            self._cut.add(k)
        return request

    def _ask_parsed(
        self, k: int, what: str, pieces: Pieces, limit: int, parse: Callable[[str], list[T] | None]
    ) -> list[T]:
        """Ask about a segment; what was parsed is stored, so that a stopped build goes on.

        Args:
            k: The number of the segment.
            what: What is asked for, "first entities"; with `k` the key of what is stored.
            pieces: The prompt.
            limit: Most tokens of the reply.
            parse: Parses a reply; None for one that it does not understand.

        Returns:
            What the reply lists; [] if none could be parsed, which is noted in `_lost`.
        """
        model: MeteredModel = self.tools.model("builder")
        retry = retry_of(self.config, self.tools.seed)
        items = self.tools.keep(
            f"{what} {k}", lambda: ask_parsed(model, pieces, limit, parse, retry).found
        )
        self.tools.progress(k + 1, len(self.segments), what)
        if items is None:
            self._lost.setdefault(what, []).append(k)
        return list(items or [])

    def merge(self, pair: tuple[int, int], relations: list[tuple[int, str]]) -> _FusedEdge:
        """Merge the relations of two entities into one text, one after the other.

        Each merge reads the text so far beside the segment that came last into it:

            [(0, "a"), (3, "b"), (7, "c")]  ->  a + b = "ab" (segments 0, 3), ab + c (3, 7)

        Where a merge fails the texts are joined with a space: no reply could be parsed, or two
        segments and their relations are longer than the window.

        Args:
            pair: The numbers of the entities.
            relations: (number of the segment, text) of each, at least one.
        """
        (last_segment, text), *rest = relations
        first_entity, second_entity = pair
        understood = True
        for step, (segment, other) in enumerate(rest):
            first = Relation(self.segments[last_segment], text)
            second = Relation(self.segments[segment], other)
            key = f"fusion {first_entity} {second_entity} {step}"
            merged = self.tools.keep(key, partial(self._merge_pair, first, second))
            if merged is None:
                understood = False
                merged = f"{text} {other}"
            last_segment = segment
            text = str(merged)
        return _FusedEdge(pair, text, understood)

    def _merge_pair(self, first: Relation, second: Relation) -> str | None:
        """Ask for questions about two relations, then for one sentence that merges them.

        Returns:
            The sentence; None where no reply was understood or the request is too long.
        """
        config = self.config
        asking = self.asking
        model = self.tools.model("builder")
        retry = retry_of(config, self.tools.seed)
        pieces = asking.fusion_questions(first, second)
        tokens = prompt_tokens(pieces, model)
        second_turn_tokens = 2 * model.turn_tokens() + model.count(asking.fusion_relation())
        written_tokens = config.question_tokens + config.relation_tokens
        if tokens + second_turn_tokens + written_tokens > window_of(config.window, model):
            return None
        with model.session() as s:
            feed(s, pieces)
            questions: ParsedReply[list[str]] = ParsedReply(tokens)
            sample_until_parsed(
                s, questions, config.question_tokens, replies.parse_questions, retry
            )
            listed = [f"* {question}" for question in questions.found or ["none"]]
            s.reply("\n".join(listed))
            s.user(asking.fusion_relation())
            response: ParsedReply[str] = ParsedReply(s.length())
            sample_until_parsed(s, response, config.relation_tokens, replies.parse_sentence, retry)
        return response.found


def _round_name(guide: Sequence[str]) -> str:
    """What an extraction is called in keys and progress: "guided" where questions guide it, else
    "first"."""
    if guide:
        return "guided"
    return "first"


def _distinct_names(names: list[str]) -> list[str]:
    """The names in order, of those with one normal form the first; those without a letter or digit
    are left out.

    ["Ada", "the mill", "ADA", "--"] -> ["Ada", "the mill"]
    """
    first_spelling: dict[tuple[str, ...], str] = {}
    for name in names:
        first_spelling.setdefault(name_key(name), name)
    first_spelling.pop((), None)
    return list(first_spelling.values())


def _as_in_segment(name: str, segment: str) -> str:
    """A name as the segment writes it, in upper or lower case; "" where it is not in the segment,
    or is a function word there.

        "TOREN", "Toren left." -> "Toren"
    """
    if not occurs(name, segment):
        name = _other_spelling(name, segment)
    if not name or _is_function(name, segment):
        return ""
    return name


def _other_spelling(name: str, segment: str) -> str:
    """A name as the segment first writes it with other upper and lower case; "" where it does not:
    "TOREN" -> "Toren"."""
    at = segment.casefold().find(name.casefold())
    if at < 0:
        return ""
    spelled = segment[at : at + len(name)]
    if spelled.casefold() != name.casefold() or not occurs(spelled, segment):
        return ""
    return spelled


def _is_function(name: str, segment: str) -> bool:
    """Whether a name is no name but function words: "who", and "They" where it only ever begins a
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
    """Whether the name segment[start:end] begins a sentence or quoted speech.

    A name alone in quotation marks is a title, which begins none.
    """
    is_after_quote = start > 0 and segment[start - 1] in _QUOTES
    is_before_quote = end < len(segment) and segment[end] in _QUOTES
    if is_after_quote and is_before_quote:
        return False
    return is_after_quote or is_sentence_start(segment, start)
