"""The two other navigations of QRMeM 2.2.

Entity trial        no edges: the model is shown all entities and lists those to look up next, until their segments
                    answer, fill the window, or no longer change
Graph expansion     no reflection: neighbours over edges similar to the question join, round by round; the model writes
                    an elaborated question from them; segments are retrieved by the question and that one, and read
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.prompts import Pieces, prompt_tokens
from harness.types import Answer
from methods.qrmem import replies
from methods.qrmem.memory import normal
from methods.qrmem.search import NOT_PARSED, End, Moves, State, drive, fit_start
from methods.retry import fitting, window_of


def entity_trial(state: State) -> Answer:
    """Let the model choose entities until their segments answer."""
    return drive(state, _trials(state))


def _trials(state: State) -> Moves:
    mix = state.start(share=1.0)
    entities = list(state.entities)
    chosen: list[int] | None = None
    while True:
        verdict = state.ask(mix)
        if verdict is None:
            return End(mix, NOT_PARSED)
        if verdict.answer is not None:
            return End(mix, "answered", verdict.answer)
        if chosen is not None and len(mix) < len(state.memory.segments_of(entities)):
            return End(mix, "the window is full")
        yield mix
        chosen = _choose(state, mix, verdict.reason, entities)
        if chosen is None:
            return End(mix, NOT_PARSED)
        if not chosen or set(chosen) == set(entities):
            return End(mix, "the entities did not change")
        entities, before = chosen, mix
        mix = fit_start(state.memory.segments_of(entities), state.lengths, state.room, 1.0, state.similarity)
        if mix == before:
            return End(mix, "the segments did not change")
        state.left([k for k in before if k not in mix], "no chosen entity stands in it, or not all segments fit")
        state.added([k for k in mix if k not in before], by=entities)


def _choose(state: State, mix: list[int], reason: str, entities: list[int]) -> list[int] | None:
    """The entities to look up next; None if no reply could be parsed, [] if it names no entity of the memory."""
    memory, config = state.memory, state.config
    searcher = state.tools.model("searcher")
    chosen = [memory.names[e] for e in entities]
    others = [name for e, name in enumerate(memory.names) if e not in entities]
    window = window_of(config.window, searcher) - config.entity_tokens
    # What does not fit goes: first segments (the model has read them already), then entities from the end of the text.
    texts = [state.texts[k] for k in mix]
    listed, shown = list(others), list(texts)
    while (shown or listed) and prompt_tokens(state.asking.trial(shown, reason, chosen, listed), searcher) > window:
        if len(shown) > 1 or not listed:
            shown.pop()
        else:
            listed = listed[: len(listed) // 2]
    pieces = state.asking.trial(shown, reason, chosen, listed)
    with state.searching():
        response = state.ask_parsed(searcher, pieces, config.entity_tokens, replies.names)
    by_form = {normal(m): e for e, mentions in enumerate(memory.mentions) for m in mentions}
    forms = [normal(name) for name in response.found or ()]
    named = list(dict.fromkeys(by_form[form] for form in forms if form in by_form))
    notes = [*response.notes, ", ".join(memory.names[e] for e in named) or "none of the memory's entities"]
    for left, all_, what in ((len(shown), len(texts), "segments"), (len(listed), len(others), "other entities")):
        if left < all_:
            notes.append(f"{left} of {all_} {what} were shown")
    scores = {"entities": len(named), "replies": response.replies}
    state.step("choose", None, scores, tokens=response.tokens, note="; ".join(notes))
    return None if response.found is None else named


def graph_expansion(state: State) -> Answer:
    """Expand by similar edges, elaborate the question, retrieve, read."""
    config, memory = state.config, state.memory
    entities = set(state.entities)
    state.step("start", None, {"entities": len(entities)}, note=_first(state))
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
            state.step("expand", entity, {"similarity": float(similarity[edge])}, note=memory.edge_text(edge))
    query = [state.question.text, *_elaborated(state, sorted(entities), taken)]
    with state.searching():
        ranking = state.similar(query, memory.segment_vectors)
    order = [int(k) for k in np.argsort(-ranking, kind="stable")[: config.top_k]]
    kept = fit_start(sorted(order), state.lengths, state.room, 1.0, ranking)
    state.added(kept, {k: float(ranking[k]) for k in kept})
    return state.read(kept, "expanded")


def _first(state: State) -> str:
    names = ", ".join(state.memory.names[e] for e in state.entities)
    note = f"entities of the question: {names}" if names else "the memory has no entity of the question"
    return "; ".join([*state.memory.notes, note])


def _elaborated(state: State, entities: Sequence[int], edges: Sequence[int]) -> list[str]:
    """The elaborated question; [] where no reply could be parsed. The newest edges go where the window is short."""
    memory, config = state.memory, state.config
    searcher = state.tools.model("searcher")
    room = window_of(config.window, searcher) - config.question_tokens
    names, relations = [memory.names[e] for e in entities], [memory.edge_text(edge) for edge in edges]

    def pieces_of(n: int) -> Pieces:
        return state.asking.elaborate(names[:n], relations[: max(0, n - len(names))])

    pieces, _ = fitting(pieces_of, len(names) + len(relations), room, searcher)
    with state.searching():
        response = state.ask_parsed(searcher, pieces, config.question_tokens, replies.questions)
    questions = (response.found or [])[:1]
    notes = [*response.notes, *(questions or ["no elaborated question"])]
    state.step("elaborate", None, {"replies": response.replies}, tokens=response.tokens, note="; ".join(notes))
    return questions
