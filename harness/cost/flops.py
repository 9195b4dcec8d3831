"""FLOPs of one event, by formula, under four conventions; `all-params`, that of the papers, is the
default.

With L layers, width d, H query heads of size h, KV key/value heads, MLP width f and vocabulary V:

    W        = L (2 d H h + 2 d KV h + m d f)      multiply-adds a token, m = 3 for a gated MLP, else 2
    P_A      = W + d V                             all matrix-product weights (head included)
    P_B      = P_A + V d                           plus the embedding table; P_A where the head is that table (tied)
    pair     = 4 L H h                             FLOPs of one (query, key) pair: QK^T and AV

    prefill of m tokens on c cached:   2 P m + pair * m (c + m)                    (full rectangle)
    decode of g tokens after n:        2 P g + pair * (n g + g (g + 1) / 2)

| convention | linear part       | attention                                              |
|------------|-------------------|--------------------------------------------------------|
| all-params | 2 P_B tokens      | full rectangle                                         |
| full       | 2 P_A tokens      | full rectangle                                         |
| causal     | 2 P_A tokens      | only pairs with key <= query                           |
| executed   | 2 W tokens + head at the positions whose logits were computed | as causal; QK^T twice where it ranks |

The papers name no convention; `all-params` alone fits the TFLOPs they print
(docs/methods/costs.md#costs-and-flops).

Encoders: bidirectional, so every convention counts the full square of each text. A BERT-like model
also runs its pooler (d x d) once a text where it has one, and a cross-encoder its classifier (d)
once a pair; `Event.logits` counts those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

CONVENTIONS = ("all-params", "full", "causal", "executed")
DEFAULT_CONVENTION = "all-params"
"""The convention of every table, curve and ratio that names no other."""


class Flops(dict[str, float]):
    """FLOPs by convention, {"all-params": 1.2e12, ...}; added and subtracted convention by
    convention."""

    def __add__(self, other: Mapping[str, float]) -> Flops:
        """The sum of two counts, for each convention; a count that lacks a convention has 0 of
        it.
        """
        return Flops({name: self.get(name, 0.0) + other.get(name, 0.0) for name in CONVENTIONS})

    def __sub__(self, other: Mapping[str, float]) -> Flops:
        """The difference to another count of FLOPs, for each convention; one that lacks it has
        0 of it.
        """
        return Flops({name: self.get(name, 0.0) - other.get(name, 0.0) for name in CONVENTIONS})


@dataclass(frozen=True, slots=True)
class ModelShape:
    """The sizes of a model, which the formulas of FLOPs need.

    Attributes:
        layers: L.
        width: d.
        heads: H, query heads.
        kv_heads: KV, key/value heads.
        head_size: h.
        mlp: f, inner width of the MLP.
        vocab: V; 0 for encoders, which have no head.
        gated: Whether the MLP has three matrices (m = 3), else two.
        tied: Whether the head is the embedding table.
    """

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    mlp: int
    vocab: int
    gated: bool = True
    tied: bool = False

    @property
    def key(self) -> str:
        """The sizes as one word, by which an event names them: "2-64-4-4-16-128-100-gated"."""
        numbers = (
            self.layers,
            self.width,
            self.heads,
            self.kv_heads,
            self.head_size,
            self.mlp,
            self.vocab,
        )
        words = [str(number) for number in numbers]
        if self.gated:
            words.append("gated")
        else:
            words.append("plain")
        if self.tied:
            words.append("tied")
        return "-".join(words)

    @property
    def layer_weights(self) -> int:
        """The multiply-adds for one token in all layers, without the head: W."""
        attention = (
            2 * self.width * self.heads * self.head_size
            + 2 * self.width * self.kv_heads * self.head_size
        )
        matrices_of_mlp = 2
        if self.gated:
            matrices_of_mlp = 3
        return self.layers * (attention + matrices_of_mlp * self.width * self.mlp)

    @property
    def head_weights(self) -> int:
        """The multiply-adds of the language-model head for one position: d V."""
        return self.width * self.vocab

    @property
    def parameters(self) -> int:
        """The weights of all matrices, the embedding table included, each counted once: P_B."""
        if self.tied:
            return self.layer_weights + self.head_weights
        embedding_table = self.head_weights  # as large as the head
        return self.layer_weights + self.head_weights + embedding_table

    @property
    def flops_per_pair(self) -> int:
        """FLOPs of one (query, key) pair over all layers and query heads: 4 L H h, for the products
        QK^T and AV.
        """
        return 4 * self.layers * self.heads * self.head_size


def flops(event: Event, shape: ModelShape, convention: str = DEFAULT_CONVENTION) -> float:
    """FLOPs of one call by docs/methods/costs.md#costs-and-flops; 1 multiply-add = 2 FLOPs.

    Of m new tokens on c cached ones they are 2 weights m + pair (m c + own pairs). Own pairs are
    all m² pairs of the new tokens, or under "causal", and where tokens are written, the m (m + 1) /
    2 whose key is not after the query.

    Args:
        event: The call.
        shape: The sizes of its model.
        convention: One of CONVENTIONS.

    Raises:
        ValueError: An unknown convention.
    """
    if convention not in CONVENTIONS:
        raise ValueError(f"convention {convention!r} is not one of {CONVENTIONS}")
    if event.kind in ("embed", "rerank"):
        return _encoder_flops(event, shape)
    if convention == "executed":
        return _executed_flops(event, shape)
    weights = shape.layer_weights + shape.head_weights
    if convention == "all-params":
        weights = shape.parameters
    pairs_of_new_tokens = event.new**2
    is_causal = convention == "causal" or event.kind == "decode"
    if is_causal:
        pairs_of_new_tokens = event.new * (event.new + 1) // 2
    pairs = event.new * event.cached + pairs_of_new_tokens
    return float(2 * weights * event.new + shape.flops_per_pair * pairs)


def _encoder_flops(event: Event, shape: ModelShape) -> float:
    """FLOPs of a call of an encoder or a reranker, which are the same under every convention.

    These are its layers for each token, their attention for each pair of tokens, and as often as
    `event.logits` counts: a pooler (width x width) and, of a reranker, a classifier (width).
    """
    pooler_and_classifier = shape.width * shape.width
    if event.kind == "rerank":
        pooler_and_classifier += shape.width
    multiply_adds = shape.layer_weights * event.new + pooler_and_classifier * event.logits
    return float(2 * multiply_adds + shape.flops_per_pair * event.pairs)


def _executed_flops(event: Event, shape: ModelShape) -> float:
    """FLOPs of a call of a language model under the convention "executed".

    The head is counted only at the positions whose logits were computed. `event.pairs` are those
    (query, key) pairs alone that a causal mask leaves; pairs that were multiplied a second time to
    rank tokens (`event.ranking_pairs`) count half, as they take QK^T without AV.
    """
    pairs = event.pairs + event.ranking_pairs / 2
    multiply_adds = shape.layer_weights * event.new + shape.head_weights * event.logits
    return float(2 * multiply_adds + shape.flops_per_pair * pairs)


EventKind = Literal["prefill", "decode", "probe", "score", "embed", "rerank", "search"]
PHASES = ("index", "search", "answer", "study")
OWN_RETRIEVER_ROLE = "own_retriever"
"""The role of a retriever of the user's own, of whose computing nothing is known."""


