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

_LEAST_TEMPERATURE = 1e-30  # logits divided by less overflow float32
# Likeliest tokens that are nearly always enough; sorting a whole vocabulary takes 4 to 12 ms on a
# CPU core.
_N_LIKELIEST = 1024


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
        self.greedy = temperature < _LEAST_TEMPERATURE
        self.temperature, self.top_p = temperature, top_p
        self.generator = random.Random(seed)

    def pick(self, logits: Tensor) -> int:
        """Pick the next token by its logits [vocab], and return its id. Draws a number from the
        generator unless it is greedy."""
        if self.greedy:
            return int(logits.argmax())
        return int(draw(logits[None], [self]))


def draw(logits: Tensor, samplers: Sequence[Sampler]) -> Tensor:
    """Draw a token for each row of logits, by the temperature, top_p and generator of the row's
    sampler.

    A row of NaN or infinite logits gets a token id that means nothing.

    Args:
        logits: [rows, vocab].
        samplers: One for each row; each draws one number from its generator.

    Returns:
        Token ids, int64 [rows].
    """
    settings = [
        (sampler.temperature, sampler.top_p, sampler.generator.random()) for sampler in samplers
    ]
    # [3, rows, 1]
    columns = torch.tensor(settings, dtype=torch.float64, device=logits.device).T[:, :, None]
    temperatures, top_ps, uniform_numbers = columns  # [rows, 1] each
    probabilities = (logits.float() / temperatures.float()).softmax(-1)
    if any(sampler.top_p < 1 for sampler in samplers):
        probabilities = cut_to_nucleus(probabilities, top_ps)
    # The inverse of the cumulative distribution at the uniform number.
    cumulative = probabilities.cumsum(-1, dtype=torch.float64)
    totals = cumulative[:, -1:]
    token_ids = torch.searchsorted(cumulative, uniform_numbers * totals, right=True)
    last_token_id = probabilities.shape[-1] - 1
    return token_ids.clamp(max=last_token_id)[:, 0]


def cut_to_nucleus(
    probabilities: Tensor, top_ps: Tensor, n_likeliest: int = _N_LIKELIEST
) -> Tensor:
    """Probabilities with 0 outside of the smallest set of likeliest tokens that has at least the
    probability top_p (nucleus sampling, Holtzman et al. 2020).

    Args:
        probabilities: [rows, vocab].
        top_ps: The top_p of each row [rows, 1].
        n_likeliest: How many of the likeliest tokens are looked at first; rows that need more are
            sorted whole.
    """
    vocabulary_size = probabilities.shape[-1]
    ranked, token_ids = probabilities.topk(min(n_likeliest, vocabulary_size))
    # A token is dropped when those before it already reach top_p.
    sum_before = ranked.cumsum(-1) - ranked
    in_nucleus = ranked.where(sum_before < top_ps, 0)
    cut = torch.zeros_like(probabilities).scatter(-1, token_ids, in_nucleus)
    needs_more = ranked.sum(-1) < top_ps[:, 0]
    if n_likeliest < vocabulary_size and needs_more.any():
        cut[needs_more] = cut_to_nucleus(
            probabilities[needs_more], top_ps[needs_more], vocabulary_size
        )
    return cut
