"""Passages of several documents, scored for a question by a model of choice: what LongRefiner and
its rivals share."""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from harness.bm25 import bm25
from harness.method import Tools
from harness.types import Document

Scoring = Literal["reranker", "dense", "bm25"]
ENCODERS_OF_SCORING: dict[Scoring, tuple[str, ...]] = {
    "reranker": ("reranker",),
    "dense": ("encoder",),
    "bm25": (),
}
"""The scoring models of LongRefiner's table 4, and the encoders that each needs
(harness.method.Method.encoders)."""


def score_passages(
    scoring: Scoring, question: str, texts: Sequence[str], tools: Tools
) -> np.ndarray:
    """Score passages for a question.

    Args:
        scoring: "bm25"; "reranker": its logits; "dense": the encoder's similarity.
        question: The text of the question.
        texts: The passages.
        tools: The engine's tools.

    Returns:
        Scores [texts], higher is better.
    """
    if not texts:
        return np.zeros(0)
    if scoring == "bm25":
        return bm25(question, texts)
    if scoring == "reranker":
        return np.asarray(tools.reranker().score(question, texts), dtype=float)
    encoder = tools.encoder()
    (query,) = encoder.encode([question], "query")
    return np.asarray(encoder.similarity(query, encoder.encode(texts, "passage")), dtype=float)


def distinct_documents(documents: Sequence[Document]) -> list[int]:
    """The indexes of the documents with different texts; of equal ones only the first counts.

    texts "a", "b", "a" -> [0, 1]
    """
    first: dict[str, int] = {}
    for number, document in enumerate(documents):
        first.setdefault(document.text, number)
    return list(first.values())
