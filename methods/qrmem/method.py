"""QRMeM as the engine sees it.

Algorithm 1 of QRMeM: read, reflect on what is missing, follow the edge that fits it best, read
again.

    S_mix <- S_imp, the segments of the question's entities
    until the model says that S_mix answers, or the entity set was updated `max_trials` times, or no edge leads on:
        R <- why not;  edge <- the one from E to another entity most similar to [Q; R; E];  E <- E u its entity
        S_add <- S_add u that entity's segments that are not read, with the edge's score;  S_mix <- what fits

E grows and is used throughout (the paper's E_s and E are one set here:
docs/methods/qrmem.md#qrmem-navigation). An update that adds no segment shows the model nothing new,
so the request is not repeated: the last reason stays. If the search ends without an answer, the
shared reading prompt answers from the segments at hand.

The two other navigations of QRMeM 2.2:

Entity trial        no edges: the model is shown all entities and lists those to look up next, until their segments
                    answer, fill the window, or no longer change
Graph expansion     no reflection: neighbours over edges similar to the question join, round by round; the model writes
                    an elaborated question from them; segments are retrieved by the question and that one, and read
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from harness.entities.recogniser import install_problem, recogniser_packages
from harness.errors import Missing
from harness.method import Index, Indexes, IndexTools, Needs, Tools
from harness.prompts import Pieces, prompt_tokens
from harness.storage.records import StoredStep
from harness.types import Answer, Document, Question
from methods import reading
from methods.qrmem import replies
from methods.qrmem.build import build_memory
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.memory import Memory, NameKey, name_key
from methods.qrmem.prompts import PROMPTS
from methods.qrmem.search import (
    NOT_PARSED,
    Moves,
    SearchEnd,
    SearchState,
    choose_first_segments,
    drop_until_all_fit,
    replay,
    run_search,
)
from methods.retrieval import best_first
from methods.retry import fit_lines, window_of
from methods.summary import SUMMARY


def _moves_by_reflection(search: SearchState) -> Moves:
    """The moves of algorithm 1: ask; until the segments answer, follow the edge nearest to the
    question and to the reason why they do not answer it, and read the segments of its entity.

    An added segment has the similarity of the edge that led there as its score; where not all fit,
    those with the lowest are dropped. Where nothing new is read, the question is not asked again.

    Yields:
        The segments read so far, after each trial that left the question open.

    Returns:
        How the search ended by itself.
    """
    memory = search.memory
    first_segments = search.read_first_segments(search.config.start_share)
    entities = list(search.entities)
    segments = list(first_segments)
    score_of_added: dict[int, float] = {}
    reason = ""
    has_new_segments = True
    while True:
        if has_new_segments:
            verdict = search.ask(segments)
            if isinstance(verdict, SearchEnd):
                return verdict
            reason = verdict
        edges = memory.edges_leading_on(set(entities))
        if not edges:
            return SearchEnd(segments, reason="no edge leads on")
        yield segments
        edge, score = _best_edge(search, edges, entities, reason)
        entity = _entity_at_other_end(memory, edge, entities)
        entities.append(entity)
        for segment in memory.places[entity]:
            if segment not in segments:
                score_of_added[segment] = score
        score_of_added = drop_until_all_fit(
            first_segments, score_of_added, search.tokens_of_segment, search.max_segment_tokens
        )
        segments_before = segments
        segments = sorted({*first_segments, *score_of_added})
        has_new_segments = segments != segments_before
        note = memory.edge_text(edge)
        if not has_new_segments:
            note += " (nothing new to read)"
        scores = {"similarity": score, "segments": len(segments)}
        search.record_step("expand", entity, scores, note=note)
        dropped = _not_in(segments_before, segments)
        search.record_dropped(dropped, "its score is the lowest, and not all segments fit")
        search.record_new(_not_in(segments, segments_before), score_of_added, [entity])


def _entity_at_other_end(memory: Memory, edge: int, entities: Collection[int]) -> int:
    """The entity at the end of an edge that is not among `entities`.

    Args:
        memory: The memory.
        edge: The number of the edge, which has one end among them.
        entities: The entities reached so far.
    """
    first, second, _ = memory.edges[edge]
    if first in entities:
        return second
    return first


def _best_edge(
    search: SearchState, edges: list[int], entities: list[int], reason: str
) -> tuple[int, float]:
    """Find the edge that is most similar to what is missing.

    Without reflection the query is the question alone: "only relying on the query to traverse the
    graph" (QRMeM 3.5).

    Args:
        search: The search.
        edges: The edges to choose from.
        entities: The entities reached so far.
        reason: Why the segments do not answer the question.

    Returns:
        The first edge with the highest similarity to question, reason and entities, and that
        similarity.
    """
    query_parts = [search.question.text]
    if search.config.reflection:
        if reason:
            query_parts.append(reason)
        query_parts.append(", ".join(search.memory.names[entity] for entity in entities))
    with search.search_phase():
        scores = search.similarity_of(query_parts, search.memory.edge_vectors[edges])
    place = int(scores.argmax())
    return edges[place], float(scores[place])


def _moves_by_entity_trials(search: SearchState) -> Moves:
    """The moves of the entity trial: ask; until the segments answer, read those of entities that
    the model names.

    It also ends where the model names no entities or the same ones, where their segments are the
    same, and after a trial whose entities have more segments than the window holds.

    Yields:
        The segments read so far, after each trial that left the question open.

    Returns:
        How the search ended by itself.
    """
    segments = search.read_first_segments(share=1.0)
    entities = list(search.entities)
    chosen_entities: list[int] | None = None
    while True:
        reason = search.ask(segments)
        if isinstance(reason, SearchEnd):
            return reason
        if chosen_entities is not None and len(segments) < len(search.memory.segments_of(entities)):
            return SearchEnd(segments, reason="the window is full")
        yield segments
        chosen_entities = _ask_for_entities(search, segments, reason, entities)
        if chosen_entities is None:
            return SearchEnd(segments, NOT_PARSED)
        if not chosen_entities or set(chosen_entities) == set(entities):
            return SearchEnd(segments, reason="the entities did not change")
        entities = chosen_entities
        segments_before = segments
        segments_of_entities = search.memory.segments_of(entities)
        segments = choose_first_segments(
            segments_of_entities,
            search.tokens_of_segment,
            search.max_segment_tokens,
            share=1.0,
            similarity=search.similarity,
        )
        if segments == segments_before:
            return SearchEnd(segments, reason="the segments did not change")
        dropped = _not_in(segments_before, segments)
        search.record_dropped(dropped, "no chosen entity stands in it, or not all segments fit")
        search.record_new(_not_in(segments, segments_before), leading_entities=entities)


def _ask_for_entities(
    search: SearchState, segments: list[int], reason: str, entities: list[int]
) -> list[int] | None:
    """Let the model choose the entities to look up next. Also records a step "choose".

    Args:
        search: The search.
        segments: The segments that were read.
        reason: Why they do not answer the question.
        entities: The entities that led to them.

    Returns:
        The numbers of the chosen ones; None if no reply could be parsed, [] if it names none.
    """
    memory = search.memory
    config = search.config
    searcher = search.tools.model("searcher")
    chosen_names = [memory.names[entity] for entity in entities]
    other_names = [name for number, name in enumerate(memory.names) if number not in entities]
    texts = [search.texts[segment] for segment in segments]
    fitting = _fit_trial_request(search, reason, chosen_names, texts, other_names)
    with search.search_phase():
        response = search.ask_parsed(
            searcher, fitting.request, config.entity_tokens, replies.parse_names
        )
    entities_named = _entities_named(memory, response.parsed or ())
    names = ", ".join(memory.names[entity] for entity in entities_named)
    notes = [*response.notes, names or "none of the memory's entities"]
    if fitting.n_texts < len(texts):
        notes.append(f"{fitting.n_texts} of {len(texts)} segments were shown")
    if fitting.n_names < len(other_names):
        notes.append(f"{fitting.n_names} of {len(other_names)} other entities were shown")
    scores = {"entities": len(entities_named), "replies": response.replies}
    search.record_step(
        "choose", scores=scores, tokens=response.prompt_tokens, note="; ".join(notes)
    )
    if response.parsed is None:
        return None
    return entities_named


class _FittingTrialRequest(NamedTuple):
    """A request for entities that fits the window, and how many of the segments' texts and of the
    other entities' names it shows."""

    request: Pieces
    n_texts: int
    n_names: int


