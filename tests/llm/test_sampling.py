"""Choosing the next token."""

import pytest
import torch

from harness.llm.sampling import Sampler, cut_to_nucleus, draw
from harness.llm.writing import next_tokens

DRAWS = 20_000


def drawn(logits: torch.Tensor, temperature: float, top_p: float) -> torch.Tensor:
    """How often each token of one row is drawn, with a seed for each draw."""
    tokens = draw(
        logits.expand(DRAWS, -1), [Sampler(temperature, top_p, seed) for seed in range(DRAWS)]
    )
    return tokens.bincount(minlength=len(logits))


@pytest.mark.parametrize(
    ("temperature", "top_p", "inside"),
    [(0.5, 1.0, 5), (1.0, 1.0, 5), (2.0, 1.0, 5), (1.0, 0.9, 3), (1.0, 0.5, 2)],
)
def test_tokens_are_drawn_as_often_as_they_are_likely(temperature, top_p, inside):
    logits = torch.tensor([2.0, 1.5, 1.0, 0.0, -1.0, -torch.inf])
    p = (logits / temperature).softmax(-1)
    expected = DRAWS * p[:inside] / p[:inside].sum()
    found = drawn(logits, temperature, top_p)
    assert found[inside:].sum() == 0
    # Chi-squared with at most four degrees of freedom: above 18.5 once in a thousand.
    assert ((found[:inside] - expected) ** 2 / expected).sum() < 18.5


@pytest.mark.parametrize(
    "sharp", [0.0, 0.1, 1.0, 5.0], ids=["flat", "nearly flat", "broad", "sharp"]
)
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.95, 0.9999])
def test_a_nucleus_is_the_smallest_set_that_reaches_top_p(sharp, top_p):
    p = (sharp * torch.randn(5000, generator=torch.Generator().manual_seed(1))).softmax(-1)
    kept = cut_to_nucleus(p[None], torch.tensor([[top_p]]))[0]
    inside = kept > 0
    assert torch.equal(kept[inside], p[inside])
    assert inside.sum() == 5000 or p[inside].min() >= p[~inside].max()
    assert kept.sum() >= top_p - 1e-4
    assert kept.sum() - kept[inside].min() < top_p + 1e-4


@pytest.mark.parametrize("words", [7, 300, 50_000])
def test_a_reply_draws_the_same_tokens_beside_others_and_alone(words):
    hot = [(0.7, 1.0), (1.0, 0.9), (1.3, 0.5), (1.0, 1.0), (0.2, 1.0)]
    together, alone = ([Sampler(*each, seed) for seed, each in enumerate(hot)] for _ in range(2))
    for n in range(3):
        rows = 3 * torch.randn(len(hot), words, generator=torch.Generator().manual_seed(n))
        assert draw(rows, together).tolist() == [
            own.pick(row) for own, row in zip(alone, rows, strict=True)
        ]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("top_p", [0.9, 1.0])
def test_no_token_is_chosen_from_logits_that_are_no_numbers(temperature, top_p):
    rows = [torch.tensor([[0.0, 99.0, value]]) for value in (-torch.inf, torch.nan, torch.inf)]
    assert next_tokens(rows, [Sampler(temperature, top_p, 0) for _ in rows]) == [1, None, None]


def test_a_temperature_that_overflows_the_logits_is_greedy():
    assert next_tokens([torch.tensor([[0.0, 1.0, 3.0, 2.0]])], [Sampler(1e-40, 0.9, 0)]) == [2]
