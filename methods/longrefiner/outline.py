"""The outline language of LongRefiner (LongRefiner 3.2 and table 1): a document's structure in few
tokens.

    <abstract>CLIP<br>CLIP</abstract><section: T>CLIP<sub-section: U>CLIP</sub-section: U></section: T>
    CLIP = the first k tokens of a paragraph, a mark, and its last k; all of it where it has 2k tokens or fewer

Both spellings are read: marks "<skip>" (the paper) and "..." (the released data), tags "subsection"
and "sub-section", titles with or without quotes. What a model wrote wrongly is read as far as it
goes: a tag closes whatever is open inside it, a missing closing tag is implied, an unknown one is
text.

    parse_outline(write_outline(outline)) == outline        for every outline of the normal form
    that `parse_outline` returns

Text that looks like a tag or mark is written escaped ("&lt;", "&#46;"), so that a document cannot
forge structure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

Kind = Literal["root", "abstract", "section", "sub-section"]
Mark = Literal["<skip>", "..."]


@dataclass(frozen=True)
class Clip:
    """A shortened paragraph; tail None: all of it is in `head`. White space inside is single
    spaces."""

    head: str
    tail: str | None = None


@dataclass(frozen=True)
class Part:
    """A titled part with its paragraphs and parts in order; the root has no title and is the whole
    outline."""

    kind: Kind
    title: str = ""
    children: tuple[Clip | Part, ...] = ()


_SPECIAL = re.compile(r"&(?=(?:lt|gt|amp|#46);)|<|>")
_ESCAPES = {"&": "&amp;", "<": "&lt;", ">": "&gt;"}
_DOTS = re.compile(r"\.{3,}")
_ENTITY = re.compile(r"&(lt|gt|amp|#46);")
_CHARACTER_OF_ENTITY = {"lt": "<", "gt": ">", "amp": "&", "#46": "."}


def _escaped(text: str) -> str:
    """A text on one line; dots in a row and characters with a meaning in an outline are escaped.

    "a <b> ..." -> "a &lt;b&gt; &#46;&#46;&#46;"
    """
    text = _SPECIAL.sub(lambda match: _ESCAPES[match.group()], " ".join(text.split()))
    return _DOTS.sub(_escaped_dots, text)


def _clip_as_text(clip: Clip, mark: Mark) -> str:
    """A clip as the outline's text: "Toren was <skip> the river."; a short paragraph stands whole.

    Args:
        clip: The clip.
        mark: What stands between its head and its tail.
    """
    if clip.tail is None:
        return _escaped(clip.head)
    head = _escaped(clip.head)
    tail = _escaped(clip.tail)
    if mark == "<skip>":
        return f"{head} <skip> {tail}"
    # Dots beside the mark would move it.
    head = re.sub(r"\.+$", _escaped_dots, head)
    tail = re.sub(r"^\.+", _escaped_dots, tail)
    return head + mark + tail


def _escaped_dots(dots: re.Match[str]) -> str:
    """The dots of a match, each as "&#46;"."""
    return "&#46;" * len(dots.group())


def write_outline(part: Part, mark: Mark = "<skip>") -> str:
    """An outline, or a part of it, as text in the spelling of the released data but for the mark.

    Part("section", "Life", (Clip("He ...", "by 1719."),))
        -> "<section: Life>He &#46;&#46;&#46; <skip> by 1719.</section: Life>"
    """
    content = ""
    after_clip = False
    for child in part.children:
        if isinstance(child, Clip):
            if after_clip:
                content += "<br>"
            content += _clip_as_text(child, mark)
        else:
            content += write_outline(child, mark)
        after_clip = isinstance(child, Clip)
    if part.kind == "root":
        return content
    tag: str = part.kind
    if part.kind != "abstract":
        tag = f"{part.kind}: {_title_as_text(part.title)}"
    return f"<{tag}>{content}</{tag}>"


def _title_as_text(title: str) -> str:
    """A title as a tag has it, escaped. One in quotes gets others around it, as a reader takes a
    pair off."""
    written = _escaped(title)
    if len(written) > 1 and written[0] == written[-1] == '"':
        return f'"{written}"'
    return written


def shorten_paragraph(
    text: str, token_spans: Sequence[tuple[int, int]], n_tokens_per_end: int
) -> Clip:
    """A paragraph shortened to its first and last tokens; one that is no longer than these stays
    whole.

    Args:
        text: The paragraph.
        token_spans: (start, end) of its tokens.
        n_tokens_per_end: How many first and how many last ones stay (8 in the released data).
    """
    if len(token_spans) <= 2 * n_tokens_per_end:
        return Clip(" ".join(text.split()))
    _, end_of_head = token_spans[n_tokens_per_end - 1]
    start_of_tail, _ = token_spans[-n_tokens_per_end]
    head = text[:end_of_head]
    tail = text[start_of_tail:]
    return Clip(" ".join(head.split()), " ".join(tail.split()))


_TAG = re.compile(
    r"<(?P<close>/?)\s*(?:(?P<abstract>abstract)\s*|(?P<name>section|sub-?section)\s*(?::(?P<title>[^<>\n]*))?)>",
    re.IGNORECASE,
)
_BREAK = re.compile(r"<br\s*/?>|\n+", re.IGNORECASE)
_SKIP = re.compile(r"\s*<skip>\s*", re.IGNORECASE)
_DEPTH_OF_KIND: dict[str, int] = {"root": 0, "abstract": 1, "section": 1, "sub-section": 2}


def _read_clips(text: str) -> Iterator[Clip]:
    """Yield the clips of a text between two tags: one a line, or between "<br>".

        "He was <skip> in Brem.<br>It rained." -> Clip("He was", "in Brem."), Clip("It rained.")

    Where a line has no "<skip>", its first "..." parts head and tail.
    """
    for line in _BREAK.split(text):
        line_text = " ".join(line.split())
        head_and_tail = _SKIP.split(line_text, maxsplit=1)
        if len(head_and_tail) == 1:
            head_and_tail = line_text.split("...", 1)
        texts = [text_part for text_part in map(_unescaped, head_and_tail) if text_part]
        if texts:
            yield Clip(*texts)


def _unescaped(text: str) -> str:
    """A text on one line with its escapes read: "a &lt;b&gt;" -> "a <b>"."""
    return " ".join(_ENTITY.sub(lambda match: _CHARACTER_OF_ENTITY[match.group(1)], text).split())


@dataclass
class _OpenPart:
    """A part that is still read."""

    kind: Kind
    title: str
    children: list[Clip | Part]


def parse_outline(text: str) -> Part:
    """The outline that a text spells, as its root; paragraphs outside all tags are children of the
    root.

        "<section: Life>He was <skip> in Brem.</section: Life>"
            -> Part("root", "", (Part("section", "Life", (Clip("He was", "in Brem."),)),))

    Never raises: text without a tag is a root of paragraphs alone. A tag that opens a part closes
    those of its kind and the deeper ones that are still open; a closing tag of a kind that is not
    open is skipped. A sub-section outside of any section becomes a section.
    """
    open_parts = [_OpenPart("root", title="", children=[])]
    position = 0
    for tag in _TAG.finditer(text):
        open_parts[-1].children += _read_clips(text[position : tag.start()])
        position = tag.end()
        kind = _kind_of(tag)
        if not tag["close"]:
            _close_parts(open_parts, _DEPTH_OF_KIND[kind])
            open_parts.append(_OpenPart(kind, title=_title_of(tag), children=[]))
        elif any(part.kind == kind for part in open_parts):
            _close_parts(open_parts, _DEPTH_OF_KIND[kind])
    open_parts[-1].children += _read_clips(text[position:])
    _close_parts(open_parts, 1)
    return Part("root", title="", children=tuple(map(_as_top_part, open_parts[0].children)))


def _close_parts(open_parts: list[_OpenPart], depth: int) -> None:
    """Close the open parts that are as deep as `depth` or deeper: each becomes a child of the part
    before it.

    Args:
        open_parts: The open parts, the innermost last; is changed.
        depth: 1 for abstract and sections, 2 for sub-sections (`_DEPTH_OF_KIND`).
    """
    while _DEPTH_OF_KIND[open_parts[-1].kind] >= depth:
        closed = open_parts.pop()
        open_parts[-1].children.append(
            Part(closed.kind, title=closed.title, children=tuple(closed.children))
        )


def _kind_of(tag: re.Match[str]) -> Kind:
    """The kind of part that a tag opens or closes: a section, a sub-section or the abstract."""
    name = (tag["name"] or "abstract").lower()
    if name.startswith("sub"):
        return "sub-section"
    if name == "section":
        return "section"
    return "abstract"


def _title_of(tag: re.Match[str]) -> str:
    """The title in a tag, without quotes around it and with its escapes read."""
    title = (tag["title"] or "").strip()
    if len(title) > 1 and title[0] == title[-1] == '"':
        title = title[1:-1]
    return _unescaped(title)


def _as_top_part(child: Clip | Part) -> Clip | Part:
    """A child of the root; a sub-section outside of any section becomes a section."""
    if isinstance(child, Part) and child.kind == "sub-section":
        return replace(child, kind="section")
    return child
