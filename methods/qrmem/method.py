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
from typing import ClassVar

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
from methods.qrmem.memory import Form, Memory, name_key
from methods.qrmem.prompts import PROMPTS
from methods.qrmem.search import (
    NOT_PARSED,
    End,
    Moves,
    State,
    fit_added,
    fit_start,
    replay,
    run_search,
)
from methods.retrieval import best_first
from methods.retry import fit_lines, window_of
from methods.summary import SUMMARY


def _reflection(state: State) -> Moves:
    """The moves of algorithm 1: ask; until the segments answer, follow the edge nearest to question
    and gap, and read the segments of its entity.

    Yields:
        The segments read so far, after each trial that left the question open.

    Returns:
        How the search ended by itself.
    """
    memory = state.memory
    start = state.start(state.config.start_share)
    entities = list(state.entities)
    mix = list(start)
    added: dict[int, float] = {}
    reason = ""
    is_new = True
    while True:
        if is_new:
            verdict = state.ask(mix)
            if isinstance(verdict, End):
                return verdict
            reason = verdict
        frontier = memory.frontier(set(entities))
        if not frontier:
            return End(mix, "no edge leads on")
        yield mix
        edge, score = _best_edge(state, frontier, entities, reason)
        entity = _new_end(memory, edge, entities)
        entities.append(entity)
        for segment in memory.places[entity]:
            if segment not in mix:
                added[segment] = score
        added = fit_added(start, added, state.lengths, state.room)
        before = mix
        mix = sorted({*start, *added})
        is_new = mix != before
        note = memory.edge_text(edge)
        if not is_new:
            note += " (nothing new to read)"
        state.step("expand", entity, {"similarity": score, "segments": len(mix)}, note=note)
        left = [segment for segment in before if segment not in mix]
        state.drop_segments(left, "its score is the lowest, and not all segments fit")
        new = [segment for segment in mix if segment not in before]
        state.add_segments(new, added, [entity])


def _new_end(memory: Memory, edge: int, entities: Collection[int]) -> int:
    """The entity at the end of an edge that is not among `entities`.

    Args:
        memory: The memory.
        edge: The number of the edge, which has one end among them.
        entities: The entities reached so far.
    """
    a, b, _ = memory.edges[edge]
    if a in entities:
        return b
    return a


def _best_edge(
    state: State, frontier: list[int], entities: list[int], reason: str
) -> tuple[int, float]:
    """Find the edge that is most similar to what is missing.

    Without reflection the query is the question alone: "only relying on the query to traverse the
    graph" (QRMeM 3.5).

    Args:
        state: The search.
        frontier: The edges to choose from.
        entities: The entities reached so far.
        reason: Why the segments do not answer the question.

    Returns:
        The first edge with the highest similarity to question, reason and entities, and that
        similarity.
    """
    query = [state.question.text]
    if state.config.reflection:
        if reason:
            query.append(reason)
        query.append(", ".join(state.memory.names[entity] for entity in entities))
    with state.searching():
        scores = state.similar(query, state.memory.edge_vectors[frontier])
    best = int(scores.argmax())
    return frontier[best], float(scores[best])


def _entity_trials(state: State) -> Moves:
    """The moves of the entity trial: ask; until the segments answer, read those of entities that
    the model names.

    Yields:
        The segments read so far, after each trial that left the question open.

    Returns:
        How the search ended by itself.
    """
    mix = state.start(share=1.0)
    entities = list(state.entities)
    chosen: list[int] | None = None
    while True:
        reason = state.ask(mix)
        if isinstance(reason, End):
            return reason
        if chosen is not None and len(mix) < len(state.memory.segments_of(entities)):
            return End(mix, "the window is full")
        yield mix
        chosen = _choose_entities(state, mix, reason, entities)
        if chosen is None:
            return End(mix, NOT_PARSED)
        if not chosen or set(chosen) == set(entities):
            return End(mix, "the entities did not change")
        entities = chosen
        before = mix
        segments = state.memory.segments_of(entities)
        mix = fit_start(segments, state.lengths, state.room, 1.0, state.similarity)
        if mix == before:
            return End(mix, "the segments did not change")
        left = [segment for segment in before if segment not in mix]
        state.drop_segments(left, "no chosen entity stands in it, or not all segments fit")
        new = [segment for segment in mix if segment not in before]
        state.add_segments(new, by=entities)


