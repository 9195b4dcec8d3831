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
    if lines and lines[0] == " ".join(title.split()):
        lines = lines[1:]
    return "\n".join(_wiki_line_text(line) for line in lines if line)


def _wiki_line_text(line: str) -> str:
    """One line of a KILT page as text.

    "Section::::Use.:Early." -> "=== Early ===", "BULLET::::- x" -> "- x", any other line as it is
    """
    kind, mark, text = line.partition("::::")
    if mark and kind == "Section":
        *above, heading = text.removesuffix(".").split(".:")
        marks = "=" * min(2 + len(above), 6)
        return f"{marks} {heading} {marks}"
    if mark and kind == "BULLET":
        return text
    return line
