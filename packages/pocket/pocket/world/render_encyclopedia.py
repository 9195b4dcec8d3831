"""Encyclopedic paragraphs, one a thing, and questions of 1 to 4 hops: MuSiQue, HotpotQA and
2WikiMultihopQA.

    make(order).rows[0]     a row in the official format of the data set that order.kind names
    make_retrieved(order)   eight titled documents for one question, as a retriever might return them

HotpotQA and 2WikiMultihopQA have comparisons among their questions of two hops, and 2WikiMultihopQA
comparisons of two bridges among those of four.
"""

from collections.abc import Sequence

from harness.types import Example, Gold, Question
from pocket.world.fact_proofs import INVERSE, Path
from pocket.world.facts_and_distractors import GrowingText, ProvedQuestion
from pocket.world.layout import (
    Order,
    Page,
    Paragraph,
    Sample,
    characters_for_facts,
    lay_out,
    pad,
    spans_of_facts,
)
from pocket.world.names import aliases
from pocket.world.templates import schema

_COMPARED = 0.4  # share of comparisons among the questions that can be one
_DOCUMENTS = 8  # that are retrieved
_HEAD = 3  # a title's line break and the blank line after the paragraph


def make(order: Order) -> Sample:
    """Make a document of titled paragraphs, one a subject, with one question and its row in the
    official format of the data set. It has at least two subjects more than the question has
    supporting facts."""
    characters = characters_for_facts(order.characters)
    growth = GrowingText(schema("encyclopedia"), order.dice, characters, _HEAD)
    question = _ask_question(order, growth)
    growth.fill([question], min_subjects=len(question.supports) + 2)
    paragraphs = paragraphs_of(growth)
    pad(paragraphs, order.characters, order.dice)
    name = order.id
    answers: tuple[str, ...] = (question.answer,)
    if order.kind == "musique":
        name = f"{question.hops}hop__{order.id}"
        answers = (question.answer, *aliases(question.answer))
    page = lay_out(name, paragraphs)
    extra = {"hops": question.hops, "type": question.kind}
    gold = Gold(answers, spans_of_facts([page], question.supports), extra)
    example = Example(Question(name, question.text, (name,)), gold)
    row = _WRITERS[order.kind](name, question, paragraphs, page)
    return Sample((page,), (example,), (question,), growth.base, (row,))


def make_retrieved(order: Order) -> Sample:
    """Make eight documents, each titled by its first paragraph, and one question whose supporting
    paragraphs are spread over them."""
    characters = characters_for_facts(order.characters)
    growth = GrowingText(schema("encyclopedia"), order.dice, characters, _HEAD)
    source = growth.ask_path(order.dice.pick(order.hops))
    growth.fill([source], min_subjects=_DOCUMENTS)
    paragraphs = paragraphs_of(growth)
    pad(paragraphs, order.characters, order.dice)
    pages: list[Page] = []
    for at in range(_DOCUMENTS):
        share = paragraphs[at::_DOCUMENTS]
        page = lay_out(f"{order.id}-d{at}", share, title=share[0].title)
        pages.append(page)
    answers = (source.answer, *aliases(source.answer))
    extra = {"hops": source.hops, "type": source.kind}
    gold = Gold(answers, spans_of_facts(pages, source.supports), extra)
    question = Question(order.id, source.text, tuple(page.document.id for page in pages))
    return Sample(tuple(pages), (Example(question, gold),), (source,), growth.base)


def _ask_question(order: Order, growth: GrowingText) -> ProvedQuestion:
    """Add facts for a question of a random kind to the text, and return the question.

    Args:
        order: Says which numbers of hops and which data set; comparisons depend on both.
        growth: The text, which gets the facts.
    """
    hops = order.dice.pick(order.hops)
    if order.kind == "musique" or hops not in (2, 4) or not order.dice.chance(_COMPARED):
        return growth.ask_path(hops)
    if hops == 4:
        if order.kind == "2wikimultihopqa":
            return growth.ask_which(hops=2)
        return growth.ask_path(hops)
    if order.dice.chance(0.6):
        return growth.ask_which(hops=1)
    return growth.ask_same()


def paragraphs_of(growth: GrowingText) -> list[Paragraph]:
    """A paragraph for each subject of the text; subjects, and the facts of each, in random
    order."""
    dice = growth.dice
    paragraphs: list[Paragraph] = []
    for subject in dice.shuffled([*growth.subjects]):
        lines = dice.shuffled(growth.subjects[subject])
        paragraphs.append(Paragraph(subject, [*lines]))
    return paragraphs


