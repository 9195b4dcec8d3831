"""Requests whose replies an earlier run was given (--cache replies): not sent again, and their cost booked again.

    @recalled
    def _write(self, how, watch): ...        also _probe and _score of a back end; called where the cache has no reply

A back end has `_request` (all that a reply depends on beside the model and what is asked), `_added` (what a reply added
to the context that held `before` tokens) and `_add` (adds it for a reply of the cache). Not kept: replies with the
attention to watched spans, those behind a cut cache, and sampled ones that were given no seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TypeVar

from harness.models import Probe, Span, Written

Ask = TypeVar("Ask", bound=Callable[..., Any])


def recalled(ask: Ask) -> Ask:
    """`ask` with the cache before it; its first argument, and of a probe the last one, says what is asked for."""
    kind = ask.__name__.removeprefix("_")

    @functools.wraps(ask)
    def asked(session: Any, what: Any, *more: Any) -> Any:
        unkept = kind == "write" and (more[0] or (what.temperature and what.seed is None))
        if session.replies is None or session._bounded or unkept:
            return ask(session, what, *more)
        before = session.length()

        def send() -> dict[str, Any]:
            reply = ask(session, what, *more)
            return _told(reply) | (session._added(before) if kind == "write" else {})

        words = asdict(what) if kind == "write" else [list(what), more[-1]] if kind == "probe" else what
        key = {"kind": kind, "asked": words, "request": session._request()}
        told, again = session.replies.get_or_send(key, send, session._meter, session._role, session._model.shape)
        if again:
            session._add(told)
        return _reply(told, before)

    return asked  # type: ignore[return-value]


def _told(reply: Written | Probe | list[float]) -> dict[str, Any]:
    """What the cache holds of a reply, as JSON values."""
    if isinstance(reply, Written):
        told = {name: getattr(reply, name) for name in ("text", "finish", "offsets", "ending", "thinking")}
        return {**told, "size": len(reply.span)}
    return {"mass": reply.mass, "top": reply.top} if isinstance(reply, Probe) else {"scores": reply}


def _reply(told: dict[str, Any], before: int) -> Written | Probe | list[float]:
    """The reply in a context that held `before` tokens."""
    if "mass" in told:
        return Probe.of(told["mass"], told["top"])
    if "scores" in told:
        return list(told["scores"])
    span, offsets = Span(before, before + told["size"]), tuple((a, b) for a, b in told["offsets"])
    return Written(told["text"], span, told["finish"], offsets, ending=told["ending"], thinking=told["thinking"])
