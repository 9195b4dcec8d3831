"""ICR, QRHead, bounded caches: scores of heads, kept positions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from bench.parity import Stage, theirs
from bench.parity.pecan_paper import Model
from bench.parity.rows import Rows
from harness.config.resolve import part
from harness.llm.batched_forward import Ask
from harness.llm.cache_limit import kept_tokens, pooled
from harness.llm.capture import HeadCapture
from harness.llm.load import load_model
from harness.llm.model_info import local_folder
from harness.models import CacheLimit
from harness.types import Question
from methods.bounded_cache import BoundedCache, BoundedCacheConfig
from methods.chunks import fixed_chunks
from methods.in_context import NO_CONTENT, SEPARATOR, InContext, InContextConfig, _marked, _weighed
from tests.methods.conftest import FakeTools

PROGRAM = "princeton-pli/QRHead"
METHODS = "`icr`, `qrhead`, `snapkv`, `h2o`, `streamingllm` (caches: kvpress 0.5.5), a random Llama, shared key heads"
QUESTIONS, CHUNKS, TOKENS = 20, 5, 60
BUDGET, ROWS = 64, 32
KEPT = "kept: docs/methods/attention.md#bounded-cache"
WIDTH = "ours takes the maximum of 7, as the code's LongBench runs; kvpress the mean of 5, its default argument"


def run(code: Path, rows: Rows) -> Iterator[Stage]:
    """HotpotQA's questions over chunks of 60 tokens; caches of 300 tokens cut to 64."""
    config = part("models", model="random")
    model, plain = load_model(config), Model(local_folder(config)[0])
    yield from _qrhead(code / "src", rows, FakeTools(reader=model), plain)
    yield _smoothed(rows)
    yield from _caches(rows, model, plain)


def _qrhead(code: Path, rows: Rows, tools: FakeTools, plain: Model) -> Iterator[Stage]:
    names = ("custom_cache", "custom_modeling_llama", "custom_modeling_qwen2")
    used = (["DynamicCacheWithQuery"], ["LlamaForCausalLM", "repeat_kv"], ["Qwen2ForCausalLM"])
    module = theirs(
        code, "qrretriever.attn_retriever", {f"qrretriever.{n}": u for n, u in zip(names, used, strict=True)}
    )
    released = object.__new__(module.AttnBasedRetriever)
    released.null_query, released.attn_head_set, released.device = NO_CONTENT, "full_heads", "cpu"
    method = InContext(InContextConfig())
    released.compose_scoring_prompt = lambda query, docs: _prompt(method, plain, query, docs)
    released.score_per_token_attention_to_query = lambda ids, span, *_: (_attention(plain, ids, span), _NO_CACHE)
    heads: list[list[float]] = [[], []]
    scores: list[list[float]] = [[], []]
    for question, text in rows.texts("hotpotqa", QUESTIONS):
        spans = fixed_chunks(text, TOKENS, tools.model())[:CHUNKS]
        docs = [{"idx": i, "paragraph_text": text[a:b]} for i, (a, b) in enumerate(spans)]
        texts, asked = [str(doc["paragraph_text"]) for doc in docs], Question("q", question, ())
        by_head = released.score_docs_per_head_for_detection(question, docs)
        heads[0] += [x for i in range(len(docs)) for x in by_head[i].flatten().tolist()]
        heads[1] += method.head_scores(asked, texts, tools).flatten().tolist()
        scores[0] += released.score_docs(question, docs).values()
        scores[1] += _weighed(method.attention(asked, texts, tools), None, True).tolist()
    yield Stage("QRHead: score of a head for a chunk within 1e-5", len(heads[0]), _close(*heads))
    yield Stage("QRHead, ICR: score of a chunk by all heads within 1e-5", len(scores[0]), _close(*scores))


_NO_CACHE = SimpleNamespace(key_cache=[], value_cache=[])


def _prompt(method: InContext, plain: Model, query: str, docs: Sequence[dict[str, Any]]) -> tuple[Any, ...]:
    """Our prompt as the released code has it: token ids, twice, the question's span and the chunks', ends included."""
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
    return ids, ids, (start, len(ids) - 1), spans


