"""QRMeM as the engine sees it.

Algorithm 1 of QRMeM: read, reflect on what is missing, follow the edge that fits it best, read
again.

    S_mix <- S_imp, the segments of the question's entities
    until the model says that S_mix answers, or the entity set was updated `max_trials` times, or no
    edge leads on:
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
                    an elaborated question from them; segments are retrieved by the question and
                    that one, and read

Its skills are played with the method's own prompts. The texts of their scenes, lists a line an item
and "" for none (pocket/tasks/entity_memory.py):
"entities"    summary, questions, segment              "relations"   summary, entities, questions, segment
"doubts"      summary, segment, entities, relations    "fusion"      summary, segment, relation, segment, relation
"reflection"  segments                                 "trial"       reason, chosen, others, segments
"elaborated"  entities, relations
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from harness.entities.recogniser import install_problem, packages
from harness.errors import Missing
from harness.method import Index, Indexes, IndexTools, Needs, Tools
from harness.method.training import Scene, Skill
from harness.prompts import Pieces, prompt_tokens
from harness.types import Answer, Document, Question
from methods import reading, summary
from methods.qrmem import replies
from methods.qrmem.build import build_memory
from methods.qrmem.config import QRMeMConfig
from methods.qrmem.memory import Memory, name_key
from methods.qrmem.prompts import PROMPTS, Asking, Relation
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
from methods.reading import request_skill
from methods.retrieval import best_first
from methods.retry import fit_lines, window_of
from methods.summary import SUMMARY


def skills(config: QRMeMConfig) -> list[Skill]:
    """The skills of QRMeM: one for each kind of request."""

    def asking(scene: Scene, summary: str = "") -> Asking:
        return Asking(config, scene.question, summary)

    def entities(scene: Scene) -> Pieces:
        summary, guide, segment = scene.texts
        return asking(scene, summary).entities(segment, guide.splitlines())

    def relations(scene: Scene) -> Pieces:
        summary, names, guide, segment = scene.texts
        return asking(scene, summary).relations(segment, names.splitlines(), guide.splitlines())

    def doubts(scene: Scene) -> Pieces:
        summary, segment, names, triples = scene.texts
        return asking(scene, summary).questions(segment, names.splitlines(), triples.splitlines())

    def fusion(scene: Scene) -> Pieces:
        summary, first, text, second, other = scene.texts
        return asking(scene, summary).fusion_questions(
            Relation(first, text), Relation(second, other)
        )

    def fused(scene: Scene) -> list[str]:
        return [asking(scene).fusion_relation()]

    def ask(scene: Scene) -> Pieces:
        return asking(scene).ask(scene.texts, scene.task.instruction)

    def trial(scene: Scene) -> Pieces:
        reason, chosen, others, *segments = scene.texts
        return asking(scene).trial(segments, reason, chosen.splitlines(), others.splitlines())

    def elaborate(scene: Scene) -> Pieces:
        names, triples = scene.texts
        return asking(scene).elaborate(names.splitlines(), triples.splitlines())

    return [
        request_skill("qrmem entities", "entities", "builder", entities),
        request_skill("qrmem relations", "relations", "builder", relations),
        request_skill("qrmem questions", "doubts", "builder", doubts),
        request_skill("qrmem fusion", "fusion", "builder", fusion, fused),
        request_skill("qrmem ask", "reflection", "reader", ask),
        request_skill("qrmem entity trial", "trial", "searcher", trial),
        request_skill("qrmem elaborated question", "elaborated", "searcher", elaborate),
    ]


def _reflection(state: State) -> Moves:
    """The moves of algorithm 1: ask; until the segments answer, follow the edge nearest to question
    and gap, read."""
    memory = state.memory
    start = state.start(state.config.start_share)
    entities, mix = list(state.entities), list(start)
    added: dict[int, float] = {}
    reason, fresh = "", True
    while True:
        if fresh:
            verdict = state.ask(mix)
            if isinstance(verdict, End):
                return verdict
            reason = verdict
        frontier = memory.frontier(set(entities))
        if not frontier:
            return End(mix, "no edge leads on")
        yield mix
        edge, score = _best_edge(state, frontier, entities, reason)
        a, b, _ = memory.edges[edge]
        entity = b if a in entities else a
        entities.append(entity)
        new = {k: score for k in memory.places[entity] if k not in mix}
        added = fit_added(start, added | new, state.lengths, state.room)
        before, mix = mix, sorted({*start, *added})
        fresh = mix != before
        note = memory.edge_text(edge) + ("" if fresh else " (nothing new to read)")
        state.step("expand", entity, {"similarity": score, "segments": len(mix)}, note=note)
        state.drop_segments(
            [k for k in before if k not in mix], "its score is the lowest, and not all segments fit"
        )
        state.add_segments([k for k in mix if k not in before], added, [entity])


def _best_edge(
    state: State, frontier: list[int], entities: list[int], reason: str
) -> tuple[int, float]:
    """The edge of `frontier` most similar to question, `reason` and `entities`, and how similar; of
    equals the first.

    Without reflection the query is Q alone: "only relying on the query to traverse the graph"
    (QRMeM 3.5).
    """
    query = [state.question.text]
    if state.config.reflection:
        query += [*([reason] if reason else []), ", ".join(state.memory.names[e] for e in entities)]
    with state.searching():
        scores = state.similar(query, state.memory.edge_vectors[frontier])
    best = int(scores.argmax())
    return frontier[best], float(scores[best])


def _entity_trials(state: State) -> Moves:
    """The moves of the entity trial: ask; until the segments answer, read those of entities that
    the model names."""
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
        entities, before = chosen, mix
        mix = fit_start(
            state.memory.segments_of(entities), state.lengths, state.room, 1.0, state.similarity
        )
        if mix == before:
            return End(mix, "the segments did not change")
        state.drop_segments(
            [k for k in before if k not in mix],
            "no chosen entity stands in it, or not all segments fit",
        )
        state.add_segments([k for k in mix if k not in before], by=entities)


def _choose_entities(
    state: State, mix: list[int], reason: str, entities: list[int]
) -> list[int] | None:
    """The entities to look up next; None if no reply could be parsed, [] if it names none; mix: the
    segments read."""
    memory, config = state.memory, state.config
    searcher = state.tools.model("searcher")
    chosen = [memory.names[e] for e in entities]
    others = [name for e, name in enumerate(memory.names) if e not in entities]
    window = window_of(config.window, searcher) - config.entity_tokens
    # What does not fit goes: first segments (the model has read them already), then entities from
    # the end of the text.
    texts = [state.texts[k] for k in mix]
    listed, shown = list(others), list(texts)
    while (shown or listed) and prompt_tokens(
        state.asking.trial(shown, reason, chosen, listed), searcher
    ) > window:
        if len(shown) > 1 or not listed:
            shown.pop()
        else:
            listed = listed[: len(listed) // 2]
    pieces = state.asking.trial(shown, reason, chosen, listed)
    with state.searching():
        response = state.ask_parsed(searcher, pieces, config.entity_tokens, replies.parse_names)
    by_form = {name_key(m): e for e, mentions in enumerate(memory.mentions) for m in mentions}
    forms = [name_key(name) for name in response.found or ()]
    named = list(dict.fromkeys(by_form[form] for form in forms if form in by_form))
    notes = [
        *response.notes,
        ", ".join(memory.names[e] for e in named) or "none of the memory's entities",
    ]
    for left, all_, what in (
        (len(shown), len(texts), "segments"),
        (len(listed), len(others), "other entities"),
    ):
        if left < all_:
            notes.append(f"{left} of {all_} {what} were shown")
    scores = {"entities": len(named), "replies": response.replies}
    state.step("choose", None, scores, tokens=response.tokens, note="; ".join(notes))
    return None if response.found is None else named


def graph_expansion(state: State) -> Answer:
    """Expand by similar edges, elaborate the question, retrieve, read."""
    config, memory = state.config, state.memory
    entities = set(state.entities)
    names = ", ".join(memory.names[e] for e in state.entities)
    note = (
        f"entities of the question: {names}"
        if names
        else "the memory has no entity of the question"
    )
    state.step("start", None, {"entities": len(entities)}, note="; ".join([*memory.notes, note]))
    with state.searching():
        similarity = state.similar([state.question.text], memory.edge_vectors)
    least = float(np.quantile(similarity, config.quantile)) if len(similarity) else 0.0
    taken: list[int] = []
    for _ in range(config.rounds):
        new = [edge for edge in memory.frontier(entities) if similarity[edge] >= least]
        if not new:
            break
        taken += new
        for edge in new:
            a, b, _text = memory.edges[edge]
            entity = b if a in entities else a
            entities |= {a, b}
            state.step(
                "expand",
                entity,
                {"similarity": float(similarity[edge])},
                note=memory.edge_text(edge),
            )
    query = [state.question.text, *_elaborated_question(state, sorted(entities), taken)]
    with state.searching():
        ranking = state.similar(query, memory.segment_vectors)
    best = best_first(ranking)[: config.top_k]
    kept = fit_start(sorted(best), state.lengths, state.room, 1.0, ranking)
    state.add_segments(kept, {k: float(ranking[k]) for k in kept})
    return state.read(kept, "expanded")


def _elaborated_question(state: State, entities: Sequence[int], edges: Sequence[int]) -> list[str]:
    """The elaborated question as a list, [] without one; the newest of the `edges` reached go where
    space is short."""
    memory, config = state.memory, state.config
    searcher = state.tools.model("searcher")
    room = window_of(config.window, searcher) - config.question_tokens
    names = [memory.names[e] for e in entities]
    relations = [memory.edge_text(edge) for edge in edges]

    def pieces_of(n: int) -> Pieces:
        return state.asking.elaborate(names[:n], relations[: max(0, n - len(names))])

    pieces, _ = fit_lines(pieces_of, len(names) + len(relations), room, searcher)
    with state.searching():
        response = state.ask_parsed(
            searcher, pieces, config.question_tokens, replies.parse_questions
        )
    questions = (response.found or [])[:1]
    notes = [*response.notes, *(questions or ["no elaborated question"])]
    state.step(
        "elaborate",
        None,
        {"replies": response.replies},
        tokens=response.tokens,
        note="; ".join(notes),
    )
    return questions


_NAVIGATIONS: dict[str, Callable[[State], Answer]] = {
    "reflection": lambda state: run_search(state, _reflection(state)),
    "entity-trial": lambda state: run_search(state, _entity_trials(state)),
    "graph-expansion": graph_expansion,
    # The segments of the question's entities alone:
    "none": lambda state: state.read(state.start(share=1.0), "no navigation"),
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
    own_prompts = (
        SUMMARY,
        *PROMPTS,
    )  # the same for every navigation, so that all of them share one memory

    def index_packages(self) -> tuple[str, ...]:
        """The package of the named-entity tool, () for the rules."""
        return packages(self.config.recogniser)

    def problems(self) -> list[str]:
        """None; raises Missing where the named-entity tool is not installed."""
        if problem := install_problem(self.config.recogniser):
            raise Missing(problem, f"the named-entity tool {self.config.recogniser}")
        return []

    def skills(self) -> list[Skill]:
        """Summaries, what the memory and its navigation ask for, and reading."""
        return [
            *summary.skills(SUMMARY.of(self.config)),
            *skills(self.config),
            *reading.skills(self.config),
        ]

    def index(self, document: Document, tools: IndexTools) -> Index:
        """The memory of a document for the question it is built for."""
        if tools.question is None:
            raise LookupError("the memory is built for a question, and none was handed over")
        return build_memory(document, tools.question, self.config, tools).to_index()

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Navigate the memory by the configured navigation, then answer."""
        (document,), (index,) = documents, indexes
        state = State(document, question, Memory.from_index(index), self.config, tools)
        return _NAVIGATIONS[self.config.navigation](state)

    def stop_rule(self) -> dict[str, Any]:
        """Stop after max_trials updates of the entity set."""
        return {"max_trials": self.config.max_trials}

    def recorded_rule(self) -> dict[str, Any]:
        """The stop rule up to which searches are recorded: record_stops."""
        return {"max_trials": max(self.config.max_trials, self.config.record_stops or 0)}

    def replay(self, steps: Sequence[Mapping[str, Any]], **rule: Any) -> int | None:
        """The place of the last step of a search with at most max_trials updates (search.py)."""
        return replay(steps, rule["max_trials"])
