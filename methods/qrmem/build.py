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
    FUNCTION_WORDS,
    Memory,
    SegmentRelation,
    SubGraph,
    collect_relations,
    find_whole_words,
    join_names_to_entities,
    name_key,
    stands_in,
)
from methods.qrmem.prompts import Relation
from methods.qrmem.replies import Triple
from methods.reading import question_text
from methods.retry import Retry, ask_parsed, fit_lines, sample_until_parsed, window_of
from methods.summary import SUMMARY, condense_to_one_summary

T = TypeVar("T")


class QuestionPool:
    """Questions that differ from each other (QRMeM 2.1, note 2).

    Attributes:
        max_similarity: A new question must have a lower ROUGE-L than this with each of them.
        questions: Those that were added, in order.
    """

    def __init__(self, max_similarity: float) -> None:
        """Begin an empty pool; see the class for `max_similarity`."""
        self.max_similarity = max_similarity
        self.questions: list[str] = []
        self._words_of_questions: list[list[str]] = []

    def add_if_new(self, question: str) -> bool:
        """Add a question if it is new, and return whether it was. One without words is never
        new."""
        question_words = words(question)
        if not question_words:
            return False
        for other_words in self._words_of_questions:
            if rouge_l(question_words, other_words) >= self.max_similarity:
                return False
        self.questions.append(question)
        self._words_of_questions.append(question_words)
        return True

    def add_those_that_are_new(self, questions: Sequence[str]) -> list[str]:
        """Add those of the questions that are new, one after the other, and return these."""
        return [question for question in questions if self.add_if_new(question)]


def rouge_l(first: Sequence[str], second: Sequence[str]) -> float:
    """F1 of the longest common subsequence of words (Lin 2004, beta 1): 2 lcs / (n + m); 0.0 if
    both are empty.

        ["who", "met", "ada"], ["who", "saw", "ada"] -> 2 * 2 / 6

    Words are those of harness/words.py: no stemming.
    """
    # lengths[j]: the longest common subsequence of the words so far and the first j of `second`.
    lengths_before = [0] * (len(second) + 1)
    for word in first:
        lengths = [0]
        for column, other_word in enumerate(second):
            if word == other_word:
                lengths.append(lengths_before[column] + 1)
            else:
                lengths.append(max(lengths_before[column + 1], lengths[column]))
        lengths_before = lengths
    return 2 * lengths_before[-1] / max(len(first) + len(second), 1)


_QUOTES = "\"'“”‘’«»"
# The prompts of a first extraction.
_FIRST_PROMPTS = (prompts.ENTITIES, prompts.RELATIONS, prompts.DOCUMENT_SUMMARY)
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
    return Retry(
        retries=config.retries,
        temperature=config.temperature,
        top_p=config.top_p,
        window=config.window,
        seed=seed,
    )


