"""Markdown as sections, parsed by markdown-it (CommonMark and tables).

    parse_markdown("---\\ntitle: Pump\\n---\\n# Cost\\n400 euro")
        -> MarkdownPage(title="Pump", sections=(("Cost", "400 euro"),))

Front matter is a mapping in YAML between "---" and "---" or "...", or TOML between "+++" and "+++".
A block that is no mapping is text, and so is one that a blank line follows: it is a rule.
"""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from markdown_it import MarkdownIt

from harness.storage.yaml_text import YAMLProblem, parse_yaml

_YAML_FRONT = re.compile(r"---[ \t]*\n(?![ \t]*\n)(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_TOML_FRONT = re.compile(r"\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.S | re.M)
# Headings are wanted, as they are written; what stands inside of paragraphs is not parsed.
_PARSER = MarkdownIt("commonmark").enable("table").disable("inline")
_HTML_PARSER = (
    MarkdownIt("commonmark").enable("table").disable(["inline", "html_block", "lheading"])
)


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """A page.

    Attributes:
        title: Of the front matter, else the first heading, else "".
        sections: (heading, text) of each; the text before the first heading has the heading "".
    """

    title: str
    sections: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    """A heading on the lines from `start` to `end`, which is the first line after it."""

    text: str
    start: int
    end: int


def parse_markdown(text: str) -> MarkdownPage:
    """Split a Markdown page into its title and its sections.

    Sections start at headings that are in no quotation and no list. Their text does not repeat the
    heading; tables and code blocks stay as they are. The title is that of the front matter, else
    the first heading.
    """
    front, text = _split_front_matter(text)
    sections = _sections(_PARSER, text)
    return MarkdownPage(_title(front) or _first_heading(sections), sections)


def parse_converted_html(text: str, title: str) -> MarkdownPage:
    """Split Markdown that was made of HTML into sections.

    There only "#" marks a heading, and "<" marks nothing.

    Args:
        text: The Markdown.
        title: The page's title; "" for its first heading.
    """
    sections = _sections(_HTML_PARSER, text)
    return MarkdownPage(title or _first_heading(sections), sections)


def _split_front_matter(text: str) -> tuple[dict[str, object], str]:
    r"""Split a page into the values of its front matter and the text after it.

    "---\ntitle: Pump\n---\nText" -> ({"title": "Pump"}, "Text"); ({}, text) where it has none.
    """
    for front, value_of in ((_YAML_FRONT, _yaml_value), (_TOML_FRONT, _toml_value)):
        found = front.match(text)
        if found is None:
            continue
        values = value_of(found[1])
        if isinstance(values, dict):
            return values, text[found.end() :]
        break
    return {}, text


def _yaml_value(text: str) -> object:
    """Parse front matter as YAML; None where it is none."""
    try:
        return parse_yaml(text)
    except YAMLProblem:
        return None


def _toml_value(text: str) -> object:
    """Parse front matter as TOML; None where it is none."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _title(front: dict[str, object]) -> str:
    """The title in the front matter on one line; "" where it has none."""
    title = front.get("title")
    if title is None:
        return ""
    return " ".join(str(title).split())


def _first_heading(sections: Sequence[tuple[str, str]]) -> str:
    """The first heading that is not empty; "" without one.

    Args:
        sections: (heading, text) of each section.
    """
    return next((heading for heading, _ in sections if heading), "")


def _sections(parser: MarkdownIt, text: str) -> tuple[tuple[str, str], ...]:
    r"""Split Markdown at its headings: (heading, text) of each section that is not blank.

    "Intro\n# Cost\n400 euro" -> (("", "Intro"), ("Cost", "400 euro"))

    Args:
        parser: Says what is a heading.
        text: The Markdown.
    """
    lines = text.split("\n")
    headings = _headings(parser, text)
    before_the_first = _Heading("", 0, 0)
    end_of_text = _Heading("", len(lines), len(lines))
    sections = []
    for heading, next_heading in pairwise([before_the_first, *headings, end_of_text]):
        body = "\n".join(lines[heading.end : next_heading.start]).strip("\n")
        if heading.text or body.strip():
            sections.append((heading.text, body))
    return tuple(sections)


def _headings(parser: MarkdownIt, text: str) -> list[_Heading]:
    """The headings with a text that are in no quotation and no list, with the lines they are on.

    Args:
        parser: Says what is a heading.
        text: The Markdown.
    """
    tokens = parser.parse(text)
    headings = []
    for token, content in pairwise(tokens):
        if token.type != "heading_open" or token.level or token.map is None:
            continue
        heading = " ".join(content.content.split())
        if heading:
            headings.append(_Heading(heading, *token.map))
    return headings
