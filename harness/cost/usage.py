"""Sums of events by phase, as records, indexes and summaries hold them: {"search": {"tokens_in":
812, ...}, ...}.

Money of requests to a server: the tokens that it billed, by role, times the prices in run.yaml
(`model.price`).

    usage["billed"]          {"reader": {"input": 900, "cached": 100, "output": 12}}, cached: read from the prefix cache
    money(usage, config)     (900 * input + 100 * cached + 12 * output) / 1e6

Records keep tokens, not money, so that a price that is set or corrected later holds for all
questions of a run.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from harness.cost.flops import CONVENTIONS, DEFAULT, OWN_RETRIEVER, Event, ModelShape, flops

_NO_LANGUAGE_MODEL = ("embed", "rerank", "search")


def usage_of(events: Iterable[Event], shapes: dict[str, ModelShape]) -> dict[str, dict[str, Any]]:
    """Sum events by phase: phase -> name -> sum. shapes: sizes of models by the keys
    (`Event.shape`) in the events.

    tokens_in         tokens read (prefill, probe, score, embed, rerank)
    tokens_cached     context that a request did not have to send again
    uncounted         events of models whose shape is unknown
    encoder_requests  requests that went to an encoder, a reranker or a retriever
    roles             FLOPs (convention "all-params") by role
    Other counts are sums of fields of Event; markers_broken (docs/security.md#forged-turns) and
    recalled only if not 0. Only in phases that had any:
    charged           money that the replies of an application say, and of searches
    tokens_unknown, money_unknown    calls of an application whose reply does not say them; the phase then has no
                      tokens_in and tokens_out
    tokens_total      in place of these two, where its reply says their sum alone
    searches          {requests, passages, seconds} of searches, without the encoding of their queries
    probes            {requests, tokens, flops} of probes, which read the words that close the turn
    thinking          {tokens, unclosed, flops}; unclosed: how often it was ended at its limit
    billed            role -> {input, cached, output}: tokens that a server takes money for (`money`)
    replies           number of replies without an answer or its end, by `Event.reply`
    unanswered        {tokens, flops, billed} of requests without a usable reply; only a command's limits count these
    """
    total: dict[str, dict[str, Any]] = {}
    for e in events:
        shape = shapes.get(e.shape)
        spent = {name: 0.0 if shape is None else flops(e, shape, name) for name in CONVENTIONS}
        if not e.answered:
            billed = (
                {}
                if e.billed is None
                else {"billed": {e.role: {"input": e.new, "cached": 0, "output": e.billed}}}
            )
            add_usage(total, {e.phase: {"unanswered": {"tokens": e.new, "flops": spent, **billed}}})
            continue
        usage = {
            "flops": spent,
            "tokens_in": 0 if e.kind == "decode" else e.new,
            "tokens_cached": e.cached if e.requests else 0,
            "tokens_reused": e.reused,
            "tokens_out": e.out,
            "requests": e.requests,
            "seconds": e.seconds,
            "queued": e.queued,
            "uncounted": int(_is_uncounted(e, shape)),
            "texts": e.texts,
            "texts_cut": e.cut,
            "retries": e.retries,
            "endings_cut": e.endings,
            "recounted": e.recounted,
            "encoder_requests": e.requests if e.kind in _NO_LANGUAGE_MODEL else 0,
            "roles": {} if shape is None else {e.role: spent[DEFAULT]},
        }
        usage |= {
            name: count
            for name, count in (("markers_broken", e.markers), ("recalled", e.recalled))
            if count
        }
        if not e.tokens_known:
            del usage["tokens_in"], usage["tokens_out"]
            if e.tokens_total is None:
                usage["tokens_unknown"] = 1
            else:
                usage["tokens_total"] = e.tokens_total
        if e.charged is not None:
            usage["charged"] = e.charged
        if not e.money_known:
            usage["money_unknown"] = 1
        if e.reply:
            usage["replies"] = {e.reply: 1}
        if e.kind == "search":
            usage["searches"] = {"requests": 1, "passages": e.found, "seconds": e.seconds}
        if e.kind == "probe":
            usage["probes"] = {"requests": e.requests, "tokens": e.new, "flops": spent}
        if e.billed is not None:
            usage["billed"] = {
                e.role: {"input": e.new - e.reused, "cached": e.reused, "output": e.billed}
            }
        if e.thinking:
            usage["thinking"] = {"tokens": e.thinking, "unclosed": e.unclosed, "flops": spent}
        add_usage(total, {e.phase: usage})
    return total


def _is_uncounted(event: Event, shape: ModelShape | None) -> bool:
    """Whether the FLOPs of a call are unknown. A search of ours takes none beside those of its
    encoder; what a retriever of the user's own computes is not known."""
    is_search_of_ours = event.kind == "search" and event.role != OWN_RETRIEVER
    return shape is None and not is_search_of_ours


def texts_and_cut(usages: Iterable[dict[str, dict[str, Any]]]) -> tuple[int | None, int]:
    """(texts that encoders and rerankers were given, those of them that they cut), summed over
    `usages` and phases.

    The first is None where an older run or index counted only the second.
    """
    all_counted, texts, cut = True, 0, 0
    for usage in usages:
        for phase in usage.values():
            all_counted = all_counted and ("texts" in phase or not phase.get("texts_cut"))
            texts, cut = texts + int(phase.get("texts", 0)), cut + int(phase.get("texts_cut", 0))
    return texts if all_counted else None, cut


def sum_phases(usages: Iterable[Mapping[str, Mapping[str, Any]]], *phases: str) -> dict[str, Any]:
    """Sum `usages`, each as `usage_of` returns it, over their phases; over `phases` alone where any
    is named."""
    total: dict[str, Any] = {}
    for usage in usages:
        for name, phase in usage.items():
            if not phases or name in phases:
                add_usage(total, phase)
    return total


def tokens_of(phase: Mapping[str, Any]) -> int:
    """Tokens read and written in a phase, or in a sum of phases; 0 where it holds none."""
    told_apart = phase.get("tokens_in", 0) + phase.get("tokens_out", 0)
    return int(told_apart + phase.get("tokens_total", 0))


def sent(
    usage: Mapping[str, Mapping[str, Any]], earlier: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """All that a question or an index sent, {"tokens", "flops", "billed"}: `usage` and its requests
    without a reply.

    earlier: what earlier tries of it sent, in the same form.
    """
    spent = sum_phases([usage])
    total: dict[str, Any] = {"tokens": tokens_of(spent), "flops": {}, "billed": {}}
    answered = {"flops": spent.get("flops", {}), "billed": spent.get("billed", {})}
    for name in ("charged", "tokens_unknown", "money_unknown"):
        if name in spent:
            answered[name] = spent[name]
    for part in (answered, spent.get("unanswered", {}), earlier or {}):
        add_usage(total, part)
    return total


def add_usage(total: dict[str, Any], added: Mapping[str, Any]) -> None:
    """Add the numbers of `added` to those of `total`, in place; both as `usage_of` returns them, or
    one phase of it.

    What is no number is left out: a run of another version may hold other keys.
    """
    for key, value in added.items():
        if isinstance(value, dict) and isinstance(part := total.setdefault(key, {}), dict):
            add_usage(part, value)
        elif isinstance(value, (int, float)) and isinstance(
            before := total.get(key, 0), (int, float)
        ):
            total[key] = before + value


ENCODERS = ("encoder", "reranker")
"""Roles whose price is one number; those that are loaded here take no money."""


def price_of(config: Mapping[str, Any], role: str) -> dict[str, float] | None:
    """The prices of a role's model, None without one. config: of a run.

    Cached tokens cost as input unless it says, and requests in batches the share `price.batch` of
    the others.
    """
    if role in ENCODERS:
        encoder = config.get(role) or {}
        encoder_price = encoder.get("price") if encoder.get("base_url") else 0.0
        return (
            None
            if encoder_price is None
            else {"input": encoder_price, "cached": encoder_price, "output": 0.0}
        )
    model = (config.get("roles") or {}).get(role) or config["model"]
    if not (price := model.get("price")):
        return None
    cached = price["input"] if price.get("cached") is None else price["cached"]
    share = price["batch"] if model.get("batch") else 1.0
    return {
        "input": share * price["input"],
        "cached": share * cached,
        "output": share * price["output"],
    }


def money(usage: Mapping[str, Any], config: Mapping[str, Any]) -> float | None:
    """Money of one phase's usage, or of a sum of phases; 0 where no server billed anything, None
    without a price or where an application does not say it.

    config: of the run, as in run.yaml.
    """
    if usage.get("money_unknown"):
        return None
    total = float(usage.get("charged", 0.0))
    for role, tokens in (usage.get("billed") or {}).items():
        if (price := price_of(config, role)) is None:
            return None
        total += sum(price[kind] * count for kind, count in tokens.items()) / 1e6
    return total