def _choose_entities(
    state: State, mix: list[int], reason: str, entities: list[int]
) -> list[int] | None:
    """Let the model choose the entities to look up next. Also records a step "choose".

    Args:
        state: The search.
        mix: The segments that were read.
        reason: Why they do not answer the question.
        entities: The entities that led to them.

    Returns:
        The numbers of the chosen ones; None if no reply could be parsed, [] if it names none.
    """
    memory = state.memory
    config = state.config
    searcher = state.tools.model("searcher")
    chosen = [memory.names[entity] for entity in entities]
    others = [name for number, name in enumerate(memory.names) if number not in entities]
    window = window_of(config.window, searcher) - config.entity_tokens
    # What does not fit goes: first segments (the model has read them already), then entities from
    # the end of the text.
    shown = [state.texts[segment] for segment in mix]
    listed = list(others)
    pieces = state.asking.trial(shown, reason, chosen, listed)
    while (shown or listed) and prompt_tokens(pieces, searcher) > window:
        if len(shown) > 1 or not listed:
            shown.pop()
        else:
            listed = listed[: len(listed) // 2]
        pieces = state.asking.trial(shown, reason, chosen, listed)
    with state.searching():
        response = state.ask_parsed(searcher, pieces, config.entity_tokens, replies.parse_names)
    named = _entities_named(memory, response.found or ())
    names = ", ".join(memory.names[entity] for entity in named)
    notes = [*response.notes, names or "none of the memory's entities"]
    if len(shown) < len(mix):
        notes.append(f"{len(shown)} of {len(mix)} segments were shown")
    if len(listed) < len(others):
        notes.append(f"{len(listed)} of {len(others)} other entities were shown")
    scores = {"entities": len(named), "replies": response.replies}
    state.step("choose", None, scores, tokens=response.tokens, note="; ".join(notes))
    if response.found is None:
        return None
    return named


def _entities_named(memory: Memory, names: Iterable[str]) -> list[int]:
    """The numbers of the entities that have one of the names as a mention, each once, in the order
    of the names."""
    by_form: dict[Form, int] = {}
    for entity, mentions in enumerate(memory.mentions):
        for mention in mentions:
            by_form[name_key(mention)] = entity
    named: dict[int, None] = {}
    for name in names:
        form = name_key(name)
        if form in by_form:
            named[by_form[form]] = None
    return list(named)


def graph_expansion(state: State) -> Answer:
    """Expand by similar edges, let the model write an elaborated question, retrieve segments by it,
    and answer from these."""
    config = state.config
    memory = state.memory
    entities = set(state.entities)
    names = ", ".join(memory.names[entity] for entity in state.entities)
    note = "the memory has no entity of the question"
    if names:
        note = f"entities of the question: {names}"
    state.step("start", None, {"entities": len(entities)}, note="; ".join([*memory.notes, note]))
    edges = _expand(state, entities)
    elaborated = _elaborated_question(state, sorted(entities), edges)
    with state.searching():
        ranking = state.similar([state.question.text, *elaborated], memory.segment_vectors)
    best = best_first(ranking)[: config.top_k]
    read = fit_start(sorted(best), state.lengths, state.room, 1.0, ranking)
    state.add_segments(read, {segment: float(ranking[segment]) for segment in read})
    return state.answer_from(read, "expanded")


def _expand(state: State, entities: set[int]) -> list[int]:
    """Let neighbours over edges similar to the question join `entities`, which is changed; return
    the numbers of these edges, the oldest first. Also records a step for each."""
    config = state.config
    memory = state.memory
    with state.searching():
        similarity = state.similar([state.question.text], memory.edge_vectors)
    least = 0.0
    if len(similarity):
        least = float(np.quantile(similarity, config.quantile))
    taken: list[int] = []
    for _ in range(config.rounds):
        new = [edge for edge in memory.frontier(entities) if similarity[edge] >= least]
        if not new:
            break
        taken += new
        for edge in new:
            entity = _new_end(memory, edge, entities)
            first, second, _ = memory.edges[edge]
            entities |= {first, second}
            scores = {"similarity": float(similarity[edge])}
            state.step("expand", entity, scores, note=memory.edge_text(edge))
    return taken


def _elaborated_question(state: State, entities: Sequence[int], edges: Sequence[int]) -> list[str]:
    """Ask for the elaborated question; where the window is short, the newest relations are left
    out.

    Args:
        state: The search, which gets a step.
        entities: The entities that were reached.
        edges: The edges that were reached, the oldest first.

    Returns:
        The question in a list; [] where the model writes none.
    """
    memory = state.memory
    config = state.config
    searcher = state.tools.model("searcher")
    room = window_of(config.window, searcher) - config.question_tokens
    names = [memory.names[entity] for entity in entities]
    relations = [memory.edge_text(edge) for edge in edges]

    def request(n: int) -> Pieces:
        """The request with the first n lines: names, then relations."""
        shown_relations = relations[: max(0, n - len(names))]
        return state.asking.elaborate(names[:n], shown_relations)

    pieces, _ = fit_lines(request, len(names) + len(relations), room, searcher)
    with state.searching():
        response = state.ask_parsed(
            searcher, pieces, config.question_tokens, replies.parse_questions
        )
    questions = (response.found or [])[:1]
    state.step(
        "elaborate",
        None,
        {"replies": response.replies},
        tokens=response.tokens,
        note="; ".join([*response.notes, *(questions or ["no elaborated question"])]),
    )
    return questions


_NAVIGATIONS: dict[str, Callable[[State], Answer]] = {
    "reflection": lambda state: run_search(state, _reflection(state)),
    "entity-trial": lambda state: run_search(state, _entity_trials(state)),
    "graph-expansion": graph_expansion,
    # The segments of the question's entities alone:
    "none": lambda state: state.answer_from(state.start(share=1.0), "no navigation"),
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
        state = State(document, question, Memory.from_index(index), self.config, tools)
        return _NAVIGATIONS[self.config.navigation](state)

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