def _attention(plain: Model, ids: Sequence[int], span: tuple[int, int]) -> torch.Tensor:
    """[layers, heads, tokens]: what the rows of `span` pay, their mean."""
    with torch.no_grad():
        layers = plain.network(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions
    return torch.stack([layer[0, :, span[0] : span[1] + 1].mean(1) for layer in layers])


def _close(a: Sequence[float], b: Sequence[float]) -> int:
    return sum(abs(x - y) < 1e-5 for x, y in zip(a, b, strict=True))


def _caches(rows: Rows, model: Any, plain: Model) -> Iterator[Stage]:
    texts = [plain.ids(text)[:300] for _, text in rows.texts("hotpotqa", QUESTIONS)]
    captured = [(_captured(model, ids, ROWS), _captured(model, ids, None)) for ids in texts]
    # Imported behind our own passes, because it wraps every attention kernel; other presses need what is stood in for.
    theirs(Path("."), "types", {"fire": [], "datasets": ["load_dataset"]})
    import kvpress

    share = 1 - BUDGET / 300
    presses = {
        "SnapKV, without smoothing": kvpress.SnapKVPress(compression_ratio=share, window_size=ROWS, kernel_size=1),
        "SnapKV": kvpress.SnapKVPress(compression_ratio=share, window_size=ROWS, kernel_size=5),
        "StreamingLLM": kvpress.StreamingLLMPress(compression_ratio=share, n_sink=4),
    }
    limits = [CacheLimit(BUDGET, 0, ROWS, ROWS, 1), CacheLimit(BUDGET, 0, ROWS, ROWS, 7), CacheLimit(BUDGET, 4, 60)]
    compared, equal = dict.fromkeys(presses, 0), dict.fromkeys(presses, 0)
    observed: list[list[float]] = [[], []]
    for ids, (last, whole) in zip(texts, captured, strict=True):
        for (name, press), limit in zip(presses.items(), limits, strict=True):
            for layer, scores in enumerate(_scored(press, plain, ids)):
                kept = scores.topk(BUDGET, -1).indices.sort(-1).values
                own = kept_tokens(last[layer] if limit.rows else None, len(ids), limit, len(kept))
                compared[name] += kept.numel()
                equal[name] += sum(len({*a} & {*b}) for a, b in zip(kept.tolist(), own.tolist(), strict=True))
        press = kvpress.ObservedAttentionPress(compression_ratio=share)
        for layer, scores in enumerate(_scored(press, plain, ids)):
            sums = whole[layer].view(len(scores), -1, len(ids)).mean(1) / torch.arange(len(ids), 0, -1)
            observed[0] += scores.flatten().tolist()
            observed[1] += sums.flatten().tolist()
    for name in presses:
        told = (WIDTH, KEPT) if equal[name] < compared[name] else ("", "")
        yield Stage(f"{name}: tokens kept of 300, each key head", compared[name], equal[name], *told)
    yield Stage("H2O: a token's attention, over the rows that see it, within 1e-5", len(observed[0]), _close(*observed))


def _smoothed(rows: Rows) -> Stage:
    """SnapKV with a cache of 512 tokens, its scores smoothed by the mean of 5 and by the maximum of 7."""
    data = rows.dataset("hotpotqa", QUESTIONS)
    method = BoundedCache(BoundedCacheConfig(budget=512, width=7))

    def mean(scores: torch.Tensor, _width: int) -> torch.Tensor:
        return torch.nn.functional.avg_pool1d(scores[None], 5, stride=1, padding=2)[0]

    replies: list[list[str]] = [[], []]
    for example in data.examples:
        documents = [data.documents[d] for d in example.question.document_ids]
        for out, smoothing in ((replies[0], mean), (replies[1], pooled)):
            tools = rows.tools()
            with mock.patch("harness.llm.cache_limit.pooled", smoothing):
                out.append(method.answer(example.question, documents, [], tools).text)
    return rows.answers("SnapKV, mean of 5", *replies, KEPT)


def _captured(model: Any, ids: list[int], rows: int | None) -> list[torch.Tensor]:
    """Our sums [heads, tokens] of each layer, over the last `rows` of the prompt or all."""
    capture, cache = HeadCapture((0, len(ids))), model.arena.cache()
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