def build_memory(
    document: Document, question: Question, config: QRMeMConfig, tools: IndexTools
) -> Memory:
    """Build the memory of a document for a question: its segments, and the graph of their entities.

    A summary of the document stands in the requests about its segments. The names of the segments'
    graphs are joined to entities, the relations of two entities are merged to an edge, and edges
    and segments get vectors.

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
    summary = condense_to_one_summary(
        segments,
        config.summary_tokens,
        tools,
        model,
        config.window,
        SUMMARY.with_replacements(config),
    )
    builder = _GraphBuilder(question, summary, segments, config, tools)
    graphs = builder.graphs_of_segments()
    entities = join_names_to_entities(graphs, segments)
    memory = Memory(
        segments=spans,
        names=entities.names,
        mentions=entities.mentions,
        places=entities.places,
    )
    memory.questions = builder.pool.questions
    memory.document_summary = summary
    relations = collect_relations(graphs, entities)
    merged_edges = tools.map(
        lambda pair: builder.merge_relations_of_pair(pair, relations[pair]), list(relations)
    )
    memory.edges = [edge.row for edge in merged_edges]
    memory.notes = _notes_on_building(memory, builder, merged_edges)
    edge_texts = [memory.edge_text(number) for number in range(len(memory.edges))]
    memory.edge_vectors = encoder.encode(edge_texts, "passage")
    memory.segment_vectors = encoder.encode(segments, "passage")
    return memory


def _notes_on_building(
    memory: Memory, builder: _GraphBuilder, merged_edges: Sequence[_MergedEdge]
) -> list[str]:
    """Sentences about what did not go as usual while a memory was built.

    Args:
        memory: The memory.
        builder: Knows which requests were never understood.
        merged_edges: The merged relation of each pair of entities.
    """
    notes = builder.notes()
    n_not_understood = sum(not edge.is_understood for edge in merged_edges)
    if n_not_understood:
        notes.append(
            f"{n_not_understood} of {len(merged_edges)} edges have relations that were never fused"
        )
    if not memory.segments:
        notes.append("the document has no text, so there is nothing to read")
    elif not memory.names:
        notes.append("no entity was found")
    return notes


@dataclass(frozen=True)
class _MergedEdge:
    """The relation of two entities, merged from all segments.

    Attributes:
        pair: The numbers of the entities.
        text: The relation.
        is_understood: Whether every reply of the merge was understood.
    """

    pair: tuple[int, int]
    text: str
    is_understood: bool

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
        _segments_not_understood: Kind of request -> the segments for which no reply was understood.
        _segments_with_cut_lists: The segments whose lists were cut to fit the window.
    """

    question: Question
    summary: str
    segments: list[str]
    config: QRMeMConfig
    tools: IndexTools
    pool: QuestionPool = field(init=False)
    _segments_not_understood: dict[str, list[int]] = field(default_factory=dict)
    _segments_with_cut_lists: set[int] = field(default_factory=set)

    def __post_init__(self) -> None:
        """Begin with an empty pool of questions, and prepare the requests about this question and
        document."""
        self.pool = QuestionPool(self.config.novelty)
        self.requests = prompts.Requests(self.config, self.question, self.summary)

    def graphs_of_segments(self) -> list[SubGraph]:
        """The graph of each segment, in order; where the config asks for it completed by what its
        new questions find.

        Also adds the new questions to `pool`.
        """
        numbers = range(len(self.segments))
        graphs = self._load_or_ask_for_first_graphs()
        if not self.config.update:
            return graphs
        questions_of_segments = self.tools.map(
            lambda segment_number: self._ask_for_questions(segment_number, graphs[segment_number]),
            numbers,
        )
        # In the order of the document: whether a question is new depends on those before it.
        new_questions = [
            self.pool.add_those_that_are_new(questions) for questions in questions_of_segments
        ]

        def complete_graph(segment_number: int) -> SubGraph:
            """The graph of the segment of this number, completed by what its new questions find."""
            if not new_questions[segment_number]:
                return graphs[segment_number]
            return self._ask_for_graph(
                segment_number, graphs[segment_number], new_questions[segment_number]
            )

        return self.tools.map(complete_graph, numbers)

    def _load_or_ask_for_first_graphs(self) -> list[SubGraph]:
        """The graph of each segment before updates, computed or as another memory stored it:
        presets with and without updates share it.

        Also sets `_segments_not_understood` and `_segments_with_cut_lists` to what was stored with
        it.
        """
        config = self.config
        needs = {
            "question": question_text(self.question),
            "summary": self.summary,
            "segments": self.segments,
            "prompts": turn_texts(prompt.with_replacements(config) for prompt in _FIRST_PROMPTS),
            "config": {name: getattr(config, name) for name in _FIRST_SETTINGS},
            "model window": self.tools.model("builder").window,
            "version": 4,  # raise it when `_ask_for_graph` changes
        }
        stored: StoredGraphs = self.tools.share(
            "qrmem-graphs", "builder", needs, self._ask_for_all_graphs
        )
        self._segments_not_understood = {
            request_name: list(numbers) for request_name, numbers in stored["lost"].items()
        }
        self._segments_with_cut_lists = set(stored["cut"])
        graphs: list[SubGraph] = []
        for names, relations in stored["graphs"]:
            triples = [(first, second, text) for first, second, text in relations]
            graphs.append(SubGraph(list(names), triples))
        return graphs

    def _ask_for_all_graphs(self) -> StoredGraphs:
        """Ask the builder for the graph of each segment, with notes on the segments for which no
        reply was understood, and on those whose lists were cut."""
        numbers = range(len(self.segments))
        graphs = self.tools.map(
            lambda segment_number: self._ask_for_graph(segment_number, SubGraph(), []), numbers
        )
        return {
            "graphs": [(graph.names, graph.relations) for graph in graphs],
            "lost": self._segments_not_understood,
            "cut": sorted(self._segments_with_cut_lists),
        }

    def notes(self) -> list[str]:
        """A sentence for each kind of request without an understood reply, and one for lists that
        were cut.

            ["first entities of 2 of 9 segments were never understood"]
        """
        n_segments = len(self.segments)
        notes: list[str] = []
        for request_name, numbers in sorted(self._segments_not_understood.items()):
            notes.append(
                f"{request_name} of {len(numbers)} of {n_segments} segments were never understood"
            )
        if self._segments_with_cut_lists:
            notes.append(
                f"the lists of {len(self._segments_with_cut_lists)} of {n_segments} segments were "
                "cut to fit the window"
            )
        return notes

    def _ask_for_graph(
        self, segment_number: int, graph: SubGraph, guiding_questions: list[str]
    ) -> SubGraph:
        """The graph of a segment with the names and relations added that are found in it.

        Names come from the recogniser, for a graph without any, and from the model where
        `open_entities` is set. Fewer than two names have no relation, so that none is asked for.

        Args:
            segment_number: The number of the segment.
            graph: Its graph so far.
            guiding_questions: The questions that guide an update; [] at the first time.
        """
        names = list(graph.names)
        if not names:
            names = self._names_by_recogniser(segment_number)
        if self.config.open_entities:
            names += self._ask_for_names(segment_number, guiding_questions)
        names = _distinct_names(names)
        if len(names) < 2:
            return SubGraph(names, list(graph.relations))
        listed = self._ask_for_relations(segment_number, names, guiding_questions)
        new_relations = [triple for triple in listed if triple not in graph.relations]
        return SubGraph(names, [*graph.relations, *new_relations])

    def _names_by_recogniser(self, segment_number: int) -> list[str]:
        """The names that the recogniser finds in segment `segment_number`, without function words
        such as "They"."""
        segment = self.segments[segment_number]
        recognised = load_recogniser(self.config.recogniser).names(segment)
        return [name for name in recognised if not _is_function_word(name, segment)]

    def _ask_for_names(self, segment_number: int, guiding_questions: list[str]) -> list[str]:
        """The names that the model lists for a segment, as the segment writes them; those that are
        not in it are left out.

        Args:
            segment_number: The number of the segment.
            guiding_questions: The questions that guide an update; [] at the first time.
        """
        segment = self.segments[segment_number]
        max_reply_tokens = self.config.entity_tokens

        def request_with_lines(n_lines: int) -> Pieces:
            """The prompt for entities with the first n guiding questions."""
            return self.requests.entities(segment, guiding_questions[:n_lines])

        request = self._fit_request(
            segment_number, request_with_lines, len(guiding_questions), max_reply_tokens
        )
        request_name = f"{_round_name(guiding_questions)} entities"
        listed = self._ask_and_store(
            segment_number, request_name, request, max_reply_tokens, replies.parse_names
        )
        names_as_written = [_as_in_segment(name, segment) for name in listed]
        return [name for name in names_as_written if name]

    def _ask_for_relations(
        self, segment_number: int, names: list[str], guiding_questions: list[str]
    ) -> list[Triple]:
        """The relations between names of a segment that the model lists.

        Where the window is short, guiding questions are left out first, then names.

        Args:
            segment_number: The number of the segment.
            names: The names.
            guiding_questions: The questions that guide an update; [] at the first time.

        Returns:
            (name, name, relation) of each that joins two of the names.
        """
        segment = self.segments[segment_number]
        max_reply_tokens = self.config.relation_tokens

        def request_with_lines(n_lines: int) -> Pieces:
            """The prompt for relations with the first n lines: names, then guiding questions."""
            shown_guide = guiding_questions[: max(0, n_lines - len(names))]
            return self.requests.relations(segment, names[:n_lines], shown_guide)

        request = self._fit_request(
            segment_number,
            request_with_lines,
            len(names) + len(guiding_questions),
            max_reply_tokens,
        )
        request_name = f"{_round_name(guiding_questions)} relations"
        listed = self._ask_and_store(
            segment_number, request_name, request, max_reply_tokens, replies.parse_triples
        )
        known_names = {name_key(name) for name in names}
        triples: list[Triple] = []
        for first, second, text in listed:
            if name_key(first) in known_names and name_key(second) in known_names:
                triples.append((first, second, text))
        return triples

    def _ask_for_questions(self, segment_number: int, graph: SubGraph) -> list[str]:
        """The questions that the model asks about what a segment's graph lacks (the paper's Q_k);
        [] if no reply could be parsed.

        Args:
            segment_number: The number of the segment.
            graph: The graph of the segment.
        """
        names = graph.names
        relations = [" | ".join(triple) for triple in graph.relations]
        max_reply_tokens = self.config.question_tokens

        def request_with_lines(n_lines: int) -> Pieces:
            """The prompt for questions with the first n lines: names, then relations."""
            shown_relations = relations[: max(0, n_lines - len(names))]
            return self.requests.questions(
                self.segments[segment_number], names[:n_lines], shown_relations
            )

        request = self._fit_request(
            segment_number, request_with_lines, len(names) + len(relations), max_reply_tokens
        )
        questions = self._ask_and_store(
            segment_number, "questions", request, max_reply_tokens, replies.parse_questions
        )
        return [str(question) for question in questions][: self.config.questions]

    def _fit_request(
        self,
        segment_number: int,
        request_with_lines: Callable[[int], Pieces],
        n_lines: int,
        max_reply_tokens: int,
    ) -> Pieces:
        """The request about a segment, with as many listed lines as fit beside its reply.

        Also notes in `_segments_with_cut_lists` where lines of the segment were left out.

        Args:
            segment_number: The number of the segment.
            request_with_lines: Gives the request with the first n lines.
            n_lines: How many lines there are.
            max_reply_tokens: Most tokens of the reply.
        """
        model: MeteredModel = self.tools.model("builder")
        max_request_tokens = window_of(self.config.window, model) - max_reply_tokens
        request, n_shown = fit_lines(request_with_lines, n_lines, max_request_tokens, model)
        if n_shown < n_lines:
            self._segments_with_cut_lists.add(segment_number)
        return request

    def _ask_and_store(
        self,
        segment_number: int,
        request_name: str,
        request: Pieces,
        max_reply_tokens: int,
        parse: Callable[[str], list[T] | None],
    ) -> list[T]:
        """Ask about a segment; what was parsed is stored, so that a stopped build goes on.

        Args:
            segment_number: The number of the segment.
            request_name: What is asked for, "first entities"; with `segment_number` the key of what
                is stored.
            request: The prompt.
            max_reply_tokens: Most tokens of the reply.
            parse: Parses a reply; None for one that it does not understand.

        Returns:
            What the reply lists; [] if none could be parsed, which is noted in
            `_segments_not_understood`.
        """
        model: MeteredModel = self.tools.model("builder")
        retry = retry_of(self.config, self.tools.seed)
        items = self.tools.keep(
            f"{request_name} {segment_number}",
            lambda: ask_parsed(model, request, max_reply_tokens, parse, retry).parsed,
        )
        self.tools.progress(segment_number + 1, len(self.segments), request_name)
        if items is None:
            self._segments_not_understood.setdefault(request_name, []).append(segment_number)
        return list(items or [])

    def merge_relations_of_pair(
        self, pair: tuple[int, int], relations: list[SegmentRelation]
    ) -> _MergedEdge:
        """Merge the relations of two entities into one text, one after the other.

        Each merge reads the text so far beside the segment that came last into it:

            [(0, "a"), (3, "b"), (7, "c")]  ->  a + b = "ab" (segments 0, 3), ab + c (3, 7)

        Where a merge fails the texts are joined with a space: no reply could be parsed, or two
        segments and their relations are longer than the window.

        Args:
            pair: The numbers of the entities.
            relations: The relation in each segment, at least one.
        """
        (last_segment, text), *later_relations = relations
        first_entity, second_entity = pair
        is_understood = True
        for step, (segment_number, later_text) in enumerate(later_relations):
            relation_so_far = Relation(self.segments[last_segment], text)
            later_relation = Relation(self.segments[segment_number], later_text)
            key = f"fusion {first_entity} {second_entity} {step}"
            merged = self.tools.keep(
                key, partial(self._merge_pair, relation_so_far, later_relation)
            )
            if merged is None:
                is_understood = False
                merged = f"{text} {later_text}"
            last_segment = segment_number
            text = str(merged)
        return _MergedEdge(pair, text, is_understood)

    def _merge_pair(self, first: Relation, second: Relation) -> str | None:
        """Ask for questions about two relations, then for one sentence that merges them.

        Returns:
            The sentence; None where no reply was understood or the request is too long.
        """
        config = self.config
        requests = self.requests
        model = self.tools.model("builder")
        retry = retry_of(config, self.tools.seed)
        request = requests.fusion_questions(first, second)
        request_tokens = prompt_tokens(request, model)
        second_turn_tokens = 2 * model.turn_tokens() + model.count(requests.fusion_relation())
        written_tokens = config.question_tokens + config.relation_tokens
        if request_tokens + second_turn_tokens + written_tokens > window_of(config.window, model):
            return None
        with model.session() as session:
            feed(session, request)
            questions = sample_until_parsed(
                session, request_tokens, config.question_tokens, replies.parse_questions, retry
            )
            questions_as_list = [f"* {question}" for question in questions.parsed or ["none"]]
            session.reply("\n".join(questions_as_list))  # in place of the reply as it was written
            session.user(requests.fusion_relation())
            sentence = sample_until_parsed(
                session, session.length(), config.relation_tokens, replies.parse_sentence, retry
            )
        return sentence.parsed


