"""The cache of replies in front of a back end (--cache replies): a cached reply is not asked for
again, but its cost is booked.

    @with_reply_cache
    def _write(self, decoding, watch): ...        also _probe and _score; called where the cache has no reply

A back end has `_request()`: all that a reply depends on beside the model and what is asked;
`_reply_state(before)`: what the reply added to a context of `before` tokens;
`_restore_reply(values)`: adds it again. Not cached: replies with attention to watched spans, those
of `write_plain`, and sampled ones that were given no seed.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from harness.models import Probe, Span, Written

_REPLY_FIELDS = ("text", "finish", "ending", "thinking", "unclosed", "refused")
Request = TypeVar("Request", bound=Callable[..., Any])


def with_reply_cache(request: Request) -> Request:
    """Decorate a session's `_write`, `_probe` or `_score`: a reply that the cache holds is not
    asked for again.

    The decorated method takes and returns what it did before. A reply that the cache lacks is asked
    for and stored as JSON values; one that it holds is made from these values, and the session's
    context is brought to where the reply would have left it.
    """
    kind = request.__name__.removeprefix("_")

    @functools.wraps(request)
    def cached(session: Any, *arguments: Any) -> Any:
        """Return the stored reply of a request that was sent before; otherwise send and store
        it."""
        if session.replies is None or not _may_be_cached(kind, arguments):
            return request(session, *arguments)
        before = session.length()

        def send() -> dict[str, Any]:
            """Send the request, and describe its reply by JSON values."""
            reply = request(session, *arguments)
            return _values_of(reply, session, before)

        asked = _asked(kind, arguments)
        key = {"kind": kind, "asked": asked, "request": session._request()}
        values, from_cache = session.replies.get_or_send(
            key, send, session._meter, session._role, session._shape
        )
        if from_cache:
            session._restore_reply(values)
        return _reply_of(values, before)

    return cached  # type: ignore[return-value]


def _may_be_cached(kind: str, arguments: Sequence[Any]) -> bool:
    """Whether a request has a single possible reply: no span is watched, nothing is drawn without a
    seed.

    Args:
        kind: "write", "probe" or "score".
        arguments: The arguments of the session's method of that name.
    """
    if kind != "write":
        return True
    decoding, watch = arguments
    if watch:
        return False
    return not decoding.temperature or decoding.seed is not None


def _asked(kind: str, arguments: Sequence[Any]) -> Any:
    """What a request asks, as JSON values for the cache's key.

    Args:
        kind: "write", "probe" or "score".
        arguments: What the session's method is called with: (decoding, watched spans) to write,
            (labels, their first tokens, closing words) to probe, (text,) to score.
    """
    if kind == "write":
        decoding, _ = arguments
        values = asdict(decoding)
        if not decoding.schema:  # entries of before there were schemas
            del values["schema"]
        return values
    if kind == "probe":
        labels, _, after = arguments
        return [list(labels), after]
    [text] = arguments
    return text


def _values_of(reply: Any, session: Any, before: int) -> dict[str, Any]:
    """A reply as JSON values. before: tokens of the context without it."""
    if isinstance(reply, Probe):
        return {"mass": reply.mass, "top": reply.top}
    if not isinstance(reply, Written):
        return {"scores": reply}
    values = {name: getattr(reply, name) for name in ("offsets", *_REPLY_FIELDS)}
    return {**values, "size": len(reply.span), **session._reply_state(before)}


def _reply_of(values: dict[str, Any], before: int) -> Written | Probe | list[float]:
    """Make the reply from JSON values; before: tokens of the context in front of it."""
    if "mass" in values:
        return Probe.of(values["mass"], values["top"])
    if "scores" in values:
        return list(values["scores"])
    span = Span(before, before + values["size"])
    offsets = tuple((start, end) for start, end in values["offsets"])
    parts = {name: values[name] for name in _REPLY_FIELDS if name in values}  # older ones lack some
    return Written(span=span, offsets=offsets, **parts)
