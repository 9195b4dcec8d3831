"""Markdown as sections, parsed by markdown-it (CommonMark and tables).

    parse_markdown("---\\ntitle: Pump\\n---\\n# Cost\\n400 euro")
        -> MarkdownPage(title="Pump", sections=(("Cost", "400 euro"),))

Front matter is a mapping in YAML between "---" and "---" or "...", or TOML between "+++" and "+++".
A block that is no mapping is text, and so is one that a blank line follows: it is a rule.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from markdown_it import MarkdownIt

from harness.storage.yaml_text import YAMLProblem, parse_yaml

_YAML_FRONT = re.compile(r"---[ \t]*\n(?![ \t]*\n)(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.S | re.M)
_TOML_FRONT = re.compile(r"\+\+\+[ \t]*\n(.*?)^\+\+\+[ \t]*(?:\n|\Z)", re.S | re.M)
# Headings are wanted, as they are written; what stands inside of paragraphs is not parsed.
_PARSER = MarkdownIt("commonmark").enable("table").disable("inline")
_HTML_PARSER = (
    MarkdownIt("commonmark").enable("table").disable(["inline", "html_block", "lheading"])
)


class PageSection(NamedTuple):
    """A section of a page; the text before the first heading has the heading ""."""

    heading: str
    text: str


@dataclass(frozen=True, slots=True)
class MarkdownPage:
    """A page.

    Attributes:
        title: Of the front matter, else the first heading, else "".
        sections: The sections, in order.
    """

    title: str
    sections: tuple[PageSection, ...]


@dataclass(frozen=True, slots=True)
class _Heading:
    """A heading on the lines from `first_line` to before `line_after`, both counted from 0."""

    text: str
    first_line: int
    line_after: int


class _FrontMatterSplit(NamedTuple):
    """The values of a page's front matter, and the text after it."""

    values: dict[str, object]
    text: str


def parse_markdown(text: str) -> MarkdownPage:
    """Split a Markdown page into its title and its sections.

    Sections start at headings that are in no quotation and no list. Their text does not repeat the
    heading; tables and code blocks stay as they are. The title is that of the front matter, else
    the first heading.
    """
    front_matter = _split_front_matter(text)
    sections = _split_at_headings(_PARSER, front_matter.text)
    title = _title_in_front_matter(front_matter.values) or _first_heading(sections)
    return MarkdownPage(title, sections)


def parse_converted_html(text: str, title: str) -> MarkdownPage:
    """Split Markdown that was made of HTML into sections.

    There only "#" marks a heading, and "<" marks nothing.

    Args:
        text: The Markdown.
        title: The page's title; "" for its first heading.
    """
    sections = _split_at_headings(_HTML_PARSER, text)
    return MarkdownPage(title or _first_heading(sections), sections)


def _split_front_matter(text: str) -> _FrontMatterSplit:
    r"""Split a page into the values of its front matter and the text after it.

    "---\ntitle: Pump\n---\nText" -> ({"title": "Pump"}, "Text"); ({}, text) where it has none.
    """
    values: object = None
    yaml_block = _YAML_FRONT.match(text)
    toml_block = _TOML_FRONT.match(text)
    if yaml_block is not None:
        values = _parse_yaml_or_none(yaml_block[1])
    elif toml_block is not None:
        values = _parse_toml_or_none(toml_block[1])
    block = yaml_block or toml_block
    if block is None or not isinstance(values, dict):
        return _FrontMatterSplit({}, text)
    return _FrontMatterSplit(values, text[block.end() :])


def _parse_yaml_or_none(text: str) -> object:
    """Parse front matter as YAML; None where it is none."""
    try:
        return parse_yaml(text)
    except YAMLProblem:
        return None


def _parse_toml_or_none(text: str) -> object:
    """Parse front matter as TOML; None where it is none."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return None


def _title_in_front_matter(values: Mapping[str, object]) -> str:
    """The title in the values of a front matter, on one line; "" where it has none."""
    title = values.get("title")
    if title is None:
        return ""
    return " ".join(str(title).split())


def _first_heading(sections: Sequence[PageSection]) -> str:
    """The first heading that is not empty; "" without one."""
    return next((section.heading for section in sections if section.heading), "")


def _split_at_headings(parser: MarkdownIt, text: str) -> tuple[PageSection, ...]:
    r"""Split Markdown at its headings: (heading, text) of each section that is not blank.

    "Intro\n# Cost\n400 euro" -> (("", "Intro"), ("Cost", "400 euro"))

    Args:
        parser: Says what is a heading.
        text: The Markdown.
    """
    lines = text.split("\n")
    # The text before the first heading is a section without one.
    start_of_text = _Heading(text="", first_line=0, line_after=0)
    end_of_text = _Heading(text="", first_line=len(lines), line_after=len(lines))
    headings = [start_of_text, *_find_headings(parser, text), end_of_text]
    sections = []
    for heading, next_heading in pairwise(headings):
        section_lines = lines[heading.line_after : next_heading.first_line]
        section_text = "\n".join(section_lines).strip("\n")
        if heading.text or section_text.strip():
            sections.append(PageSection(heading.text, section_text))
    return tuple(sections)


def _find_headings(parser: MarkdownIt, text: str) -> list[_Heading]:
    """The headings with a text that are in no quotation and no list, with the lines they are on.

    Args:
        parser: Says what is a heading.
        text: The Markdown.
    """
    tokens = parser.parse(text)
    headings = []
    for token, next_token in pairwise(tokens):
        is_nested = token.level > 0  # in a quotation or a list
        if token.type != "heading_open" or is_nested or token.map is None:
            continue
        heading = " ".join(next_token.content.split())
        first_line, line_after = token.map
        if heading:
            headings.append(_Heading(heading, first_line, line_after))
    return headings
