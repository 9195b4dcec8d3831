"""A key blotted out of what a server says, also where the server changed its form.

    blot = Blot("sk-Very.Secret-0123")
    blot("your key is SK-VERY.SE\\nCRET-0123")      "your key is [key]"

A server that echoes headers may wrap, fold, encode or reverse them. This keeps its carelessness out of records and
logs; a server that wants to publish a key has it anyway.
"""

from __future__ import annotations

import base64
import json
import re
from urllib.parse import quote

_SHORTEST = 8  # a shorter key would blot out words
_RANDOM = 24  # characters of a key that is no word, even without a digit
# What may break a key over lines: white space, control and invisible characters, and line ends spelt as escapes.
_BREAK = r"(?:\\[nrt]|[\s\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060\ufeff])"
_BREAKS = re.compile(_BREAK)


class Blot:
    """Replaces `key` by "[key]" in a text; without a key, or with one too short to be a secret, it changes nothing."""

    def __init__(self, key: str | None) -> None:
        self._key = key if key and len(key) >= _SHORTEST else None
        # Servers that need no key are given a word ("not-needed"); a reply may well hold that one in another form.
        random = self._key is not None and (len(self._key) >= _RANDOM or any(c.isdigit() for c in self._key))
        self._forms = _forms(self._key) if self._key and random else []
        patterns = [f"{_BREAK}*".join(map(re.escape, form)) for form in self._forms]
        self._pattern = re.compile("|".join(patterns), re.IGNORECASE)

    def __call__(self, text: str) -> str:
        """`text` without the key."""
        if self._key is None:
            return text
        text = text.replace(self._key, "[key]")
        joined = _BREAKS.sub("", text).lower()
        return self._pattern.sub("[key]", text) if any(form in joined for form in self._forms) else text


def _forms(key: str) -> list[str]:
    """The encodings of `key`, in lower case, longest first: reversed, escaped, in base64 behind 0, 1 or 2 bytes."""
    data = key.encode()
    forms = {key, key[::-1], json.dumps(key)[1:-1], data.hex(), "".join(f"\\u{c:04x}" for c in data)}
    forms |= {quote(key, safe=""), quote(quote(key, safe="")), "".join(f"%{c:02x}" for c in data)}
    for skipped in range(3):
        # The characters that hold bits of the key alone; those at its ends may hold bits of its neighbours too.
        whole = base64.b64encode(bytes(skipped) + data).decode().rstrip("=")
        kept = whole[-(-8 * skipped // 6) : (len(data) + skipped) * 8 // 6]
        forms |= {kept, kept.translate(str.maketrans("+/", "-_"))}
    return sorted({form.lower() for form in forms}, key=len, reverse=True)
