"""A request that is repeated until its reply can be parsed: temperature 0 first, then sampled, up
to a limit.

    response = ask_parsed(model, pieces, limit, parse, Retry(seed=tools.seed))
    response.parsed     the first reply that `parse` accepts, parsed; None if it accepts none

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

_LIST_ITEM = re.compile(r"^[ \t]*(?:[*•-]|\d{1,3}[.)])[ \t]+(\S.*?)[ \t]*$", re.MULTILINE)
_NUMBER = re.compile(r"\d{1,9}")


_NONE_OR_EMPTY_LIST = re.compile(r"\W*none\b|\s*\[\s*\]", re.IGNORECASE)
_WORD_NONE = re.compile(r"\s*\(?none\)?\.?\s*", re.IGNORECASE)
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
        prompt_tokens: How many tokens the prompt has.
        parsed: What was parsed; None where no reply could be.
        text: The text of the reply that was parsed, or of the last one.
        replies: How many replies there were.
        refused_texts: The texts of those that could not be parsed.
    """

    prompt_tokens: int
    parsed: T | None = None
    text: str = ""
    replies: int = 0
    refused_texts: list[str] = field(default_factory=list)

    @property
    def notes(self) -> list[str]:
        """A sentence for each reply that could not be parsed, with its first 60 characters."""
        return [f"invalid reply {reply[:60]!r}" for reply in self.refused_texts]


def window_of(window: int | None, model: MeteredModel) -> int:
    """Most tokens of prompt and reply together: the model's window, or a smaller one that is set.

    Args:
        window: The method's setting; None: no limit of its own.
        model: The model.
    """
    return min(window or model.window, model.window)


def fit_lines(
    request_with_lines: Callable[[int], Pieces], n_lines: int, max_tokens: int, model: MeteredModel
) -> tuple[Pieces, int]:
    """Leave out lines from the end of a list until the request with the others fits.

    Args:
        request_with_lines: Gives the request with the first n lines.
        n_lines: How many lines there are.
        max_tokens: Most tokens of the request.
        model: The model whose tokens are counted.

    Returns:
        The request, and how many lines it has. One that does not fit even without lines is returned
        as it is; `require_room` reports it.
    """
    n_shown = n_lines
    while n_shown and prompt_tokens(request_with_lines(n_shown), model) > max_tokens:
        n_shown -= 1
    return request_with_lines(n_shown), n_shown


def require_room(
    tokens: int,
    model: MeteredModel,
    window: int | None,
    settings_to_lower: str = "the method's sizes of segments and replies",
) -> None:
    """Raise WindowExceeded if a request with its reply does not fit.

    Args:
        tokens: The tokens of both together.
        model: The model.
        window: The setting method.window; None: the model's window.
        settings_to_lower: The settings that the error says to lower.
    """
    window_tokens = window_of(window, model)
    if tokens > window_tokens:
        raise WindowExceeded(
            f"a request with its reply takes {tokens} tokens, more than the window of "
            f"{window_tokens} tokens of '{model.name}'; raise method.window or model.window, or "
            f"lower {settings_to_lower}"
        )


def ask_parsed(
    model: MeteredModel,
    pieces: Sequence[str],
    max_reply_tokens: int,
    parse: Callable[[str], T | None],
    retry: Retry,
) -> ParsedReply[T]:
    """Ask until a reply can be parsed.

    Args:
        model: The model.
        pieces: The prompt.
        max_reply_tokens: Tokens of a reply at most.
        parse: Reads a reply; None for one that it does not understand.
        retry: How often is asked, and how further replies are sampled.

    Raises:
        WindowExceeded: The request with its reply does not fit the window.
    """
    n_prompt_tokens = prompt_tokens(pieces, model)
    require_room(n_prompt_tokens + max_reply_tokens, model, retry.window)
    with model.session() as session:
        feed(session, pieces)
        return sample_until_parsed(session, n_prompt_tokens, max_reply_tokens, parse, retry)


def sample_until_parsed(
    session: Session,
    n_prompt_tokens: int,
    max_reply_tokens: int,
    parse: Callable[[str], T | None],
    retry: Retry,
    seed_of: Callable[[int], int] | None = None,
) -> ParsedReply[T]:
    """Ask for replies to the open turn of a session until one can be parsed.

    The first reply is greedy, the others are drawn as `retry` says. Each refused reply is also
    counted in the run's records; a parsed one needs no count.

    Args:
        session: The session. Replies are written in branches, so its context stays as it was.
        n_prompt_tokens: How many tokens the session has read; goes into the result.
        max_reply_tokens: Most tokens of a reply.
        parse: Reads a reply; None for one that it does not understand.
        retry: How many further replies are asked for, and how they are drawn.
        seed_of: Number of a reply, from 0 -> its seed; None: the seeds follow from `retry.seed`.
    """
    response: ParsedReply[T] = ParsedReply(n_prompt_tokens)
    for attempt in range(retry.retries + 1):
        seed = derived_seed(retry.seed, "retry", str(attempt))
        if seed_of is not None:
            seed = seed_of(attempt)
        temperature = 0.0
        top_p = 1.0
        if attempt > 0:
            temperature = retry.temperature
            top_p = retry.top_p
        with session.branch():
            written = session.write(
                max_reply_tokens, temperature=temperature, top_p=top_p, seed=seed
            )
        response.text = written.text
        response.replies += 1
        response.parsed = parse(response.text)
        if response.parsed is not None:
            break
        session.count_reply(written)
        response.refused_texts.append(response.text)
    return response


def parse_list(reply: str) -> list[str] | None:
    r"""The items of a reply's list: what follows "*", "-" or "1." on a line; where there is no such
    line, the strings of lists in JSON or Python.

        "Here:\n* Ann\n* Bob" -> ["Ann", "Bob"]        '["Ann", "Bob"]' -> ["Ann", "Bob"]

    [] for "none" and an empty list; None for any other reply.
    """
    items = [str(item) for item in _LIST_ITEM.findall(reply)]
    if not items:
        # '"Ann", "Bob"' without brackets is read as a list, too.
        values = values_in(reply) or values_in(f"[{reply}]")
        for value in values:
            items += strings_in(value)
        if not items and [] in values:
            return []
    items_with_content = [item for item in items if not _WORD_NONE.fullmatch(item)]
    if items_with_content:
        return items_with_content
    if items or _WORD_NONE.fullmatch(reply):
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
    part_with_numbers = reply
    if labelled:
        part_with_numbers = labelled.group(1)
    elif re.search(r"[^\W\d_]", reply):
        return None
    numbers_text, _, lines_below = part_with_numbers.partition("\n")
    if not re.search(r"\w", numbers_text):
        numbers_text += lines_below
    numbers = list(dict.fromkeys(map(int, _NUMBER.findall(numbers_text))))
    if numbers or _NONE_OR_EMPTY_LIST.match(numbers_text):
        return numbers
    return None
