"""Papers with titled sections, numbers, yes/no and unanswerable questions, as in Qasper.

Gold.extra: answer_type (extractive, boolean, none), evidence (the texts of the paragraphs that
prove the answer).
"""

from harness.types import Example, Gold, Question
from pocket.world.facts_and_distractors import Asked, GrowingText
from pocket.world.layout import (
    Order,
    Page,
    Paragraph,
    Sample,
    facts_room,
    filler,
    lay_out,
    pad,
    questions_that_fit,
    spans,
)
from pocket.world.names import aliases
from pocket.world.templates import schema

_SECTIONS = ("Data", "Method", "Training", "Experiments", "Results")
_NOTHING = 0.12  # share of questions that the paper does not answer
_LONG = 2000  # characters from which on a paper has an abstract, an introduction and a conclusion


def make(order: Order) -> Sample:
    """A paper and questions about it; evidence is whole paragraphs."""
    room = facts_room(order.room)
    if order.room >= _LONG:
        room -= _LONG // 5
    growth = GrowingText(schema("paper"), order.dice, room, head=0)
    sources = [_ask_question(order, growth) for _ in range(questions_that_fit(order))]
    growth.fill(sources)
    page = _lay_out(order, growth)
    examples = []
    for number, source in enumerate(sources):
        supporting = spans([page], source.supports)
        kind = _answer_type(source)
        answers = (source.answer, *aliases(source.answer))
        if kind != "extractive":
            answers = (source.answer.capitalize(),)  # as Qasper has them
        evidence = [page.document.text[s.start : s.end] for s in supporting]
        extra = {
            "hops": source.hops,
            "type": source.kind,
            "answer_type": kind,
            "evidence": evidence,
        }
        question = Question(f"{order.id}-q{number}", source.text, (order.id,))
        examples.append(Example(question, Gold(answers, supporting, extra)))
    return Sample((page,), tuple(examples), tuple(sources), growth.base)


def _answer_type(question: Asked) -> str:
    """none, boolean or extractive: what kind of answer Qasper would call it."""
    if question.kind == "unanswerable":
        return "none"
    if question.answer in ("yes", "no"):
        return "boolean"
    return "extractive"


def _ask_question(order: Order, growth: GrowingText) -> Asked:
    """Add facts for a question of a random kind to the growing text; return the question with its
    proof."""
    dice = order.dice
    if dice.chance(_NOTHING):
        return growth.ask_nothing()
    hops = dice.pick(order.hops)
    if hops == 2 and dice.chance(0.35):
        if dice.chance(0.6):
            return growth.ask_same()
        return growth.ask_which(1)
    return growth.ask_path(hops)


def _lay_out(order: Order, growth: GrowingText) -> Page:
    """Sections of paragraphs, one for each subject that the section says something of."""
    dice = order.dice
    paragraphs: list[Paragraph] = []
    for subject in dice.shuffled([*growth.subjects]):
        parts: dict[str, Paragraph] = {}
        for fact, sentence in growth.subjects[subject]:
            title = growth.schema.relations[fact.relation].lines["#"][0]
            parts.setdefault(title, Paragraph(title, headed=False)).lines.append((fact, sentence))
        paragraphs += parts.values()
    paragraphs.sort(key=lambda paragraph: _SECTIONS.index(paragraph.title))
    title = ""
    for paragraph in paragraphs:
        paragraph.headed = paragraph.title != title  # the first of its section
        title = paragraph.title
    if order.room >= _LONG:
        abstract = Paragraph("Abstract", [(None, filler(dice))])
        introduction = Paragraph("Introduction", [(None, filler(dice))])
        conclusion = Paragraph("Conclusion", [(None, filler(dice))])
        paragraphs = [abstract, introduction, *paragraphs, conclusion]
    pad(paragraphs, order.room, dice)
    title = f"{growth.thing('system')}: systems and corpora in comparison"
    return lay_out(order.id, paragraphs, title=title)
