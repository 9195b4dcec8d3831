"""The cache of replies in front of a back end (--cache replies): a kept reply is not asked again,
but its cost booked.

    @with_reply_cache
    def _write(self, decoding, watch): ...        also _probe and _score; called where the cache has no reply

A back end has `_request()`: all that a reply depends on beside the model and what is asked;
`_reply_state(before)`: what the reply added to a context of `before` tokens;
`_restore_reply(values)`: adds it again. Not kept: replies with attention to watched spans, those
of `write_plain`, and sampled ones that were given no seed.
"""

import functools
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from harness.models import Probe, Span, Written

_REPLY_FIELDS = ("text", "finish", "ending", "thinking", "unclosed", "refused")
Request = TypeVar("Request", bound=Callable[..., Any])


def with_reply_cache(request: Request) -> Request:
    """Decorate a session's `_write`, `_probe` or `_score`: a reply that the cache holds is not
    asked for again."""
    kind = request.__name__.removeprefix("_")

    @functools.wraps(request)
    def cached(session: Any, argument: Any, *more: Any) -> Any:
        not_kept = kind == "write" and (more[0] or (argument.temperature and argument.seed is None))
        if session.replies is None or not_kept:
            return request(session, argument, *more)
        before = session.length()

        def send() -> dict[str, Any]:
            reply = request(session, argument, *more)
            if isinstance(reply, Written):
                values = {name: getattr(reply, name) for name in ("offsets", *_REPLY_FIELDS)}
                return {**values, "size": len(reply.span), **session._reply_state(before)}
            if isinstance(reply, Probe):
                return {"mass": reply.mass, "top": reply.top}
            return {"scores": reply}

        arguments = (
            asdict(argument)
            if kind == "write"
            else [list(argument), more[-1]]
            if kind == "probe"
            else argument
        )
        key = {"kind": kind, "asked": arguments, "request": session._request()}
        values, from_cache = session.replies.get_or_send(
            key, send, session._meter, session._role, session._shape
        )
        if from_cache:
            session._restore_reply(values)
        return _reply_of(values, before)

    return cached  # type: ignore[return-value]


def _reply_of(values: dict[str, Any], before: int) -> Written | Probe | list[float]:
    """The reply of these JSON values, in a context that held `before` tokens."""
    if "mass" in values:
        return Probe.of(values["mass"], values["top"])
    if "scores" in values:
        return list(values["scores"])
    span, offsets = (
        Span(before, before + values["size"]),
        tuple((a, b) for a, b in values["offsets"]),
    )
    parts = {
        name: values[name] for name in _REPLY_FIELDS if name in values
    }  # older caches lack some
    return Written(span=span, offsets=offsets, **parts)
