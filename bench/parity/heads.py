"""ICR, QRHead, bounded caches: scores of heads, kept positions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest import mock

import torch

from bench.parity import Found, import_theirs, stand_in
from bench.parity.pecan_paper import Model
from bench.parity.rows import Rows
from harness.config.resolve import resolved
from harness.llm.backend import load_model
from harness.llm.batched_forward import Ask
from harness.llm.cache_eviction import kept_tokens, max_pooled
from harness.llm.capture import HeadCapture
from harness.llm.model_info import local_folder
from harness.models import CacheLimit
from harness.types import Question
from methods.chunks import fixed_chunks
from methods.in_context_ranking import (
    NO_CONTENT,
    SEPARATOR,
    InContext,
    InContextConfig,
    _chunk_scores,
    _marked,
)
from methods.kv_eviction import BoundedCache, BoundedCacheConfig
from tests.methods.conftest import FakeTools

PROGRAM = "princeton-pli/QRHead"
METHODS = "`icr`, `qrhead`, `snapkv`, `h2o`, `streamingllm` (caches: kvpress 0.5.5), a random Llama, shared key heads"
CHUNKS, TOKENS = 5, 60
BUDGET, ROWS = 64, 32
SNAPKV = "SnapKV: tokens kept of 300, each key head"
REASONS = {
    SNAPKV: "ours takes the maximum of 7, as the code's LongBench runs; kvpress the mean of 5; kept. "
    "Answers: a cache of 512 tokens"
}


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare HotpotQA's questions over chunks of 60 tokens; caches of 300 tokens cut to 64."""
    config = resolved("models", model="random")
    model, plain = load_model(config), Model(local_folder(config)[0])
    _qrhead(code / "src", rows, FakeTools(reader=model), plain, found)
    _smoothed(rows, found)
    _caches(rows, model, plain, found)


def _qrhead(code: Path, rows: Rows, tools: FakeTools, plain: Model, found: Found) -> None:
    """Compare QRHead's and ICR's scores of chunks, by head and by all. plain: the same model, for
    their code."""
    stand_in(*(f"qrretriever.custom_{n}" for n in ("cache", "modeling_llama", "modeling_qwen2")))
    released = object.__new__(import_theirs(code, "qrretriever.attn_retriever").AttnBasedRetriever)
    released.null_query, released.attn_head_set, released.device = NO_CONTENT, "full_heads", "cpu"
    method = InContext(InContextConfig())
    no_cache = SimpleNamespace(key_cache=[], value_cache=[])
    released.compose_scoring_prompt = lambda query, docs: _prompt(method, plain, query, docs)
    released.score_per_token_attention_to_query = lambda ids, span, *_: (
        _attention(plain, ids, span),
        no_cache,
    )
    for question, text in rows.texts():
        texts = [text[a:b] for a, b in fixed_chunks(text, TOKENS, tools.model())[:CHUNKS]]
        docs = [{"idx": i, "paragraph_text": chunk} for i, chunk in enumerate(texts)]
        asked = Question("q", question, ())
        by_head = released.score_docs_per_head_for_detection(question, docs)
        heads = torch.stack([by_head[i] for i in range(len(docs))]).flatten().tolist()
        ours = method.head_scores(asked, texts, tools).flatten().tolist()
        found.each("QRHead: score of a head for a chunk within 1e-5", heads, ours, 1e-5)
        scores = list(released.score_docs(question, docs).values())
        own = _chunk_scores(method.attention(asked, texts, tools), None, True).tolist()
        found.each("QRHead, ICR: score of a chunk by all heads within 1e-5", scores, own, 1e-5)


class _ScoringPrompt(NamedTuple):
    """What the released compose_scoring_prompt returns. A span is its first and last token."""

    prompt: list[
        int
    ]  # the text there, which only goes on to the attention pass; ours, `_attention`, takes ids
    ids: list[int]
    query: tuple[int, int]  # the span of all behind the chunks
    chunks: list[tuple[int, int]]


def _prompt(
    method: InContext, plain: Model, query: str, docs: Sequence[dict[str, Any]]
) -> _ScoringPrompt:
    """Our prompt for `query` over the paragraphs `docs`, in the form that the released code
    takes."""
    before, behind = method._prompt().around("text", question=query)
    ids, spans = plain.ids(plain.open), []
    for piece in before:
        ids += plain.ids(piece)
    for i, doc in enumerate(docs):
        ids += plain.ids(SEPARATOR) if i else []
        start = len(ids)
        ids += plain.ids(_marked(i + 1, doc["paragraph_text"]))
        spans.append((start, len(ids) - 1))
    start = len(ids)
    ids += plain.ids("".join(behind)) + plain.ids(plain.close)
    return _ScoringPrompt(ids, ids, (start, len(ids) - 1), spans)


