"""Encyclopedic paragraphs, one a thing, and questions of 1 to 4 hops: MuSiQue, HotpotQA and
2WikiMultihopQA.

    make(order).rows[0]     a row in the official format of the data set that order.kind names
    make_retrieved(order)   eight titled documents for one question, as a retriever might return them

HotpotQA and 2WikiMultihopQA have comparisons among their questions of two hops, and 2WikiMultihopQA
comparisons of two bridges among those of four.
"""

from collections.abc import Sequence
from typing import Any

from harness.types import Example, Gold, Question
from pocket.world.fact_proofs import INVERSE, Path
from pocket.world.facts_and_distractors import Asked, GrowingText
from pocket.world.layout import Order, Page, Paragraph, Sample, facts_room, lay_out, pad, spans
from pocket.world.names import aliases
from pocket.world.templates import schema

_COMPARED = 0.4  # share of comparisons among the questions that can be one
_DOCUMENTS = 8  # that are retrieved
_HEAD = 3  # a title's line break and the blank line after the paragraph


def make(order: Order) -> Sample:
    """A document of titled paragraphs about at least two subjects more than the evidence has facts;
    one question."""
    growth = GrowingText(schema("encyclopedia"), order.dice, facts_room(order.room), _HEAD)
    question = _ask_question(order, growth)
    growth.fill([question], least=len(question.supports) + 2)
    paragraphs = paragraphs_of(growth)
    pad(paragraphs, order.room, order.dice)
    name = f"{question.hops}hop__{order.id}" if order.kind == "musique" else order.id
    page = lay_out(name, paragraphs)
    writer = {"musique": _musique, "hotpotqa": _hotpotqa, "2wikimultihopqa": _twowiki}[order.kind]
    answers = (
        (question.answer, *aliases(question.answer))
        if order.kind == "musique"
        else (question.answer,)
    )
    gold = Gold(
        answers, spans([page], question.supports), {"hops": question.hops, "type": question.kind}
    )
    example = Example(Question(name, question.text, (name,)), gold)
    return Sample(
        (page,), (example,), (question,), growth.base, (writer(name, question, paragraphs, page),)
    )


def make_retrieved(order: Order) -> Sample:
    """Eight documents, each titled by its first paragraph, and one question whose evidence is
    spread over them."""
    growth = GrowingText(schema("encyclopedia"), order.dice, facts_room(order.room), _HEAD)
    source = growth.ask_path(order.dice.pick(order.hops))
    growth.fill([source], least=_DOCUMENTS)
    paragraphs = paragraphs_of(growth)
    pad(paragraphs, order.room, order.dice)
    shares: list[list[Paragraph]] = [paragraphs[at::_DOCUMENTS] for at in range(_DOCUMENTS)]
    pages = tuple(
        lay_out(f"{order.id}-d{at}", share, title=share[0].title) for at, share in enumerate(shares)
    )
    answers = (source.answer, *aliases(source.answer))
    gold = Gold(answers, spans(pages, source.supports), {"hops": source.hops, "type": source.kind})
    question = Question(order.id, source.text, tuple(page.document.id for page in pages))
    return Sample(pages, (Example(question, gold),), (source,), growth.base)


def _ask_question(order: Order, growth: GrowingText) -> Asked:
    """Add facts for a question of a random kind to the growing text, with hops that the order
    allows; return it."""
    hops = order.dice.pick(order.hops)
    if order.kind == "musique" or hops not in (2, 4) or not order.dice.chance(_COMPARED):
        return growth.ask_path(hops)
    if hops == 4:
        return growth.ask_which(2) if order.kind == "2wikimultihopqa" else growth.ask_path(hops)
    return growth.ask_which(1) if order.dice.chance(0.6) else growth.ask_same()


def paragraphs_of(growth: GrowingText) -> list[Paragraph]:
    """A paragraph for each subject, its facts in any order; the paragraphs in any order."""
    dice = growth.dice
    return [
        Paragraph(subject, list(dice.shuffled(growth.subjects[subject])))
        for subject in dice.shuffled([*growth.subjects])
    ]


def _musique(
    name: str, question: Asked, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, Any]:
    """A row as in musique_ans_v1.0; the steps are questions like "Velindra >> author"."""
    needed = {page.place[fact] for fact in question.supports}
    assert isinstance(question.query, Path)
    subject, steps = question.query.start, []
    for at, (step, fact) in enumerate(
        zip(question.query.steps, question.supports, strict=True), start=1
    ):
        back = step.startswith(INVERSE)
        relation = step.rpartition(".")[2] + (" of" if back else "")
        steps.append(
            {
                "id": at,
                "question": f"{subject} >> {relation}",
                "answer": fact.subject if back else fact.object,
                "paragraph_support_idx": page.place[fact],
            }
        )
        subject = f"#{at}"
    return {
        "id": name,
        "paragraphs": [
            {"idx": at, "title": p.title, "paragraph_text": p.text, "is_supporting": at in needed}
            for at, p in enumerate(paragraphs)
        ],
        "question": question.text,
        "question_decomposition": steps,
        "answer": question.answer,
        "answer_aliases": list(aliases(question.answer)),
        "answerable": True,
    }


def _supporting_facts(
    question: Asked, paragraphs: Sequence[Paragraph], page: Page
) -> list[list[Any]]:
    """[title, sentence number] of each supporting fact."""
    places = [(page.place[fact], fact) for fact in question.supports]
    return [
        [paragraphs[at].title, [f for f, _ in paragraphs[at].lines].index(fact)]
        for at, fact in places
    ]


def _hotpotqa(
    name: str, question: Asked, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, Any]:
    """A row as in hotpot_dev_distractor_v1: all sentences but the first of a paragraph begin with a
    space."""
    return {
        "_id": name,
        "answer": question.answer,
        "question": question.text,
        "supporting_facts": _supporting_facts(question, paragraphs, page),
        "context": [
            [p.title, [" " * (at > 0) + s for at, (_, s) in enumerate(p.lines)]] for p in paragraphs
        ],
        "type": "bridge" if question.kind == "path" else "comparison",
        "level": "hard" if question.hops > 1 else "easy",
    }


def _twowiki(
    name: str, question: Asked, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, Any]:
    """A row as in 2WikiMultihopQA's dev.json: sentences without spaces around them, and the
    evidence triples."""
    comparison = "bridge_comparison" if len(question.supports) == 4 else "comparison"
    return {
        "_id": name,
        "type": "compositional" if question.kind == "path" else comparison,
        "question": question.text,
        "context": [[p.title, [s for _, s in p.lines]] for p in paragraphs],
        "supporting_facts": _supporting_facts(question, paragraphs, page),
        "evidences": [
            [f.subject, f.relation.rpartition(".")[2], f.object] for f in question.supports
        ],
        "answer": question.answer,
    }
