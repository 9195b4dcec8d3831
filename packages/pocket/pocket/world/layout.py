"""Paragraphs of sentences, some of which state facts, and the document they make with every offset
known.

paragraph = Paragraph("Velindra", [(fact, "Velindra is a book by Toren."), (None, "On most days the
air is calm.")]) page = lay_out("doc-1", [paragraph])
page.document.text              "Velindra\\nVelindra is a book by Toren. On most days the air is calm."
page.stated                     (Stated(fact, 9, 37),)

Each `render_*` module turns an Order into pages and questions: `make(order) -> Made`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from harness.stats.rng import Dice
from harness.types import Document, Example, Passage, Support
from pocket.world.fact_proofs import Fact, FactBase
from pocket.world.facts_and_distractors import Asked

GAP = "\n\n"
CHARACTERS = 4  # a token, in characters: the usual rule of thumb for English
_PHRASES = (Path(__file__).with_name("words") / "filler.txt").read_text("utf-8")
_FIRST, _SECOND, _THIRD = (part.splitlines() for part in _PHRASES.split("\n\n"))
_SHORTEST = min(map(len, _FIRST)) + min(map(len, _SECOND)) + min(map(len, _THIRD)) + 3


@dataclass
class Paragraph:
    """A title and sentences.

    Args:
        title: Of the paragraph.
        lines: (the fact that it states or None, sentence).
        headed: Whether the title is printed above them.
    """

    title: str
    lines: list[tuple[Fact | None, str]] = field(default_factory=list)
    headed: bool = True

    @property
    def text(self) -> str:
        """The sentences, without the title."""
        return " ".join(sentence for _, sentence in self.lines)

    @property
    def printed(self) -> str:
        """The sentences, below their title where it is printed."""
        if self.headed:
            return f"{self.title}\n{self.text}"
        return self.text


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact and the sentence that states it: text[start:end] of its document."""

    fact: Fact
    start: int
    end: int


@dataclass(frozen=True)
class Page:
    """A document, the facts it states in order, and the number of the paragraph (passage) each one
    is in."""

    document: Document
    stated: tuple[Stated, ...]
    place: dict[Fact, int]


@dataclass(frozen=True)
class Order:
    """A document (or set of eight) to render.

    Args:
        kind: The data set whose kind of text it is.
        id: Of the document.
        dice: Draws facts, names and sentences.
        room: Its characters.
        hops: Numbers of hops to choose from.
        questions: Their number.
    """

    kind: str
    id: str
    dice: Dice
    room: int
    hops: tuple[int, ...]
    questions: int = 1


@dataclass(frozen=True)
class Sample:
    """Pages and questions.

    Args:
        pages: The documents with their facts.
        examples: The questions.
        asked: The proofs, parallel to `examples`.
        base: All facts that the pages state.
        rows: One row in the official format of the data set, for musique, hotpotqa and
            2wikimultihopqa; else ().
    """

    pages: tuple[Page, ...]
    examples: tuple[Example, ...]
    asked: tuple[Asked, ...]
    base: FactBase
    rows: tuple[Mapping[str, object], ...] = ()

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents of the pages."""
        return tuple(page.document for page in self.pages)


def questions_that_fit(order: Order) -> int:
    """The number of questions ordered, or fewer if the text is too short for their facts."""
    return max(1, min(order.questions, order.room // (250 * max(order.hops) + 500)))


def facts_room(room: int) -> int:
    """The characters that facts may take; the rest is for titles and sentences that state none."""
    return room * 85 // 100


def filler(dice: Dice) -> str:
    """A sentence that says nothing: no name, no number, no value of any relation."""
    return f"{dice.pick(_FIRST)} {dice.pick(_SECOND)} {dice.pick(_THIRD)}."


def pad(paragraphs: Sequence[Paragraph], room: int, dice: Dice) -> None:
    """Put sentences that say nothing between the others, until the room is nearly used.

    Args:
        paragraphs: Changed in place.
        room: Characters of all paragraphs.
        dice: Draws sentences and places.
    """
    left = room - len(_printed(paragraphs))
    while left > _SHORTEST:
        sentence = filler(dice)
        if len(sentence) + 1 <= left:
            lines = dice.pick(paragraphs).lines
            lines.insert(1 + dice.below(len(lines)), (None, sentence))
        left -= len(sentence) + 1


def _printed(paragraphs: Sequence[Paragraph]) -> str:
    """The text of the paragraphs."""
    return GAP.join(paragraph.printed for paragraph in paragraphs)


def lay_out(name: str, paragraphs: Sequence[Paragraph], title: str = "") -> Page:
    """Lay out a document: its passages are the paragraphs, printed titles included.

    Args:
        name: The id of the document.
        paragraphs: Its paragraphs.
        title: Of the document.
    """
    passages: list[Passage] = []
    stated: list[Stated] = []
    place: dict[Fact, int] = {}
    start = 0
    for number, paragraph in enumerate(paragraphs):
        end = start + len(paragraph.printed)
        passages.append(Passage(paragraph.title, start, end))
        at = end - len(paragraph.text)
        for fact, sentence in paragraph.lines:
            if fact is not None:
                stated.append(Stated(fact, at, at + len(sentence)))
                place[fact] = number
            at += len(sentence) + 1  # and a space
        start = end + len(GAP)
    document = Document(name, _printed(paragraphs), title, tuple(passages))
    return Page(document, tuple(stated), place)


def spans(pages: Sequence[Page], facts: Iterable[Fact], whole: bool = True) -> tuple[Support, ...]:
    """The spans that state the needed facts, each once, in the order of the text.

    Args:
        pages: The pages that state it.
        facts: The facts that are needed.
        whole: Whether a span is the passage that states a fact, or the sentence alone.
    """
    needed = set(facts)
    supports: list[Support] = []
    for page in pages:
        for stated in page.stated:
            if stated.fact not in needed:
                continue
            start, end = stated.start, stated.end
            if whole:
                paragraph_number = page.place[stated.fact]
                passage = page.document.passages[paragraph_number]
                start, end = passage.start, passage.end
            supports.append(Support(page.document.id, start, end))
    return tuple(dict.fromkeys(supports))
