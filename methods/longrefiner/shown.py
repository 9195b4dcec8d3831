"""What the reader sees of chosen leaves, and how many tokens that is
(docs/methods/longrefiner.md#longrefiner-titles).

Leaves of one document that follow each other are one piece of its text; pieces stand in the order
of the documents and of their text. A document's title stands above its first piece, a part's title
above the part where all of it is read. No title is added to a text that begins with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from harness.models import MeteredModel
from harness.types import Document, Shown
from methods.longrefiner.config import PartTitles
from methods.longrefiner.tree import Tree
from methods.reading import SEPARATOR


class Place(NamedTuple):
    """Where a node is: the number of its document, and its number in the document's tree."""

    document: int
    node: int


@dataclass(frozen=True)
class Piece:
    """A piece of a document that is shown: documents[document].text[start:end].

    Attributes:
        document: The number of the document.
        start: The first character.
        end: The character after the last one.
        titled: Whether the document's title is shown above it.
        headings: (place in the document's text, line that is shown before it), in order.
    """

    document: int
    start: int
    end: int
    titled: bool
    headings: tuple[tuple[int, str], ...] = ()


@dataclass
class Showing:
    """Pieces, their text and their tokens; counts are cached, for the choice asks many times."""

    documents: Sequence[Document]
    trees: Sequence[Tree]
    model: MeteredModel
    titles: bool = True
    part_titles: PartTitles = "paper"
    _counts: dict[Piece, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compute what every choice needs: the tokens of a separator, the place of each leaf in its
        document, and the leaves of each part."""
        self._separator = self.model.count(SEPARATOR)
        self._place = [_numbers_of_leaves(tree) for tree in self.trees]
        self._parts = [_leaves_of_parts(tree) for tree in self.trees]

    def pieces(self, leaves: Collection[Place]) -> list[Piece]:
        """The pieces of text that these leaves make, in order; leaves that follow each other are
        one.

        The document's title stands above its first piece, a part's above the part where all its
        leaves are read (LongRefiner A.4).
        """
        pieces: list[Piece] = []
        documents_shown: set[int] = set()
        for run in self._runs(leaves):
            document = run[0].document
            nodes = [leaf.node for leaf in run]
            pieces.append(self._piece(document, nodes, document not in documents_shown))
            documents_shown.add(document)
        return pieces

    def _runs(self, leaves: Collection[Place]) -> list[list[Place]]:
        """The leaves sorted, in runs of leaves of one document that follow each other."""
        runs: list[list[Place]] = []
        for leaf in sorted(leaves):
            if runs and self._follows(runs[-1][-1], leaf):
                runs[-1].append(leaf)
            else:
                runs.append([leaf])
        return runs

    def _follows(self, before: Place, leaf: Place) -> bool:
        """Whether a leaf stands directly after another one in the same document."""
        if before.document != leaf.document:
            return False
        numbers = self._place[leaf.document]
        return numbers[before.node] + 1 == numbers[leaf.node]

    def node_piece(self, document: int, node: int) -> Piece:
        """A node on its own as a piece of text under its document's title; the code's rule shows a
        sub-section without the title.

        Args:
            document: The number of the document.
            node: The number of the node in the document's tree.
        """
        bare = self.part_titles == "code" and self.trees[document].nodes[node].kind == "sub-section"
        return self._piece(document, self.trees[document].under(node), not bare, node)

    def _piece(self, document: int, leaves: Sequence[int], first: bool, top: int = -1) -> Piece:
        """The piece of text that neighbouring leaves of a document make.

        Args:
            document: The number of the document.
            leaves: The numbers of the leaves.
            first: Whether it may be shown under the document's title.
            top: The node that they were chosen as, -1 for none.
        """
        nodes = self.trees[document].nodes
        start = nodes[leaves[0]].start
        end = nodes[leaves[-1]].end
        source = self.documents[document]
        title = source.title.strip()
        begins_with_title = source.text[start:end].startswith(title)
        titled = self.titles and first and bool(title) and not begins_with_title
        return Piece(document, start, end, titled, self._headings(document, leaves, top))

    def _headings(
        self, document: int, leaves: Sequence[int], top: int
    ) -> tuple[tuple[int, str], ...]:
        r"""The lines above the parts that are read in full, each with its place in the text: ((120,
        "Career\n"), ...).

        Args:
            document: The number of the document.
            leaves: The leaves that are read.
            top: The node that they were chosen as: parts above it get no line; -1 for none.
        """
        nodes = self.trees[document].nodes
        text = self.documents[document].text
        read = frozenset(leaves)
        in_full: list[int] = []
        for part, under in self._parts[document].items():
            if part >= top and under <= read:
                in_full.append(part)
        headings: list[tuple[int, str]] = []
        for part in in_full:
            line = self._heading(document, part, in_full)
            if line and not text.startswith(nodes[part].title, nodes[part].start):
                headings.append((nodes[part].start, f"{line}\n"))
        return tuple(headings)

    def _heading(self, document: int, part: int, in_full: Sequence[int]) -> str:
        """The line above a part; "" for none. By the code's rule it is "Subsection 2: Career".

        Args:
            document: The number of the document.
            part: The number of the part.
            in_full: The numbers of the parts that are read in full.
        """
        nodes = self.trees[document].nodes
        node = nodes[part]
        if self.part_titles == "paper":
            return node.title
        if self.part_titles == "none" or node.parent not in in_full:
            return ""
        number = 1
        for other in nodes[:part]:
            if other.kind == node.kind and other.parent == node.parent:
                number += 1
        return f"Subsection {number}: {node.title}"

    def text(self, piece: Piece) -> str:
        """The text of a piece as the reader sees it: with the document's title above it, and the
        titles of its parts at their places."""
        source = self.documents[piece.document]
        lines = ""
        if piece.titled:
            lines = f"{source.title.strip()}\n"
        at = piece.start
        for place, heading in piece.headings:
            before = source.text[at:place].rstrip()
            if before:
                lines += f"{before}\n"
            lines += heading
            at = place
        return lines + source.text[at : piece.end]

    def tokens(self, pieces: Sequence[Piece]) -> int:
        """Count the tokens of pieces, each encoded on its own, and of the separators between them.
        Also remembers the count of each piece."""
        total = self._separator * max(len(pieces) - 1, 0)
        for piece in pieces:
            if piece not in self._counts:
                self._counts[piece] = self.model.count(self.text(piece))
            total += self._counts[piece]
        return total

    def shown(self, pieces: Sequence[Piece]) -> tuple[Shown, ...]:
        """The pieces as spans of the original documents, in the form in which an Answer says what
        the reader saw."""
        shown: list[Shown] = []
        for piece in pieces:
            source = self.documents[piece.document]
            spans = self.trees[piece.document].original(piece.start, piece.end)
            shown += [Shown("span", source.id, start, end) for start, end in spans]
        return tuple(shown)


def _numbers_of_leaves(tree: Tree) -> dict[int, int]:
    """Number of a leaf's node -> its place among the leaves of the tree."""
    return {node: place for place, node in enumerate(tree.leaves())}


def _leaves_of_parts(tree: Tree) -> dict[int, frozenset[int]]:
    """Number of a part's node -> the numbers of the leaves under it."""
    parts = [i for i, node in enumerate(tree.nodes) if not node.leaf]
    return {part: frozenset(tree.under(part)) for part in parts}
