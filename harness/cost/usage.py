"""Sums of events by phase, as records, indexes and summaries hold them: {"search": {"tokens_in": 812, ...}, ...}."""

from collections.abc import Iterable
from typing import Any

from harness.cost.events import Event
from harness.cost.flops import CONVENTIONS, DEFAULT, ModelShape, flops


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
    for event in events:
        add_usage(usage, {event.phase: _usage_of_event(event, shapes.get(event.shape))})
    return usage


def _usage_of_event(e: Event, shape: ModelShape | None) -> dict[str, Any]:
    spent = {name: 0.0 if shape is None else flops(e, shape, name) for name in CONVENTIONS}
    usage = {
        "flops": spent,
        "tokens_in": 0 if e.kind == "decode" else e.new,
        "tokens_cached": e.cached if e.requests else 0,
        "tokens_reused": e.reused,
        "tokens_out": e.out,
        "requests": e.requests,
        "seconds": e.seconds,
        "uncounted": int(shape is None),
        "texts": e.texts,
        "texts_cut": e.cut,
        "retries": e.retries,
        "endings_cut": e.endings,
        "recounted": e.recounted,
        "encoder_requests": e.requests if e.kind in ("embed", "rerank") else 0,
        "roles": {} if shape is None else {e.role: spent[DEFAULT]},
    }
    usage |= {name: count for name, count in (("markers_broken", e.markers), ("recalled", e.recalled)) if count}
    if e.kind == "probe":
        usage["probes"] = {"requests": e.requests, "tokens": e.new, "flops": spent}
    if e.thinking:
        usage["thinking"] = {"tokens": e.thinking, "unclosed": e.unclosed, "flops": spent}
    return usage


def texts_and_cut(usages: Iterable[dict[str, dict[str, Any]]]) -> tuple[int | None, int]:
    """Number of texts that encoders and rerankers were given, and of those that they cut, over all phases.

    The first is None where an older run or index counted only the second.
    """
    phases = [phase for usage in usages for phase in usage.values()]
    known = all("texts" in phase for phase in phases if phase.get("texts_cut"))
    texts, cut = (sum(int(phase.get(key, 0)) for phase in phases) for key in ("texts", "texts_cut"))
    return texts if known else None, cut


def add_usage(total: dict[str, Any], more: dict[str, Any]) -> None:
    """Add `more` to `total` in place; both as `usage_of` returns them, or a part of it."""
    for key, value in more.items():
        if isinstance(value, dict):
            add_usage(total.setdefault(key, {}), value)
        else:
            total[key] = total.get(key, 0) + value
