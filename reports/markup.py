"""HTML that is escaped by construction: what is not `Html` is text, and text is escaped.

>>> str(el("td", "<script>", class_="who", data_value='"'))
'<td class="who" data-value="&quot;">&lt;script&gt;</td>'
>>> str(script_json({"text": "</script><!--"}))
'{"text": "\\\\u003c/script\\\\u003e\\\\u003c!--"}'
"""

import html
import json
import re
from typing import Any

# Half a surrogate pair, which JSON data may hold, is no UTF-8; the others are not allowed in HTML.
_UNPRINTABLE = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ufffe\uffff]")


class Html(str):
    """A string that is markup already. Made by the functions below only."""

    __slots__ = ()


def printable(value: object) -> str:
    """`value` as text without the characters that neither HTML nor XML may hold."""
    return _UNPRINTABLE.sub("\ufffd", str(value))


def text(value: object) -> Html:
    """`value` as text for an element or a quoted attribute."""
    return Html(html.escape(printable(value), quote=True))


def joined(*children: object) -> Html:
    """Children one after the other; those that are not Html are escaped, None is left out."""
    return Html("".join(c if isinstance(c, Html) else text(c) for c in children if c is not None))


def el(tag: str, *children: object, **attributes: object) -> Html:
    """An element; `class_` is class and `data_x` is data-x; an attribute that is None is left out."""
    known = {name.rstrip("_").replace("_", "-"): value for name, value in attributes.items() if value is not None}
    written = "".join(f' {name}="{text(value)}"' for name, value in known.items())
    return Html(f"<{tag}{written}>{joined(*children)}</{tag}>")


def script_json(value: Any) -> Html:
    """JSON that can stand inside <script>: no character of it can end the element or open a comment."""
    code = json.dumps(value, ensure_ascii=True, allow_nan=False)
    return Html(re.sub("[<>&]", lambda m: f"\\u{ord(m[0]):04x}", code))
