"""Sums of events by phase, as records, indexes and summaries hold them: {"search": {"tokens_in":
812, ...}, ...}.

Money of requests to a server: the tokens that it billed, by role, times the prices in run.yaml
(`model.price`).

    usage["billed"]          {"reader": {"input": 900, "cached": 100, "output": 12}}, cached: read from the prefix cache
    money(usage, prices)     (900 * input + 100 * cached + 12 * output) / 1e6: prices.py

Records keep tokens, not money, so that a price that is set or corrected later holds for all
questions of a run.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, cast

from typing_extensions import TypedDict

from harness.cost.flops import (
    CONVENTIONS,
    DEFAULT_CONVENTION,
    OWN_RETRIEVER_ROLE,
    Event,
    ModelShape,
    flops,
)

_NO_LANGUAGE_MODEL = ("embed", "rerank", "search")

Flops = dict[str, float]
"""FLOPs by convention."""


class BilledTokens(TypedDict):
    """Tokens that a server takes money for; cached: read from its prefix cache."""

    input: float
    cached: float
    output: float


class SentUsage(TypedDict, total=False):
    """What requests sent, whether they were answered or not.

    tokens            tokens read and written together
    flops, billed     as in PhaseUsage
    charged, tokens_unknown, money_unknown      as in PhaseUsage, only where there are any
    """

    tokens: float
    flops: Flops
    billed: dict[str, BilledTokens]
    charged: float
    tokens_unknown: float
    money_unknown: float


class ProbeUsage(TypedDict, total=False):
    """What probes cost, which read the words that close the turn."""

    requests: float
    tokens: float
    flops: Flops


class ThinkingUsage(TypedDict, total=False):
    """What thinking cost; unclosed: how often it was ended at its limit."""

    tokens: float
    unclosed: float
    flops: Flops


class SearchUsage(TypedDict):
    """What searches took, without the encoding of their queries."""

    requests: float
    passages: float
    seconds: float


class PhaseUsage(TypedDict, total=False):
    """What a phase cost; runs made elsewhere, and older ones, lack some of these.

    flops             FLOPs by convention
    tokens_in         tokens read (prefill, probe, score, embed, rerank)
    tokens_cached     context that a request did not have to send again
    tokens_reused     tokens in a server's prefix cache
    tokens_out        tokens written
    requests          calls of any model
    seconds           time of the calls
    queued            seconds that they waited
    uncounted         calls of models whose shape is unknown
    texts             texts given to encoders and rerankers
    texts_cut         those of them that were cut
    retries           repeated requests to a server
    endings_cut       replies that lost an end-of-turn marker
    recounted         a server's missing or impossible counts
    encoder_requests  requests that went to an encoder, a reranker or a retriever
    roles             FLOPs (convention "all-params") by role

    Only in phases that had any:
    markers_broken    markers in texts (docs/security.md#forged-turns)
    recalled          replies from the cache
    tokens_total      tokens read and written, where a reply says their sum alone; the phase then
                      has no tokens_in and tokens_out
    tokens_unknown    calls of an application whose reply does not say its tokens; the phase then
                      has none of the three
    money_unknown     likewise of money
    charged           money that the replies of an application say, and of searches
    replies           number of replies without an answer or its end, by `Event.reply`
    searches          of searches
    probes            of probes
    billed            by role, of servers
    thinking          of models that think
    unanswered        of requests without a usable reply; only a command's limits count these
    """

    flops: Flops
    tokens_in: float
    tokens_cached: float
    tokens_reused: float
    tokens_out: float
    requests: float
    seconds: float
    queued: float
    uncounted: float
    texts: float
    texts_cut: float
    retries: float
    endings_cut: float
    recounted: float
    encoder_requests: float
    roles: dict[str, float]
    markers_broken: float
    recalled: float
    tokens_total: float
    tokens_unknown: float
    money_unknown: float
    charged: float
    replies: dict[str, int]
    searches: SearchUsage
    probes: ProbeUsage
    billed: dict[str, BilledTokens]
    thinking: ThinkingUsage
    unanswered: SentUsage


Usage = dict[str, PhaseUsage]
"""Costs by phase."""


def usage_of(events: Iterable[Event], shapes: Mapping[str, ModelShape]) -> Usage:
    """Sum events by phase: {"search": {"tokens_in": 812, ...}, "answer": {...}}.

    Args:
        events: Calls of models, and searches.
        shapes: `Event.shape` -> the sizes of the model.
    """
    total: Usage = {}
    for event in events:
        costs = _phase_usage_of(event, shapes.get(event.shape))
        add_usage(total, {event.phase: costs})
    return total


def _phase_usage_of(event: Event, shape: ModelShape | None) -> PhaseUsage:
    """What one call cost, in the form of a phase.

    One without a usable reply is all under "unanswered".

    Args:
        event: The call.
        shape: The sizes of its model; None for a model of unknown size.
    """
    flops_by_convention = dict.fromkeys(CONVENTIONS, 0.0)
    if shape is not None:
        flops_by_convention = {name: flops(event, shape, name) for name in CONVENTIONS}
    if not event.answered:
        return {"unanswered": _unanswered_usage(event, flops_by_convention)}
    costs = _basic_counts(event, flops_by_convention)
    costs["uncounted"] = int(_is_uncounted(event, shape))
    if shape is None:  # roles are those whose FLOPs are known
        costs["roles"] = {}
    _add_rare_counts(costs, event)
    _add_what_application_says(costs, event)
    if event.reply:
        costs["replies"] = {event.reply: 1}
    if event.kind == "search":
        costs["searches"] = {"requests": 1, "passages": event.found, "seconds": event.seconds}
    if event.kind == "probe":
        costs["probes"] = {
            "requests": event.requests,
            "tokens": event.new,
            "flops": flops_by_convention,
        }
    if event.billed is not None:
        newly_read = event.new - event.reused
        costs["billed"] = {
            event.role: {"input": newly_read, "cached": event.reused, "output": event.billed}
        }
    if event.thinking:
        costs["thinking"] = {
            "tokens": event.thinking,
            "unclosed": event.unclosed,
            "flops": flops_by_convention,
        }
    return costs


def _unanswered_usage(event: Event, flops_by_convention: Flops) -> SentUsage:
    """What a call without a usable reply sent: its tokens, its FLOPs, and what a server bills for
    it.

    Args:
        event: The call.
        flops_by_convention: Its FLOPs by convention.
    """
    sent_usage: SentUsage = {"tokens": event.new, "flops": flops_by_convention}
    if event.billed is not None:
        sent_usage["billed"] = {
            event.role: {"input": event.new, "cached": 0, "output": event.billed}
        }
    return sent_usage


def _basic_counts(event: Event, flops_by_convention: Flops) -> PhaseUsage:
    """The counts that every answered call has. "uncounted" and "roles" are those of a model of
    known size; the caller corrects them for others.

    A call that is booked as several events has its cached tokens with the one that counts the
    request, and tokens that are written (kind "decode") are not read too.

    Args:
        event: The call.
        flops_by_convention: Its FLOPs by convention.
    """
    tokens_read = event.new
    if event.kind == "decode":
        tokens_read = 0
    tokens_cached = 0
    if event.requests:
        tokens_cached = event.cached
    encoder_requests = 0
    if event.kind in _NO_LANGUAGE_MODEL:
        encoder_requests = event.requests
    return {
        "flops": flops_by_convention,
        "tokens_in": tokens_read,
        "tokens_cached": tokens_cached,
        "tokens_reused": event.reused,
        "tokens_out": event.out,
        "requests": event.requests,
        "seconds": event.seconds,
        "queued": event.queued,
        "uncounted": 0,
        "texts": event.texts,
        "texts_cut": event.cut,
        "retries": event.retries,
        "endings_cut": event.endings,
        "recounted": event.recounted,
        "encoder_requests": encoder_requests,
        "roles": {event.role: flops_by_convention[DEFAULT_CONVENTION]},
    }


def _is_uncounted(event: Event, shape: ModelShape | None) -> bool:
    """Whether the FLOPs of a call are unknown, as those of the user's own retriever are.

    Our own searches compute nothing but what their encoder does, which is counted.

    Args:
        event: The call.
        shape: The sizes of its model; None where they are unknown.
    """
    is_search_of_ours = event.kind == "search" and event.role != OWN_RETRIEVER_ROLE
    return shape is None and not is_search_of_ours


def _add_rare_counts(costs: PhaseUsage, event: Event) -> None:
    """Set the counts of broken markers and of replies from the cache in `costs`, where there are
    any.
    """
    if event.markers:
        costs["markers_broken"] = event.markers
    if event.recalled:
        costs["recalled"] = event.recalled


def _add_what_application_says(costs: PhaseUsage, event: Event) -> None:
    """Change `costs` for an application: which of its tokens and money its reply says.

    Where it does not say both numbers of tokens, `costs` gets their sum or "tokens_unknown" in place
    of "tokens_in" and "tokens_out".
    """
    if not event.tokens_known:
        del costs["tokens_in"], costs["tokens_out"]
        if event.tokens_total is None:
            costs["tokens_unknown"] = 1
        else:
            costs["tokens_total"] = event.tokens_total
    if event.charged is not None:
        costs["charged"] = event.charged
    if not event.money_known:
        costs["money_unknown"] = 1


class EncoderTexts(NamedTuple):
    """How many texts encoders and rerankers read (None where an older run counted only those that
    were cut), and how many of them they cut.
    """

    read: int | None
    cut: int


def texts_and_cut(usages: Iterable[Usage]) -> EncoderTexts:
    """Sum over usages and phases how many texts encoders and rerankers read, and how many they
    cut.
    """
    all_texts_are_counted = True
    n_read = 0
    n_cut = 0
    for usage in usages:
        for phase in usage.values():
            counts_only_cut_texts = "texts" not in phase and phase.get("texts_cut")
            if counts_only_cut_texts:
                all_texts_are_counted = False
            n_read += int(phase.get("texts", 0))
            n_cut += int(phase.get("texts_cut", 0))
    if not all_texts_are_counted:
        return EncoderTexts(read=None, cut=n_cut)
    return EncoderTexts(read=n_read, cut=n_cut)


def sum_phases(usages: Iterable[Mapping[str, PhaseUsage]], *phases: str) -> PhaseUsage:
    """Sum the costs of several usages over their phases, to the costs of one phase.

    Args:
        usages: Phase -> costs, as `usage_of` returns them.
        *phases: The phases that count; without any, all.
    """
    total: PhaseUsage = {}
    for usage in usages:
        for name, phase in usage.items():
            if not phases or name in phases:
                add_phase(total, phase)
    return total


def tokens_of(phase: PhaseUsage) -> int:
    """The number of tokens read and written in a phase, or in a sum of phases; 0 where it holds
    none.
    """
    read_and_written = phase.get("tokens_in", 0) + phase.get("tokens_out", 0)
    only_their_sum_known = phase.get("tokens_total", 0)
    return int(read_and_written + only_their_sum_known)


def all_sent(usage: Mapping[str, PhaseUsage], earlier: SentUsage | None = None) -> SentUsage:
    """All that the requests of a question or an index sent, those without a usable reply included.

    Args:
        usage: Phase -> costs.
        earlier: What earlier tries of it sent; None for none.
    """
    all_costs = sum_phases([usage])
    answered: SentUsage = {
        "flops": all_costs.get("flops", {}),
        "billed": all_costs.get("billed", {}),
    }
    if "charged" in all_costs:
        answered["charged"] = all_costs["charged"]
    if "tokens_unknown" in all_costs:
        answered["tokens_unknown"] = all_costs["tokens_unknown"]
    if "money_unknown" in all_costs:
        answered["money_unknown"] = all_costs["money_unknown"]
    total: SentUsage = {"tokens": tokens_of(all_costs), "flops": {}, "billed": {}}
    add_sent(total, answered)
    add_sent(total, all_costs.get("unanswered", {}))
    add_sent(total, earlier or {})
    return total


def add_usage(total: Usage, added: Mapping[str, PhaseUsage]) -> None:
    """Add the costs of `added` to those of `total`, phase by phase; `total` is changed."""
    _add_numbers(cast(dict[str, object], total), added)


def add_phase(total: PhaseUsage, added: PhaseUsage) -> None:
    """Add the costs of one phase to those of `total`, which is changed."""
    _add_numbers(cast(dict[str, object], total), added)


def add_sent(total: SentUsage, added: SentUsage) -> None:
    """Add what requests sent to `total`, which is changed."""
    _add_numbers(cast(dict[str, object], total), added)


def _add_numbers(total: dict[str, object], added: Mapping[str, object]) -> None:
    """Add the numbers of `added` to those of `total`, at any depth; `total` is changed.

    {"a": 1, "b": {"c": 2}} and {"b": {"c": 3}} -> {"a": 1, "b": {"c": 5}}. What is no number is
    left out: a run of another version may hold other keys.
    """
    for key, value in added.items():
        if isinstance(value, dict):
            inner_total = total.setdefault(key, {})
            if isinstance(inner_total, dict):
                _add_numbers(inner_total, value)
        elif isinstance(value, (int, float)):
            value_before = total.get(key, 0)
            if isinstance(value_before, (int, float)):
                total[key] = value_before + value
