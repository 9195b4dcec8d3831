"""HTML as Markdown, by markdownify over lxml's parser.

    html_to_markdown("<title>Seals</title><p>One <i>two</i>.<pre>a\\nb</pre>")
        -> ConvertedHtml(title="Seals", markdown="One two.\\n\\n```\\na\\nb\\n```")

Headings, tables, lists and blocks of code stay; the marks of emphasis and of code in a line, which
part words ("`Err`s"), and the addresses of links are left out. Navigation and the page's footer
are no text of the page.
"""

import re
import warnings
from dataclasses import dataclass
from typing import Any

from bs4 import BeautifulSoup, Tag, XMLParsedAsHTMLWarning
from bs4.dammit import EncodingDetector
from markdownify import ATX, MarkdownConverter

_NEVER_SHOWN = ("script", "style", "template", "noscript", "title", "annotation", "annotation-xml")
# Tables that lay a page out: one line of Markdown could not hold what is in their cells.
_LAYOUT_TABLES = "table:has(table, h1, h2, h3, h4, h5, h6), table[role=presentation]"
_NAVIGATION = "nav, [role=navigation], [role=contentinfo]"
# A footer inside of these belongs to them (HTML standard, "footer"); any other is the page's.
_ELEMENTS_WITH_OWN_FOOTER = ("article", "aside", "blockquote", "main", "section")
# Blocks that markdownify takes for words in a line.
_BLOCKS = (
    *("address", "aside", "body", "button", "center", "details", "dialog", "dir", "fieldset"),
    *("figure", "footer", "form", "header", "hgroup", "html", "legend", "main", "menu", "nav"),
    *("optgroup", "option", "search", "select", "summary"),
)
_INLINE_MARKS = ["a", "b", "strong", "em", "i", "del", "s", "code", "kbd", "samp"]
_SPACE_BEFORE_MARKUP = re.compile(r"\s*(?=#{1,6}(?:\s|$)|```|~~~)")
_BACKTICKS = re.compile("`+")


# XHTML is read as the HTML that browsers take it for.
warnings.filterwarnings("ignore", category=XMLParsedAsHTMLWarning)


@dataclass(frozen=True, slots=True)
class ConvertedHtml:
    """A page; title: that of its head, "" without one."""

    title: str
    markdown: str


class _Converter(MarkdownConverter):
    """markdownify with all blocks of HTML, and with nothing that parts or joins words."""

    def __init__(self) -> None:
        """Set markdownify up: "#" for headings, "-" for lists, and no marks inside of a line."""
        super().__init__(
            heading_style=ATX,
            bullets="-",
            strip=_INLINE_MARKS,
            table_infer_header=True,
            wrap=True,  # a line break of the file is a space
            wrap_width=None,
        )

    def convert_block(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Write a block with blank lines around it; in a heading or a cell of a table, with
        spaces.

        Args:
            el: The block; not used.
            text: What it holds, as Markdown.
            parent_tags: The names of the tags around it, and "_inline" in a heading or a cell.
        """
        del el
        text = text.strip()
        if "_inline" in parent_tags:
            return f" {text} "
        if not text:
            return ""
        return f"\n\n{text}\n\n"

    def escape(self, text: str, parent_tags: set[str]) -> str:
        r"""Put a backslash before what would start a heading or a code block; all else stays as
        shown.

        "# no heading" -> "\# no heading"
        """
        del parent_tags
        space_before_markup = _SPACE_BEFORE_MARKUP.match(text)
        if space_before_markup is None:
            return text
        markup_start = space_before_markup.end()
        return f"{text[:markup_start]}\\{text[markup_start:]}"

    def convert_pre(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Write a block of code, with a fence that is longer than any row of backticks in it.

        Args:
            el: The block; not used.
            text: The code.
            parent_tags: The names of the tags around it, and "_inline" in a heading or a cell.
        """
        del el
        if not text.strip():
            return ""
        if "_inline" in parent_tags:
            return f" {text} "
        longest_row_of_backticks = max(map(len, _BACKTICKS.findall(text)), default=0)
        fence = "`" * max(3, longest_row_of_backticks + 1)
        code = text.strip("\n")
        return f"\n\n{fence}\n{code}\n{fence}\n\n"

    def convert_img(self, el: Tag, text: str, parent_tags: set[str]) -> str:
        """Write the words that stand for an image, its `alt`, with spaces around; "" without
        such.
        """
        del text, parent_tags
        alternative = str(el.get("alt") or "").strip()
        if not alternative:
            return ""
        return f" {alternative} "


for _name in _BLOCKS:
    setattr(_Converter, f"convert_{_name}", _Converter.convert_block)


def declared_encoding(data: bytes) -> str | None:
    """The encoding that a page of HTML names in its head; None where it names none."""
    return EncodingDetector.find_declared_encoding(data, is_html=True)


def html_to_markdown(html: str) -> ConvertedHtml:
    """Convert a page of HTML, or a part of one, to Markdown; also gives the page's title, "" where
    it has none.

    Without what browsers never show, navigation and the page's footer; tables that lay the page out
    become blocks. Spaces that may not break become plain ones, and no line ends in spaces. Raises
    RecursionError where its tags are nested too deep.
    """
    soup = BeautifulSoup(html, "lxml")
    title = ""
    if soup.title is not None:
        title = " ".join(soup.title.get_text().split())
    _remove_what_is_no_text(soup)
    for table in soup.select(_LAYOUT_TABLES):
        _rename_to_blocks(table)
    markdown: Any = _Converter().convert_soup(soup)
    markdown_lines = str(markdown).replace("\xa0", " ").split("\n")
    stripped_lines = [line.rstrip() for line in markdown_lines]
    return ConvertedHtml(title, "\n".join(stripped_lines).strip("\n"))


def _remove_what_is_no_text(soup: BeautifulSoup) -> None:
    """Remove from a page what browsers never show, its navigation and its own footer.

    Args:
        soup: The page; changed.
    """
    for element in soup.find_all(_NEVER_SHOWN):
        element.decompose()
    for element in soup.select(_NAVIGATION):
        element.decompose()
    for footer in soup.find_all("footer"):
        is_footer_of_page = footer.find_parent(_ELEMENTS_WITH_OWN_FOOTER) is None
        if is_footer_of_page:
            footer.decompose()


def _rename_to_blocks(table: Tag) -> None:
    """Rename a table, its rows and its cells to "div", so that they are blocks; no table inside of
    it.

    Args:
        table: The table; changed.
    """
    for element in table.find_all(["caption", "thead", "tbody", "tfoot", "tr", "td", "th"]):
        if element.find_parent("table") is table:
            element.name = "div"
    table.name = "div"
