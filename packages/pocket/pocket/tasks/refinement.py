"""Scenes of refining documents: how broad a question is, a document's outline, which of its titles
help.

"breadth"   texts: none                        verdict: True where the answer is clear and fixed, False where it is open
"outline"   texts: a document                  reply: <abstract>...</abstract><section: Toren>...</section: Toren>
"titles"    texts: title, abstract, outline    reply: ['Toren'], the sections that the question leads to; [] for none

A document is made of the text's facts: a paragraph for each subject, some with its name on a line
above, as the made-up data sets print them. The first paragraph is the abstract, the others are
sections that are named by their subject. Where the text is a whole document with such lines, it is
taken as it is. A title helps if the question names it, and its section states a fact that the
answer needs: no other can be recognised by its title.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from harness_training.tasks import Scene

from harness.stats.rng import Dice
from pocket.tasks import scenes
from pocket.tasks.recipes import Recipe
from pocket.tasks.shown_text import ShownText, draw_questions, scene_question
from pocket.world.fact_proofs import Fact, paths_of_query
from pocket.world.facts_and_distractors import ProvedQuestion

_SHARE_WITH_HELPING_TITLE = 0.8
"""Share of titles that are shown of a document with something to select, where there is one."""
_WORDS_PER_END = 4  # words that an outline keeps of each end of a paragraph
_SKIP_MARK = " <skip> "
_ACCOUNT_QUESTIONS = (
    "What is known about {}?",
    "Describe {}.",
    "Tell me about {}.",
    "Explain why {} is remembered.",
)
_TITLE_LINE = re.compile(r"[^\n.!?]{1,60}\n")


@dataclass(frozen=True)
class _Paragraph:
    """A paragraph of a document.

    Args:
        title: The subject that it is about.
        text: What the document has of it, with the title above it where that is printed.
        facts: The facts that it states.
    """

    title: str
    text: str
    facts: tuple[Fact, ...]


def breadth(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes with a probe: is a question local (a fact answers it) or global (it wants an account
    of a subject)? There is one of each for a question about the text that some fact supports; the
    first label of the probe is right for the local one.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and wording.
    """
    for question in draw_questions(recipe, shown, dice):
        if question.supports:
            local_question = scene_question(question)
            global_text = dice.pick(_ACCOUNT_QUESTIONS).format(question.supports[0].subject)
            global_question = replace(local_question, text=global_text)
            task = scenes.answer_task(shown.kind)
            yield Scene(local_question, texts=(), task=task, verdicts=(True,))
            yield Scene(global_question, texts=(), task=task, verdicts=(False,))


