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
from pocket.world.templates import SECTION, schema

_SECTIONS = ("Data", "Method", "Training", "Experiments", "Results")
_SHARE_UNANSWERABLE = 0.12  # share of questions that the paper does not answer
_SHARE_OF_COMPARISONS = 0.35  # share of the two-hop questions that compare two things
_SHARE_OF_SAME = 0.6  # share of the comparisons that ask whether two things have the same object
# From so many characters on a paper has an abstract, an introduction and a conclusion.
_CHARACTERS_OF_LONG_PAPER = 2000


def make(order: Order) -> Sample:
    """Make a paper and questions about it; the gold spans are whole paragraphs, and the gold
    answers have keys as Qasper's: the type of the answer and the text of the evidence."""
    characters = characters_for_facts(order.characters)
    if order.characters >= _CHARACTERS_OF_LONG_PAPER:  # room for abstract, introduction, conclusion
        characters -= _CHARACTERS_OF_LONG_PAPER // 5
    growing_text = GrowingText(schema("paper"), order.dice, characters, title_characters=0)
    proved_questions = [
        _ask_question(order, growing_text) for _ in range(questions_that_fit(order))
    ]
    growing_text.fill(proved_questions)
    page = _lay_out_paper(order, growing_text)
    examples = []
    for number, proved_question in enumerate(proved_questions):
        supporting = spans_of_facts([page], proved_question.supports)
        answer_type = _answer_type(proved_question)
        answers = (proved_question.answer, *aliases(proved_question.answer))
        if answer_type != "extractive":
            answers = (proved_question.answer.capitalize(),)  # "Yes", as Qasper has it
        evidence = [page.document.text[s.start : s.end] for s in supporting]
        extra_gold = {
            "hops": proved_question.hops,
            "type": proved_question.kind,
            "answer_type": answer_type,
            "evidence": evidence,
        }
        question = Question(f"{order.id}-q{number}", proved_question.text, (order.id,))
        examples.append(Example(question, Gold(answers, supporting, extra_gold)))
    return Sample(
        pages=(page,),
        examples=tuple(examples),
        asked=tuple(proved_questions),
        base=growing_text.base,
    )


def _answer_type(question: ProvedQuestion) -> str:
    """What kind of answer Qasper would call it: "none", "boolean" or "extractive"."""
    if question.kind == "unanswerable":
        return "none"
    if question.answer in ("yes", "no"):
        return "boolean"
    return "extractive"


def _ask_question(order: Order, growing_text: GrowingText) -> ProvedQuestion:
    """Add facts for a question of a random kind to the text, and return the question; some
    questions are about what the paper does not say.

    Args:
        order: Says which numbers of hops a question may have.
        growing_text: The text, which gets the facts.
    """
    dice = order.dice
    if dice.chance(_SHARE_UNANSWERABLE):
        return growing_text.ask_nothing()
    hops = dice.pick(order.hops)
    if hops == 2 and dice.chance(_SHARE_OF_COMPARISONS):
        if dice.chance(_SHARE_OF_SAME):
            return growing_text.ask_same()
        return growing_text.ask_which(hops=1)
    return growing_text.ask_path(hops)


def _lay_out_paper(order: Order, growing_text: GrowingText) -> Page:
    """Lay out the paper: sections in a fixed order, each with a paragraph for every subject that it
    says something of; the section's title is printed above its first paragraph. A long paper has an
    abstract, an introduction and a conclusion that state no fact. The rest of its length is filled.

    Args:
        order: The length and id of the paper.
        growing_text: Its facts and sentences.
    """
    dice = order.dice
    paragraphs: list[Paragraph] = []
    for subject in dice.shuffled([*growing_text.facts_by_subject]):
        paragraph_of_section: dict[str, Paragraph] = {}  # section -> what it says of the subject
        for fact, sentence in growing_text.facts_by_subject[subject]:
            section = growing_text.schema.relations[fact.relation].lines[SECTION][0]
            paragraph_on_subject = paragraph_of_section.setdefault(
                section, Paragraph(section, headed=False)
            )
            paragraph_on_subject.lines.append((fact, sentence))
        paragraphs += paragraph_of_section.values()
    paragraphs.sort(key=lambda paragraph: _SECTIONS.index(paragraph.title))
    section_before = ""
    for paragraph in paragraphs:
        paragraph.headed = paragraph.title != section_before  # the first of its section
        section_before = paragraph.title
    if order.characters >= _CHARACTERS_OF_LONG_PAPER:
        abstract = Paragraph("Abstract", [(None, filler(dice))])
        introduction = Paragraph("Introduction", [(None, filler(dice))])
        conclusion = Paragraph("Conclusion", [(None, filler(dice))])
        paragraphs = [abstract, introduction, *paragraphs, conclusion]
    pad(paragraphs, order.characters, dice)
    title = f"{growing_text.draw_thing('system')}: systems and corpora in comparison"
    return lay_out(order.id, paragraphs, title=title)