def _attention(plain: Model, ids: Sequence[int], span: tuple[int, int]) -> torch.Tensor:
    """Attention [layers, heads, tokens], the mean of the rows of tokens span[0] to span[1], both
    included."""
    with torch.no_grad():
        layers = plain.network(
            torch.tensor([ids]), use_cache=False, output_attentions=True
        ).attentions
    return torch.stack([layer[0, :, span[0] : span[1] + 1].mean(1) for layer in layers])


def _caches(rows: Rows, model: Any, plain: Model, found: Found) -> None:
    """Compare what kvpress's caches keep on `plain` with what ours keep on `model`, the same
    network."""
    texts = [plain.ids(text)[:300] for _, text in rows.texts()]
    captured = [(_captured(model, ids, ROWS), _captured(model, ids, None)) for ids in texts]
    # Imported behind our own passes, because it wraps every attention kernel; other presses need
    # what is stood in for.
    stand_in("fire", "datasets")
    import kvpress

    share = 1 - BUDGET / 300
    observing = partial(kvpress.SnapKVPress, compression_ratio=share, window_size=ROWS)
    presses = {
        "SnapKV, without smoothing": (
            observing(kernel_size=1),
            CacheLimit(BUDGET, 0, ROWS, ROWS, 1),
        ),
        "SnapKV": (observing(kernel_size=5), CacheLimit(BUDGET, 0, ROWS, ROWS, 7)),
        "StreamingLLM": (
            kvpress.StreamingLLMPress(compression_ratio=share, n_sink=4),
            CacheLimit(BUDGET, 4, 60),
        ),
    }
    for ids, (last, whole) in zip(texts, captured, strict=True):
        for name, (press, limit) in presses.items():
            for layer, scores in enumerate(_scored(press, plain, ids)):
                kept = scores.topk(BUDGET, -1).indices
                own = kept_tokens(last[layer] if limit.rows else None, len(ids), limit, len(kept))
                for pair in zip(kept.tolist(), own.tolist(), strict=True):
                    found.sets(f"{name}: tokens kept of 300, each key head", *pair)
        observed = kvpress.ObservedAttentionPress(compression_ratio=share)
        for layer, scores in enumerate(_scored(observed, plain, ids)):
            sums = whole[layer].view(len(scores), -1, len(ids)).mean(1) / torch.arange(
                len(ids), 0, -1
            )
            name = "H2O: a token's attention, over the rows that see it, within 1e-5"
            found.each(name, scores.flatten().tolist(), sums.flatten().tolist(), 1e-5)


def _smoothed(rows: Rows, found: Found) -> None:
    """Compare answers of SnapKV (a cache of 512 tokens), its scores smoothed by the mean of 5 and
    the maximum of 7."""
    data, method = rows.dataset(), BoundedCache(BoundedCacheConfig(budget=512, width=7))

    def mean(scores: torch.Tensor, _width: int) -> torch.Tensor:
        return torch.nn.functional.avg_pool1d(scores[None], 5, stride=1, padding=2)[0]

    replies: list[list[str]] = [[], []]
    for example in data.examples:
        documents = [data.documents[d] for d in example.question.document_ids]
        for out, smoothing in zip(replies, (mean, max_pooled), strict=True):
            with mock.patch("harness.llm.cache_eviction.max_pooled", smoothing):
                out.append(method.answer(example.question, documents, [], rows.tools()).text)
    rows.answers(found, SNAPKV, *replies)


def _captured(model: Any, ids: list[int], rows: int | None) -> list[torch.Tensor]:
    """Our sums [heads, tokens] of each layer, over the last `rows` of the prompt or all."""
    capture, cache = HeadCapture((0, len(ids))), model.pool.cache()
    begin = len(ids) - rows if rows else 0
    if begin:
        model.forward(Ask(ids[:begin], cache), None)
    capture.first = begin
    model.forward(Ask(ids[begin:], cache, 0, capture), None)
    return [capture.sums[layer] for layer in sorted(capture.sums)]


def _scored(press: Any, plain: Model, ids: list[int]) -> list[torch.Tensor]:
    """The press's scores [key heads, tokens] of each layer."""
    seen, score = [], press.score

    def recording(*args: Any, **named: Any) -> torch.Tensor:
        seen.append(score(*args, **named)[0].clone())
        return seen[-1][None]

    press.score = recording
    with torch.no_grad(), press(plain.network):
        # Newer transformers hand layers no positions; kvpress asks for them.
        plain.network(torch.tensor([ids]), use_cache=True, cache_position=torch.arange(len(ids)))
    press.score = score
    return seen