@dataclass(frozen=True, slots=True)
class Event:
    """One call of a model, or a search. Counts are of tokens unless it says otherwise.

    Attributes:
        role: The role of the model, "reader".
        model: Its name.
        phase: One of PHASES.
        kind: What was called.
        new: Read or written by this call.
        cached: Attended to without being computed again.
        logits: Positions whose logits were computed; of an encoder or a reranker, texts that went
            through its pooler and classifier.
        pairs: (query, key) pairs, without those that a causal mask discards.
        ranking_pairs: Pairs whose product was taken a second time to rank tokens.
        requests: 1 for a request that a server would get.
        out: Written.
        seconds: How long the call ran, the whole batch where it shared one.
        cut: Texts that the encoder's or reranker's length limit cut.
        texts: Texts given to an encoder or reranker.
        found: Passages that a search found.
        retries: Further tries of the request.
        shape: ModelShape.key of the sizes by which FLOPs are counted; "" where they are unknown.
        reused: Of `new`, those that a server reports from its prefix cache; never subtracted from
            the cost.
        endings: 1 where end markers were cut off the reply (harness/llm/endings.py).
        recounted: Counts of tokens that a server left out or gave implausibly, and that were
            estimated.
        markers: Turn markers that were broken up in a request to a server.
        thinking: Of `out`, those of a reasoning model's thinking, which has an event of its own.
        unclosed: 1 where the thinking did not end by itself.
        recalled: 1 for a request that was not sent, as the cache of replies had its reply.
        queued: Seconds of waiting, for other questions or before a retry.
        billed: Written tokens that a server takes money for, beside `new`; None: not from a
            server.
        reply: What is wrong with a reply (`Written.problem`), in an event of its own.
        charged: Money that an application's reply says, or of a search.
        tokens_known: False where an application's reply does not say both.
        tokens_total: Both together, where it says no more.
        money_known: False where neither its reply nor a price says it.
        answered: False for requests that were sent and got no usable reply.
    """

    role: str
    model: str
    phase: str
    kind: EventKind
    new: int
    cached: int = 0
    logits: int = 0
    pairs: int = 0
    ranking_pairs: int = 0
    requests: int = 0
    out: int = 0
    seconds: float = 0.0
    cut: int = 0
    texts: int = 0
    found: int = 0
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
    charged: float | None = None
    tokens_known: bool = True
    tokens_total: int | None = None
    money_known: bool = True
    answered: bool = True


@dataclass(frozen=True, slots=True)
class Request:
    """One request as it was sent to a language model.

    Attributes:
        role: The role of the model, "reader".
        phase: Where its cost counts.
        kind: "write", "probe" or "score".
        prompt: The whole context as text, markers of the template included.
        reply: What was written, the probabilities of a probe as JSON, or the log-probability of a
            text that was scored.
    """

    role: str
    phase: str
    kind: str
    prompt: str
    reply: str
