"""A request that is repeated until its reply can be parsed: temperature 0 first, then sampled, up
to a limit.

    response = ask_parsed(model, pieces, limit, parse, Retry(seed=tools.seed))
    response.found      the first reply that `parse` accepts, parsed; None if it accepts none

QRMeM's rule (QRMeM 3.2; docs/methods/shared.md#retries): temperature 0; after a reply that cannot
be parsed the request is repeated at 0.7, up to four times. The prompt, a list of separately encoded
pieces, is read once for all replies.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from harness.errors import WindowExceeded
from harness.models import MeteredModel, Session
from harness.prompts import Pieces, feed, prompt_tokens
from harness.stats.rng import derived_seed
from methods.values import strings_in, values_in

T = TypeVar("T")

_ITEM = re.compile(r"^[ \t]*(?:[*•-]|\d{1,3}[.)])[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}")


_NO_NUMBERS = re.compile(r"\W*none\b|\s*\[\s*\]", re.IGNORECASE)
_NONE = re.compile(r"\s*\(?none\)?\.?\s*", re.IGNORECASE)
LABEL = r"^(?:[^\w\n]|_)*{}(?:(?:[^\w\n:]|_)*:[*_ \t]*|[*_]+[ \t]*$)"
"""A pattern of the beginning of a line, for a label and its colon: "Facts: ", "- facts: ",
"**Facts:** ", or a heading:
"**Facts**"."""


@dataclass(frozen=True)
class Retry:
    """How a request is repeated whose reply cannot be parsed.

    Attributes:
        retries: Most further replies.
        temperature: The temperature of these.
        top_p: The nucleus of these.
        window: Most tokens of prompt and reply; None: the model's window.
        seed: The seed of the draws.
    """

    retries: int = 4
    temperature: float = 0.7
    top_p: float = 0.9
    window: int | None = None
    seed: int = 0


@dataclass
class ParsedReply(Generic[T]):
    """What came of asking until a reply could be parsed.

    Attributes:
        tokens: How many tokens the prompt has.
        found: What was parsed; None where no reply could be.
        text: The text of the reply that was parsed, or of the last one.
        replies: How many replies there were.
        refused: The texts of those that could not be parsed.
    """

    tokens: int
    found: T | None = None
    text: str = ""
    replies: int = 0
    refused: list[str] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """A sentence for each reply that could not be parsed, with its first 60 characters."""
        return [f"invalid reply {reply[:60]!r}" for reply in self.refused]


def window_of(window: int | None, model: MeteredModel) -> int:
    """Most tokens of prompt and reply together: the model's window, or a smaller one that is set.

    Args:
        window: The method's setting; None: no limit of its own.
        model: The model.
    """
    return min(window or model.window, model.window)


def fit_lines(
    request_of: Callable[[int], Pieces], n_lines: int, room: int, model: MeteredModel
) -> tuple[Pieces, int]:
    """Leave out lines from the end of a list until the request with the others fits.

    Args:
        request_of: Gives the request with the first n lines.
        n_lines: How many lines there are.
        room: Most tokens of the request.
        model: The model whose tokens are counted.

    Returns:
        The request, and how many lines it has. One that does not fit even without lines is returned
        as it is; `require_room` reports it.
    """
    n_shown = n_lines
    while n_shown and prompt_tokens(request_of(n_shown), model) > room:
        n_shown -= 1
    return request_of(n_shown), n_shown


def require_room(
    tokens: int,
    model: MeteredModel,
    window: int | None,
    lower: str = "the method's sizes of segments and replies",
) -> None:
    """Raise WindowExceeded if a request with its reply does not fit.

    Args:
        tokens: The tokens of both together.
        model: The model.
        window: The setting method.window; None: the model's window.
        lower: The settings that the error says to lower.
    """
    limit = window_of(window, model)
    if tokens > limit:
        raise WindowExceeded(
            f"a request with its reply takes {tokens} tokens, more than the window of {limit} "
            f"tokens of '{model.name}'; raise method.window or model.window, or lower {lower}"
        )


def ask_parsed(
    model: MeteredModel,
    pieces: Sequence[str],
    limit: int,
    parse: Callable[[str], T | None],
    retry: Retry,
) -> ParsedReply[T]:
    """Ask until a reply can be parsed.

    Args:
        model: The model.
        pieces: The prompt.
        limit: Tokens of a reply at most.
        parse: Reads a reply; None for one that it does not understand.
        retry: How often is asked, and how further replies are sampled.

    Raises:
        WindowExceeded: The request with its reply does not fit the window.
    """
    tokens = prompt_tokens(pieces, model)
    require_room(tokens + limit, model, retry.window)
    with model.session() as s:
        feed(s, pieces)
        return sample_until_parsed(s, ParsedReply(tokens), limit, parse, retry)


def sample_until_parsed(
    s: Session,
    response: ParsedReply[T],
    limit: int,
    parse: Callable[[str], T | None],
    retry: Retry,
    seed_of: Callable[[int], int] | None = None,
) -> ParsedReply[T]:
    """Ask for replies to the open turn of a session until one is accepted.

    The first reply is greedy, the others are drawn as `retry` says. Each refused reply is also
    counted in the run's records; an accepted one needs no count.

    Args:
        s: The session. Replies are written in branches, so its context stays as it was.
        response: What is filled in and returned.
        limit: Most tokens of a reply.
        parse: Reads a reply; None: it is not accepted.
        retry: How many further replies are asked for, and how they are drawn.
        seed_of: Number of a reply, from 0 -> its seed; None: the seeds follow from `retry.seed`.

    Returns:
        `response`.
    """
    for attempt in range(retry.retries + 1):
        seed = derived_seed(retry.seed, "retry", str(attempt))
        if seed_of is not None:
            seed = seed_of(attempt)
        temperature = 0.0
        top_p = 1.0
        if attempt > 0:
            temperature = retry.temperature
            top_p = retry.top_p
        with s.branch():
            written = s.write(limit, temperature=temperature, top_p=top_p, seed=seed)
        response.text = written.text
        response.replies += 1
        response.found = parse(response.text)
        if response.found is not None:
            break
        s.count_reply(written)
        response.refused.append(response.text)
    return response


def parse_list(reply: str) -> list[str] | None:
    r"""The items of a reply's list: what follows "*", "-" or "1." on a line; where there is no such
    line, the strings of lists in JSON or Python.

        "Here:\n* Ann\n* Bob" -> ["Ann", "Bob"]        '["Ann", "Bob"]' -> ["Ann", "Bob"]

    [] for "none" and an empty list; None for any other reply.
    """
    items = [str(item) for item in _ITEM.findall(reply)]
    if not items:
        values = values_in(reply) or values_in(f"[{reply}]")
        for value in values:
            items += strings_in(value)
        if not items and [] in values:
            return []
    named = [item for item in items if not _NONE.fullmatch(item)]
    if named:
        return named
    if items or _NONE.fullmatch(reply):
        return []
    return None


def numbers_in(reply: str, label: str) -> list[int] | None:
    """The numbers after a label and a colon, or of a reply without a letter; none twice.

        "Pages: 3, 7 and 3", "Pages" -> [3, 7]

    Where the label stands alone they are in the lines below it, up to a blank one. [] for "none"
    and an empty list; None for any other reply.
    """
    labelled = re.search(
        LABEL.format(label) + r"(.*(?:\n.*\S.*)*)", reply, re.MULTILINE | re.IGNORECASE
    )
    part = reply
    if labelled:
        part = labelled.group(1)
    elif re.search(r"[^\W\d_]", reply):
        return None
    text, _, below = part.partition("\n")
    if not re.search(r"\w", text):
        text += below
    numbers = list(dict.fromkeys(map(int, _NUMBER.findall(text))))
    if numbers or _NO_NUMBERS.match(text):
        return numbers
    return None
