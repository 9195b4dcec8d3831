"""ICR, QRHead: scores of heads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import torch

from bench.parity import Found, import_theirs, stand_in
from bench.parity.pecan_paper import Model
from bench.parity.rows import Rows
from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.llm.backend import load_model
from harness.llm.model_info import find_or_download
from harness.types import Question
from methods.chunks import fixed_chunks
from methods.in_context_ranking import (
    NO_CONTENT,
    SEPARATOR,
    InContext,
    InContextConfig,
    _chunk_scores,
    _numbered,
)
from tests.methods.conftest import FakeTools

PROGRAM = "princeton-pli/QRHead"
METHODS = "`icr`, `qrhead`, a random Llama, shared key heads"
CHUNKS, TOKENS = 5, 60
REASONS: dict[str, str] = {}


def compare(code: Path, rows: Rows, found: Found) -> None:
    """Compare HotpotQA's questions over chunks of 60 tokens."""
    config = resolve_model(Choices(model="random")).value
    model, plain = load_model(config), Model(find_or_download(config).folder)
    _qrhead(code / "src", rows, FakeTools(reader=model), plain, found)


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
        ids += plain.ids(_numbered(i + 1, doc["paragraph_text"]))
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
