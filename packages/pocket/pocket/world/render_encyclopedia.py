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

_SHARE_OF_COMPARISONS = 0.4  # share of comparisons among the questions that can be one
_N_DOCUMENTS = 8  # that are retrieved
_TITLE_CHARACTERS = 3  # a title's line break and the blank line after the paragraph


def make(order: Order) -> Sample:
    """Make a document of titled paragraphs, one for each subject, with one question and its row in
    the official format of the data set. It has at least two subjects more than the question has
    supporting facts. Only for MuSiQue the id starts with the hops ("2hop__..."), and the gold
    answers include other ways to give the answer ("212" for "212 kilometres")."""
    characters = characters_for_facts(order.characters)
    growing_text = GrowingText(schema("encyclopedia"), order.dice, characters, _TITLE_CHARACTERS)
    question = _ask_question(order, growing_text)
    growing_text.fill([question], min_subjects=len(question.supports) + 2)
    paragraphs = paragraphs_of(growing_text)
    pad(paragraphs, order.characters, order.dice)
    question_id = order.id
    answers: tuple[str, ...] = (question.answer,)
    if order.kind == "musique":
        question_id = f"{question.hops}hop__{order.id}"
        answers = (question.answer, *aliases(question.answer))
    page = lay_out(question_id, paragraphs)
    extra_gold = {"hops": question.hops, "type": question.kind}
    gold = Gold(answers, spans_of_facts([page], question.supports), extra_gold)
    example = Example(Question(question_id, question.text, (question_id,)), gold)
    row = _WRITERS[order.kind](question_id, question, paragraphs, page)
    return Sample(
        pages=(page,),
        examples=(example,),
        asked=(question,),
        base=growing_text.base,
        rows=(row,),
    )


def make_retrieved(order: Order) -> Sample:
    """Make eight documents, each titled by its first paragraph, and one question whose supporting
    paragraphs are spread over them."""
    characters = characters_for_facts(order.characters)
    growing_text = GrowingText(schema("encyclopedia"), order.dice, characters, _TITLE_CHARACTERS)
    proved_question = growing_text.ask_path(order.dice.pick(order.hops))
    growing_text.fill([proved_question], min_subjects=_N_DOCUMENTS)
    paragraphs = paragraphs_of(growing_text)
    pad(paragraphs, order.characters, order.dice)
    pages: list[Page] = []
    for number in range(_N_DOCUMENTS):
        paragraphs_of_document = paragraphs[number::_N_DOCUMENTS]  # every eighth
        page = lay_out(
            f"{order.id}-d{number}", paragraphs_of_document, title=paragraphs_of_document[0].title
        )
        pages.append(page)
    answers = (proved_question.answer, *aliases(proved_question.answer))
    extra_gold = {"hops": proved_question.hops, "type": proved_question.kind}
    gold = Gold(answers, spans_of_facts(pages, proved_question.supports), extra_gold)
    question = Question(order.id, proved_question.text, tuple(page.document.id for page in pages))
    return Sample(
        pages=tuple(pages),
        examples=(Example(question, gold),),
        asked=(proved_question,),
        base=growing_text.base,
    )


def _ask_question(order: Order, growing_text: GrowingText) -> ProvedQuestion:
    """Add facts for a question of a random kind to the text, and return the question.

    Args:
        order: Says which numbers of hops and which data set: MuSiQue has no comparisons, one of
            four hops (two for each thing) only 2WikiMultihopQA.
        growing_text: The text, which gets the facts.
    """
    hops = order.dice.pick(order.hops)
    can_compare = order.kind != "musique" and hops in (2, 4)
    if not can_compare or not order.dice.chance(_SHARE_OF_COMPARISONS):
        return growing_text.ask_path(hops)
    if hops == 4:
        if order.kind == "2wikimultihopqa":
            return growing_text.ask_which(hops=2)
        return growing_text.ask_path(hops)
    if order.dice.chance(0.6):
        return growing_text.ask_which(hops=1)
    return growing_text.ask_same()


def paragraphs_of(growing_text: GrowingText) -> list[Paragraph]:
    """A paragraph for each subject of the text; subjects, and the facts of each, in random
    order."""
    dice = growing_text.dice
    paragraphs: list[Paragraph] = []
    for subject in dice.shuffled([*growing_text.facts_by_subject]):
        facts_with_sentences = dice.shuffled(growing_text.facts_by_subject[subject])
        paragraphs.append(Paragraph(subject, [*facts_with_sentences]))
    return paragraphs


def _musique_row(
    row_id: str, question: ProvedQuestion, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, object]:
    """The question and its document as a row of musique_ans_v1.0.

    Args:
        row_id: The id of the row.
        question: The question with its proof.
        paragraphs: The paragraphs of the document.
        page: The document, laid out.
    """
    supporting_paragraphs = {page.paragraph_of[fact] for fact in question.supports}
    paragraph_rows: list[dict[str, object]] = []
    for number, paragraph in enumerate(paragraphs):
        paragraph_row: dict[str, object] = {
            "idx": number,
            "title": paragraph.title,
            "paragraph_text": paragraph.text,
            "is_supporting": number in supporting_paragraphs,
        }
        paragraph_rows.append(paragraph_row)
    return {
        "id": row_id,
        "paragraphs": paragraph_rows,
        "question": question.text,
        "question_decomposition": _musique_steps(question, page),
        "answer": question.answer,
        "answer_aliases": list(aliases(question.answer)),
        "answerable": True,
    }


def _musique_steps(question: ProvedQuestion, page: Page) -> list[dict[str, object]]:
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
    titles_and_numbers: list[list[object]] = []
    for fact in question.supports:
        paragraph = paragraphs[page.paragraph_of[fact]]
        facts = [stated for stated, _ in paragraph.lines]
        titles_and_numbers.append([paragraph.title, facts.index(fact)])
    return titles_and_numbers


def _hotpotqa_row(
    row_id: str, question: ProvedQuestion, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, object]:
    """The question and its document as a row of hotpot_dev_distractor_v1, where all sentences of a
    paragraph but the first begin with a space. Its type is "bridge" or "comparison", its level
    "easy" for one hop, else "hard".

    Args:
        row_id: The id of the row.
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
        "_id": row_id,
        "answer": question.answer,
        "question": question.text,
        "supporting_facts": _supporting_facts(question, paragraphs, page),
        "context": context,
        "type": kind,
        "level": level,
    }


def _twowiki_row(
    row_id: str, question: ProvedQuestion, paragraphs: Sequence[Paragraph], page: Page
) -> dict[str, object]:
    """The question and its document as a row of 2WikiMultihopQA's dev.json, with sentences without
    spaces around them, and the evidence as triples ["Velindra", "author", "Toren"]. Its type is
    "compositional", "comparison", or "bridge_comparison" where four facts support the answer.

    Args:
        row_id: The id of the row.
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
        "_id": row_id,
        "type": kind,
        "question": question.text,
        "context": context,
        "supporting_facts": _supporting_facts(question, paragraphs, page),
        "evidences": evidences,
        "answer": question.answer,
    }


_WRITERS = {"musique": _musique_row, "hotpotqa": _hotpotqa_row, "2wikimultihopqa": _twowiki_row}
"""Kind of text -> what writes its row in the data set's official format."""
