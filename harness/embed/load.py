"""Sentence encoders through sentence-transformers: loaded once a process, bound to a meter for every use."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np

from harness.config import EncoderConfig
from harness.embed.once import loaded
from harness.errors import ModelOutputError
from harness.flops import ModelShape, shape_of
from harness.meter import Event, Meter

__all__ = ["SentenceEncoder", "load_encoder"]


class SentenceEncoder:
    """An encoder bound to a meter; see harness.embed.base.Encoder."""

    def __init__(self, config: EncoderConfig, net: Any, identity: dict[str, Any], meter: Meter, role: str) -> None:
        self.name, self.identity = config.name, identity
        self._config, self._net, self._meter, self._role = config, net, meter, role
        self._shape: ModelShape = shape_of(net[0].auto_model.config)

    def encode(self, texts: Sequence[str], kind: Literal["query", "passage"]) -> np.ndarray:
        """Vectors [len(texts), width], float32, normalised for cosine. Raises ModelOutputError on NaN."""
        if not texts:
            return np.zeros((0, int(self._net.get_embedding_dimension())), dtype=np.float32)
        began = time.perf_counter()
        prefix = self._config.query_prefix if kind == "query" else self._config.passage_prefix
        whole = [prefix + t for t in texts]
        vectors = self._net.encode(
            whole,
            batch_size=self._config.batch_size,
            normalize_embeddings=self._config.similarity == "cosine",
            show_progress_bar=False,
            convert_to_numpy=True,
        )
        vectors = np.asarray(vectors, dtype=np.float32)
        if not np.isfinite(vectors).all():
            raise ModelOutputError(f"encoder '{self.name}' gave NaN or infinite embeddings; check its weights")
        self._book(whole, time.perf_counter() - began)
        return vectors

    def _book(self, texts: Sequence[str], seconds: float) -> None:
        """Count real lengths: padding inside a batch is an accident of batching, not a cost of the method."""
        limit = self._net.max_seq_length
        lengths = [len(ids) for ids in self._net.tokenizer(list(texts), truncation=False, verbose=False)["input_ids"]]
        kept = [min(n, limit) for n in lengths]
        event = Event(
            role=self._role,
            model=self.name,
            phase=self._meter.current_phase,
            kind="embed",
            new=sum(kept),
            # sentence-transformers runs BERT's pooler even where mean pooling ignores it.
            logits=len(texts) if getattr(self._net[0].auto_model, "pooler", None) is not None else 0,
            pairs=sum(n * n for n in kept),
            requests=1,
            seconds=seconds,
            cut=sum(n > limit for n in lengths),
        )
        self._meter.record(event, self._shape)

    def similarity(self, query: np.ndarray, passages: np.ndarray) -> np.ndarray:
        """Scores [passages]; cosine vectors are normalised already, so both measures are dot products."""
        return np.asarray(passages @ query)


def load_encoder(config: EncoderConfig, meter: Meter, role: str) -> SentenceEncoder:
    """Bind the encoder that `config` names to `meter`; loads it once a process. Raises CannotRun."""
    from sentence_transformers import SentenceTransformer

    def load(folder: str, device: str | None) -> Any:
        net = SentenceTransformer(folder, device=device, local_files_only=True)
        if config.max_length:
            net.max_seq_length = config.max_length
        return net

    net, identity = loaded(config, "encoder", load)
    return SentenceEncoder(config, net, identity, meter, role)
