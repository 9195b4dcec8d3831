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
from harness.types import Question
from pocket.tasks import scenes
from pocket.tasks.recipes import Recipe
from pocket.tasks.shown_text import Shown, ask_about, question_of
from pocket.world.fact_proofs import Fact, paths
from pocket.world.facts_and_distractors import Asked

_HELPING = (
    0.8  # share of titles that are shown of a document with something to select, where there is one
)
_ENDS = 4  # words that an outline keeps of each end of a paragraph
_SKIP = " <skip> "
_ACCOUNTS = (
    "What is known about {}?",
    "Describe {}.",
    "Tell me about {}.",
    "Explain why {} is remembered.",
)
_HEADED = re.compile(r"[^\n.!?]{1,60}\n")


@dataclass(frozen=True)
class _Paragraph:
    """A paragraph. text: as in the document, its title above it where that is printed; facts: those
    that it states."""

    title: str
    text: str
    facts: tuple[Fact, ...]


def breadth(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes that ask whether a question is local (a fact answers it) or global (an account of a
    subject)."""
    for question in ask_about(recipe, shown, dice):
        if question.supports:
            local = question_of(question)
            account = dice.pick(_ACCOUNTS).format(question.supports[0].subject)
            for asked in (local, replace(local, text=account)):
                yield Scene(asked, (), scenes.task_of(shown.kind), verdicts=(asked is local,))


def outline(_recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """A scene with a document and its outline in the tags that methods/longrefiner reads; none for
    one paragraph."""
    paragraphs = dice.pick(_documents(shown, dice))
    if len(paragraphs) < 2:
        return
    first, *others = paragraphs
    reply = f"<abstract>{_clip_middle(first.text)}</abstract>"
    reply += "".join(
        f"<section: {p.title}>{_clip_middle(p.text)}</section: {p.title}>" for p in others
    )
    text = "\n\n".join(p.text for p in paragraphs)
    yield Scene(Question("scene", "", ("scene",)), (text,), scenes.task_of(shown.kind), (reply,))


def titles(recipe: Recipe, shown: Shown, dice: Dice) -> Iterator[Scene]:
    """Scenes with an abstract and titles: which titles help with the question?"""
    documents = [document for document in _documents(shown, dice) if len(document) > 1]
    for question in ask_about(recipe, shown, dice) if documents else ():
        helping = [
            document for document in documents if any(_title_helps(p, question) for p in document)
        ]
        first, *others = dice.pick(helping if helping and dice.chance(_HELPING) else documents)
        lines = "".join(f"\nSection{i}: {p.title}" for i, p in enumerate(others, 1))
        named = ["abstract"] * _title_helps(first, question) + [
            p.title for p in others if _title_helps(p, question)
        ]
        texts = (first.title, " ".join(first.text.split()), lines)
        yield Scene(question_of(question), texts, scenes.task_of(shown.kind), (str(named),))


def _title_helps(paragraph: _Paragraph, question: Asked) -> bool:
    """Whether the question names the title, and the paragraph holds a fact of its proof."""
    starts = [path.start for path in paths(question.query)]
    return paragraph.title in starts and any(fact in paragraph.facts for fact in question.supports)


def _clip_middle(text: str) -> str:
    """The first and last _ENDS words with _SKIP between, as an outline keeps a paragraph; a short
    text whole."""
    words = text.split()
    if len(words) <= 2 * _ENDS:
        return " ".join(words)
    return " ".join(words[:_ENDS]) + _SKIP + " ".join(words[-_ENDS:])


def _documents(shown: Shown, dice: Dice) -> list[list[_Paragraph]]:
    """Return documents as paragraphs: the shown texts whose paragraphs have titles, else one made
    of all facts."""
    whole = [
        _headed_paragraphs(text, facts, shown)
        for text, facts in zip(shown.texts, shown.stated, strict=True)
    ]
    if documents := [paragraphs for paragraphs in whole if len(paragraphs) > 1]:
        return documents
    parts: dict[str, list[Fact]] = {}
    for fact in shown.sentences:
        parts.setdefault(fact.subject, []).append(fact)
    headed = dice.chance(0.5)
    made = []
    for title, facts in parts.items():
        text = " ".join(shown.sentences[fact] for fact in facts)
        made.append(_Paragraph(title, f"{title}\n{text}" if headed else text, tuple(facts)))
    return [made]


def _headed_paragraphs(text: str, facts: Sequence[Fact], shown: Shown) -> list[_Paragraph]:
    """The paragraphs of a text in which each has a title on a line of its own; [] for any other
    text."""
    paragraphs = []
    for paragraph in text.split("\n\n"):
        head = _HEADED.match(paragraph)
        if head is None:
            return []
        stated = tuple(fact for fact in facts if shown.sentences[fact] in paragraph)
        paragraphs.append(_Paragraph(head.group().strip(), paragraph, stated))
    return paragraphs
