"""The text of Wikipedia's pages in KILT's form: lists of paragraphs, headings and list items among
them.

    wiki_text(["Email\\n", "Section::::Use.:Early.", "One."], "Email")   -> "=== Early ===\\nOne."
"""

from collections.abc import Sequence


def wiki_text(paragraphs: Sequence[str], title: str) -> str:
    """The text of a KILT page, one paragraph a line.

    A first paragraph that repeats the title is left out. "Section::::Career.:Early years." is the
    heading of a subsection and becomes "=== Early years ==="; a list item "BULLET::::- x" becomes
    "- x".

    Args:
        paragraphs: The page's paragraphs, headings and list items.
        title: The page's title.
    """
    lines = [" ".join(paragraph.split()) for paragraph in paragraphs]
    starts_with_title = bool(lines) and lines[0] == " ".join(title.split())
    if starts_with_title:
        lines = lines[1:]
    return "\n".join(_wiki_line_text(line) for line in lines if line)


def _wiki_line_text(line: str) -> str:
    """One line of a KILT page as text.

    "Section::::Use.:Early." -> "=== Early ===", "BULLET::::- x" -> "- x", any other line as it is
    """
    kind, separator, text = line.partition("::::")
    if separator and kind == "Section":
        *parent_sections, heading = text.removesuffix(".").split(".:")
        equals_signs = "=" * min(2 + len(parent_sections), 6)
        return f"{equals_signs} {heading} {equals_signs}"
    if separator and kind == "BULLET":
        return text
    return line
