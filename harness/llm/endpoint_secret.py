r"""Remove API keys from server replies, also where the server escaped the key, whole or in part.

    mask_key = KeyMask("sk-Very.Secret/0123")
    mask_key("your key is SK-VERY%2ESE\nCRET\/0123")      "your key is [key]"

A server that echoes headers may wrap, fold or escape them. This keeps its carelessness out of records and logs; a
server that wants to publish a key has it anyway, so nothing is done about a key in base64 or back to front.
"""

from __future__ import annotations

import html
import re

_SHORTEST = 8  # a shorter key would mask words
_RANDOM = 24  # characters of a key that is no word, even without a digit
# What may break a key over lines: white space, control and invisible characters, and line ends spelt as escapes.
_BREAK = r"(?:\\{1,16}[nrt]|[\s\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060\ufeff])*"


class KeyMask:
    """Replaces `key` by "[key]" in a text; without a key, or with one too short to be a secret, it changes nothing."""

    def __init__(self, key: str | None) -> None:
        self._key = key if key and len(key) >= _SHORTEST else ""
        # Servers that need no key are given a word ("not-needed"); a reply may well hold that one in another form.
        random = len(self._key) >= _RANDOM or any(c.isdigit() for c in self._key)
        pattern = _BREAK.join(map(_spelt, self._key)) if random else re.escape(self._key)
        self._pattern = re.compile(pattern, re.IGNORECASE if random else 0)

    def __call__(self, text: str) -> str:
        """`text` without the key."""
        return self._pattern.sub("[key]", text) if self._key else text


def _spelt(sign: str) -> str:
    """A pattern for one character: itself, or escaped for a URL (also twice), for JSON or for HTML."""
    code = ord(sign)
    ways = [
        rf"%(?:25){{0,3}}{code:02x}",
        rf"\\{{1,16}}(?:u00|x){code:02x}",
        rf"&#(?:x0{{0,4}}{code:x}|0{{0,4}}{code});",
    ]
    if not sign.isalnum():  # behind a backslash a letter may be another character
        ways += [r"\\{1,16}" + re.escape(sign), re.escape(html.escape(sign))]
    return f"(?:{'|'.join([re.escape(sign), *ways])})"
