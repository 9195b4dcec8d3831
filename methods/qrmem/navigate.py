"""Algorithm 1 of QRMeM: read, reflect on what is missing, follow the edge that fits it best, read again.

    S_mix <- S_imp, the segments of the question's entities
    until the model says that S_mix answers, or the entity set was updated `max_trials` times, or no edge leads on:
        R <- why not;  edge <- the one from E to another entity most similar to [Q; R; E];  E <- E u its entity
        S_add <- S_add u that entity's segments that are not read, with the edge's score;  S_mix <- what fits

E grows and is used throughout (the paper's E_s and E are one set here: docs/methods/qrmem.md#qrmem-navigation). An
update that adds no segment shows the model nothing new, so the request is not repeated: the last reason stays. If the
search ends without an answer, the shared reading prompt answers from the segments at hand.
"""

from __future__ import annotations

from harness.types import Answer
from methods.qrmem.desk import NOT_PARSED, Desk, fit
from methods.qrmem.trials import End, Moves, drive


def without_navigation(desk: Desk) -> Answer:
    """Answer from the segments of the question's entities."""
    return desk.read(desk.start(share=1.0), "no navigation")


def navigate(desk: Desk) -> Answer:
    """Reflect and follow edges until the question is answered."""
    return drive(desk, _moves(desk))


def _moves(desk: Desk) -> Moves:
    memory = desk.memory
    start = desk.start(desk.config.start_share)
    entities, mix = list(desk.entities), list(start)
    added: dict[int, float] = {}
    reason, fresh = "", True
    while True:
        if fresh:
            verdict = desk.ask(mix)
            if verdict is None:
                return End(mix, NOT_PARSED)
            if verdict.answer is not None:
                return End(mix, "answered", verdict.answer)
            reason = verdict.reason
        frontier = memory.frontier(set(entities))
        if not frontier:
            return End(mix, "no edge leads on")
        yield mix
        edge, score = _best(desk, frontier, entities, reason)
        a, b, _ = memory.edges[edge]
        entity = b if a in entities else a
        entities.append(entity)
        new = {k: score for k in memory.places[entity] if k not in mix}
        added = fit(start, added | new, desk.lengths, desk.room)
        before, mix = mix, sorted({*start, *added})
        fresh = mix != before
        note = memory.edge_text(edge) + ("" if fresh else " (nothing new to read)")
        desk.step("expand", entity, {"similarity": score, "segments": len(mix)}, note=note)
        desk.left([k for k in before if k not in mix], "its score is the lowest, and not all segments fit")
        desk.added([k for k in mix if k not in before], added, [entity])


def _best(desk: Desk, frontier: list[int], entities: list[int], reason: str) -> tuple[int, float]:
    """The edge of the frontier most similar to [Q; R; E], and how similar; of equals the one stated first.

    Without reflection the query is Q alone: "only relying on the query to traverse the graph" (QRMeM 3.5).
    """
    query = [desk.question.text]
    if desk.config.reflection:
        query += [*([reason] if reason else []), ", ".join(desk.memory.names[e] for e in entities)]
    with desk.searching():
        scores = desk.similar(query, desk.memory.edge_vectors[frontier])
    best = int(scores.argmax())
    return frontier[best], float(scores[best])