def _fit_trial_request(
    search: SearchState, reason: str, chosen_names: list[str], texts: list[str], names: list[str]
) -> _FittingTrialRequest:
    """The request for entities with as much as fits: the last texts go first (the model has read
    them already), all but one; then the later half of the names again and again; then that text.

    A request that does not even fit without all of these is returned as it is.

    Args:
        search: The search.
        reason: Why the segments do not answer the question.
        chosen_names: The names of the entities that led to the segments; they stay.
        texts: The texts of the segments that were read.
        names: The names of the other entities, in the order of the text.
    """
    config = search.config
    searcher = search.tools.model("searcher")
    max_request_tokens = window_of(config.window, searcher) - config.entity_tokens
    shown_texts = list(texts)
    shown_names = list(names)
    request = search.requests.trial(shown_texts, reason, chosen_names, shown_names)
    while (shown_texts or shown_names) and prompt_tokens(request, searcher) > max_request_tokens:
        if len(shown_texts) > 1 or not shown_names:
            shown_texts.pop()
        else:
            shown_names = shown_names[: len(shown_names) // 2]
        request = search.requests.trial(shown_texts, reason, chosen_names, shown_names)
    return _FittingTrialRequest(request, n_texts=len(shown_texts), n_names=len(shown_names))


def _not_in(segments: Sequence[int], other_segments: Sequence[int]) -> list[int]:
    """Those of some segments that are not among the others: [1, 2, 4], [2, 3] -> [1, 4]."""
    return [segment for segment in segments if segment not in other_segments]


def _entities_named(memory: Memory, names: Iterable[str]) -> list[int]:
    """The numbers of the entities that have one of the names as a mention, each once, in the order
    of the names."""
    entity_of_key: dict[NameKey, int] = {}
    for entity, mentions in enumerate(memory.mentions):
        for mention in mentions:
            entity_of_key[name_key(mention)] = entity
    entities: dict[int, None] = {}  # as an ordered set
    for name in names:
        key = name_key(name)
        if key in entity_of_key:
            entities[entity_of_key[key]] = None
    return list(entities)


def answer_by_graph_expansion(search: SearchState) -> Answer:
    """Expand by similar edges, let the model write an elaborated question, retrieve segments by it,
    and answer from these."""
    config = search.config
    memory = search.memory
    entities = set(search.entities)
    names = ", ".join(memory.names[entity] for entity in search.entities)
    note = "the memory has no entity of the question"
    if names:
        note = f"entities of the question: {names}"
    search.record_step(
        "start", scores={"entities": len(entities)}, note="; ".join([*memory.notes, note])
    )
    edges = _expand_by_similar_edges(search, entities)  # adds neighbours to `entities`, too
    elaborated_questions = _ask_for_elaborated_question(search, sorted(entities), edges)
    with search.search_phase():
        similarity = search.similarity_of(
            [search.question.text, *elaborated_questions], memory.segment_vectors
        )
    best = best_first(similarity)[: config.top_k]
    segments_read = choose_first_segments(
        sorted(best),
        search.tokens_of_segment,
        search.max_segment_tokens,
        share=1.0,
        similarity=similarity,
    )
    similarity_of_segment = {segment: float(similarity[segment]) for segment in segments_read}
    search.record_new(segments_read, similarity_of_segment)
    return search.answer_from(segments_read, reason="expanded")


def _expand_by_similar_edges(search: SearchState, entities: set[int]) -> list[int]:
    """Let neighbours over edges similar to the question join `entities`, which is changed; return
    the numbers of these edges, the oldest first. Also records a step for each.

    Similar are the edges at or above the `quantile` of all edges' similarities.
    """
    config = search.config
    memory = search.memory
    with search.search_phase():
        similarity = search.similarity_of([search.question.text], memory.edge_vectors)
    min_similarity = 0.0
    if len(similarity):
        min_similarity = float(np.quantile(similarity, config.quantile))
    edges_taken: list[int] = []
    for _ in range(config.rounds):
        new_edges = [
            edge for edge in memory.edges_leading_on(entities) if similarity[edge] >= min_similarity
        ]
        if not new_edges:
            break
        edges_taken += new_edges
        for edge in new_edges:
            entity = _entity_at_other_end(memory, edge, entities)
            first, second, _ = memory.edges[edge]
            entities |= {first, second}
            scores = {"similarity": float(similarity[edge])}
            search.record_step("expand", entity, scores, note=memory.edge_text(edge))
    return edges_taken


def _ask_for_elaborated_question(
    search: SearchState, entities: Sequence[int], edges: Sequence[int]
) -> list[str]:
    """Ask for the elaborated question; where the window is short, the newest relations are left
    out.

    Args:
        search: The search, which gets a step.
        entities: The entities that were reached.
        edges: The edges that were reached, the oldest first.

    Returns:
        The question in a list; [] where the model writes none.
    """
    memory = search.memory
    config = search.config
    searcher = search.tools.model("searcher")
    max_request_tokens = window_of(config.window, searcher) - config.question_tokens
    names = [memory.names[entity] for entity in entities]
    relations = [memory.edge_text(edge) for edge in edges]

    def request_with_lines(n_lines: int) -> Pieces:
        """The request with the first n lines: names, then relations."""
        shown_relations = relations[: max(0, n_lines - len(names))]
        return search.requests.elaborate(names[:n_lines], shown_relations)

    request_that_fits, _ = fit_lines(
        request_with_lines, len(names) + len(relations), max_request_tokens, searcher
    )
    with search.search_phase():
        response = search.ask_parsed(
            searcher, request_that_fits, config.question_tokens, replies.parse_questions
        )
    questions = (response.parsed or [])[:1]
    search.record_step(
        "elaborate",
        scores={"replies": response.replies},
        tokens=response.prompt_tokens,
        note="; ".join([*response.notes, *(questions or ["no elaborated question"])]),
    )
    return questions


_NAVIGATIONS: dict[str, Callable[[SearchState], Answer]] = {
    "reflection": lambda search: run_search(search, _moves_by_reflection(search)),
    "entity-trial": lambda search: run_search(search, _moves_by_entity_trials(search)),
    "graph-expansion": answer_by_graph_expansion,
    # The segments of the question's entities alone:
    "none": lambda search: search.answer_from(
        search.read_first_segments(share=1.0), "no navigation"
    ),
}


class QRMeM(reading.ReadingMethod):
    """A graph built for the question leads, by reflection on what is missing, to the segments that
    answer it."""

    Config = QRMeMConfig
    summary = "graph built for the question, navigated by reflection to the segments that answer it (QRMeM)"
    needs: ClassVar[Needs] = dict.fromkeys(
        ("reader", "searcher", "builder"), frozenset({"sampling"})
    )
    encoders = ("encoder",)
    scope = "question"
    index_roles = ("builder", "encoder")
    index_version = "6"
    # The same for every navigation, so that all of them share one memory.
    own_prompts = (SUMMARY, *PROMPTS)

    def index_packages(self) -> tuple[str, ...]:
        """The packages of the tool that finds names, on whose versions the index depends; () for
        the rules."""
        return recogniser_packages(self.config.recogniser)

    def problems(self) -> list[str]:
        """No sentence, as no setting is wrong by itself; checks that the tool that finds names is
        installed.

        Raises:
            Missing: It is not.
        """
        problem = install_problem(self.config.recogniser)
        if problem:
            raise Missing(problem, f"the named-entity tool {self.config.recogniser}")
        return []

    def index(self, document: Document, tools: IndexTools) -> Index:
        """The index of a document for the question being answered: its memory
        (`Memory.to_index`)."""
        if tools.question is None:
            raise LookupError("the memory is built for a question, and none was handed over")
        return build_memory(document, tools.question, self.config, tools).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Search the memory by the configured navigation, then answer from the segments found."""
        (document,) = documents
        (index,) = indexes
        search = SearchState(document, question, Memory.from_index(index), self.config, tools)
        return _NAVIGATIONS[self.config.navigation](search)

    def stop_rule(self) -> dict[str, int]:
        """The rule by which a search ends: {"max_trials": most updates of the entity set}."""
        return {"max_trials": self.config.max_trials}

    def recorded_rule(self) -> dict[str, int]:
        """The rule up to which searches are recorded: {"max_trials": ...}, record_stops where that
        is more."""
        return {"max_trials": max(self.config.max_trials, self.config.record_stops or 0)}

    def replay(self, steps: Sequence[StoredStep], *, max_trials: int) -> int | None:
        """Find where a recorded search would have ended with another maximum of trials.

        Args:
            steps: The steps of a record.
            max_trials: The other maximum.

        Returns:
            The place of the last step; None where the search was not recorded that far.
        """
        return replay(steps, max_trials)
