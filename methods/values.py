"""The lists and objects in a model's reply, however they are spelled: one reader for all methods.

    values_in("Here: [['Ann', 'born in', 1907],]")      [[["Ann", "born in", 1907]], ["Ann", "born in", 1907]]

It reads JSON and Python with text around them: any quotes, also with an apostrophe inside,
parentheses for brackets, keys without quotes, a comma too many. Of a reply that was cut off it
reads what is whole.
"""

import json
import re
from collections.abc import Iterator
from typing import Any

_OPENING = re.compile(r"""[\[({](?=\s*(?:["'“\[({\])}\d-]|\w+\s*:))""")
_TOKEN = re.compile(
    r"""(["'])(?:(?!\1)[^\\]|\\.|\1(?!\s*(?:[,:\])}]|$)))*\1|“[^”]*”"""  # a string
    r"""|(?P<key>\w+)(?=\s*:)|-?\d+(?:\.\d+)?(?=\s*[,\])}])|[\[\](){}]|["'“]|[^\s,:\[\](){}"'“]+""",
    re.DOTALL,
)


def values_in(reply: str) -> list[Any]:
    """Find the lists and objects of a reply.

    Args:
        reply: A model's text.

    Returns:
        Each list, and each object as a dict, an outer one before those inside it, which it holds
        too. Other values are strings, numbers, and None for a word without quotes.
    """
    values: list[Any] = []
    objects: list[tuple[dict[str, Any], list[Any]]] = []  # each with its keys and values in turn
    opened: list[list[Any]] = []
    at = 0
    while match := (_TOKEN if opened else _OPENING).search(reply, at):
        token, at = match.group(), match.end()
        if token in "[({":
            items: list[Any] = []
            if token == "{":
                objects.append(({}, items))
            values.append(objects[-1][0] if token == "{" else items)
            for outer in opened[-1:]:
                outer.append(values[-1])
            opened.append(items)
        elif token in "])}":
            opened.pop()
        elif token in "\"'“":  # nothing closes it
            opened.clear()
        else:
            opened[-1].append(token if match["key"] else _scalar(token))
    for value, items in objects:
        value.update(
            (k, v) for k, v in zip(items[::2], items[1::2], strict=False) if isinstance(k, str)
        )
    return values


def strings_in(value: Any) -> Iterator[str]:
    """The strings of a list, or of an object's values, without those of further ones inside."""
    return (
        item
        for item in (value.values() if isinstance(value, dict) else value)
        if isinstance(item, str)
    )


def _scalar(token: str) -> str | float | None:
    """The value of a token that is no bracket; None for a word without quotes."""
    if token[0] in "\"'“":
        try:
            return str(json.loads(f'"{token[1:-1]}"', strict=False))
        except ValueError:
            return re.sub(r"\\(.)", r"\1", token[1:-1], flags=re.DOTALL)
    try:
        return float(token) if "." in token else int(token)
    except ValueError:
        return None
