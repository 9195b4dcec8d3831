"""Extract the text of pages as they are published: HTML, and Wikipedia in KILT's form.

    page_text("<p>One <i>two</i>.</p><p>Three &amp; four</p>")   -> "One two.\\n\\nThree & four"
    wiki_text(["Email\\n", "Section::::Use.:Early.", "One."], "Email")   -> "=== Early ===\\nOne."

HTML loses its tags, a paragraph becomes a block, and entities are resolved; a text without such
tags is returned as it is: "a < b" is no HTML. KILT's Wikipedia pages are lists of paragraphs,
headings and list items among them.
"""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

_TAG = re.compile(r"<(?:!doctype html|html|body|p|br|div|h[1-6])\b[^<>]*>", re.IGNORECASE)
_HEAD_LENGTH = 5000  # characters in which a page shows that it is one
_HEADING_TAGS = ("h1", "h2", "h3", "h4", "h5", "h6", "title", "center")
_TEXT_TAGS = ("p", "br", "hr", "div", "blockquote", "pre", "html", "body", "section", "article")
_BLOCK_TAGS = frozenset({*_HEADING_TAGS, *_TEXT_TAGS, "li", "ul", "ol", "table", "tr"})
_UNREAD_TAGS = frozenset({"script", "style", "head"})


class _Text(HTMLParser):
    """Collects the visible text of an HTML page as a list of blocks, each a list of its pieces."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.blocks: list[list[str]] = [[]]
        self.silent = 0  # open elements whose text is not visible

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.silent += tag in _UNREAD_TAGS
        self._start_block(tag)

    def handle_endtag(self, tag: str) -> None:
        self.silent -= tag in _UNREAD_TAGS and self.silent > 0
        self._start_block(tag)

    def handle_data(self, data: str) -> None:
        if not self.silent:
            self.blocks[-1].append(data)

    def _start_block(self, tag: str) -> None:
        if tag in _BLOCK_TAGS and self.blocks[-1]:
            self.blocks.append([])


def page_text(text: str) -> str:
    """The visible text of an HTML page, its blocks separated by blank lines; other text is returned
    unchanged."""
    if _TAG.search(text[:_HEAD_LENGTH]) is None:
        return text
    reader = _Text()
    reader.feed(text)
    reader.close()
    blocks = (" ".join("".join(block).split()) for block in reader.blocks)
    return "\n\n".join(block for block in blocks if block)


def wiki_text(paragraphs: Sequence[str], title: str) -> str:
    """The text of a KILT page, one paragraph a line; a first paragraph that repeats the title is
    left out.

    "Section::::Career.:Early years." is the heading of a subsection and becomes "=== Early years
    ===", a list item
    "BULLET::::- x" becomes "- x".
    """
    lines = [" ".join(paragraph.split()) for paragraph in paragraphs]
    if lines and lines[0] == " ".join(title.split()):
        lines = lines[1:]
    return "\n".join(_wiki_line_text(line) for line in lines if line)


def _wiki_line_text(line: str) -> str:
    """One line of KILT's Wikipedia as text: headings get marks of a wiki, list items lose
    theirs."""
    kind, mark, text = line.partition("::::")
    if mark and kind == "Section":
        *above, heading = text.removesuffix(".").split(".:")
        marks = "=" * min(2 + len(above), 6)
        return f"{marks} {heading} {marks}"
    return text if mark and kind == "BULLET" else line
