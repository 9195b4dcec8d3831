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
from typing import NamedTuple

from harness.method import Index
from harness.models import MeteredModel
from harness.types import Document
from methods.chunks import Span, trimmed
from methods.longrefiner.config import LongRefinerConfig
from methods.longrefiner.filling import place_clips, share_covered
from methods.longrefiner.outline import Clip, Part
from methods.packing import packed_chunks, sentence_chunks

PartPath = tuple[int, ...]
_KINDS_OF_PARTS = ("abstract", "section", "sub-section")


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
    def is_leaf(self) -> bool:
        """Whether it has no children: parts always have some."""
        return self.kind not in _KINDS_OF_PARTS


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
        return replace(
            document,
            text="".join(document.text[kept_start:kept_end] for kept_start, kept_end in self.kept),
        )

    def spans_in_document(self, start: int, end: int) -> list[Span]:
        """The spans of the original document that text[start:end] of the tree's text is made of.

        kept [(0, 10), (50, 60)]: spans_in_document(5, 15) -> [(5, 10), (50, 55)]
        """
        if not self.kept:
            return [(start, end)]
        spans: list[Span] = []
        position = 0
        for kept_start, kept_end in self.kept:
            start_in_span = max(start - position, 0)
            end_in_span = min(end - position, kept_end - kept_start)
            if start_in_span < end_in_span:
                spans.append((kept_start + start_in_span, kept_start + end_in_span))
            position += kept_end - kept_start
        return spans

    def children(self) -> list[list[int]]:
        """For each node the numbers of its children."""
        children_of_nodes: list[list[int]] = [[] for _ in self.nodes]
        for number, node in enumerate(self.nodes):
            if node.parent >= 0:
                children_of_nodes[node.parent].append(number)
        return children_of_nodes

    def leaves(self) -> list[int]:
        """The numbers of the leaves, in the order of the text."""
        return [number for number, node in enumerate(self.nodes) if node.is_leaf]

    def leaves_under(self, node: int) -> list[int]:
        """The numbers of the leaves under a node, in the order of the text; for a leaf its own
        number."""
        children = self.children()
        leaves: list[int] = []
        to_visit = [node]
        while to_visit:
            current = to_visit.pop()
            to_visit += children[current]
            if self.nodes[current].is_leaf:
                leaves.append(current)
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
        kept = [(kept_start, kept_end) for kept_start, kept_end in index["kept"]]
        return cls(nodes, index["placed"], index["structured"], list(index["notes"]), kept)


@dataclass
class _TextOfPart:
    """Text that belongs to one part of the outline.

    Attributes:
        start: Its first character.
        end: The character after its last one.
        part_path: The numbers of the parts that it is in, its own part last; () for none.
        is_gap: Whether no clip of the outline was found in it.
    """

    start: int
    end: int
    part_path: PartPath
    is_gap: bool = False

    @property
    def span(self) -> Span:
        """(start, end) of the stretch."""
        return self.start, self.end


@dataclass
class _OutlineParts:
    """All parts of an outline, parents first; a part's number is its place in both lists.

    Attributes:
        parts: The parts.
        paths: For each part the numbers of the parts that it is in, its own last.
    """

    parts: list[Part] = field(default_factory=list)
    paths: list[PartPath] = field(default_factory=list)

    def add(self, part: Part, path: PartPath) -> PartPath:
        """Append a part as a child of the part at `path`, () for none; returns its own path:
        (0,) -> (0, 3)."""
        self.parts.append(part)
        self.paths.append((*path, len(self.paths)))
        return self.paths[-1]

    def first_part_without_text(
        self, path_before: PartPath, path_after: PartPath | None, parts_with_text: set[int]
    ) -> PartPath | None:
        """Find the first part between two parts of the outline that has no text yet.

        Parts are numbered in the order of the outline, so those between two parts have the numbers
        between theirs. The parts that hold the part after are not meant.

        Args:
            path_before: The path of the part before; () for the beginning.
            path_after: The path of the part after; () for text of no part, before which no part is
                looked for; None for the end.
            parts_with_text: The numbers of the parts that have text.

        Returns:
            The path of the part found; None where there is none.
        """
        first_number = 0
        if path_before:
            first_number = path_before[-1] + 1
        if path_after is None:
            end_number = len(self.paths)
        elif path_after:
            end_number = path_after[-1]
        else:
            end_number = first_number
        parts_that_hold_part_after = path_after or ()
        for number in range(first_number, end_number):
            if number not in parts_with_text and number not in parts_that_hold_part_after:
                return self.paths[number]
        return None


