"""Replace API keys in server replies by "[key]", before anything is stored or printed."""

import re
from collections.abc import Callable
from functools import partial

_SHORTEST = 8  # a shorter key would mask words


def key_mask(key: str | None) -> Callable[[str], str]:
    """A function that replaces `key`, in any case, by "[key]" in a text; a key too short to be a secret stays."""
    if not key or len(key) < _SHORTEST:
        return str
    return partial(re.compile(re.escape(key), re.IGNORECASE).sub, "[key]")
