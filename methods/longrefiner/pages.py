"""An outline made from a page's own headings, as the paper's training data is made of Wikipedia.

    page = page_from_text(text, offsets)    Page(text="body without headings", outline=Part("root", ...)), or None

Headings are read as KILT's Wikipedia has them ("Section::::Career.:Early years."), as a wiki ("==
Career ==") or as Markdown ("## Career"). Lines of lists go, and all from "See also" on; headings of
a third level are text's own no more; one that has nothing below it is dropped. A paragraph of fewer
than 20 words joins the next one; the last joins the one before (the released script loses it).
Pages of fewer than 3 paragraphs say nothing about structure. Source:
docs/methods/longrefiner.md#longrefiner-training.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from methods.chunks import Span
from methods.kept_text import join_spans
from methods.longrefiner.outline import Part, shorten_paragraph

TOKENS_PER_END = 8
"""Tokens that are kept of each end of a paragraph (the released script's number)."""

_KILT = re.compile(r"Section::::(?P<title>.+?)\.?\s*$")
_WIKI = re.compile(r"(?P<marks>={2,6})\s*(?P<title>[^=].*?)\s*=+\s*$")
_MARKDOWN = re.compile(r"(?P<marks>#{1,6})\s+(?P<title>.*?)\s*#*\s*$")
_LIST_LINE = re.compile(r"(BULLET::::|[*\-+] |\d+[.)] )")
_TITLES_AFTER_THE_BODY = frozenset(
    {"see also", "references", "external links", "notes", "further reading"}
)
_MIN_WORDS, _MIN_PARAGRAPHS = 20, 3

OffsetsOf = Callable[[str], Sequence[tuple[int, int]]]


@dataclass(frozen=True)
class Page:
    """A page as text and outline.

    Attributes:
        text: The body, its paragraphs joined by spaces.
        outline: Its root, with every paragraph clipped.
    """

    text: str
    outline: Part


@dataclass
class _HeadingBlock:
    """The paragraphs under one heading; level 0 is the text before all headings."""

    level: int
    title: str
    paragraphs: list[str] = field(default_factory=list)


def page_from_text(text: str, offsets: OffsetsOf) -> Page | None:
    """The body and the outline of a page; None for one without headings or with too few paragraphs.

        "Ann is ...\\n== Career ==\\nShe wrote ...\\nShe won ..."
            -> Page("Ann is ... She wrote ... She won ...", outline)

    Here the outline is a root with an abstract ("Ann is ...") and a section "Career" of two
    paragraphs; paragraphs of fewer than 20 words were joined before.

    Args:
        text: The page, with its headings.
        offsets: Gives (start, end) of each token of a text; by them the paragraphs of the outline
            are shortened to their first and last TOKENS_PER_END tokens.
    """
    blocks = [
        replace(block, paragraphs=_merge_short(block.paragraphs)) for block in _heading_blocks(text)
    ]
    if len(blocks) < 2:
        return None
    paragraphs: list[str] = []
    for block in blocks:
        paragraphs += block.paragraphs
    if len(paragraphs) < _MIN_PARAGRAPHS:
        return None
    children = _outline_parts(blocks, offsets)
    return Page(" ".join(paragraphs), Part("root", title="", children=tuple(children)))


def _heading_blocks(text: str) -> list[_HeadingBlock]:
    """The paragraphs of a page under each heading of its two upper levels, up to the references and
    such.

    Lines of lists are left out; what is under deeper headings belongs to the heading above. The
    first block, of level 0, has what stands before all headings.
    """
    blocks = [_HeadingBlock(level=0, title="")]
    lines = [line.strip() for line in text.splitlines()]
    headings = [heading for heading in map(_parse_heading, lines) if heading is not None]
    top_level = min((level for level, _ in headings), default=1)
    for line in lines:
        heading = _parse_heading(line)
        if heading is None:
            if line and not _LIST_LINE.match(line):
                blocks[-1].paragraphs.append(" ".join(line.split()))
            continue
        level, title = heading
        if title.lower() in _TITLES_AFTER_THE_BODY:
            break
        if level - top_level < 2:
            blocks.append(_HeadingBlock(level=1 + level - top_level, title=title))
    return blocks


def body_spans(text: str) -> list[Span]:
    """The spans of a text between its lines that are headings; those that touch are joined."""
    spans: list[Span] = []
    line_start = 0
    for line in text.splitlines(keepends=True):
        line_end = line_start + len(line)
        if _parse_heading(line.strip()) is None:
            spans.append((line_start, line_end))
        line_start = line_end
    return join_spans(spans)


def _parse_heading(line: str) -> tuple[int, str] | None:
    """(level, title) of a line that is a heading, else None.

    "== Career ==" -> (2, "Career")
    "Section::::Career.:Early years." -> (2, "Early years")
    """
    kilt = _KILT.match(line)
    if kilt:
        *titles_above, title = kilt["title"].split(".:")
        return 1 + len(titles_above), title
    for pattern in (_WIKI, _MARKDOWN):
        match = pattern.match(line)
        if match:
            return len(match["marks"]), match["title"]
    return None


def _merge_short(paragraphs: Sequence[str]) -> list[str]:
    """Join each paragraph of fewer than _MIN_WORDS words with those after it; what is left at the
    end joins the last one, or stays if there is none.

    With _MIN_WORDS = 3: ["One two.", "Three four five.", "Six."] -> ["One two. Three four five.
    Six."]
    """
    merged: list[str] = []
    joined = ""
    for paragraph in paragraphs:
        joined = f"{joined} {paragraph}".strip()
        if len(joined.split()) >= _MIN_WORDS:
            merged.append(joined)
            joined = ""
    if joined and merged:
        merged[-1] += f" {joined}"
    elif joined:
        merged.append(joined)
    return merged


def _ends_with_section(parts: Sequence[Part]) -> bool:
    """Whether the last of the parts is a section; False without a part."""
    return bool(parts) and parts[-1].kind == "section"


def _outline_parts(blocks: Sequence[_HeadingBlock], offsets: OffsetsOf) -> list[Part]:
    """The abstract and the sections of a page in order, their paragraphs clipped.

    A heading of the second level is a sub-section of the section before it, or a section of its own
    where there is none. Parts without a paragraph are left out.

    Args:
        blocks: The paragraphs under each heading.
        offsets: Gives (start, end) of each token of a text.
    """
    parts: list[Part] = []
    for block in blocks:
        clips = tuple(
            shorten_paragraph(paragraph, offsets(paragraph), TOKENS_PER_END)
            for paragraph in block.paragraphs
        )
        if block.level == 0:
            parts.append(Part("abstract", title="", children=clips))
        elif block.level == 2 and _ends_with_section(parts):
            section = parts[-1]
            if clips:
                subsection = Part("sub-section", block.title, clips)
                parts[-1] = Part("section", section.title, (*section.children, subsection))
        else:
            parts.append(Part("section", block.title, clips))
    return [part for part in parts if part.children]
