"""Papers with titled sections, numbers, yes/no and unanswerable questions, as in Qasper.

Gold.extra: answer_type (extractive, boolean, none), evidence (the texts of the paragraphs that
prove the answer).
"""

from harness.types import Example, Gold, Question
from pocket.world.facts_and_distractors import GrowingText, ProvedQuestion
from pocket.world.layout import (
    Order,
    Page,
    Paragraph,
    Sample,
    characters_for_facts,
    filler,
    lay_out,
    pad,
    questions_that_fit,
    spans_of_facts,
)
from pocket.world.names import aliases
from pocket.world.templates import schema

_SECTIONS = ("Data", "Method", "Training", "Experiments", "Results")
_NOTHING = 0.12  # share of questions that the paper does not answer
_COMPARISON = 0.35  # share of the two-hop questions that compare two things
_SAME = 0.6  # share of the comparisons that ask whether two things have the same object
_LONG = 2000  # characters from which on a paper has an abstract, an introduction and a conclusion


def make(order: Order) -> Sample:
    """Make a paper and questions about it; the gold spans are whole paragraphs."""
    characters = characters_for_facts(order.characters)
    if order.characters >= _LONG:
        characters -= _LONG // 5
    growth = GrowingText(schema("paper"), order.dice, characters, title_characters=0)
    sources = [_ask_question(order, growth) for _ in range(questions_that_fit(order))]
    growth.fill(sources)
    page = _lay_out(order, growth)
    examples = []
    for number, source in enumerate(sources):
        supporting = spans_of_facts([page], source.supports)
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


def _answer_type(question: ProvedQuestion) -> str:
    """What kind of answer Qasper would call it: "none", "boolean" or "extractive"."""
    if question.kind == "unanswerable":
        return "none"
    if question.answer in ("yes", "no"):
        return "boolean"
    return "extractive"


def _ask_question(order: Order, growth: GrowingText) -> ProvedQuestion:
    """Add facts for a question of a random kind to the text, and return the question; some
    questions are about what the paper does not say.

    Args:
        order: Says which numbers of hops a question may have.
        growth: The text, which gets the facts.
    """
    dice = order.dice
    if dice.chance(_NOTHING):
        return growth.ask_nothing()
    hops = dice.pick(order.hops)
    if hops == 2 and dice.chance(_COMPARISON):
        if dice.chance(_SAME):
            return growth.ask_same()
        return growth.ask_which(hops=1)
    return growth.ask_path(hops)


def _lay_out(order: Order, growth: GrowingText) -> Page:
    """Lay out the paper: sections in a fixed order, each with a paragraph for every subject that it
    says something of.

    Args:
        order: The length and id of the paper.
        growth: Its facts and sentences.
    """
    dice = order.dice
    paragraphs: list[Paragraph] = []
    for subject in dice.shuffled([*growth.subjects]):
        parts: dict[str, Paragraph] = {}  # section -> what it says of the subject
        for fact, sentence in growth.subjects[subject]:
            section = growth.schema.relations[fact.relation].lines["#"][0]
            part = parts.setdefault(section, Paragraph(section, headed=False))
            part.lines.append((fact, sentence))
        paragraphs += parts.values()
    paragraphs.sort(key=lambda paragraph: _SECTIONS.index(paragraph.title))
    section_before = ""
    for paragraph in paragraphs:
        paragraph.headed = paragraph.title != section_before  # the first of its section
        section_before = paragraph.title
    if order.characters >= _LONG:
        abstract = Paragraph("Abstract", [(None, filler(dice))])
        introduction = Paragraph("Introduction", [(None, filler(dice))])
        conclusion = Paragraph("Conclusion", [(None, filler(dice))])
        paragraphs = [abstract, introduction, *paragraphs, conclusion]
    pad(paragraphs, order.characters, dice)
    title = f"{growth.draw_thing('system')}: systems and corpora in comparison"
    return lay_out(order.id, paragraphs, title=title)
