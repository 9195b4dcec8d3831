"""The one door to sentence encoders and rerankers: vectors in, metered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import numpy as np


class Encoder(Protocol):
    """A sentence encoder bound to a meter: what `tools.encoder()` returns.

    name: as in tables; identity: everything that changes its vectors, for cache keys and the manifest.
    """

    name: str
    identity: dict[str, Any]

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Vectors of shape [len(texts), width], float32; `kind` picks prefix and length limit."""

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Scores of shape [passages]: cosine or dot product, as the encoder's config says."""


class Reranker(Protocol):
    """A cross-encoder bound to a meter: what `tools.reranker()` returns."""

    name: str
    identity: dict[str, Any]

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Scores of shape [passages], higher is better."""
