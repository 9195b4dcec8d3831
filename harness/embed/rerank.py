"""Rerankers: cross-encoders that read question and passage together, one score a pair."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.config.schema import EncoderConfig
from harness.cost.events import Event
from harness.cost.flops import ModelShape, shape_of
from harness.cost.meter import Meter
from harness.embed.load import loaded, with_lengths
from harness.errors import CannotRun, ModelOutputError
from harness.parallel.scheduler import in_forward_thread


class CrossEncoderReranker:
    """A cross-encoder bound to a meter: what `tools.reranker()` returns."""

    def __init__(self, config: EncoderConfig, net: Any, identity: dict[str, Any], meter: Meter, role: str) -> None:
        self.name, self.identity = config.name, identity
        self._config, self._net, self._meter, self._role = config, net, meter, role
        self._shape: ModelShape = shape_of(net.model.config)

    def score(self, query: str, passages: Sequence[str]) -> np.ndarray:
        """Raw logit of every (query, passage) pair, shape [passages], higher is better; ranking needs no sigmoid.

        Raises ModelOutputError on NaN.
        """
        if not passages:
            return np.zeros(0, dtype=np.float32)
        began = time.perf_counter()
        question = self._config.query_prefix + query
        pairs = [(question, self._config.passage_prefix + p) for p in passages]
        scores, lengths = in_forward_thread(lambda: self._run(pairs))
        if not np.isfinite(scores).all():
            raise ModelOutputError(f"reranker '{self.name}' gave NaN or infinite scores; check its weights")
        limit = self._net.max_length or self._net.tokenizer.model_max_length
        phase, seconds = self._meter.current_phase, time.perf_counter() - began
        batch = Event(self._role, self.name, phase, "rerank", 0, logits=len(lengths), seconds=seconds)
        self._meter.record(with_lengths(batch, lengths, limit), self._shape)
        return scores

    def _run(self, pairs: list[tuple[str, str]]) -> tuple[np.ndarray, list[int]]:
        """Scores and the length of each pair in tokens."""
        logits = self._net.predict(
            pairs, batch_size=self._config.batch_size, activation_fn=lambda logits: logits, show_progress_bar=False
        )
        encoded = self._net.tokenizer([a for a, _ in pairs], [b for _, b in pairs], truncation=False, verbose=False)
        scores = np.asarray(logits, dtype=np.float32).reshape(len(pairs))
        return scores, [len(ids) for ids in encoded["input_ids"]]


def load_reranker(config: EncoderConfig, meter: Meter, role: str) -> CrossEncoderReranker:
    """Bind the cross-encoder that `config` names to `meter`; loads it once a process. Raises CannotRun."""
    from sentence_transformers import CrossEncoder

    def load(folder: str, device: str | None) -> Any:
        net = CrossEncoder(folder, device=device, max_length=config.max_length, local_files_only=True)
        if missing := _headless(net.model, Path(folder)):
            raise CannotRun(
                f"'{config.name}' is no reranker: its weights have no '{missing}', so its scores would be noise; name "
                "a cross-encoder with --set reranker=NAME"
            )
        return net

    net, identity = loaded(config, "reranker", load)
    if net.num_labels != 1:
        raise CannotRun(f"'{config.name}' gives {net.num_labels} scores a pair; a reranker gives one")
    return CrossEncoderReranker(config, net, identity, meter, role)


def _headless(model: Any, folder: Path) -> str | None:
    """A weight of the network's head that the folder lacks; the libraries would fill it with random numbers."""
    from safetensors import safe_open

    stored: set[str] = set()
    for path in folder.glob("*.safetensors"):
        with safe_open(str(path), "pt") as file:
            stored.update(file.keys())
    body = f"{model.base_model_prefix}."
    return next(
        (name for name, _ in model.named_parameters() if not name.startswith(body) and name not in stored), None
    )
