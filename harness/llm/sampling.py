"""Choosing the next token: greedy, or temperature with nucleus (top-p) sampling from a seeded generator."""

from collections.abc import Sequence

import torch
from torch import Tensor

_LEAST = 1e-30  # logits divided by less overflow float32
_TOGETHER = 2**18  # probabilities that are drawn from at once; of more the cache of a CPU core holds too few
_MOST_LIKELY = 1024  # tokens that are nearly always enough; sorting a whole vocabulary takes 4 to 12 ms on a CPU core


class Sampler:
    """Picks next tokens: temperature 0 is greedy; top_p: draw from the smallest set of tokens that reaches it."""

    def __init__(self, temperature: float, top_p: float, seed: int) -> None:
        if temperature < 0 or not 0 < top_p <= 1:
            raise ValueError(f"temperature {temperature} must be >= 0 and top_p {top_p} in (0, 1]")
        self.greedy = temperature < _LEAST
        self._temperature, self._top_p = temperature, top_p
        self._generator = torch.Generator().manual_seed(seed)

    def pick(self, logits: Tensor) -> int:
        """Next token id from one row of logits [vocab]."""
        if self.greedy:
            return int(logits.argmax())
        return draw(logits.cpu()[None], [self])[0]


def draw(rows: Tensor, samplers: Sequence[Sampler]) -> list[int]:
    """A token id for each row of logits [rows, vocab], finite ones on the CPU, drawn by the sampler of that row.

    The numbers are those of `torch.multinomial`, which draws for one row at a time, and checks it first.
    """
    tokens: list[int] = []
    for n in range(0, len(rows), step := max(1, _TOGETHER // rows.shape[1])):
        some = samplers[n : n + step]
        p = (rows[n : n + step].float() / torch.tensor([[s._temperature] for s in some])).softmax(-1)
        times = torch.empty_like(p)
        for own, time, sampler in zip(p, times, some, strict=True):
            if sampler._top_p < 1:
                own.copy_(nucleus(own, sampler._top_p))
            time.exponential_(generator=sampler._generator)
        tokens += (p / times).argmax(-1).tolist()
    return tokens


def nucleus(p: Tensor, top_p: float) -> Tensor:
    """The probabilities [vocab] with 0 for tokens outside the smallest set that reaches `top_p`."""
    ranked, order = p.topk(min(_MOST_LIKELY, p.numel()))
    if ranked.cumsum(-1)[-1] < top_p:
        ranked, order = p.sort(descending=True)
    # A token is dropped when those before it already reach top_p.
    kept = ranked.cumsum(-1) - ranked < top_p
    return torch.zeros_like(p).index_copy(0, order[kept], ranked[kept])
