"""The lists and objects in a model's reply, however they are spelled: one reader for all methods.

    values_in("Here: [['Ann', 'born in', 1907],]")      [[["Ann", "born in", 1907]], ["Ann", "born in", 1907]]

It reads JSON and Python with text around them: any quotes, also with an apostrophe inside, parentheses for brackets,
keys without quotes, a comma too many. Of a reply that was cut off it reads what is whole.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_OPENING = re.compile(r"""[\[({](?=\s*(?:["'“\[({\])}\d-]|\w+\s*:))""")
_TOKEN = re.compile(
    r"""(["'])(?:(?!\1)[^\\]|\\.|\1(?!\s*(?:[,:\])}]|$)))*\1|“[^”]*”"""  # a string
    r"""|-?\d+(?:\.\d+)?(?=\s*[,\])}])|[\[\](){}]|["'“]|[^\s,:\[\](){}"'“]+""",
    re.DOTALL,
)


def values_in(reply: str) -> list[Any]:
    """Find the lists and objects of a reply.

    Args:
        reply: A model's text.

    Returns:
        Each list, and each object as a dict, an outer one before those inside it, which it holds too. Other values are
        strings, numbers, and None for a word without quotes.
    """
    found: list[Any] = []
    opened: list[_Open] = []
    at = 0
    while match := (_TOKEN if opened else _OPENING).search(reply, at):
        token, at = match.group(), match.end()
        if token in "[({":
            found.append({} if token == "{" else [])
            if opened:
                opened[-1].put(found[-1])
            opened.append(_Open(found[-1]))
        elif token in "])}":
            opened.pop()
        elif token in "\"'“":  # nothing closes it
            opened.clear()
        else:
            opened[-1].put(_scalar(token, word_is_key=opened[-1].awaits_key))
    return found


def strings_in(value: Any) -> Iterator[str]:
    """The strings of a list, or of an object's values, without those of further ones inside."""
    return (item for item in (value.values() if isinstance(value, dict) else value) if isinstance(item, str))


class _Open:
    """A list or an object that is not closed yet; its items come one by one, an object's keys among them."""

    def __init__(self, value: Any) -> None:
        self._value = value
        self._key: str | None = None

    @property
    def awaits_key(self) -> bool:
        return isinstance(self._value, dict) and self._key is None

    def put(self, item: Any) -> None:
        if isinstance(self._value, list):
            self._value.append(item)
        elif self._key is None:
            self._key = item if isinstance(item, str) else ""
        else:
            self._value[self._key], self._key = item, None


def _scalar(token: str, word_is_key: bool) -> str | float | None:
    """The value of a token that is no bracket; a word without quotes is a string as a key alone."""
    if token[0] in "\"'“":
        try:
            return str(json.loads(f'"{token[1:-1]}"', strict=False))
        except ValueError:
            return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    try:
        return int(token) if token.lstrip("-").isdecimal() else float(token)
    except ValueError:
        return token if word_is_key else None
