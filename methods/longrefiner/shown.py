"""What the reader sees of chosen leaves, and how many tokens that is
(docs/methods/longrefiner.md#longrefiner-titles).

Leaves of one document that follow each other are one piece of its text; pieces stand in the order
of the documents and of their text. A document's title stands above its first piece, a part's title
above the part where all of it is read. No title is added to a text that begins with it.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field

from harness.models import MeteredModel
from harness.types import Document, Shown
from methods.longrefiner.config import PartTitles
from methods.longrefiner.tree import Tree
from methods.reading import SEPARATOR

Leaf = tuple[int, int]
"""(number of the document, number of the node)."""


@dataclass(frozen=True)
class Piece:
    """documents[document].text[start:end], the document's title above it where `titled`.

    headings: (place in the document's text, line in front of it), by place.
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
        self._separator = self.model.count(SEPARATOR)
        self._place = [{node: at for at, node in enumerate(tree.leaves())} for tree in self.trees]
        self._parts = [
            {i: frozenset(tree.under(i)) for i, node in enumerate(tree.nodes) if not node.leaf}
            for tree in self.trees
        ]

    def pieces(self, leaves: Collection[Leaf]) -> list[Piece]:
        """The pieces of these leaves; a part is whole when all its leaves are among them
        (LongRefiner A.4)."""
        runs: list[list[Leaf]] = []
        for document, node in sorted(leaves):
            last = runs[-1][-1] if runs else None
            if (
                last
                and last[0] == document
                and self._place[document][last[1]] + 1 == self._place[document][node]
            ):
                runs[-1].append((document, node))
            else:
                runs.append([(document, node)])
        firsts = {run[0][0]: run for run in reversed(runs)}
        return [
            self._piece(run[0][0], [node for _, node in run], firsts[run[0][0]] is run)
            for run in runs
        ]

    def node_piece(self, document: int, node: int) -> Piece:
        """A node on its own, under its document's title; the code's rule shows a sub-section
        without it."""
        bare = self.part_titles == "code" and self.trees[document].nodes[node].kind == "sub-section"
        return self._piece(document, self.trees[document].under(node), not bare, node)

    def _piece(self, document: int, leaves: Sequence[int], first: bool, top: int = -1) -> Piece:
        """The piece of adjacent leaves; first: of its document; top: the node they were chosen as,
        -1 for none."""
        nodes = self.trees[document].nodes
        start, end = nodes[leaves[0]].start, nodes[leaves[-1]].end
        source, here = self.documents[document], frozenset(leaves)
        whole = [
            part for part, under in self._parts[document].items() if part >= top and under <= here
        ]
        headings = tuple(
            (nodes[part].start, f"{line}\n")
            for part in whole
            if (line := self._heading(document, part, whole))
            and not source.text.startswith(nodes[part].title, nodes[part].start)
        )
        title = source.title.strip()
        titled = (
            self.titles and first and bool(title) and not source.text[start:end].startswith(title)
        )
        return Piece(document, start, end, titled, headings)

    def _heading(self, document: int, part: int, whole: Sequence[int]) -> str:
        """The line above `part`, which is read whole, "" for none; whole: all such parts."""
        nodes = self.trees[document].nodes
        node = nodes[part]
        if self.part_titles == "paper":
            return node.title
        if self.part_titles == "none" or node.parent not in whole:
            return ""
        before = [n for n in nodes[:part] if n.kind == node.kind and n.parent == node.parent]
        return f"Subsection {len(before) + 1}: {node.title}"

    def text(self, piece: Piece) -> str:
        """The text of a piece as the reader sees it."""
        source = self.documents[piece.document]
        shown = f"{source.title.strip()}\n" if piece.titled else ""
        at = piece.start
        for place, heading in piece.headings:
            before = source.text[at:place].rstrip()
            shown += (f"{before}\n" if before else "") + heading
            at = place
        return shown + source.text[at : piece.end]

    def tokens(self, pieces: Sequence[Piece]) -> int:
        """Count the tokens of the pieces, encoded separately, and of the separators between
        them."""
        for piece in pieces:
            if piece not in self._counts:
                self._counts[piece] = self.model.count(self.text(piece))
        return sum(self._counts[piece] for piece in pieces) + self._separator * max(
            len(pieces) - 1, 0
        )

    def shown(self, pieces: Sequence[Piece]) -> tuple[Shown, ...]:
        """The pieces as spans of the original documents, for the record."""
        spans = (
            (p.document, span)
            for p in pieces
            for span in self.trees[p.document].original(p.start, p.end)
        )
        return tuple(Shown("span", self.documents[document].id, *span) for document, span in spans)
