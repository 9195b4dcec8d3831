"""Eight titled documents for one question, as a retriever might return them; the evidence is spread over them."""

from __future__ import annotations

from harness.types import Example, Gold, Question
from pocket.world.fact_graph import Growth
from pocket.world.layout import Paragraph, lay, pad, spans
from pocket.world.orders import Made, Order, facts_room
from pocket.world.render_encyclopedia import paragraphs_of
from pocket.world.templates import schema
from pocket.world.values import aliases

DOCUMENTS = 8


def make(order: Order) -> Made:
    """Eight documents, each titled by its first paragraph, and one question about all of them."""
    growth = Growth(schema("encyclopedia"), order.dice, facts_room(order.room), head=3)
    source = growth.ask_path(order.dice.pick(order.hops))
    growth.fill([source], least=DOCUMENTS)
    paragraphs = paragraphs_of(growth)
    pad(paragraphs, order.room, order.dice)
    shares: list[list[Paragraph]] = [paragraphs[at::DOCUMENTS] for at in range(DOCUMENTS)]
    pages = tuple(lay(f"{order.id}-d{at}", share, title=share[0].title) for at, share in enumerate(shares))
    answers = (source.answer, *aliases(source.answer))
    gold = Gold(answers, spans(pages, source.supports), {"hops": source.hops, "type": source.kind})
    question = Question(order.id, source.text, tuple(page.document.id for page in pages))
    return Made(pages, (Example(question, gold),), (source,), growth.base)
