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


class NodePlace(NamedTuple):
    """Where a node is: the number of its document, and its number in the document's tree."""

    document: int
    node: int


class Heading(NamedTuple):
    """A line that is shown before a character of a document: Heading(120, "Career\\n")."""

    position: int
    line: str


@dataclass(frozen=True)
class ShownPiece:
    """A piece of a document that is shown: documents[document].text[start:end].

    Attributes:
        document: The number of the document.
        start: The first character.
        end: The character after the last one.
        has_title: Whether the document's title is shown above it.
        headings: The lines that are shown inside it, in order.
    """

    document: int
    start: int
    end: int
    has_title: bool
    headings: tuple[Heading, ...] = ()


@dataclass
class ShownText:
    """Pieces, their text and their tokens; counts are cached, for the choice asks many times."""

    documents: Sequence[Document]
    trees: Sequence[Tree]
    model: MeteredModel
    titles: bool = True
    part_titles: PartTitles = "paper"
    _token_counts: dict[ShownPiece, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Compute what every choice needs: the tokens of a separator, the place of each leaf in its
        document, and the leaves of each part."""
        self._separator_tokens = self.model.count(SEPARATOR)
        self._place_of_leaf = [_places_of_leaves(tree) for tree in self.trees]
        self._leaves_of_parts = [_leaves_of_parts(tree) for tree in self.trees]

    def join_leaves(self, leaves: Collection[NodePlace]) -> list[ShownPiece]:
        """The pieces of text that these leaves make, in order; leaves that follow each other are
        one.

        The document's title stands above its first piece, a part's above the part where all its
        leaves are read (LongRefiner A.4).
        """
        pieces: list[ShownPiece] = []
        documents_shown: set[int] = set()
        for run in self._runs_of_neighbours(leaves):
            document_number = run[0].document
            nodes = [leaf.node for leaf in run]
            is_first_piece = document_number not in documents_shown
            pieces.append(self._make_piece(document_number, nodes, may_have_title=is_first_piece))
            documents_shown.add(document_number)
        return pieces

    def _runs_of_neighbours(self, leaves: Collection[NodePlace]) -> list[list[NodePlace]]:
        """The leaves sorted, in runs of leaves of one document that follow each other."""
        runs: list[list[NodePlace]] = []
        for leaf in sorted(leaves):
            if runs and self._follows(runs[-1][-1], leaf):
                runs[-1].append(leaf)
            else:
                runs.append([leaf])
        return runs

    def _follows(self, before: NodePlace, leaf: NodePlace) -> bool:
        """Whether a leaf stands directly after another one in the same document."""
        if before.document != leaf.document:
            return False
        numbers = self._place_of_leaf[leaf.document]
        return numbers[before.node] + 1 == numbers[leaf.node]

    def node_piece(self, document_number: int, node: int) -> ShownPiece:
        """A node on its own as a piece of text under its document's title; the code's rule shows a
        sub-section without the title.

        Args:
            document_number: The number of the document.
            node: The number of the node in the document's tree.
        """
        tree = self.trees[document_number]
        is_without_title = self.part_titles == "code" and tree.nodes[node].kind == "sub-section"
        return self._make_piece(
            document_number,
            tree.leaves_under(node),
            may_have_title=not is_without_title,
            chosen_node=node,
        )

    def _make_piece(
        self,
        document_number: int,
        leaves: Sequence[int],
        may_have_title: bool,
        chosen_node: int = -1,
    ) -> ShownPiece:
        """The piece of text that neighbouring leaves of a document make.

        It gets no title where the setting shows none, or where its text begins with the title.

        Args:
            document_number: The number of the document.
            leaves: The numbers of the leaves.
            may_have_title: Whether it may be shown under the document's title.
            chosen_node: The node that they were chosen as, -1 for none.
        """
        nodes = self.trees[document_number].nodes
        start = nodes[leaves[0]].start
        end = nodes[leaves[-1]].end
        document = self.documents[document_number]
        title = document.title.strip()
        begins_with_title = document.text[start:end].startswith(title)
        has_title = self.titles and may_have_title and bool(title) and not begins_with_title
        return ShownPiece(
            document=document_number,
            start=start,
            end=end,
            has_title=has_title,
            headings=self._headings(document_number, leaves, chosen_node),
        )

    def _headings(
        self, document_number: int, leaves: Sequence[int], chosen_node: int
    ) -> tuple[Heading, ...]:
        r"""The lines above the parts that are read in full, each with its place in the text:
        (Heading(120, "Career\n"), ...). A part whose text begins with its title gets none.

        Args:
            document_number: The number of the document.
            leaves: The leaves that are read.
            chosen_node: The node that they were chosen as: parts above it get no line; -1 for none.
        """
        nodes = self.trees[document_number].nodes
        text = self.documents[document_number].text
        read_leaves = frozenset(leaves)
        full_parts: list[int] = []
        for part, leaves_of_part in self._leaves_of_parts[document_number].items():
            is_above_chosen_node = part < chosen_node  # parents have lower numbers
            if not is_above_chosen_node and leaves_of_part <= read_leaves:
                full_parts.append(part)
        headings: list[Heading] = []
        for part in full_parts:
            line = self._heading(document_number, part, full_parts)
            if line and not text.startswith(nodes[part].title, nodes[part].start):
                headings.append(Heading(nodes[part].start, f"{line}\n"))
        return tuple(headings)

    def _heading(self, document_number: int, part: int, full_parts: Sequence[int]) -> str:
        """The line above a part; "" for none.

        It is the part's title by the paper's rule. By the code's rule it is "Subsection 2: Career",
        and only where the part above it is read in full too.

        Args:
            document_number: The number of the document.
            part: The number of the part.
            full_parts: The numbers of the parts that are read in full.
        """
        nodes = self.trees[document_number].nodes
        node = nodes[part]
        if self.part_titles == "paper":
            return node.title
        if self.part_titles == "none" or node.parent not in full_parts:
            return ""
        number = 1
        for earlier_node in nodes[:part]:
            if earlier_node.kind == node.kind and earlier_node.parent == node.parent:
                number += 1
        return f"Subsection {number}: {node.title}"

    def text(self, piece: ShownPiece) -> str:
        """The text of a piece as the reader sees it: with the document's title above it, and the
        titles of its parts at their places."""
        document = self.documents[piece.document]
        text = ""
        if piece.has_title:
            text = f"{document.title.strip()}\n"
        copied_up_to = piece.start
        for heading in piece.headings:
            text_before = document.text[copied_up_to : heading.position].rstrip()
            if text_before:
                text += f"{text_before}\n"
            text += heading.line
            copied_up_to = heading.position
        return text + document.text[copied_up_to : piece.end]

    def count_tokens(self, pieces: Sequence[ShownPiece]) -> int:
        """Count the tokens of pieces, each encoded on its own, and of the separators between them.
        Also remembers the count of each piece."""
        total = self._separator_tokens * max(len(pieces) - 1, 0)
        for piece in pieces:
            if piece not in self._token_counts:
                self._token_counts[piece] = self.model.count(self.text(piece))
            total += self._token_counts[piece]
        return total

    def shown(self, pieces: Sequence[ShownPiece]) -> tuple[Shown, ...]:
        """The pieces as spans of the original documents, in the form in which an Answer says what
        the reader saw."""
        shown: list[Shown] = []
        for piece in pieces:
            document = self.documents[piece.document]
            spans = self.trees[piece.document].spans_in_document(piece.start, piece.end)
            shown += [Shown("span", document.id, start, end) for start, end in spans]
        return tuple(shown)


def _places_of_leaves(tree: Tree) -> dict[int, int]:
    """Number of a leaf's node -> its place among the leaves of the tree."""
    return {node: place for place, node in enumerate(tree.leaves())}


def _leaves_of_parts(tree: Tree) -> dict[int, frozenset[int]]:
    """Number of a part's node -> the numbers of the leaves under it."""
    parts = [number for number, node in enumerate(tree.nodes) if not node.is_leaf]
    return {part: frozenset(tree.leaves_under(part)) for part in parts}
