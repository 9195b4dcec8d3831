"""What the reader is shown of chosen leaves, and how many tokens that is.

Leaves of one document that follow each other are one piece of its text; pieces stand in the order of the documents and
of their text. A document's title stands above its first piece, unless that begins with it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from harness.llm.base import MeteredModel
from harness.types import Document, Shown
from methods.longrefiner.tree import Tree
from methods.reading import SEPARATOR

__all__ = ["Leaf", "Piece", "Showing"]

Leaf = tuple[int, int]
"""(number of the document, number of the node)."""


@dataclass(frozen=True)
class Piece:
    """documents[document].text[start:end], its title above it where `titled`."""

    document: int
    start: int
    end: int
    titled: bool


@dataclass
class Showing:
    """Counts and spells what is shown; counts are kept, for choosing asks again and again."""

    documents: Sequence[Document]
    trees: Sequence[Tree]
    model: MeteredModel
    titles: bool = True
    _counts: dict[Piece, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._separator = self.model.count(SEPARATOR)
        self._place = [{node: at for at, node in enumerate(tree.leaves())} for tree in self.trees]

    def pieces(self, leaves: Collection[Leaf]) -> list[Piece]:
        """The pieces that these leaves make."""
        found: list[Piece] = []
        last: Leaf | None = None
        for document, node in sorted(leaves):
            place = self._place[document][node]
            n = self.trees[document].nodes[node]
            if last == (document, place - 1):
                found[-1] = Piece(document, found[-1].start, n.end, found[-1].titled)
            else:
                first = last is None or last[0] != document
                found.append(self.piece(document, n.start, n.end, first))
            last = (document, place)
        return found

    def piece(self, document: int, start: int, end: int, first: bool = True) -> Piece:
        """A piece; first: the document's title is due."""
        one = self.documents[document]
        title = one.title.strip()
        due = self.titles and first and bool(title) and not one.text[start:end].startswith(title)
        return Piece(document, start, end, due)

    def text(self, piece: Piece) -> str:
        """As the reader sees it."""
        one = self.documents[piece.document]
        title = f"{one.title.strip()}\n" if piece.titled else ""
        return title + one.text[piece.start : piece.end]

    def tokens(self, pieces: Sequence[Piece]) -> int:
        """Of the pieces, each encoded on its own, and the separators between them."""
        for piece in pieces:
            if piece not in self._counts:
                self._counts[piece] = self.model.count(self.text(piece))
        return sum(self._counts[piece] for piece in pieces) + self._separator * max(len(pieces) - 1, 0)

    def shown(self, pieces: Sequence[Piece]) -> tuple[Shown, ...]:
        """As spans of the documents."""
        return tuple(Shown("span", self.documents[p.document].id, p.start, p.end) for p in pieces)
