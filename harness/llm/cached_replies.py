"""The cache of replies in front of a back end (--cache replies): a cached reply is not asked for
again, but its cost is booked.

    @with_reply_cache
    def _write(self, decoding, watch): ...        also _probe and _score; called where the cache has no reply

A back end has `_request()`: all that a reply depends on beside the model and what is asked;
`_reply_state(n_before)`: what the reply added to a context of `n_before` tokens, as JSON values;
`_restore_reply(added)`: adds it again. Not cached: replies with attention to watched spans, those
of `write_plain`, and sampled ones that were given no seed.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol, TypeVar

from pydantic import TypeAdapter

from harness.cost.flops import ModelShape
from harness.cost.meter import Meter
from harness.models import Probe, Span, Written
from harness.storage.reply_cache import ReplyCache

_REPLY_FIELDS = ("text", "finish", "ending", "thinking", "unclosed", "refused")
Request = TypeVar("Request", bound=Callable[..., Any])


@dataclass(frozen=True)
class AddedContext:
    """What a reply added to the context of its session, as the cache holds it.

    Attributes:
        text: The text of a written reply; None for probabilities.
        size: Its tokens.
        length: Tokens of the context with it, as a server counts them; None where the model is
            loaded here.
        ids: The reply's token ids, where the model is loaded here.
        ran: Tokens that the model has run, those of the context before the reply not counted.
    """

    text: str | None = None
    size: int = 0
    length: int | None = None
    ids: list[int] = field(default_factory=list)
    ran: int = 0


@dataclass(frozen=True)
class _WrittenValues:
    """A written reply as the cache holds it: the fields of `Written`; entries of older versions
    lack some."""

    text: str
    finish: str
    size: int
    offsets: tuple[tuple[int, int], ...]
    ending: bool = False
    thinking: str = ""
    unclosed: bool = False
    refused: bool = False

    def as_written(self, n_before: int) -> Written:
        """The reply as a session returns it, its span placed after a context of `n_before`
        tokens."""
        return Written(
            text=self.text,
            span=Span(n_before, n_before + self.size),
            finish=self.finish,
            offsets=self.offsets,
            ending=self.ending,
            thinking=self.thinking,
            unclosed=self.unclosed,
            refused=self.refused,
        )


@dataclass(frozen=True)
class _ProbeValues:
    """Probabilities of labels as the cache holds them.

    Attributes:
        mass: Label -> probability of its first token among all tokens.
        top: The label whose first token is the likeliest of all; None where another token is.
    """

    mass: dict[str, float]
    top: str | None


_ADDED_CONTEXT = TypeAdapter(AddedContext)
_PROBE = TypeAdapter(_ProbeValues)
_SCORES = TypeAdapter(list[float])
_WRITTEN = TypeAdapter(_WrittenValues)


class _CachingSession(Protocol):
    """What the cache of replies needs of a session.

    Attributes:
        replies: The cache; None without one.
    """

    replies: ReplyCache | None
    _meter: Meter
    _role: str
    _shape: ModelShape | None

    def length(self) -> int:
        """Tokens of the context."""

    def _request(self) -> list[object]:
        """What a reply depends on beside the model and what is asked: the context and settings."""

    def _reply_state(self, n_before: int) -> dict[str, object]:
        """What the last reply added to a context of `n_before` tokens, as JSON values."""

    def _restore_reply(self, added: AddedContext) -> None:
        """Add to the context what a reply of the cache would have added."""


def with_reply_cache(request: Request) -> Request:
    """Decorate a session's `_write`, `_probe` or `_score`: a reply that the cache holds is not
    asked for again.

    The decorated method takes and returns what it did before. A reply that the cache lacks is asked
    for and stored as JSON values; one that it holds is made from these values, its cost is booked
    on the session's meter, and the session's context is brought to where the reply would have left
    it. Without a cache (`session.replies` is None), and for requests that may have several replies,
    the method runs as it is.
    """
    kind = request.__name__.removeprefix("_")

    @functools.wraps(request)
    def from_cache_or_sent(session: _CachingSession, *arguments: Any) -> object:
        """What the session's method `request` returns for these arguments: made from the cache
        where that holds the reply, else by calling the method, whose reply is then stored."""
        if session.replies is None or not _has_one_reply(kind, arguments):
            return request(session, *arguments)
        key = {
            "kind": kind,
            "asked": _arguments_to_json(kind, arguments),
            "request": session._request(),
        }
        send = functools.partial(request, session, *arguments)
        return _stored_or_sent_reply(session, session.replies, key, send)

    return from_cache_or_sent  # type: ignore[return-value]


def _stored_or_sent_reply(
    session: _CachingSession,
    cache: ReplyCache,
    key: Mapping[str, object],
    send: Callable[[], object],
) -> Written | Probe | list[float]:
    """A reply made from the cache, or else sent for and stored; in both cases its cost is booked
    and the session's context is where the reply leaves it.

    Args:
        session: The session that needs the reply.
        cache: Its cache.
        key: All that the reply depends on beside the model: what is asked, and the context and
            settings of the session.
        send: Sends the request, which changes the session's context, and returns the reply.
    """
    n_before = session.length()  # the reply's span begins after these tokens

    def send_for_json() -> dict[str, object]:
        """Send the request, and describe its reply by JSON values."""
        return _reply_to_json(send(), session, n_before)

    obtained = cache.get_or_send(
        key, send_for_json, meter=session._meter, role=session._role, shape=session._shape
    )
    if obtained.was_stored:  # nothing was sent, so the context lacks the reply
        session._restore_reply(_ADDED_CONTEXT.validate_python(obtained.value))
    return _reply_from_json(obtained.value, n_before)


def _has_one_reply(kind: str, arguments: Sequence[Any]) -> bool:
    """Whether a request has a single possible reply: no span is watched, nothing is drawn without a
    seed.

    Args:
        kind: "write", "probe" or "score".
        arguments: The arguments of the session's method of that name.
    """
    if kind != "write":
        return True
    decoding, watched_spans = arguments
    if watched_spans:
        return False
    is_greedy = not decoding.temperature
    return is_greedy or decoding.seed is not None


def _arguments_to_json(kind: str, arguments: Sequence[Any]) -> Any:
    """What a request asks, as JSON values for the cache's key.

    Left out are the watched spans, as requests with any are not cached, and the labels' first
    tokens, which follow from the labels.

    Args:
        kind: "write", "probe" or "score".
        arguments: What the session's method is called with: (decoding, watched spans) to write,
            (labels, their first tokens, closing words) to probe, (text,) to score.
    """
    if kind == "write":
        decoding, _ = arguments
        values = asdict(decoding)
        # Entries from before there were schemas lack the key: they stay valid.
        if not decoding.schema:
            del values["schema"]
        return values
    if kind == "probe":
        labels, _, after = arguments
        return [list(labels), after]
    [text] = arguments
    return text


def _reply_to_json(reply: object, session: _CachingSession, n_before: int) -> dict[str, object]:
    """A reply as JSON values: {"mass": {"Yes": 0.8}, "top": "Yes"} for probabilities, {"scores":
    [-0.1]} for log-probabilities; for a written reply its fields (_REPLY_FIELDS and "offsets"), its
    number of tokens as "size", and what the session says that it added to the context.

    Args:
        reply: Written, Probe, or a list of log-probabilities.
        session: The session whose context the reply is in.
        n_before: Tokens of the context without it.
    """
    if isinstance(reply, Probe):
        return {"mass": reply.mass, "top": reply.top}
    if not isinstance(reply, Written):
        return {"scores": reply}
    values = {name: getattr(reply, name) for name in ("offsets", *_REPLY_FIELDS)}
    return {**values, "size": len(reply.span), **session._reply_state(n_before)}


def _reply_from_json(values: Mapping[str, object], n_before: int) -> Written | Probe | list[float]:
    """Make the reply from what `_reply_to_json` made of one: the key "mass" tells a Probe, "scores"
    log-probabilities; any other is Written.

    Args:
        values: The JSON values.
        n_before: Tokens of the context in front of the reply.
    """
    if "mass" in values:
        probe = _PROBE.validate_python(values)
        return Probe.of(probe.mass, probe.top)
    if "scores" in values:
        return _SCORES.validate_python(values["scores"])
    return _WRITTEN.validate_python(values).as_written(n_before)