def _musique(
    name: str, question: ProvedQuestion, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, object]:
    """The question and its document as a row of musique_ans_v1.0.

    Args:
        name: The id of the row.
        question: The question with its proof.
        paragraphs: The paragraphs of the document.
        page: The document, laid out.
    """
    needed = {page.paragraph_of[fact] for fact in question.supports}
    parts: list[dict[str, object]] = []
    for at, paragraph in enumerate(paragraphs):
        part: dict[str, object] = {
            "idx": at,
            "title": paragraph.title,
            "paragraph_text": paragraph.text,
            "is_supporting": at in needed,
        }
        parts.append(part)
    return {
        "id": name,
        "paragraphs": parts,
        "question": question.text,
        "question_decomposition": _decomposition(question, page),
        "answer": question.answer,
        "answer_aliases": list(aliases(question.answer)),
        "answerable": True,
    }


def _decomposition(question: ProvedQuestion, page: Page) -> list[dict[str, object]]:
    """The steps of a question as MuSiQue has them, where "#1" stands for the answer to the first:

        [{"id": 1, "question": "Velindra >> author", "answer": "Toren", "paragraph_support_idx": 4},
         {"id": 2, "question": "#1 >> born", "answer": "Kelford", "paragraph_support_idx": 0}]

    Args:
        question: A question that follows one path.
        page: The document, laid out.
    """
    assert isinstance(question.query, Path)
    subject = question.query.start
    rows: list[dict[str, object]] = []
    steps = zip(question.query.steps, question.supports, strict=True)
    for number, (step, fact) in enumerate(steps, start=1):
        relation = step.rpartition(".")[2]
        answer = fact.object
        if step.startswith(INVERSE):
            relation += " of"
            answer = fact.subject
        row: dict[str, object] = {
            "id": number,
            "question": f"{subject} >> {relation}",
            "answer": answer,
            "paragraph_support_idx": page.paragraph_of[fact],
        }
        rows.append(row)
        subject = f"#{number}"
    return rows


def _supporting_facts(
    question: ProvedQuestion, paragraphs: Sequence[Paragraph], page: Page
) -> list[list[object]]:
    """[title, number of the sentence in its paragraph] of each supporting fact, as HotpotQA has
    them.

    Args:
        question: The question with its proof.
        paragraphs: The paragraphs of the document.
        page: The document, laid out.
    """
    places: list[list[object]] = []
    for fact in question.supports:
        paragraph = paragraphs[page.paragraph_of[fact]]
        facts = [stated for stated, _ in paragraph.lines]
        places.append([paragraph.title, facts.index(fact)])
    return places


def _hotpotqa(
    name: str, question: ProvedQuestion, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, object]:
    """The question and its document as a row of hotpot_dev_distractor_v1, where all sentences of a
    paragraph but the first begin with a space.

    Args:
        name: The id of the row.
        question: The question with its proof.
        paragraphs: The paragraphs of the document.
        page: The document, laid out.
    """
    context: list[list[object]] = []
    for paragraph in paragraphs:
        sentences: list[str] = []
        for _, sentence in paragraph.lines:
            if sentences:
                sentence = f" {sentence}"
            sentences.append(sentence)
        context.append([paragraph.title, sentences])
    kind = "comparison"
    if question.kind == "path":
        kind = "bridge"
    level = "easy"
    if question.hops > 1:
        level = "hard"
    return {
        "_id": name,
        "answer": question.answer,
        "question": question.text,
        "supporting_facts": _supporting_facts(question, paragraphs, page),
        "context": context,
        "type": kind,
        "level": level,
    }


def _twowiki(
    name: str, question: ProvedQuestion, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, object]:
    """The question and its document as a row of 2WikiMultihopQA's dev.json, with sentences without
    spaces around them, and the evidence as triples.

    Args:
        name: The id of the row.
        question: The question with its proof.
        paragraphs: The paragraphs of the document.
        page: The document, laid out.
    """
    kind = "comparison"
    if question.kind == "path":
        kind = "compositional"
    elif len(question.supports) == 4:
        kind = "bridge_comparison"
    context: list[list[object]] = []
    for paragraph in paragraphs:
        sentences = [sentence for _, sentence in paragraph.lines]
        context.append([paragraph.title, sentences])
    evidences: list[list[str]] = []
    for fact in question.supports:
        relation = fact.relation.rpartition(".")[2]
        evidences.append([fact.subject, relation, fact.object])
    return {
        "_id": name,
        "type": kind,
        "question": question.text,
        "context": context,
        "supporting_facts": _supporting_facts(question, paragraphs, page),
        "evidences": evidences,
        "answer": question.answer,
    }


_WRITERS = {"musique": _musique, "hotpotqa": _hotpotqa, "2wikimultihopqa": _twowiki}
"""Kind of text -> what writes its row in the data set's official format."""
