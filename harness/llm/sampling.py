"""Choosing the next token: greedy, or temperature with nucleus (top-p) sampling from a seeded generator."""

from __future__ import annotations

import torch


class Sampler:
    """temperature 0 is greedy; top_p keeps the smallest set of tokens whose probability reaches it."""

    def __init__(self, temperature: float, top_p: float, seed: int) -> None:
        if temperature < 0 or not 0 < top_p <= 1:
            raise ValueError(f"temperature {temperature} must be >= 0 and top_p {top_p} in (0, 1]")
        self._temperature, self._top_p = temperature, top_p
        self._generator = torch.Generator().manual_seed(seed)

    def pick(self, logits: torch.Tensor) -> int:
        """Next token id from one row of logits [vocab]."""
        if self._temperature == 0:
            return int(logits.argmax())
        p = (logits.float().cpu() / self._temperature).softmax(-1)
        if self._top_p < 1:
            ranked, order = p.sort(descending=True)
            # A token is dropped when those before it already reach top_p.
            drop = ranked.cumsum(-1) - ranked >= self._top_p
            p = p.index_fill(0, order[drop], 0.0)
        return int(torch.multinomial(p, 1, generator=self._generator))
