"""Choosing the next token."""

import pytest
import torch

from harness.llm.sampling import Sampler, draw, nucleus
from harness.llm.writing import next_tokens


@pytest.mark.parametrize("sharp", [0.0, 0.1, 1.0, 5.0], ids=["flat", "nearly flat", "broad", "sharp"])
@pytest.mark.parametrize("top_p", [0.05, 0.5, 0.95, 0.9999])
def test_a_nucleus_is_the_smallest_set_that_reaches_top_p(sharp, top_p):
    p = (sharp * torch.randn(5000, generator=torch.Generator().manual_seed(1))).softmax(-1)
    kept = nucleus(p, top_p)
    inside = kept > 0
    assert torch.equal(kept[inside], p[inside])
    assert inside.sum() == 5000 or p[inside].min() >= p[~inside].max()
    assert kept.sum() >= top_p - 1e-4
    assert kept.sum() - kept[inside].min() < top_p + 1e-4


@pytest.mark.parametrize("words", [7, 300, 2**17])  # the last one: two rows at a time
def test_draws_of_several_replies_are_those_of_torch_for_each(words):
    hot = [(0.7, 1.0), (1.0, 0.9), (1.3, 0.5), (1.0, 1.0), (0.2, 1.0)]
    samplers = [Sampler(*each, seed) for seed, each in enumerate(hot)]
    own = [torch.Generator().manual_seed(seed) for seed in range(len(hot))]
    for n in range(3):
        rows = 3 * torch.randn(len(hot), words, generator=torch.Generator().manual_seed(n))
        expected = []
        for row, (temperature, top_p), generator in zip(rows, hot, own, strict=True):
            p = (row / temperature).softmax(-1)
            expected.append(int(torch.multinomial(nucleus(p, top_p) if top_p < 1 else p, 1, generator=generator)))
        assert draw(rows, samplers) == expected


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_no_token_is_chosen_from_logits_that_are_no_numbers(temperature):
    rows = [torch.tensor([[0.0, 99.0, value]]) for value in (-torch.inf, torch.nan, torch.inf)]
    assert next_tokens(rows, [Sampler(temperature, 1.0, 0) for _ in rows]) == [1, None, None]


def test_a_temperature_that_overflows_the_logits_is_greedy():
    assert next_tokens([torch.tensor([[0.0, 1.0, 3.0, 2.0]])], [Sampler(1e-40, 0.9, 0)]) == [2]