class _ClipOfPart(NamedTuple):
    """A clip of an outline, and the path of the part that it is in; () for none."""

    clip: Clip
    part_path: PartPath


def _clips_in_order(outline: Part) -> tuple[list[_ClipOfPart], _OutlineParts]:
    """The clips of an outline in order, each with the path of its part (the numbers of the parts
    that it is in: (0, 3)), and all parts of the outline."""
    parts = _OutlineParts()
    clips: list[_ClipOfPart] = []

    def collect(part: Part, part_path: PartPath) -> None:
        """Collect the clips and parts in `part`, which stands at `part_path`."""
        for child in part.children:
            if isinstance(child, Clip):
                clips.append(_ClipOfPart(child, part_path))
            else:
                path_of_child = parts.add(child, part_path)
                collect(child, path_of_child)

    collect(outline, ())
    return clips, parts


def build_tree(text: str, outline: Part, config: LongRefinerConfig, model: MeteredModel) -> Tree:
    """Build the tree of a text; its leaves cover every word of the text once.

    Its parts are those of the outline whose paragraphs were found in the text. With
    method.unmatched=drop the leaves cover only what the outline says something of.

    Args:
        text: The document's text.
        outline: The outline; Part("root") for none.
        config: The method's settings.
        model: The model whose tokens limit leaves.
    """
    clips, parts = _clips_in_order(outline)  # further steps may add an abstract to the parts
    spans = place_clips([clip_of_part.clip for clip_of_part in clips], text)
    runs = _runs_of_placed_clips(spans, [clip_of_part.part_path for clip_of_part in clips])
    share_placed = _share_covered([run.span for run in runs], text)
    kept_spans: list[Span] = []
    if config.structuring and config.unmatched == "drop":
        text_with_clips = _without_unmatched_text(text, runs, parts)
        text = text_with_clips.text
        runs = text_with_clips.runs
        kept_spans = text_with_clips.spans
    runs = list(_runs_and_gaps(text, runs, parts, config))
    leaves: list[_TextOfPart] = []
    for run in _join_short_paragraphs(runs, text, config):
        leaves += _cut_into_leaves(run, text, config, model)
    nodes = _nodes_over_leaves(leaves, parts.parts)
    tree = Tree(nodes=nodes, placed=share_placed, kept=kept_spans)
    top_nodes = [node for node in tree.nodes if node.parent < 0]
    spans_under_titles = [(node.start, node.end) for node in top_nodes if not node.is_leaf]
    tree.structured = _share_covered(spans_under_titles, text)
    should_have_parts = config.structuring and bool(text.strip())
    n_not_found = sum(span is None for span in spans)
    if should_have_parts and not tree.structured:
        tree.notes.append(
            "no part of an outline was found, so the document is in chunks of sentences"
        )
    elif n_not_found:
        tree.notes.append(
            f"{n_not_found} of {len(spans)} paragraphs of the outline are not in the text"
        )
    return tree


def _runs_of_placed_clips(
    spans: Sequence[Span | None], paths: Sequence[PartPath]
) -> list[_TextOfPart]:
    """The stretch of text of each clip that has a place; [] where none of these is in a part.

    Args:
        spans: The span of each clip; None for one without a place.
        paths: The path of each clip's part.
    """
    runs: list[_TextOfPart] = []
    for span, path in zip(spans, paths, strict=True):
        if span is not None:
            runs.append(_TextOfPart(*span, path))
    some_run_is_in_a_part = any(run.part_path for run in runs)
    if some_run_is_in_a_part:
        return runs
    return []


def _share_covered(spans: Sequence[Span], text: str) -> float:
    """The share of the text that is in the spans; 0 for a text of white space alone."""
    if not text.strip():
        return 0.0
    return share_covered(spans, text)


@dataclass(frozen=True)
class _TextWithClips:
    """A text cut to what the outline says something of.

    Attributes:
        text: What stays.
        runs: The stretches in it.
        spans: Where each of them is in the whole text.
    """

    text: str
    runs: list[_TextOfPart]
    spans: list[Span]


