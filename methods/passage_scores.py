"""How well texts fit a question, by one of the scoring models of LongRefiner's table 4; all texts in one call.

scores = score_passages("reranker", question.text, texts, tools)   [texts], higher is better, on the model's own scale
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np

from harness.method import Tools
from harness.types import Document
from methods.retrieval import bm25

Scoring = Literal["reranker", "dense", "bm25"]
ROLES: dict[Scoring, tuple[str, ...]] = {"reranker": ("reranker",), "dense": ("encoder",), "bm25": ()}
"""The encoders that a scoring model needs (harness.method.Method.encoders)."""


def score_passages(scoring: Scoring, question: str, texts: Sequence[str], tools: Tools) -> np.ndarray:
    """Scores [texts]: a reranker's logits, an encoder's similarity, or BM25 with these texts as the collection."""
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
    """Indexes of the documents with different texts: of equal ones the first."""
    first: dict[str, int] = {}
    for number, document in enumerate(documents):
        first.setdefault(document.text, number)
    return list(first.values())
