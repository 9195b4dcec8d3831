"""A request whose reply must be understood: at temperature 0 first, then sampled, so many times and no more.

    heard = hear(model, pieces, limit, parse, Retry(seed=tools.seed))
    heard.found      what `parse` made of the first reply it understood; None where it understood none

QRMeM's rule (QRMeM 3.2; docs/methods.md#retries): temperature 0; a reply that cannot be parsed is asked for again at
0.7, up to four times. The prompt, a list of pieces that are encoded on their own, is read once however often it is
replied to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from harness.errors import WindowExceeded
from harness.models import MeteredModel, Session
from harness.prompts import Pieces, feed, prompt_tokens
from harness.stats.rng import derived_seed

T = TypeVar("T")

_ITEM = re.compile(r"^[ \t]*(?:[*•-]|\d{1,3}[.)])[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}")
_NONE = re.compile(r"\s*\(?none\)?\.?\s*", re.IGNORECASE)


@dataclass(frozen=True)
class Retry:
    """How often and how a reply is asked for again; window: tokens of a request in all, None = the model's."""

    retries: int = 4
    temperature: float = 0.7
    top_p: float = 0.9
    window: int | None = None
    seed: int = 0


@dataclass
class Heard(Generic[T]):
    """found: what was understood; text: of that reply (of the last one, where none was); tokens: of the prompt."""

    tokens: int
    found: T | None = None
    text: str = ""
    replies: int = 0
    refused: list[str] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """A sentence for each reply that was not understood."""
        return [f"invalid reply {told[:60]!r}" for told in self.refused]


def window_of(window: int | None, model: MeteredModel) -> int:
    """Tokens of a request in all: what a method allows (None: all there is), within the model's window."""
    return min(window or model.window, model.window)


def fitting(pieces: Callable[[int], Pieces], lines: int, room: int, model: MeteredModel) -> tuple[Pieces, int]:
    """The request pieces(n) with the most of its `lines` listed lines that fits `room` tokens, and n; n may be 0.

    One that does not fit without any line either is left to `require`.
    """
    n = lines
    while n and prompt_tokens(pieces(n), model) > room:
        n -= 1
    return pieces(n), n


def require(tokens: int, model: MeteredModel, how: Retry) -> None:
    """Raise WindowExceeded where a request of so many tokens, its reply included, does not fit the window."""
    window = window_of(how.window, model)
    if tokens > window:
        raise WindowExceeded(
            f"a request with its reply takes {tokens} tokens, more than the window of {window} tokens of "
            f"'{model.name}'; raise method.window or model.window, or lower the method's sizes of segments and replies"
        )


def hear(
    model: MeteredModel, pieces: Sequence[str], limit: int, parse: Callable[[str], T | None], how: Retry
) -> Heard[T]:
    """Ask until `parse` understands a reply of `limit` tokens at most.

    Raises WindowExceeded where the request with its reply does not fit the window.
    """
    tokens = prompt_tokens(pieces, model)
    require(tokens + limit, model, how)
    with model.session() as s:
        feed(s, pieces)
        return reply_to(s, Heard(tokens), limit, parse, how)


def reply_to(s: Session, heard: Heard[T], limit: int, parse: Callable[[str], T | None], how: Retry) -> Heard[T]:
    """Let the open turn be replied to until one reply is understood; the context stays as it is before the reply."""
    for attempt in range(how.retries + 1):
        with s.branch():
            heard.text = s.write(
                limit,
                temperature=how.temperature if attempt else 0.0,
                top_p=how.top_p if attempt else 1.0,
                seed=derived_seed(how.seed, "retry", str(attempt)),
            ).text
        heard.replies += 1
        heard.found = parse(heard.text)
        if heard.found is not None:
            return heard
        heard.refused.append(heard.text)
    return heard


def listed(reply: str) -> list[str] | None:
    """The items of a list, a line each behind "*", "-" or "1."; [] for "none"; None for any other reply."""
    found = [str(item) for item in _ITEM.findall(reply)]
    if [item for item in found if not _NONE.fullmatch(item)]:
        return [item for item in found if not _NONE.fullmatch(item)]
    return [] if found or _NONE.fullmatch(reply) else None


def numbered(reply: str, label: str) -> list[int] | None:
    """The numbers behind `label` and a colon, none twice; [] for "none"; None where there is no such line."""
    line = re.search(rf"^[ \t]*{re.escape(label)}:[ \t]*(.*)$", reply, re.MULTILINE)
    if line is None:
        return None
    numbers = list(dict.fromkeys(map(int, _NUMBER.findall(line.group(1)))))
    return numbers if numbers or _NONE.fullmatch(line.group(1)) else None
