"""The attention kernels. The CUDA call for all contexts is replaced by one that does what torch documents of it."""

import math
from itertools import pairwise

import pytest
import torch

from harness.llm.attention_weights import block_weights, column_weights
from harness.llm.batched_forward import Ask, alone, together
from harness.llm.capture import FeedCapture, WriteCapture
from harness.llm.kernels import VarlenKernel, cpu_attention, one_row
from harness.llm.kv import Arena
from harness.llm.trials import pack_problem


@pytest.fixture
def calls(monkeypatch):
    """What the kernel was called with. It computes causal attention, aligned at the last key, from its arguments alone."""
    made = []

    def varlen_attn(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, **how):
        made.append({"queries": cu_seq_q.tolist(), "places": cu_seq_k.tolist(), **how})
        assert how.pop("return_aux").lse
        assert how.pop("window_size") == (-1, 0)
        used = how.pop("seqused_k")
        assert {t.dtype for t in (cu_seq_q, cu_seq_k, used)} == {torch.int32}
        assert cu_seq_q[0] == 0
        assert cu_seq_q[-1] == len(query)
        assert bool((cu_seq_k.diff() >= used).all()), "a context would read past its place"
        assert cu_seq_k[-1] <= len(key)
        assert query.is_contiguous()
        assert how.pop("enable_gqa") == (query.shape[1] != key.shape[1])
        scale = how.pop("scale")
        assert how in ({"num_splits": None}, {"num_splits": 1})
        outs, sums = [], []
        for n, (a, b) in enumerate(pairwise(cu_seq_q.tolist())):
            start, length = int(cu_seq_k[n]), int(used[n])
            assert b - a <= max_q
            assert length <= max_k
            group = query.shape[1] // key.shape[1]
            k, v = (t[start : start + length].repeat_interleave(group, 1).float() for t in (key, value))
            scores = torch.einsum("qhd,khd->hqk", query[a:b].float(), k) * scale
            later = torch.ones(b - a, length, dtype=torch.bool).triu(length - (b - a) + 1)
            scores = scores.masked_fill(later, -math.inf)
            outs.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).to(query.dtype))
            sums.append(scores.logsumexp(-1))
        return torch.cat(outs), torch.cat(sums, 1)

    monkeypatch.setattr("torch.nn.attention.varlen.varlen_attn", varlen_attn)
    return made


def test_a_model_agrees_with_itself(tiny, calls):
    assert pack_problem(tiny.net, tiny.device, tiny.dtype, tiny.layers, VarlenKernel()) is None
    assert len(calls) == 2 * tiny.layers


def test_a_kernel_that_fails_is_not_used(tiny):
    """torch's own refuses the CPU."""
    assert "trial pass" in pack_problem(tiny.net, tiny.device, tiny.dtype, tiny.layers, VarlenKernel())
    assert tiny.kernel is None


def test_contexts_of_any_length_and_order(tiny, calls):
    """Logits and captured attention of a pass whose contexts stand in another order than they are asked in."""
    words = [[(5 * n + k) % 200 for n in range(size)] for k, size in ((0, 300), (1, 40), (2, 7))]
    rest = [[9], [8, 7, 6, 5], [4, 3]]
    wanted = 1, 0, 2

    def asks(arena, order):
        caches = {n: arena.cache() for n in order}
        for n in order:
            alone(tiny.net, tiny.device, Ask(words[n], caches[n]))
        first = [len(w) for w in words]
        captures = [
            WriteCapture(first[0], [(2, 9)]),
            FeedCapture(first[1], [((first[1], first[1] + 4), [(3, 5)])]),
            None,
        ]
        return [Ask(rest[n], caches[n], wanted[n], captures[n]) for n in range(3)], captures

    expected, theirs = asks(Arena(tiny.layers), [0, 1, 2])
    own = [alone(tiny.net, tiny.device, ask) for ask in expected]
    packed, ours = asks(Arena(tiny.layers), [2, 0, 1])
    found = together(tiny.net, tiny.device, packed, VarlenKernel(num_splits=1))
    assert calls[0]["queries"] == [0, 2, 6, 7], "the longest outgrew its place and moved behind the others"
    assert calls[0]["num_splits"] == 1
    assert found[1] is None
    for a, b in ((own[0], found[0]), (own[2], found[2])):
        assert (a - b).abs().max() < 1e-4
    theirs[0].reduce(tiny.layers)
    ours[0].reduce(tiny.layers)
    assert (theirs[0].result() - ours[0].result()).abs().max() < 1e-6
    assert ours[1].results(tiny.layers)[0] == pytest.approx(theirs[1].results(tiny.layers)[0], abs=1e-6)


@pytest.mark.parametrize("block", [64, 1])
@pytest.mark.parametrize("spans", [[(0, 3)], [(2, 5), (5, 40)], [(7, 8), (1, 30), (3, 9)]])
def test_weights_from_the_log_sum_exp_are_those_of_whole_rows(monkeypatch, spans, block):
    monkeypatch.setattr("harness.llm.attention_weights.BLOCK", block)
    query, key = torch.randn(4, 40, 8), torch.randn(2, 80, 8)
    scores = (query @ key.repeat_interleave(2, 0).transpose(1, 2)) * 0.3
    scores = scores.masked_fill(torch.ones(40, 80, dtype=torch.bool).triu(41), -math.inf)
    by_columns = column_weights(query, key, scores.logsumexp(-1), spans, 0.3)
    whole = block_weights(query, key, 40, spans, 0.3)
    plain = torch.stack([scores.softmax(-1).mean(0)[:, a:b].mean(-1) for a, b in spans], 1)
    assert (by_columns - plain).abs().max() < 1e-6
    assert (whole - plain).abs().max() < 1e-6


@pytest.mark.parametrize("keys", [1, 40, 700])
@pytest.mark.parametrize("heads", [(9, 3), (4, 4)])
def test_one_row_of_16_bits_is_nearer_to_float32_than_the_fused_kernel(keys, heads):
    torch.manual_seed(keys)
    q = torch.randn(1, heads[0], 1, 64, dtype=torch.bfloat16)
    k, v = (torch.randn(1, heads[1], keys, 64, dtype=torch.bfloat16) for _ in range(2))
    true, lse = cpu_attention(q.float(), k.float(), v.float(), None, 0.1, False)
    ours, fused = one_row(q, k, v, 0.1), cpu_attention(q, k, v, None, 0.1, False)
    assert ours[0].dtype == torch.bfloat16
    assert (ours[1] - lse).abs().max() < 1e-4
    assert (ours[0].float() - true).abs().mean() <= 1.05 * (fused[0].float() - true).abs().mean() + 1e-6
