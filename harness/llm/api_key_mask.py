"""Replace API keys in server replies by "[key]", before anything is stored or printed."""

import html
import re
from collections.abc import Callable
from functools import partial

_SHORTEST = 8  # a shorter key would mask words
_RANDOM = 24  # characters of a key that is no word, even without a digit
# What may break a key over lines: white space, control and invisible characters, and line ends spelt as escapes.
_BREAK = r"(?:\\{1,16}[nrt]|[\s\x00-\x1f\x7f-\xa0\xad\u200b-\u200f\u2028-\u202e\u2060\ufeff])*"


def key_mask(key: str | None) -> Callable[[str], str]:
    """A function that replaces `key` by "[key]" in a text, or changes nothing for a key too short to be a secret.

    A server that echoes headers may wrap, fold or escape them, whole or in part: "SK-VERY%2ESE\\nCRET" is found too. A
    server that wants to publish a key has it anyway, so nothing is done about a key in base64 or back to front.
    """
    if not key or len(key) < _SHORTEST:
        return str
    # Servers that need no key are given a word ("not-needed"); a reply may well hold that one in another form.
    no_word = len(key) >= _RANDOM or any(c.isdigit() for c in key)
    pattern = _BREAK.join(map(_character_pattern, key)) if no_word else re.escape(key)
    return partial(re.compile(pattern, re.IGNORECASE if no_word else 0).sub, "[key]")


def _url_pattern(sign: str) -> str:
    """A regular expression for the character `sign`, or its %-escape in a URL, which may be escaped again."""
    return rf"(?:{re.escape(sign)}|%(?:25){{0,3}}{ord(sign):02x})"


_SLASHES, _AND, _HASH, _END = rf"(?:{_url_pattern(chr(92))}){{1,16}}", *map(_url_pattern, "&#;")


def _character_pattern(sign: str) -> str:
    """A regular expression for `sign`: itself, or escaped for a URL, for JSON or HTML, and these for a URL again."""
    code = ord(sign)
    ways = [rf"{_SLASHES}(?:u00|x){code:02x}", rf"{_AND}{_HASH}(?:x0{{0,4}}{code:x}|0{{0,4}}{code}){_END}"]
    if not sign.isalnum():  # behind a backslash a letter may be another character
        named = html.escape(sign)
        ways += [_SLASHES + _url_pattern(sign), *([_AND + named[1:-1] + _END] if named != sign else [])]
    return f"(?:{'|'.join([_url_pattern(sign), *ways])})"
