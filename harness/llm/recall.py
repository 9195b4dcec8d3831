"""Requests whose replies an earlier run was given (--cache replies): not sent again, and their cost booked again.

    @recalled_reply
    def _write(self, how, watch): ...        a back end's methods, which are called where the cache has no reply

A back end has `_request` (all that a reply depends on beside the model and what is asked), `_added` (what a reply added
to the context that held `before` tokens) and `_add` (adds it for a reply of the cache). Not kept: replies with the
attention to watched spans, those behind a cut cache, and sampled ones that were given no seed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

from harness.models import Decoding, Probe, Span, Written


def recalled_reply(
    ask: Callable[[Any, Decoding, Sequence[Span]], Written],
) -> Callable[[Any, Decoding, Sequence[Span]], Written]:
    """`_write` with the cache before it."""

    @functools.wraps(ask)
    def write(session: Any, how: Decoding, watch: Sequence[Span]) -> Written:
        if session.replies is None or watch or (how.temperature and how.seed is None):
            return ask(session, how, watch)
        before = session.length()

        def send() -> dict[str, Any]:
            written = ask(session, how, watch)
            told = {name: getattr(written, name) for name in ("text", "finish", "offsets", "ending", "thinking")}
            return {**told, "size": len(written.span), **session._added(before)}

        told = _once(session, "write", asdict(how), send)
        span = Span(before, before + told["size"])
        offsets = tuple((a, b) for a, b in told["offsets"])
        return Written(told["text"], span, told["finish"], offsets, ending=told["ending"], thinking=told["thinking"])

    return write


def recalled_probe(
    ask: Callable[[Any, Sequence[str], Sequence[Any], str], Probe],
) -> Callable[[Any, Sequence[str], Sequence[Any], str], Probe]:
    """`_probe` with the cache before it."""

    @functools.wraps(ask)
    def probe(session: Any, labels: Sequence[str], firsts: Sequence[Any], after: str) -> Probe:
        def send() -> dict[str, Any]:
            probe = ask(session, labels, firsts, after)
            return {"mass": probe.mass, "top": probe.top}

        told = _once(session, "probe", [list(labels), after], send)
        return Probe.of(told["mass"], told["top"])

    return probe


def recalled_score(ask: Callable[[Any, str], list[float]]) -> Callable[[Any, str], list[float]]:
    """`_score` with the cache before it."""

    @functools.wraps(ask)
    def score(session: Any, text: str) -> list[float]:
        scores: list[float] = _once(session, "score", text, lambda: {"scores": ask(session, text)})["scores"]
        return scores

    return score


def _once(session: Any, kind: str, asked: Any, send: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """What `send` tells, or what it told an earlier run, which is then part of the context."""
    if session.replies is None or session._bounded:
        return send()
    key = {"kind": kind, "asked": asked, "request": session._request()}
    told: dict[str, Any]
    told, again = session.replies.once(key, send, session._meter, session._role, session._model.shape)
    if again:
        session._add(told)
    return told
