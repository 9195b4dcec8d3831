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

import itertools
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
    """text[start:end] of the document. kind: abstract, section, sub-section, or a leaf: paragraph,
    chunk (of a gap)."""

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
    """nodes: in the order of the text, a parent before its children. placed: share of the text
    (white space aside) that clips stand for; structured: share that is under a title; kept: the
    spans of the document that the text is made of, [] for all of it.
    """

    nodes: list[Node] = field(default_factory=list)
    placed: float = 0.0
    structured: float = 0.0
    notes: list[str] = field(default_factory=list)
    kept: list[Span] = field(default_factory=list)

    def view(self, document: Document) -> Document:
        """The document with the text that the tree is of."""
        return (
            replace(document, text="".join(document.text[a:b] for a, b in self.kept))
            if self.kept
            else document
        )

    def original(self, start: int, end: int) -> list[Span]:
        """The spans of the original document that text[start:end] is made of."""
        spans, at = [], 0
        for a, b in self.kept:
            first, last = max(start - at, 0), min(end - at, b - a)
            spans += [(a + first, a + last)] if first < last else []
            at += b - a
        return spans if self.kept else [(start, end)]

    def children(self) -> list[list[int]]:
        """The numbers of the children of every node."""
        lists: list[list[int]] = [[] for _ in self.nodes]
        for i, node in enumerate(self.nodes):
            if node.parent >= 0:
                lists[node.parent].append(i)
        return lists

    def leaves(self) -> list[int]:
        """The leaves in the order of the text."""
        return [i for i, node in enumerate(self.nodes) if node.leaf]

    def under(self, node: int) -> list[int]:
        """The leaves of a node in order, or the leaf itself."""
        children = self.children()
        leaves: list[int] = []
        left = [node]
        while left:
            at = left.pop()
            left += children[at]
            leaves += [at] if self.nodes[at].leaf else []
        return sorted(leaves)

    def level(self, node: int) -> int:
        """The number of ancestors of a node."""
        parent = self.nodes[node].parent
        return 0 if parent < 0 else 1 + self.level(parent)

    def to_index(self) -> Index:
        """The tree as JSON values."""
        nodes = [list(astuple(node)) for node in self.nodes]
        return {**vars(self), "nodes": nodes, "kept": [list(span) for span in self.kept]}

    @classmethod
    def from_index(cls, index: Index) -> Tree:
        """The inverse of `to_index`."""
        nodes = [Node(*row) for row in index["nodes"]]
        kept = [(a, b) for a, b in index["kept"]]
        return cls(nodes, index["placed"], index["structured"], list(index["notes"]), kept)


@dataclass
class _Stretch:
    """Text that belongs to the part at the end of `path` (numbers of parts); gap: no clip stands
    for it."""

    start: int
    end: int
    path: Path
    gap: bool = False


@dataclass
class _Parts:
    """All parts of an outline, parents first, with the numbers of those they are in, their own
    last."""

    parts: list[Part] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)

    def add(self, part: Part, path: Path) -> Path:
        """Put `part` below the part at `path`; returns its own path."""
        self.parts.append(part)
        self.paths.append((*path, len(self.paths)))
        return self.paths[-1]

    def empty_between(self, before: Path, after: Path | None, used: set[int]) -> Path | None:
        """The path of the first part between two paths that is not `used`, or None; after: None =
        the end."""
        first = before[-1] + 1 if before else 0
        last = len(self.paths) if after is None else after[-1] if after else first
        free = (i for i in range(first, last) if i not in used and i not in (after or ()))
        return next((self.paths[i] for i in free), None)


def _clips_in_order(outline: Part) -> tuple[list[tuple[Clip, Path]], _Parts]:
    """The clips in order with the parts they are in."""
    parts = _Parts()
    clips: list[tuple[Clip, Path]] = []

    def walk(part: Part, path: Path) -> None:
        """Collect the clips and parts in `part`."""
        for child in part.children:
            if isinstance(child, Clip):
                clips.append((child, path))
            else:
                walk(child, parts.add(child, path))

    walk(outline, ())
    return clips, parts


def build(text: str, outline: Part, config: LongRefinerConfig, model: MeteredModel) -> Tree:
    """The tree of `text` as the outline has it; its leaves cover every word of the text once."""
    clips, parts = _clips_in_order(outline)
    spans = place_clips([clip for clip, _ in clips], text)
    runs = [
        _Stretch(*span, path)
        for span, (_, path) in zip(spans, clips, strict=True)
        if span is not None
    ]
    if not any(run.path for run in runs):
        runs = []
    placed = coverage([(run.start, run.end) for run in runs], text)
    kept: list[Span] = []
    if config.structuring and config.unmatched == "drop":
        text, runs, kept = _cut_to_clips(text, runs, parts)
    runs = list(_with_gaps(text, runs, parts, config))
    leaves = [
        leaf
        for run in _join_short_paragraphs(runs, text, config)
        for leaf in _leaves(run, text, config, model)
    ]
    tree = Tree(_nodes(leaves, parts.parts), placed if text.strip() else 0.0, kept=kept)
    titled = [(n.start, n.end) for n in tree.nodes if not n.leaf and n.parent < 0]
    tree.structured = coverage(titled, text) if text.strip() else 0.0
    lost = sum(span is None for span in spans)
    if config.structuring and text.strip() and not tree.structured:
        tree.notes.append(
            "no part of an outline was found, so the document is in chunks of sentences"
        )
    elif lost:
        tree.notes.append(f"{lost} of {len(spans)} paragraphs of the outline are not in the text")
    return tree


