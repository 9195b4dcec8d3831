"""Paragraphs of sentences, some of which state facts, and the document they make with every offset
known.

sentences = [(fact, "Velindra is a book by Toren."), (None, "On most days the air is calm.")]
page = lay_out("doc-1", [Paragraph("Velindra", sentences)])
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
from pocket.world.facts_and_distractors import ProvedQuestion

GAP = "\n\n"
CHARACTERS = 4  # a token, in characters: the usual rule of thumb for English
_PHRASES = (Path(__file__).with_name("words") / "filler.txt").read_text("utf-8")
_SENTENCE_STARTS, _SENTENCE_MIDDLES, _SENTENCE_ENDS = (
    part.splitlines() for part in _PHRASES.split("\n\n")
)
_SHORTEST_FILLER = (
    min(map(len, _SENTENCE_STARTS))
    + min(map(len, _SENTENCE_MIDDLES))
    + min(map(len, _SENTENCE_ENDS))
    + 3
)


@dataclass
class Paragraph:
    """A paragraph of a document, to be laid out.

    Args:
        title: Its title.
        lines: Its sentences, each as (the fact that it states or None, sentence).
        headed: Whether the title is printed above the sentences.
    """

    title: str
    lines: list[tuple[Fact | None, str]] = field(default_factory=list)
    headed: bool = True

    @property
    def text(self) -> str:
        """The sentences of the paragraph, joined by spaces, without the title."""
        return " ".join(sentence for _, sentence in self.lines)

    @property
    def printed(self) -> str:
        """What the document has of the paragraph: its sentences, below their title where that is
        printed."""
        if self.headed:
            return f"{self.title}\n{self.text}"
        return self.text


@dataclass(frozen=True, slots=True)
class Stated:
    """A fact and where its sentence stands in a document.

    Args:
        fact: The fact.
        start: The character that the sentence begins with.
        end: The character after it.
    """

    fact: Fact
    start: int
    end: int


@dataclass(frozen=True)
class Page:
    """A document that was laid out.

    Args:
        document: The document.
        stated: The facts that it states, each with its place, in the order of the text.
        paragraph_of: Fact -> the number of the paragraph that states it, from 0; also the number of
            the document's passage.
    """

    document: Document
    stated: tuple[Stated, ...]
    paragraph_of: dict[Fact, int]


@dataclass(frozen=True)
class Order:
    """What is to be made: a document, or a set of eight, with questions.

    Args:
        kind: The data set whose kind of text it is.
        id: The id that the document gets.
        dice: Draws facts, names and sentences.
        characters: How long the text is to be.
        hops: Numbers of hops that a question may have.
        questions: How many questions.
    """

    kind: str
    id: str
    dice: Dice
    characters: int
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
    asked: tuple[ProvedQuestion, ...]
    base: FactBase
    rows: tuple[Mapping[str, object], ...] = ()

    @property
    def documents(self) -> tuple[Document, ...]:
        """The documents of the pages, in order."""
        return tuple(page.document for page in self.pages)


def questions_that_fit(order: Order) -> int:
    """How many questions a text gets: as many as were ordered, or fewer, but at least one, if it is
    too short for their facts."""
    characters_for_one = 250 * max(order.hops) + 500
    fitting = order.characters // characters_for_one
    return max(1, min(order.questions, fitting))


def characters_for_facts(characters: int) -> int:
    """How many of a text's characters its facts may take; the rest is for titles and sentences that
    state none."""
    return characters * 85 // 100


def filler(dice: Dice) -> str:
    """A sentence that says nothing: no name, no number, no value of any relation."""
    return (
        f"{dice.pick(_SENTENCE_STARTS)} {dice.pick(_SENTENCE_MIDDLES)} {dice.pick(_SENTENCE_ENDS)}."
    )


def pad(paragraphs: Sequence[Paragraph], characters: int, dice: Dice) -> None:
    """Put sentences that say nothing between the others, until the text is about as long as it may
    be. Changes the paragraphs; the first sentence of each stays first. A sentence that is too long
    for what is left is dropped, but counted, so that it ends.

    Args:
        paragraphs: Get the sentences.
        characters: How long all paragraphs may be together.
        dice: Draws sentences and places.
    """
    characters_left = characters - len(_printed_text(paragraphs))
    while characters_left > _SHORTEST_FILLER:
        sentence = filler(dice)
        if len(sentence) + 1 <= characters_left:
            lines = dice.pick(paragraphs).lines
            lines.insert(1 + dice.below(len(lines)), (None, sentence))  # it states no fact
        characters_left -= len(sentence) + 1


def _printed_text(paragraphs: Sequence[Paragraph]) -> str:
    """The text of a document: its paragraphs as they are printed, with a blank line between two."""
    return GAP.join(paragraph.printed for paragraph in paragraphs)


def lay_out(document_id: str, paragraphs: Sequence[Paragraph], title: str = "") -> Page:
    """Make a document of paragraphs, and note where each fact is stated. The passages of the
    document are the paragraphs, printed titles included.

    Args:
        document_id: The id of the document.
        paragraphs: Its paragraphs.
        title: The title of the document.
    """
    passages: list[Passage] = []
    stated_facts: list[Stated] = []
    paragraph_of: dict[Fact, int] = {}
    start = 0
    for number, paragraph in enumerate(paragraphs):
        end = start + len(paragraph.printed)
        passages.append(Passage(paragraph.title, start, end))
        sentence_start = end - len(paragraph.text)  # after the title, where that is printed
        for fact, sentence in paragraph.lines:
            if fact is not None:
                stated_facts.append(Stated(fact, sentence_start, sentence_start + len(sentence)))
                paragraph_of[fact] = number
            sentence_start += len(sentence) + 1  # and a space
        start = end + len(GAP)
    document = Document(document_id, _printed_text(paragraphs), title, tuple(passages))
    return Page(document, stated=tuple(stated_facts), paragraph_of=paragraph_of)


def spans_of_facts(
    pages: Sequence[Page], facts: Iterable[Fact], *, whole: bool = True
) -> tuple[Support, ...]:
    """Where facts are stated: spans of documents, each once, in the order of the text.

    Args:
        pages: The pages that state the facts.
        facts: The facts.
        whole: Whether a span is the passage that states a fact, or the sentence alone.
    """
    wanted_facts = set(facts)
    supports: list[Support] = []
    for page in pages:
        for stated in page.stated:
            if stated.fact not in wanted_facts:
                continue
            start = stated.start
            end = stated.end
            if whole:
                paragraph_number = page.paragraph_of[stated.fact]
                passage = page.document.passages[paragraph_number]
                start = passage.start
                end = passage.end
            supports.append(Support(page.document.id, start, end))
    return tuple(dict.fromkeys(supports))
