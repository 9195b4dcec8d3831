"""Choosing the next token."""

import pytest
import torch

from harness.llm.sampling import nucleus


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
