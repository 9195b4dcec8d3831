"""Sums of events by phase, as records, indexes and summaries hold them: {"search": {"tokens_in": 812, ...}, ...}."""

from collections.abc import Iterable
from typing import Any

from harness.cost.events import Event
from harness.cost.flops import CONVENTIONS, DEFAULT, ModelShape, flops


def _empty_usage() -> dict[str, Any]:
    return {
        "flops": dict.fromkeys(CONVENTIONS, 0.0),
        "tokens_in": 0,
        "tokens_cached": 0,
        "tokens_reused": 0,
        "tokens_out": 0,
        "requests": 0,
        "seconds": 0.0,
        "uncounted": 0,
        "texts": 0,
        "texts_cut": 0,
        "retries": 0,
        "endings_cut": 0,
        "recounted": 0,
        "encoder_requests": 0,
        "roles": {},
    }


def usage_of(events: Iterable[Event], shapes: dict[str, ModelShape]) -> dict[str, dict[str, Any]]:
    """Sum events by phase; `shapes` holds the sizes that they name by key.

    tokens_in counts tokens read (prefill, probe, score, embed, rerank), tokens_out tokens written, tokens_cached the
    context a request did not have to re-send; tokens_reused those of tokens_in that a server had in its prefix cache by
    chance, which count in full; uncounted the events of models whose shape is unknown, texts those given to an encoder
    or reranker, texts_cut those that it shortened, retries the tries beyond the first that requests to a server took,
    endings_cut the replies that lost a marker of the end of a turn at their end, recounted the server's token counts
    that cannot be true and were replaced, encoder_requests those of the requests that went to an encoder or reranker.
    markers_broken, where it is not 0, counts the markers of turns that were broken up in the texts that requests sent
    to a server (docs/security.md#forged-turns), and recalled those of the requests that the cache of replies answered.
    `roles` splits FLOPs (convention "all-params") by role. A phase with
    probes also has `probes`: their part of it, {requests, tokens, flops}; a probe reads what closes the turn, and its
    tokens and FLOPs count in the phase too. `thinking`, where a reasoning model thought: {tokens, unclosed, flops}, the
    part of what was written that is thinking and how often it was ended at its limit.
    """
    usage: dict[str, dict[str, Any]] = {}
    for e in events:
        u = usage.setdefault(e.phase, _empty_usage())
        u["tokens_in"] += 0 if e.kind == "decode" else e.new
        u["tokens_out"] += e.out
        u["tokens_cached"] += e.cached if e.requests else 0
        u["tokens_reused"] += e.reused
        u["requests"] += e.requests
        u["seconds"] += e.seconds
        u["texts"] += e.texts
        u["texts_cut"] += e.cut
        u["retries"] += e.retries
        u["endings_cut"] += e.endings
        u["recounted"] += e.recounted
        u["encoder_requests"] += e.requests if e.kind in ("embed", "rerank") else 0
        for name, count in (("markers_broken", e.markers), ("recalled", e.recalled)):
            if count:
                u[name] = u.get(name, 0) + count
        parts = [u]
        if e.kind == "probe":
            probes = u.setdefault("probes", {"requests": 0, "tokens": 0, "flops": dict.fromkeys(CONVENTIONS, 0.0)})
            probes["requests"] += e.requests
            probes["tokens"] += e.new
            parts.append(probes)
        if e.thinking:
            empty = {"tokens": 0, "unclosed": 0, "flops": dict.fromkeys(CONVENTIONS, 0.0)}
            thinking = u.setdefault("thinking", empty)
            thinking["tokens"] += e.thinking
            thinking["unclosed"] += e.unclosed
            parts.append(thinking)
        shape = shapes.get(e.shape)
        if shape is None:
            u["uncounted"] += 1
            continue
        for name in CONVENTIONS:
            for part in parts:
                part["flops"][name] += flops(e, shape, name)
        u["roles"][e.role] = u["roles"].get(e.role, 0.0) + flops(e, shape, DEFAULT)
    return usage


def texts_and_cut(usages: Iterable[dict[str, dict[str, Any]]]) -> tuple[int | None, int]:
    """Number of texts that encoders and rerankers were given, and of those that they cut, over all phases.

    The first is None where an older run or index counted only the second.
    """
    phases = [phase for usage in usages for phase in usage.values()]
    known = all("texts" in phase for phase in phases if phase.get("texts_cut"))
    texts, cut = (sum(int(phase.get(key, 0)) for phase in phases) for key in ("texts", "texts_cut"))
    return texts if known else None, cut


def add_usage(total: dict[str, dict[str, Any]], more: dict[str, dict[str, Any]]) -> None:
    """Add `more` to `total` in place; both as `usage_of` returns them."""
    for phase, values in more.items():
        _add_numbers(total.setdefault(phase, {}), values)


def _add_numbers(into: dict[str, Any], values: dict[str, Any]) -> None:
    for key, value in values.items():
        if isinstance(value, dict):
            _add_numbers(into.setdefault(key, {}), value)
        else:
            into[key] = into.get(key, 0) + value