def _round_name(guiding_questions: Sequence[str]) -> str:
    """What an extraction is called in keys and progress: "guided" where questions guide it, else
    "first"."""
    if guiding_questions:
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
    first_spelling.pop((), None)  # the key of names without a letter or digit
    return list(first_spelling.values())


def _as_in_segment(name: str, segment: str) -> str:
    """A name as the segment writes it, in upper or lower case; "" where it is not in the segment,
    or is a function word there.

        "TOREN", "Toren left." -> "Toren"
    """
    if not stands_in(name, segment):
        name = _other_spelling(name, segment)
    if not name or _is_function_word(name, segment):
        return ""
    return name


def _other_spelling(name: str, segment: str) -> str:
    """A name as the segment first writes it with other upper and lower case; "" where it does not:
    "TOREN" -> "Toren"."""
    position = segment.casefold().find(name.casefold())
    if position < 0:
        return ""
    # In small letters the position may be another, as letters can become longer: then the name is
    # not found.
    name_as_written = segment[position : position + len(name)]
    if name_as_written.casefold() != name.casefold() or not stands_in(name_as_written, segment):
        return ""
    return name_as_written


def _is_function_word(name: str, segment: str) -> bool:
    """Whether a name is no name but function words: "who", "I", and "They" where it only ever
    begins a sentence.

    "The Who", and "US" and "It" in the middle of a sentence, are names.
    """
    key_words = name_key(name)
    if not set(key_words) <= FUNCTION_WORDS:
        return False
    if name.islower() or "i" in key_words:
        return True
    if any(word[0].isupper() for word in name.split()[1:]):
        return False
    return all(
        _begins_sentence(segment, position, position + len(name))
        for position in find_whole_words(name, segment)
    )


def _begins_sentence(segment: str, start: int, end: int) -> bool:
    """Whether the name segment[start:end] begins a sentence or quoted speech.

    A name alone in quotation marks is a title, which begins none.
    """
    is_after_quote = start > 0 and segment[start - 1] in _QUOTES
    is_before_quote = end < len(segment) and segment[end] in _QUOTES
    if is_after_quote and is_before_quote:
        return False
    return is_after_quote or is_sentence_start(segment, start)
