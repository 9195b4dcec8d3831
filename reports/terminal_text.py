"""Text for a terminal: one line, and how wide it is there.

on_one_line("two\\nlines")     -> "two lines"
terminal_width("長い")      -> 4
"""

import re
import unicodedata

_HIDDEN_CATEGORIES = ("Cc", "Cf", "Cs", "Co")
"""Categories of control and direction characters, which move a terminal's cursor or hide text."""


def on_one_line(text: str) -> str:
    """The text on one line, without characters that move a terminal's cursor or hide text."""
    spaced = re.sub(r"\s+", " ", text)
    return "".join(
        character
        for character in spaced
        if unicodedata.category(character) not in _HIDDEN_CATEGORIES
    )


def terminal_width(text: str) -> int:
    """The number of columns that a text takes in a terminal.

    Wide East Asian characters take two columns, combining marks none.
    """
    width = 0
    for character in text:
        if unicodedata.combining(character):
            continue
        width += 1
        if unicodedata.east_asian_width(character) in "WF":
            width += 1
    return width
