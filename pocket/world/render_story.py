"""Stories in chapters, things passing from hand to hand in order, and questions with two answers, as in NarrativeQA.

"Who found the lantern Velax?"     ("Toren", "it was Toren")
"""

from __future__ import annotations

from harness.stats.rng import Dice
from harness.types import Example, Gold, Question
from pocket.world.fact_graph import Asked, Growth
from pocket.world.facts import Fact
from pocket.world.layout import Made, Order, Page, Paragraph, facts_room, lay, pad, questions_that_fit, spans
from pocket.world.templates import schema

_COMPARED = 0.15
_SCENE = (3, 7)  # facts a chapter
_STEP = 0.2  # how far apart, at most, the stations of a thing lie; the whole story is 1
_SECOND = {"town": "in {}", "spot": "in {}", "craft": "as a {}", "price": "for {}"}


def told(order: Order) -> tuple[Growth, list[Asked], Page]:
    """A story of the ordered length as it grew, the questions about it, and its page."""
    growth = Growth(schema("story"), order.dice, facts_room(order.room))
    questions = [_ask(order, growth) for _ in range(questions_that_fit(order))]
    growth.fill(questions)
    return growth, questions, _tell(order, growth)


def _ask(order: Order, growth: Growth) -> Asked:
    """One more question, with the hops the order allows."""
    hops = order.dice.pick(order.hops)
    if hops == 2 and order.dice.chance(_COMPARED):
        return growth.ask_which(1)
    return growth.ask_path(hops)


def make(order: Order) -> Made:
    """A story and questions about it. Gold: two wordings of the answer; the sentences that prove it."""
    growth, questions, page = told(order)
    examples = []
    for number, question in enumerate(questions):
        answers = (question.answer, _other_answer(question))
        gold = Gold(
            answers, spans([page], question.supports, whole=False), {"hops": question.hops, "type": question.kind}
        )
        examples.append(Example(Question(f"{order.id}-q{number}", question.text, (order.id,)), gold))
    return Made((page,), tuple(examples), tuple(questions), growth.base)


def _other_answer(question: Asked) -> str:
    kind = schema("story").relations[question.relation].object if question.kind == "path" else ""
    answered_by_object = bool(question.supports) and question.supports[-1].object == question.answer
    return (_SECOND.get(kind, "it was {}") if answered_by_object else "it was {}").format(question.answer)


def _tell(order: Order, growth: Growth) -> Page:
    """The facts in the order of time, cut into chapters."""
    lines = _in_time(growth, order.dice)
    chapters: list[Paragraph] = []
    at = 0
    while at < len(lines):
        count = order.dice.between(*_SCENE)
        chapters.append(Paragraph(f"Chapter {len(chapters) + 1}", [*lines[at : at + count]]))
        at += count
    pad(chapters, order.room, order.dice)
    return lay(order.id, chapters, title=f"The Tale of {growth.thing('person')}")


def _in_time(growth: Growth, dice: Dice) -> list[tuple[Fact, str]]:
    """A thing's facts one after the other from a random moment on, in the order of the table; a person's anywhere."""
    timed = []
    for facts in growth.subjects.values():
        relations = growth.schema.relations
        moment = dice.random()
        for fact, sentence in sorted(facts, key=lambda line: relations[line[0].relation].rank):
            person = relations[fact.relation].subject == "person"
            moment = dice.random() if person else moment + _STEP * dice.random()
            timed.append((moment, fact, sentence))
    timed.sort(key=lambda line: line[0])
    return [(fact, sentence) for _, fact, sentence in timed]