def _cut_to_clips(
    text: str, runs: Sequence[_Stretch], parts: _Parts
) -> tuple[str, list[_Stretch], list[Span]]:
    """(text, runs in it, its spans in the whole text) of what clips stand for, and of the text
    before it.

    As in the released code, that is the abstract where the outline has none.
    """
    placed = [run for run in runs if run.path]
    kinds = {parts.parts[number].kind for run in placed for number in run.path}
    if placed and text[: placed[0].start].strip() and "abstract" not in kinds:
        placed.insert(0, _Stretch(0, placed[0].start, parts.add(Part("abstract"), ())))
    spans: list[Span] = []
    for run, after in zip(
        placed, [*(other.start for other in placed[1:]), len(text)], strict=False
    ):
        blank = len(text[run.end : after]) - len(text[run.end : after].lstrip())
        spans.append((run.start, run.end + blank))
    ends = list(itertools.accumulate(end - start for start, end in spans))
    moved = [
        _Stretch(end - (b - a), end, run.path)
        for run, end, (a, b) in zip(placed, ends, spans, strict=True)
    ]
    return "".join(text[a:b] for a, b in spans), moved, spans


def _with_gaps(
    text: str, runs: Sequence[_Stretch], parts: _Parts, config: LongRefinerConfig
) -> Iterator[_Stretch]:
    """Add runs for all text between the runs; text without a word joins the run beside it."""
    used = {number for run in runs for number in run.path}
    at = 0
    before: _Stretch | None = None
    for after in [*runs, None]:
        stop = after.start if after else len(text)
        gap = text[at:stop]
        if gap.strip() and not re.search(r"\w", gap) and (before or after):
            if before:
                before.end = stop
            elif after:
                after.start = at
        elif gap.strip():
            owner = _owner(before, after, parts, used, _word_count(gap) < config.paragraph_words)
            if before:
                yield before
            before = _Stretch(at, stop, owner, gap=True)
        if after:
            if before:
                yield before
            before, at = after, after.end
    if before:
        yield before


def _owner(
    before: _Stretch | None, after: _Stretch | None, parts: _Parts, used: set[int], small: bool
) -> Path:
    """The path of the part that a gap between two runs belongs to; used: parts with text; small: a
    short gap."""
    if before is None and after is None:
        return ()
    front, back = (before.path if before else ()), (after.path if after else None)
    empty = parts.empty_between(front, back, used)
    if empty is not None:
        used.update(empty)
        return empty
    if before is None:
        assert after is not None  # one of the two is there
        if not any(parts.parts[number].kind == "abstract" for number in used):
            return parts.add(Part("abstract"), ())
        return (
            after.path[:1] if after.path and parts.parts[after.path[0]].kind == "abstract" else ()
        )
    if small:
        return front
    shared = next(
        (i for i, (a, b) in enumerate(zip(front, back or (), strict=False)) if a != b), None
    )
    return front[: min(len(front), len(back or ())) if shared is None else shared]


def _word_count(text: str) -> int:
    """Words, by white space; a text that is written without any has one for eight characters."""
    return max(len(text.split()), len(text) // 8)


def _join_short_paragraphs(
    runs: Sequence[_Stretch], text: str, config: LongRefinerConfig
) -> Iterator[_Stretch]:
    """Join a part's runs to at least paragraph_words, no long gaps
    (docs/methods/longrefiner.md#longrefiner-leaves)."""
    open_run: _Stretch | None = None
    words = 0
    for run in runs:
        size = _word_count(text[run.start : run.end])
        loose = run.gap and size >= config.paragraph_words
        if open_run and (loose or open_run.path != run.path or words >= config.paragraph_words):
            yield open_run
            open_run = None
        if loose:
            yield run
        elif open_run:
            open_run.end, words = run.end, words + size
            open_run.gap = open_run.gap and run.gap
        else:
            open_run, words = _Stretch(run.start, run.end, run.path, run.gap), size
    if open_run:
        yield open_run


def _leaves(
    run: _Stretch, text: str, config: LongRefinerConfig, model: MeteredModel
) -> Iterator[_Stretch]:
    """The run as leaves of `leaf_tokens` at most, without the white space around them."""
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
    """The nodes of a tree with these leaves: each part before what is in it."""
    rows: list[Node] = []
    number: dict[int, int] = {}
    last: dict[int, int] = {}
    for leaf in leaves:
        parent = -1
        for part in leaf.path:
            if part not in number:
                number[part] = len(rows)
                rows.append(Node(parts[part].kind, parts[part].title, leaf.start, leaf.end, parent))
            parent = number[part]
            last[parent] = leaf.end
        rows.append(Node("chunk" if leaf.gap else "paragraph", "", leaf.start, leaf.end, parent))
    return [
        Node(n.kind, n.title, n.start, last.get(i, n.end), n.parent) for i, n in enumerate(rows)
    ]
