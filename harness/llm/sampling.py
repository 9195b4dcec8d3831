"""Choosing the next token: greedy, or temperature with nucleus (top-p) sampling by a seeded
generator.

A draw is the inverse of the cumulative distribution at one uniform number of the reply's own
generator. All replies of a batch are drawn at once, on the device of their logits; from equal
logits a reply draws the same token in any batch.
"""

import random
from collections.abc import Sequence

import torch
from torch import Tensor

_LEAST = 1e-30  # logits divided by less overflow float32
_MOST_LIKELY = 1024  # tokens that are nearly always enough; sorting a whole vocabulary takes 4 to 12 ms on a CPU core


class Sampler:
    """Picks next tokens.

    Attributes:
        greedy: Whether the likeliest token is picked.
        temperature: What the logits are divided by.
        top_p: A token is drawn from the smallest set of likeliest tokens that has this probability.
        generator: Draws the reply's uniform numbers.
    """

    def __init__(self, temperature: float, top_p: float, seed: int) -> None:
        """A sampler for one reply. A temperature near 0 makes it greedy.

        Args:
            temperature: What the logits are divided by.
            top_p: The probability of the tokens that are drawn from.
            seed: The seed of its draws.

        Raises:
            ValueError: A temperature below 0, or a top_p outside of (0, 1].
        """
        if temperature < 0 or not 0 < top_p <= 1:
            raise ValueError(f"temperature {temperature} must be >= 0 and top_p {top_p} in (0, 1]")
        self.greedy = temperature < _LEAST
        self.temperature, self.top_p = temperature, top_p
        self.generator = random.Random(seed)

    def pick(self, logits: Tensor) -> int:
        """The id of the next token, from its logits [vocab]."""
        if self.greedy:
            return int(logits.argmax())
        return int(draw(logits[None], [self]))


def draw(rows: Tensor, samplers: Sequence[Sampler]) -> Tensor:
    """Draw a token for each row of logits, by the temperature, top_p and generator of the row's
    sampler.

    A row of NaN or infinite logits gets a token id that means nothing.

    Args:
        rows: Logits [rows, vocab].
        samplers: One for each row; each draws one number.

    Returns:
        Token ids, int64 [rows].
    """
    settings = [
        (sampler.temperature, sampler.top_p, sampler.generator.random()) for sampler in samplers
    ]
    columns = torch.tensor(settings, dtype=torch.float64, device=rows.device).T[:, :, None]
    temperatures, limits, uniform = columns
    p = (rows.float() / temperatures.float()).softmax(-1)
    if any(sampler.top_p < 1 for sampler in samplers):
        p = nucleus(p, limits)
    sums = p.cumsum(-1, dtype=torch.float64)
    drawn = torch.searchsorted(sums, uniform * sums[:, -1:], right=True)
    return drawn.clamp(max=p.shape[-1] - 1)[:, 0]


def nucleus(p: Tensor, limits: Tensor, likely: int = _MOST_LIKELY) -> Tensor:
    """Keep the probabilities of the likeliest tokens.

    Args:
        p: Probabilities [rows, vocab].
        limits: The top_p of each row [rows, 1].
        likely: How many of the likeliest tokens are looked at first; rows that need more are sorted
            whole.

    Returns:
        `p` with 0 outside the smallest set that reaches top_p.
    """
    ranked, order = p.topk(min(likely, p.shape[-1]))
    # A token is dropped when those before it already reach top_p.
    before = ranked.cumsum(-1) - ranked
    in_nucleus = ranked.where(before < limits, 0)
    result = torch.zeros_like(p).scatter(-1, order, in_nucleus)
    broad = ranked.sum(-1) < limits[:, 0]
    if likely < p.shape[-1] and broad.any():
        result[broad] = nucleus(p[broad], limits[broad], p.shape[-1])
    return result