def _without_unmatched_text(
    text: str, runs: Sequence[_TextOfPart], parts: _OutlineParts
) -> _TextWithClips:
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
    runs_in_parts = [run for run in runs if run.part_path]
    if runs_in_parts and not _has_abstract(runs_in_parts, parts):
        first_start = runs_in_parts[0].start
        if text[:first_start].strip():
            abstract_path = parts.add(Part("abstract"), ())
            runs_in_parts.insert(0, _TextOfPart(start=0, end=first_start, part_path=abstract_path))
    runs_in_cut: list[_TextOfPart] = []
    spans: list[Span] = []
    run_texts: list[str] = []
    length_so_far = 0
    next_starts = [run.start for run in runs_in_parts[1:]]
    next_starts.append(len(text))
    # Without any run there is a start too many.
    for run, next_start in zip(runs_in_parts, next_starts, strict=False):
        between = text[run.end : next_start]
        n_blanks = len(between) - len(between.lstrip())
        end = run.end + n_blanks
        run_length = end - run.start
        spans.append((run.start, end))
        runs_in_cut.append(
            _TextOfPart(
                start=length_so_far, end=length_so_far + run_length, part_path=run.part_path
            )
        )
        run_texts.append(text[run.start : end])
        length_so_far += run_length
    return _TextWithClips(text="".join(run_texts), runs=runs_in_cut, spans=spans)


def _has_abstract(stretches: Sequence[_TextOfPart], parts: _OutlineParts) -> bool:
    """Whether any of the stretches lies in an abstract."""
    part_numbers: set[int] = set()
    for stretch in stretches:
        part_numbers.update(stretch.part_path)
    return any(parts.parts[number].kind == "abstract" for number in part_numbers)


def _runs_and_gaps(
    text: str, runs: Sequence[_TextOfPart], parts: _OutlineParts, config: LongRefinerConfig
) -> Iterator[_TextOfPart]:
    """Yield the runs in order, with a run for each text between them; text without a word joins the
    run beside it.

    Also moves the ends of runs that such text joins.

    Args:
        text: The document's text.
        runs: The stretches of text where clips were found, in order.
        parts: The parts of the outline; an abstract may be added to it.
        config: The method's settings.
    """
    parts_with_text: set[int] = set()
    for run in runs:
        parts_with_text.update(run.part_path)
    gap_start = 0
    run_before: _TextOfPart | None = None  # yielded when no text after it can join it any more
    for run_after in [*runs, None]:  # None: the end of the text
        gap_end = len(text)
        if run_after is not None:
            gap_end = run_after.start
        gap_text = text[gap_start:gap_end]
        has_text = bool(gap_text.strip())
        has_marks_alone = has_text and re.search(r"\w", gap_text) is None
        if has_marks_alone and run_before is not None:
            run_before.end = gap_end
        elif has_marks_alone and run_after is not None:
            run_after.start = gap_start
        elif has_text:
            is_small = _word_count(gap_text) < config.paragraph_words
            part_path = _part_of_gap(run_before, run_after, parts, parts_with_text, is_small)
            if run_before is not None:
                yield run_before
            run_before = _TextOfPart(start=gap_start, end=gap_end, part_path=part_path, is_gap=True)
        if run_after is not None:
            if run_before is not None:
                yield run_before
            run_before = run_after
            gap_start = run_after.end
    if run_before is not None:
        yield run_before


def _part_of_gap(
    run_before: _TextOfPart | None,
    run_after: _TextOfPart | None,
    parts: _OutlineParts,
    parts_with_text: set[int],
    is_small: bool,
) -> PartPath:
    """The path of the part that a gap belongs to; () for no part, as in a text without clips.

    It is the first part of the outline there that has no text yet; before all clips the abstract;
    for a small gap the part before it; else what the parts around it have in common.

    Args:
        run_before: The run before it, None for none.
        run_after: The run after it, None for none.
        parts: The parts of the outline; an abstract may be added to it.
        parts_with_text: The numbers of the parts with text; the owner is added where it had none.
        is_small: Whether the gap is shorter than a paragraph.
    """
    if run_before is None and run_after is None:
        return ()
    path_before: PartPath = ()
    if run_before is not None:
        path_before = run_before.part_path
    path_after: PartPath | None = None
    if run_after is not None:
        path_after = run_after.part_path
    part_without_text = parts.first_part_without_text(path_before, path_after, parts_with_text)
    if part_without_text is not None:
        parts_with_text.update(part_without_text)
        return part_without_text
    if run_before is None:
        return _abstract_before(path_after or (), parts, parts_with_text)
    if is_small:
        return path_before
    return _common_path(path_before, path_after or ())


