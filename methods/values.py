"""The lists and objects in a model's reply, however they are spelled: one reader for all methods.

    values_in("Here: [['Ann', 'born in', 1907],]")      [[["Ann", "born in", 1907]], ["Ann", "born in", 1907]]

It reads JSON and Python with text around them: any quotes, also with an apostrophe inside,
parentheses for brackets, keys without quotes, a comma too many. Of a reply that was cut off it
reads what is whole.
"""

import json
import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_OPENING = re.compile(r"""[\[({](?=\s*(?:["'“\[({\])}\d-]|\w+\s*:))""")
_TOKEN = re.compile(
    r"""(["'])(?:(?!\1)[^\\]|\\.|\1(?!\s*(?:[,:\])}]|$)))*\1|“[^”]*”"""  # a string
    r"""|(?P<key>\w+)(?=\s*:)|-?\d+(?:\.\d+)?(?=\s*[,\])}])|[\[\](){}]|["'“]|[^\s,:\[\](){}"'“]+""",
    re.DOTALL,
)


def values_in(reply: str) -> list[object]:
    """Find the lists and objects of a reply.

        'So: {"a": [1, "x"]}' -> [{"a": [1, "x"]}, [1, "x"]]

    Args:
        reply: A model's text.

    Returns:
        Each list, and each object as a dict, an outer one before those inside it, which it holds
        too. Other values are strings, numbers, and None for a word without quotes.
    """
    reader = _ReplyReader()
    position = 0
    while True:
        match = reader.pattern.search(reply, position)
        if match is None:
            return reader.fill_objects_and_get_values()
        reader.read(match)
        position = match.end()


class _OpenObject(NamedTuple):
    """An object of a reply while its items are read.

    Attributes:
        value: The object, empty until all items are read.
        items: Its keys and values in turn, as they are read.
    """

    value: dict[str, object]
    items: list[object]

    def fill(self) -> None:
        """Put the items into the object: ["a", 1, "b", 2] -> {"a": 1, "b": 2}. An item in a key's
        place that is no string is left out with its value."""
        keys = self.items[::2]
        values = self.items[1::2]
        for key, item in zip(keys, values, strict=False):
            if isinstance(key, str):
                self.value[key] = item


class _ReplyReader:
    """Collects the lists and objects of a reply, token by token.

    Attributes:
        _all_values: All lists and objects so far; an object is empty until
            `fill_objects_and_get_values` fills it.
        _all_objects: Each object with its items.
        _items_of_open: The items so far of each list or object that is not closed, the innermost
            last.
    """

    def __init__(self) -> None:
        """Begin without a value."""
        self._all_values: list[object] = []
        self._all_objects: list[_OpenObject] = []
        self._items_of_open: list[list[object]] = []

    @property
    def pattern(self) -> re.Pattern[str]:
        """The pattern of the next thing in the reply: a token inside of a value, else the start of
        one."""
        if self._items_of_open:
            return _TOKEN
        return _OPENING

    def read(self, match: re.Match[str]) -> None:
        """Take in one token: a bracket opens or closes a list or object, any other token is the
        next item of the innermost open one: a key as it is, any other word as its value.

        A quote that nothing closes ends all lists and objects that are open: they keep what they
        have.
        """
        token = match.group()
        if token in "[({":
            self._open_value(token)
        elif token in "])}":
            self._items_of_open.pop()
        elif token in "\"'“":  # nothing closes it
            self._items_of_open.clear()
        elif match["key"]:
            self._items_of_open[-1].append(token)
        else:
            self._items_of_open[-1].append(_scalar(token))

    def _open_value(self, bracket: str) -> None:
        """Begin a list, or for "{" an object, inside the innermost one that is open.

        An object is put there empty; `fill_objects_and_get_values` fills it from the items that are
        read for it.
        """
        items: list[object] = []
        value: object = items
        if bracket == "{":
            opened = _OpenObject(value={}, items=items)
            self._all_objects.append(opened)
            value = opened.value
        self._all_values.append(value)
        if self._items_of_open:
            self._items_of_open[-1].append(value)
        self._items_of_open.append(items)

    def fill_objects_and_get_values(self) -> list[object]:
        """All lists and objects in the order in which they began; also fills the objects from their
        items."""
        for opened in self._all_objects:
            opened.fill()
        return self._all_values


def strings_in(value: object) -> Iterator[str]:
    """Yield the strings of a list, or of an object's values; nested lists and objects are skipped."""
    items: Iterable[object] = ()
    if isinstance(value, dict):
        items = value.values()
    elif isinstance(value, list):
        items = value
    for item in items:
        if isinstance(item, str):
            yield item


def _scalar(token: str) -> str | float | None:
    """The value of a token that is no bracket: '"Ann"' -> "Ann", "7" -> 7, "1.5" -> 1.5; None for a
    word without quotes."""
    if token[0] in "\"'“":
        return _unquoted(token)
    try:
        if "." in token:
            return float(token)
        return int(token)
    except ValueError:
        return None


def _unquoted(token: str) -> str:
    r"""The text between the quotes of a token, its escapes read as JSON's: '"a\nb"' has a line
    break.

    Where they are none of JSON's ("\d"), the backslash alone is left out ("d").
    """
    inside = token[1:-1]
    try:
        return str(json.loads(f'"{inside}"', strict=False))
    except ValueError:
        return re.sub(r"\\(.)", r"\1", inside, flags=re.DOTALL)