def outline(_recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """A scene with a document, whose reply is its outline in the tags that methods/longrefiner
    reads: "<abstract>...</abstract><section: Toren>...</section: Toren>", with the middle of a long
    text clipped. There is none for a document of one paragraph.

    Args:
        _recipe: Not used; every maker of scenes has the same parameters.
        shown: The text.
        dice: Draws which document.
    """
    paragraphs = dice.pick(_draw_documents(shown, dice))
    if len(paragraphs) < 2:
        return
    first, *sections = paragraphs
    reply = f"<abstract>{_clip_middle(first.text)}</abstract>"
    for section in sections:
        title = section.title
        reply += f"<section: {title}>{_clip_middle(section.text)}</section: {title}>"
    texts = [paragraph.text for paragraph in paragraphs]
    document = "\n\n".join(texts)
    task = scenes.answer_task(shown.kind)
    yield Scene(scenes.NO_QUESTION, (document,), task=task, replies=(reply,))


def titles(recipe: Recipe, shown: ShownText, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask which titles of a document help with a question. The texts are its title, its
    abstract, and the titles of its sections; the reply is "['Toren']", "[]" for none. Title and
    abstract are those of the first paragraph. Mostly a document is drawn in which some title helps.

    Args:
        recipe: Says how many questions, and of which kinds.
        shown: The text.
        dice: Draws questions and documents.
    """
    documents = [document for document in _draw_documents(shown, dice) if len(document) > 1]
    if not documents:
        return
    for question in draw_questions(recipe, shown, dice):
        documents_with_help = [
            document for document in documents if _helping_titles(document, question)
        ]
        candidates = documents
        if documents_with_help and dice.chance(_SHARE_WITH_HELPING_TITLE):
            candidates = documents_with_help
        document = dice.pick(candidates)
        helping_titles = _helping_titles(document, question)
        first, *sections = document
        section_lines = ""
        for number, section in enumerate(sections, start=1):
            section_lines += f"\nSection{number}: {section.title}"
        texts = (first.title, " ".join(first.text.split()), section_lines)
        yield Scene(
            scene_question(question),
            texts,
            task=scenes.answer_task(shown.kind),
            replies=(str(helping_titles),),
        )


def _helping_titles(document: Sequence[_Paragraph], question: ProvedQuestion) -> list[str]:
    """The titles of a document that help with a question; for its first paragraph, the abstract,
    that is "abstract".

    Args:
        document: The paragraphs of the document.
        question: The question with its proof.
    """
    first, *sections = document
    titles: list[str] = []
    if _title_helps(first, question):
        titles.append("abstract")
    titles += [section.title for section in sections if _title_helps(section, question)]
    return titles


def _title_helps(paragraph: _Paragraph, question: ProvedQuestion) -> bool:
    """Whether the title of a paragraph helps with a question: the question names it, and the
    paragraph states a fact of its proof."""
    for path in paths_of_query(question.query):
        if path.start == paragraph.title:
            return not set(paragraph.facts).isdisjoint(question.supports)
    return False


def _clip_middle(text: str) -> str:
    """The first and last _WORDS_PER_END words of a text with _SKIP_MARK between, as an outline
    keeps a paragraph; a short text whole.

        "a b c d e f g h i j" -> "a b c d <skip> g h i j"
    """
    words = text.split()
    if len(words) <= 2 * _WORDS_PER_END:
        return " ".join(words)
    return " ".join(words[:_WORDS_PER_END]) + _SKIP_MARK + " ".join(words[-_WORDS_PER_END:])


def _draw_documents(shown: ShownText, dice: Dice) -> list[list[_Paragraph]]:
    """Documents as lists of paragraphs: each shown text whose paragraphs have titles above them, or
    where there is none, one document made of all facts.

    Args:
        shown: The text.
        dice: Draws whether a made document has titles.
    """
    documents: list[list[_Paragraph]] = []
    for text, facts in zip(shown.texts, shown.facts_by_part, strict=True):
        paragraphs = _headed_paragraphs(text, facts, shown)
        if len(paragraphs) > 1:
            documents.append(paragraphs)
    if documents:
        return documents
    return [_made_document(shown, headed=dice.chance(0.5))]


def _made_document(shown: ShownText, *, headed: bool) -> list[_Paragraph]:
    """Make a document of all facts of a text, a paragraph for each subject.

    Args:
        shown: The text.
        headed: Whether the subject stands as a title above its paragraph.
    """
    facts_by_subject: dict[str, list[Fact]] = {}
    for fact in shown.facts:
        facts_by_subject.setdefault(fact.subject, []).append(fact)
    document: list[_Paragraph] = []
    for title, facts in facts_by_subject.items():
        text = " ".join(shown.sentences[fact] for fact in facts)
        if headed:
            text = f"{title}\n{text}"
        document.append(_Paragraph(title, text, tuple(facts)))
    return document


def _headed_paragraphs(text: str, facts: Sequence[Fact], shown: ShownText) -> list[_Paragraph]:
    """The paragraphs of a text in which each has a title on a line of its own; [] for any other
    text.

    Args:
        text: The text, paragraphs divided by blank lines.
        facts: The facts that it states.
        shown: The whole text, which knows the sentence of each fact.
    """
    paragraphs = []
    for paragraph_text in text.split("\n\n"):
        title_line = _TITLE_LINE.match(paragraph_text)
        if title_line is None:
            return []
        facts_of_paragraph = tuple(
            fact for fact in facts if shown.sentences[fact] in paragraph_text
        )
        paragraphs.append(
            _Paragraph(title_line.group().strip(), paragraph_text, facts_of_paragraph)
        )
    return paragraphs
