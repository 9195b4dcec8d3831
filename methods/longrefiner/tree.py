"""The document's tree: parts with titles over leaves that cover the whole text, in its order.

    outline + text ──fill──► placed paragraphs, and gaps ──► nodes in the order of the text, parents first

A gap is text that no clip was placed on. It belongs to the first part of the outline that stands
there and has no text yet; in front of everything to the abstract, also where the outline has none;
one of fewer words than a paragraph to the part before it, as what a model left out at a paragraph's
end does; a longer one to what the parts around it have in common. Long gaps are in chunks of six
sentences. So no text is lost, and none is there twice. Where no part could be placed, the whole
text is such a gap. A part without text is left out. With method.unmatched=drop there are no gaps.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass, field, replace

from harness.method import Index
from harness.models import MeteredModel
from harness.types import Document
from methods.chunks import Span, trimmed
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.filling import coverage, place_clips
from methods.longrefiner.outline import Clip, Part
from methods.packing import packed_chunks, sentence_chunks

Path = tuple[int, ...]
_PARTS = ("abstract", "section", "sub-section")


@dataclass(frozen=True)
class Node:
    """A part of a document, or a leaf of its tree.

    Attributes:
        kind: "abstract", "section", "sub-section", or of a leaf "paragraph" or "chunk" (of a gap).
        title: "" for none.
        start: Its first character in the text.
        end: The character after its last one.
        parent: The number of its parent; -1 for none.
    """

    kind: str
    title: str
    start: int
    end: int
    parent: int = -1

    @property
    def leaf(self) -> bool:
        """Whether it has no children: parts always have some."""
        return self.kind not in _PARTS


@dataclass
class Tree:
    """The nodes of a document.

    Attributes:
        nodes: All nodes in the order of the text, a parent before its children.
        placed: The share of the text (white space aside) in which clips of the outline were found.
        structured: The share of the text that is under a title.
        notes: Sentences about what did not go as usual.
        kept: The spans of the document that the text is made of; [] for all of it.
    """

    nodes: list[Node] = field(default_factory=list)
    placed: float = 0.0
    structured: float = 0.0
    notes: list[str] = field(default_factory=list)
    kept: list[Span] = field(default_factory=list)

    def kept_document(self, document: Document) -> Document:
        """The document with only the text that the tree covers (`kept`)."""
        if not self.kept:
            return document
        return replace(document, text="".join(document.text[a:b] for a, b in self.kept))

    def original(self, start: int, end: int) -> list[Span]:
        """The spans of the original document that text[start:end] of the tree's text is made of.

        kept [(0, 10), (50, 60)]: original(5, 15) -> [(5, 10), (50, 55)]
        """
        if not self.kept:
            return [(start, end)]
        spans: list[Span] = []
        at = 0
        for a, b in self.kept:
            first = max(start - at, 0)
            last = min(end - at, b - a)
            if first < last:
                spans.append((a + first, a + last))
            at += b - a
        return spans

    def children(self) -> list[list[int]]:
        """For each node the numbers of its children."""
        lists: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            if node.parent >= 0:
                lists[node.parent].append(i)
        return lists

    def leaves(self) -> list[int]:
        """The numbers of the leaves, in the order of the text."""
        return [i for i, node in enumerate(self.nodes) if node.leaf]

    def under(self, node: int) -> list[int]:
        """The numbers of the leaves under a node, in the order of the text; for a leaf its own
        number."""
        children = self.children()
        leaves: list[int] = []
        left = [node]
        while left:
            at = left.pop()
            left += children[at]
            if self.nodes[at].leaf:
                leaves.append(at)
        return sorted(leaves)

    def level(self, node: int) -> int:
        """How many ancestors a node has: 0 for one at the top."""
        parent = self.nodes[node].parent
        if parent < 0:
            return 0
        return 1 + self.level(parent)

    def to_index(self) -> Index:
        """The tree as an index: field name -> its value as JSON; a node is the list of its
        fields."""
        nodes = [list(astuple(node)) for node in self.nodes]
        return {**vars(self), "nodes": nodes, "kept": [list(span) for span in self.kept]}

    @classmethod
    def from_index(cls, index: Index) -> Tree:
        """The tree of an index that `to_index` made."""
        nodes = [Node(*row) for row in index["nodes"]]
        kept = [(a, b) for a, b in index["kept"]]
        return cls(nodes, index["placed"], index["structured"], list(index["notes"]), kept)


@dataclass
class _Stretch:
    """Text that belongs to one part of the outline.

    Attributes:
        start: Its first character.
        end: The character after its last one.
        path: The numbers of the parts that it is in, its own part last; () for none.
        gap: Whether no clip of the outline was found in it.
    """

    start: int
    end: int
    path: Path
    gap: bool = False

    @property
    def span(self) -> Span:
        """(start, end) of the stretch."""
        return self.start, self.end


@dataclass
class _Parts:
    """All parts of an outline, parents first; a part's number is its place in both lists.

    Attributes:
        parts: The parts.
        paths: For each part the numbers of the parts that it is in, its own last.
    """

    parts: list[Part] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def add(self, part: Part, path: Path) -> Path:
        """Append a part as a child of the part at `path`, () for none; returns its own path: (0,)
        -> (0, 3)."""
        self.parts.append(part)
        self.paths.append((*path, len(self.paths)))
        return self.paths[-1]

    def empty_between(self, before: Path, after: Path | None, used: set[int]) -> Path | None:
        """Find the first part between two parts of the outline that has no text yet.

        Args:
            before: The path of the part before; () for the beginning.
            after: The path of the part after; None for the end.
            used: The numbers of the parts that have text.

        Returns:
            The path of the part found; None where there is none.
        """
        first = 0
        if before:
            first = before[-1] + 1
        last = len(self.paths)
        if after is not None:
            last = first
            if after:
                last = after[-1]
        above = after or ()
        for number in range(first, last):
            if number not in used and number not in above:
                return self.paths[number]
        return None


def _clips_in_order(outline: Part) -> tuple[list[tuple[Clip, Path]], _Parts]:
    """The clips of an outline in order, each with the path of its part, and all parts of the
    outline."""
    parts = _Parts()
    clips: list[tuple[Clip, Path]] = []

    def walk(part: Part, path: Path) -> None:
        """Collect the clips and parts in `part`, which stands at `path`."""
        for child in part.children:
            if isinstance(child, Clip):
                clips.append((child, path))
            else:
                walk(child, parts.add(child, path))

    walk(outline, ())
    return clips, parts


def build(text: str, outline: Part, config: LongRefinerConfig, model: MeteredModel) -> Tree:
    """Build the tree of a text; its leaves cover every word of the text once.

    With method.unmatched=drop they cover only what the outline says something of.

    Args:
        text: The document's text.
        outline: The outline; Part("root") for none.
        config: The method's settings.
        model: The model whose tokens limit leaves.
    """
    clips, parts = _clips_in_order(outline)
    spans = place_clips([clip for clip, _ in clips], text)
    runs = _placed_stretches(spans, [path for _, path in clips])
    placed = _share_covered([run.span for run in runs], text)
    kept: list[Span] = []
    if config.structuring and config.unmatched == "drop":
        cut = _cut_to_clips(text, runs, parts)
        text = cut.text
        runs = cut.runs
        kept = cut.spans
    runs = list(_with_gaps(text, runs, parts, config))
    leaves: list[_Stretch] = []
    for run in _join_short_paragraphs(runs, text, config):
        leaves += _leaves(run, text, config, model)
    tree = Tree(_nodes(leaves, parts.parts), placed, kept=kept)
    top = [node for node in tree.nodes if node.parent < 0]
    titled = [(node.start, node.end) for node in top if not node.leaf]
    tree.structured = _share_covered(titled, text)
    lost = sum(span is None for span in spans)
    if config.structuring and text.strip() and not tree.structured:
        tree.notes.append(
            "no part of an outline was found, so the document is in chunks of sentences"
        )
    elif lost:
        tree.notes.append(f"{lost} of {len(spans)} paragraphs of the outline are not in the text")
    return tree


def _placed_stretches(spans: Sequence[Span | None], paths: Sequence[Path]) -> list[_Stretch]:
    """The stretch of text of each clip that has a place; [] where none of these is in a part.

    Args:
        spans: The span of each clip; None for one without a place.
        paths: The path of each clip's part.
    """
    runs: list[_Stretch] = []
    for span, path in zip(spans, paths, strict=True):
        if span is not None:
            runs.append(_Stretch(*span, path))
    if not any(run.path for run in runs):
        return []
    return runs


def _share_covered(spans: Sequence[Span], text: str) -> float:
    """The share of the text that is in the spans; 0 for a text of white space alone."""
    if not text.strip():
        return 0.0
    return coverage(spans, text)


@dataclass(frozen=True)
class _CutText:
    """A text cut to what the outline says something of.

    Attributes:
        text: What stays.
        runs: The stretches in it.
        spans: Where each of them is in the whole text.
    """

    text: str
    runs: list[_Stretch]
    spans: list[Span]


def _cut_to_clips(text: str, runs: Sequence[_Stretch], parts: _Parts) -> _CutText:
    """Leave out the text that the outline says nothing of.

    A clip is a paragraph as the outline writes it, shortened; a run is the text where a clip was
    found. The runs stay, each with the white space after it. As in the released code, the text
    before the first run stays too, as an abstract, where the outline has no abstract.

    Args:
        text: The document's text.
        runs: Where clips were found, in order; those in no part of the outline are left out.
        parts: The parts of the outline; an abstract is added to it where the text before the first
            run becomes one.

    Returns:
        The text that stays, the place of each run in it, and the place of each run in `text`.
    """
    placed = [run for run in runs if run.path]
    if placed and text[: placed[0].start].strip() and not _has_abstract(placed, parts):
        abstract_path = parts.add(Part("abstract"), ())
        placed.insert(0, _Stretch(0, placed[0].start, abstract_path))
    runs_in_cut: list[_Stretch] = []
    spans: list[Span] = []
    pieces: list[str] = []
    length = 0
    next_starts = [run.start for run in placed[1:]]
    next_starts.append(len(text))
    for run, next_start in zip(placed, next_starts, strict=False):
        between = text[run.end : next_start]
        n_blanks = len(between) - len(between.lstrip())
        end = run.end + n_blanks
        size = end - run.start
        spans.append((run.start, end))
        runs_in_cut.append(_Stretch(length, length + size, run.path))
        pieces.append(text[run.start : end])
        length += size
    return _CutText("".join(pieces), runs_in_cut, spans)


def _has_abstract(stretches: Sequence[_Stretch], parts: _Parts) -> bool:
    """Whether any of the stretches lies in an abstract."""
    part_numbers: set[int] = set()
    for stretch in stretches:
        part_numbers.update(stretch.path)
    return any(parts.parts[number].kind == "abstract" for number in part_numbers)


def _with_gaps(
    text: str, runs: Sequence[_Stretch], parts: _Parts, config: LongRefinerConfig
) -> Iterator[_Stretch]:
    """Yield the runs in order, with a run for each text between them; text without a word joins the
    run beside it.

    Also moves the ends of runs that such text joins.

    Args:
        text: The document's text.
        runs: The stretches of text where clips were found, in order.
        parts: The parts of the outline; an abstract may be added to it.
        config: The method's settings.
    """
    used: set[int] = set()
    for run in runs:
        used.update(run.path)
    at = 0
    before: _Stretch | None = None
    for after in [*runs, None]:
        stop = len(text)
        if after is not None:
            stop = after.start
        between = text[at:stop]
        has_word = re.search(r"\w", between) is not None
        if between.strip() and not has_word and before is not None:
            before.end = stop
        elif between.strip() and not has_word and after is not None:
            after.start = at
        elif between.strip():
            is_small = _word_count(between) < config.paragraph_words
            owner = _owner(before, after, parts, used, is_small)
            if before is not None:
                yield before
            before = _Stretch(at, stop, owner, gap=True)
        if after is not None:
            if before is not None:
                yield before
            before = after
            at = after.end
    if before is not None:
        yield before


def _owner(
    before: _Stretch | None, after: _Stretch | None, parts: _Parts, used: set[int], small: bool
) -> Path:
    """The path of the part that a gap belongs to, by the rule at the head of this file.

    Args:
        before: The run before it, None for none.
        after: The run after it, None for none.
        parts: The parts of the outline; an abstract may be added to it.
        used: The numbers of the parts with text; the owner is added where it had none.
        small: Whether the gap is shorter than a paragraph.
    """
    if before is None and after is None:
        return ()
    path_before: Path = ()
    if before is not None:
        path_before = before.path
    path_after: Path | None = None
    if after is not None:
        path_after = after.path
    empty = parts.empty_between(path_before, path_after, used)
    if empty is not None:
        used.update(empty)
        return empty
    if before is None:
        return _abstract_before(path_after or (), parts, used)
    if small:
        return path_before
    return _common_path(path_before, path_after or ())


def _abstract_before(after: Path, parts: _Parts, used: set[int]) -> Path:
    """The path of the abstract that text before all clips belongs to; () where the abstract comes
    later.

    Args:
        after: The path of the part after the text.
        parts: The parts of the outline; an abstract is added where no used one is there.
        used: The numbers of the parts with text.
    """
    has_abstract = any(parts.parts[number].kind == "abstract" for number in used)
    if not has_abstract:
        return parts.add(Part("abstract"), ())
    if after and parts.parts[after[0]].kind == "abstract":
        return after[:1]
    return ()


def _common_path(first: Path, second: Path) -> Path:
    """What two paths have in common from their beginning: (0, 2, 5), (0, 2, 7) -> (0, 2)."""
    shared: list[int] = []
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        shared.append(a)
    return tuple(shared)


def _word_count(text: str) -> int:
    """The number of words between white space, or one for eight characters where that is more, as
    in a text that is written without."""
    return max(len(text.split()), len(text) // 8)


def _join_short_paragraphs(
    runs: Sequence[_Stretch], text: str, config: LongRefinerConfig
) -> Iterator[_Stretch]:
    """Yield the stretches, neighbours of one part joined until they have paragraph_words
    (docs/methods/longrefiner.md#longrefiner-leaves).

    Args:
        runs: Stretches of text, in order; a gap of at least paragraph_words stays alone.
        text: The document's text.
        config: The method's settings.
    """
    open_run: _Stretch | None = None
    words = 0
    for run in runs:
        size = _word_count(text[run.start : run.end])
        is_long_gap = run.gap and size >= config.paragraph_words
        if open_run is not None:
            is_full = words >= config.paragraph_words
            if is_long_gap or is_full or open_run.path != run.path:
                yield open_run
                open_run = None
        if is_long_gap:
            yield run
        elif open_run is not None:
            open_run.end = run.end
            open_run.gap = open_run.gap and run.gap
            words += size
        else:
            open_run = replace(run)
            words = size
    if open_run is not None:
        yield open_run


def _leaves(
    run: _Stretch, text: str, config: LongRefinerConfig, model: MeteredModel
) -> Iterator[_Stretch]:
    """Yield the leaves of a stretch of text, without the white space around them.

    Args:
        run: The stretch; a gap is cut into chunks of sentences.
        text: The document's text.
        config: The method's settings; leaf_tokens limits a leaf.
        model: The model whose tokens are counted.
    """
    inside = text[run.start : run.end]
    max_tokens = config.leaf_tokens or sys.maxsize
    if run.gap:
        spans: list[Span] = sentence_chunks(inside, config.chunk_sentences, max_tokens, model)
    elif model.count(inside) > max_tokens:
        spans = packed_chunks(inside, max_tokens, model)
    else:
        spans = [trimmed(inside, 0, len(inside))]
    for a, b in spans:
        yield _Stretch(run.start + a, run.start + b, run.path, run.gap)


def _nodes(leaves: Sequence[_Stretch], parts: Sequence[Part]) -> list[Node]:
    """The nodes of a tree with these leaves, in the order of the text: each part before what is in
    it.

    Args:
        leaves: The leaves, in order.
        parts: The parts that their paths name by number.
    """
    nodes: list[Node] = []
    node_of_part: dict[int, int] = {}
    for leaf in leaves:
        parent = -1
        for number in leaf.path:
            if number not in node_of_part:
                node_of_part[number] = len(nodes)
                part = parts[number]
                nodes.append(Node(part.kind, part.title, leaf.start, leaf.end, parent))
            parent = node_of_part[number]
            # A part ends where the last of its leaves ends.
            nodes[parent] = replace(nodes[parent], end=leaf.end)
        kind = "paragraph"
        if leaf.gap:
            kind = "chunk"
        nodes.append(Node(kind, "", leaf.start, leaf.end, parent))
    return nodes