def _abstract_before(
    path_after: PartPath, parts: _OutlineParts, parts_with_text: set[int]
) -> PartPath:
    """The path of the abstract that text before all clips belongs to; () where the abstract comes
    later.

    Args:
        path_after: The path of the part after the text.
        parts: The parts of the outline; an abstract is added where no used one is there.
        parts_with_text: The numbers of the parts with text.
    """
    has_abstract = any(parts.parts[number].kind == "abstract" for number in parts_with_text)
    if not has_abstract:
        return parts.add(Part("abstract"), ())
    if path_after and parts.parts[path_after[0]].kind == "abstract":
        return path_after[:1]
    return ()


def _common_path(first: PartPath, second: PartPath) -> PartPath:
    """What two paths have in common from their beginning: (0, 2, 5), (0, 2, 7) -> (0, 2)."""
    shared: list[int] = []
    for first_part, second_part in zip(first, second, strict=False):
        if first_part != second_part:
            break
        shared.append(first_part)
    return tuple(shared)


def _word_count(text: str) -> int:
    """The number of words between white space, or one for eight characters where that is more, as
    in a text that is written without."""
    return max(len(text.split()), len(text) // 8)


def _join_short_paragraphs(
    runs: Sequence[_TextOfPart], text: str, config: LongRefinerConfig
) -> Iterator[_TextOfPart]:
    """Yield the stretches, neighbours of one part joined until they have paragraph_words
    (docs/methods/longrefiner.md#longrefiner-leaves). What is joined is a gap where all of it is.

    Args:
        runs: Stretches of text, in order; a gap of at least paragraph_words stays alone.
        text: The document's text.
        config: The method's settings.
    """
    open_run: _TextOfPart | None = None
    words_in_open_run = 0
    for run in runs:
        n_words = _word_count(text[run.start : run.end])
        is_long_gap = run.is_gap and n_words >= config.paragraph_words
        if open_run is not None:
            is_full = words_in_open_run >= config.paragraph_words
            if is_long_gap or is_full or open_run.part_path != run.part_path:
                yield open_run
                open_run = None
        if is_long_gap:
            yield run
        elif open_run is not None:
            open_run.end = run.end
            open_run.is_gap = open_run.is_gap and run.is_gap
            words_in_open_run += n_words
        else:
            open_run = replace(run)
            words_in_open_run = n_words
    if open_run is not None:
        yield open_run


def _cut_into_leaves(
    run: _TextOfPart, text: str, config: LongRefinerConfig, model: MeteredModel
) -> Iterator[_TextOfPart]:
    """Yield the leaves of a stretch of text, without the white space around them.

    Args:
        run: The stretch; a gap is cut into chunks of sentences.
        text: The document's text.
        config: The method's settings; leaf_tokens limits a leaf (0: no limit).
        model: The model whose tokens are counted.
    """
    run_text = text[run.start : run.end]
    max_tokens = config.leaf_tokens or sys.maxsize
    if run.is_gap:
        spans: list[Span] = sentence_chunks(run_text, config.chunk_sentences, max_tokens, model)
    elif model.count(run_text) > max_tokens:
        spans = packed_chunks(run_text, max_tokens, model)
    else:
        spans = [trimmed(run_text, 0, len(run_text))]
    for leaf_start, leaf_end in spans:
        yield replace(run, start=run.start + leaf_start, end=run.start + leaf_end)


def _nodes_over_leaves(leaves: Sequence[_TextOfPart], parts: Sequence[Part]) -> list[Node]:
    """The nodes of a tree with these leaves, in the order of the text: each part before what is in
    it.

    Args:
        leaves: The leaves, in order.
        parts: The parts that their paths name by number.
    """
    nodes: list[Node] = []
    node_of_part: dict[int, int] = {}
    for leaf in leaves:
        parent = -1  # of a node without a parent
        for number in leaf.part_path:
            if number not in node_of_part:
                node_of_part[number] = len(nodes)
                part = parts[number]
                part_node = Node(
                    kind=part.kind,
                    title=part.title,
                    start=leaf.start,
                    end=leaf.end,
                    parent=parent,
                )
                nodes.append(part_node)
            parent = node_of_part[number]
            # A part ends where the last of its leaves ends.
            nodes[parent] = replace(nodes[parent], end=leaf.end)
        kind = "paragraph"
        if leaf.is_gap:
            kind = "chunk"
        leaf_node = Node(kind=kind, title="", start=leaf.start, end=leaf.end, parent=parent)
        nodes.append(leaf_node)
    return nodes
