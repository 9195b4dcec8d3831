"""What a call of a model reports: one event, the raw material of every cost; and what was sent, where that is kept."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["prefill", "decode", "probe", "score", "embed", "rerank"]
PHASES = ("index", "search", "answer", "study")


@dataclass(frozen=True, slots=True)
class Event:
    """One call of a model.

    new: tokens that went through the model now; cached: tokens it attended to without recomputing; logits: positions
    whose logits were computed; pairs: (query, key) pairs, without those that a causal mask discards; again: those whose
    product was taken a second time to rank tokens; requests: 1 for a request that a server would get, else 0; out:
    tokens written; texts: given to an encoder or reranker; cut: those of them that its length limit cut; retries:
    further tries of the request; shape: key of the model's sizes (ModelShape.key), by which FLOPs are counted, "" where
    they are unknown; reused: of `new`, tokens that a server reports from its prefix cache, never subtracted from the
    cost; endings: 1 where end markers were cut off the reply (harness/llm/endings.py); recounted: token counts of a
    server that cannot be true, so that the local tokenizer's stand here; markers: of turns, broken up in what a request
    sends to a server; thinking: of `out`, tokens of a thinking, which has an event of its own; unclosed: 1 where it did
    not end by itself; recalled: 1 for a request that was not sent, as an earlier run had its reply (--cache replies);
    seconds: the time that the call ran, the whole batch's where it shared one; queued: seconds that it waited, for
    other questions or before a retry; billed: of a request to a server, which takes money for `new` tokens and for
    these that it wrote; reply: what is wrong with one (`Written.problem`), in an event of its own; answered: False for
    requests that were sent and got no usable reply.
    """

    role: str
    model: str
    phase: str
    kind: Kind
    new: int
    cached: int = 0
    logits: int = 0
    pairs: int = 0
    again: int = 0
    requests: int = 0
    out: int = 0
    seconds: float = 0.0
    cut: int = 0
    texts: int = 0
    retries: int = 0
    shape: str = ""
    reused: int = 0
    endings: int = 0
    recounted: int = 0
    markers: int = 0
    thinking: int = 0
    unclosed: int = 0
    recalled: int = 0
    queued: float = 0.0
    billed: int | None = None
    reply: str = ""
    answered: bool = True


@dataclass
class PassCost:
    """Counts of forward passes; the fields are those of Event with the same names."""

    new: int = 0
    logits: int = 0
    pairs: int = 0
    again: int = 0
    out: int = 0
    endings: int = 0
    thinking: int = 0
    unclosed: int = 0


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was sent to a language model.

    kind: "write", "probe" or "score"; prompt: the whole context as text, markers of the template included; reply: what
    was written, the probabilities of a probe as JSON, or the log-probability of a text that was scored.
    """

    role: str
    phase: str
    kind: str
    prompt: str
    reply: str
