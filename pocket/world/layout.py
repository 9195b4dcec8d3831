"""Paragraphs of sentences, some of which state facts, and the document they make with every offset known.

paragraph = Paragraph("Velindra", [(fact, "Velindra is a book by Toren."), (None, "On most days the air is calm.")])
page = lay("doc-1", [paragraph])
page.document.text              "Velindra\\nVelindra is a book by Toren. On most days the air is calm."
page.stated                     (Stated(fact, 9, 37),)
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from harness.stats.rng import Dice
from harness.types import Document, Passage, Support
from pocket.world import filler
from pocket.world.facts import Fact

GAP = "\n\n"


@dataclass
class Paragraph:
    """Sentences under a title, which is printed on a line of its own where `headed`."""

    title: str
    lines: list[tuple[Fact | None, str]] = field(default_factory=list)
    headed: bool = True

    @property
    def text(self) -> str:
        """The sentences, without the title."""
        return " ".join(sentence for _, sentence in self.lines)


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact and the sentence that states it: text[start:end] of its document."""

    fact: Fact
    start: int
    end: int


@dataclass(frozen=True)
class Page:
    """A document, the facts it states in order, and the number of the paragraph (passage) each one is in."""

    document: Document
    stated: tuple[Stated, ...]
    place: dict[Fact, int]


def size(paragraphs: Iterable[Paragraph]) -> int:
    """Characters of the document that the paragraphs make."""
    total = -len(GAP)
    for p in paragraphs:
        total += len(GAP) + sum(len(s) + 1 for _, s in p.lines) - 1 + (len(p.title) + 1 if p.headed else 0)
    return max(total, 0)


def pad(paragraphs: Sequence[Paragraph], room: int, dice: Dice) -> None:
    """Put sentences that say nothing between the others, until `room` characters are nearly used."""
    left = room - size(paragraphs)
    while left > filler.SHORTEST:
        sentence = filler.sentence(dice)
        if len(sentence) + 1 <= left:
            lines = dice.pick(paragraphs).lines
            lines.insert(1 + dice.below(len(lines)), (None, sentence))
        left -= len(sentence) + 1


def lay(name: str, paragraphs: Sequence[Paragraph], title: str = "") -> Page:
    """The document `name`: its passages are the paragraphs, titles included, a blank line between."""
    pieces: list[str] = []
    passages: list[Passage] = []
    stated: list[Stated] = []
    place: dict[Fact, int] = {}
    at = 0
    for number, paragraph in enumerate(paragraphs):
        start = at
        if paragraph.headed:
            pieces.append(paragraph.title + "\n")
            at += len(paragraph.title) + 1
        for order, (fact, sentence) in enumerate(paragraph.lines):
            if order:
                pieces.append(" ")
                at += 1
            if fact is not None:
                stated.append(Stated(fact, at, at + len(sentence)))
                place[fact] = number
            pieces.append(sentence)
            at += len(sentence)
        passages.append(Passage(paragraph.title, start, at))
        pieces.append(GAP)
        at += len(GAP)
    document = Document(name, "".join(pieces[:-1]), title, tuple(passages))
    return Page(document, tuple(stated), place)


def spans(pages: Sequence[Page], facts: Iterable[Fact], whole: bool = True) -> tuple[Support, ...]:
    """The spans of the facts: their passages, or (whole False) their sentences; in the order of the text."""
    needed = set(facts)
    supports: list[Support] = []
    for page in pages:
        for stated in page.stated:
            if stated.fact in needed:
                passage = page.document.passages[page.place[stated.fact]]
                start, end = (passage.start, passage.end) if whole else (stated.start, stated.end)
                supports.append(Support(page.document.id, start, end))
    return tuple(dict.fromkeys(supports))
