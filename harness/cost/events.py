"""What a call of a model reports: one event, the raw material of every cost; and what was sent, where that is kept."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["prefill", "decode", "probe", "score", "embed", "rerank"]
PHASES = ("index", "search", "answer", "study")


@dataclass(frozen=True, slots=True)
class Event:
    """One call of a model.

    new: tokens that went through the model now; cached: tokens it attended to without recomputing; logits: positions
    whose logits were computed; out: tokens written; pairs: (query, key) pairs, without those that a
    causal mask discards; requests: 1 for a request that a server would get, else 0; texts: given to an encoder or
    reranker; cut: those of them that its length limit cut; retries: further tries that the request took, which are no
    requests of the method; shape: key of the model's sizes (ModelShape.key), set where the event is booked and "" where
    they are unknown. FLOPs are counted by it and not by the model's name, which two models may share; reused: of `new`,
    tokens that a server reports from its prefix cache, of any earlier request: reported beside the cost, never
    subtracted from it; endings: 1 where markers of the end of a turn were cut off the end of the reply
    (harness/llm/endings.py); recounted: token counts of a server that cannot be true, so that the local tokenizer's
    stand here; markers: markers of turns that were broken up in what a request sends to a server; thinking: of `out`,
    tokens of a reasoning model's thinking, which an event of its own reports; unclosed: 1 where the thinking did not
    end by itself; recalled: 1 for a request that was not sent, as an earlier run had its reply (--cache replies).
    """

    role: str
    model: str
    phase: str
    kind: Kind
    new: int
    cached: int = 0
    logits: int = 0
    pairs: int = 0
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
