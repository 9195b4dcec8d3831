"""A bounded cache: what stays, and what is then read and written equals eager attention over what
stays."""

import contextlib
import itertools

import pytest
import torch

from harness.config.schema import ModelConfig
from harness.cost.flops import flops
from harness.cost.meter import Meter
from harness.errors import CannotRun
from harness.llm import hf_session as sessions
from harness.llm.attention_weights import weight_blocks
from harness.llm.backend import load_model
from harness.llm.cache_eviction import kept_tokens, max_pooled
from harness.llm.kv import slot_of
from harness.models import CacheLimit
from tests.llm import tiny_families as tiny
from tests.llm.conftest import let_replies_be

TEXT = "Mira Tal founded the school in 1902. The old bridge lies north of Abel. " * 3
RULES = {
    "observed": CacheLimit(24, 0, 8, 8, 3),
    "summed": CacheLimit(24, 0, 12, None),
    "recent": CacheLimit(24, 4, 20, 0),
    "observed, each query head": CacheLimit(24, 0, 8, 8, 3, by_query_head=True),
    "observed, more than was read": CacheLimit(36, 0, 8, 8, 3, by_query_head=True),
}


@pytest.fixture(scope="module", params=["llama", "qwen2", "gpt2"])
def loaded(request, words, tmp_path_factory):
    """A model of one layer (so that one mask says what it keeps) and its eager twin."""
    folder = tmp_path_factory.mktemp("model") / request.param
    depth = {"n_layer": 1} if request.param == "gpt2" else {"num_hidden_layers": 1}
    _, net = tiny.saved(folder, words, request.param, **depth)
    config = ModelConfig(name="m", source=str(folder), window=tiny.WINDOW, prefill_chunk=23)
    return load_model(config), net


def written(model, monkeypatch, limit, close=True, after=""):
    """(ids, what was kept, logits of each step, the session's events, slot) of a short reply."""
    seen, meter = [], Meter()
    real = sessions.Sampler.pick
    let_replies_be(
        monkeypatch, lambda sampler, row: (seen.append(row.cpu()), real(sampler, row))[1]
    )
    monkeypatch.setattr(model, "stop_ids", frozenset())
    with model.session(meter) as s:
        s.user(TEXT)
        kept = s.bound(limit, close=close) if limit else None
        if after:
            s.feed(after)
        s.write(6)
        return list(s.ids), kept, torch.stack(seen), list(meter.events), slot_of(s._cache)


def test_a_budget_above_the_text_changes_no_bit(loaded, monkeypatch):
    plain = written(loaded[0], monkeypatch, None)
    for limit in (
        CacheLimit(300, 0, 32, 32, 7),
        CacheLimit(300, 0, 150, None),
        CacheLimit(300, 4, 296, 0, step=16),
    ):
        ids, kept, logits, events, _ = written(loaded[0], monkeypatch, limit)
        assert (ids, kept.read) == (plain[0], kept.tokens)
        assert torch.equal(logits, plain[2])
        facts = [
            [(e.kind, e.new, e.cached, e.pairs, e.requests) for e in each]
            for each in (events, plain[3])
        ]
        assert facts[0] == facts[1]


@pytest.mark.parametrize(("rule", "ranking"), [("summed", None), ("observed", 8), ("recent", 0)])
def test_executed_counts_the_second_product_of_keys_and_queries(rule, ranking, loaded, monkeypatch):
    model, shape = loaded[0], loaded[0].shape
    ids, kept, _, events, _ = written(model, monkeypatch, RULES[rule])
    n, size = kept.read, shape.layers * shape.heads * shape.head_size
    rows = n if ranking is None else ranking
    seen = sum(range(n - rows + 1, n + 1))  # row i sees i keys
    read = [flops(e, shape, "executed") for e in events if e.kind == "prefill"]
    hand = 2 * shape.linear * n + 2 * shape.head + 4 * size * n * (n + 1) // 2 + 2 * size * seen
    assert sum(read) == hand
    assert len(ids) > n


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("after", ["", "Where is the bridge?"])
def test_what_follows_a_cut_is_eager_attention_over_what_stays(rule, after, loaded, monkeypatch):
    model, net = loaded
    limit = RULES[rule]
    ids, kept, logits, events, slot = written(
        model, monkeypatch, limit, close=not after, after=after
    )
    read, heads, kv_heads = kept.read, model.shape.heads, model.shape.kv_heads
    with torch.no_grad():
        maps = net(torch.tensor([ids[:read]]), use_cache=False, output_attentions=True).attentions[
            0
        ][0]
    rows = {"observed": maps[:, -limit.last :], "summed": maps, "recent": None}[
        rule.partition(",")[0]
    ]
    scores = None if rows is None else rows.sum(1)
    choices = heads if limit.by_query_head else kv_heads
    stays = kept_tokens(scores, read, limit, choices).repeat_interleave(heads // choices, 0)
    copies = choices // kv_heads
    assert (kept.tokens, slot.copies, slot.dropped) == (
        limit.budget,
        copies,
        read - copies * limit.budget,
    )
    assert (
        kept.size
        == copies * limit.budget * 2 * model.shape.layers * kv_heads * model.shape.head_size * 4
    )
    mask = torch.full((1, heads, len(ids), len(ids)), torch.finfo(torch.float32).min).triu_(1)
    for head in range(heads):
        gone = [i for i in range(read) if i not in set(stays[head].tolist())]
        mask[0, head, read:, gone] = torch.finfo(torch.float32).min
    with torch.no_grad():
        eager = net(torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0].float()
    first = len(ids) - len(logits)
    assert (logits - eager[first - 1 : -1]).abs().max() < 1e-4
    assert [e for e in events if not e.reply][-1].cached == limit.budget + (
        first - read
    )  # its FLOPs are those of what is kept
    with torch.no_grad():
        whole = net(torch.tensor([ids]), use_cache=False).logits[0].float()
    assert (logits[1:] - whole[first:-1]).abs().max() > 1e-3, (
        "the cut made no difference, so nothing was shown"
    )


def alive_one_by_one(maps, budget, last, kv_heads):
    """[heads, n, n]: whether key j is there for row i where a token of the lowest sum is dropped
    for each new one."""
    heads, n, _ = maps.shape
    there = torch.zeros(heads, n, n, dtype=torch.bool)
    for group in torch.arange(heads).view(kv_heads, -1):
        alive, sums = [], torch.zeros(n)
        for row in range(n):
            alive.append(row)
            there[group[:, None], row, torch.tensor(alive)] = True
            seen = maps[group, row][:, alive]
            sums[alive] += (seen / seen.sum(-1, keepdim=True)).sum(0)
            if len(alive) > budget:
                alive.remove(min(alive[:-last], key=lambda at: sums[at]))
    return there


@pytest.mark.parametrize("budget", [24, 60])
@pytest.mark.parametrize("rule", ["summed", "recent"])
def test_a_token_is_dropped_for_each_that_is_read_or_written(rule, budget, loaded, monkeypatch):
    model, net = loaded
    first, last = (0, budget // 2) if rule == "summed" else (4, budget - 4)
    limit = CacheLimit(budget, first, last, None if rule == "summed" else 0, step=1, written=True)
    ids, kept, logits, events, slot = written(model, monkeypatch, limit)
    with torch.no_grad():
        maps = net(torch.tensor([ids]), use_cache=False, output_attentions=True).attentions[0][0]
    there = alive_one_by_one(maps, budget, last, model.shape.kv_heads)
    if rule == "recent":
        near = torch.ones(len(ids), len(ids)).tril().triu(-last).bool()
        near[:, :first] = True
        there = (near.tril() & torch.ones_like(there)).clone()
    mask = torch.zeros(1, *there.shape).masked_fill(~there, torch.finfo(torch.float32).min)
    with torch.no_grad():
        eager = net(torch.tensor([ids]), attention_mask=mask, use_cache=False).logits[0].float()
        whole = net(torch.tensor([ids]), use_cache=False).logits[0].float()
    start = len(ids) - len(logits)
    assert (logits - eager[start - 1 : -1]).abs().max() < 1e-4
    assert (logits - whole[start - 1 : -1]).abs().max() > 1e-3
    assert slot.used[0] <= budget + 1
    assert max(e.pairs for e in events if e.kind == "prefill") == min(budget + 1, kept.read)


def test_a_text_is_cut_while_it_is_read(loaded, monkeypatch):
    limit = CacheLimit(24, 4, 20, 0, step=10)
    _, kept, _, events, slot = written(loaded[0], monkeypatch, limit)
    pieces = [e for e in events if e.kind == "prefill"]
    assert max(e.cached + e.new for e in pieces) == 34
    assert sum(e.new for e in pieces) == kept.read
    assert [e.requests for e in pieces] == [0] * (len(pieces) - 1) + [1]
    size = 2 * loaded[0].shape.layers * loaded[0].shape.kv_heads * loaded[0].shape.head_size * 4
    assert kept.size == 24 * size
    assert slot.dropped == kept.read - 24


@pytest.mark.parametrize("limit", [RULES["observed"], RULES["observed, each query head"]])
def test_the_place_of_what_was_dropped_is_free_again(loaded, limit):
    model = loaded[0]
    with model.session(Meter()) as s:
        s.user(TEXT)
        s.bound(limit)
        assert slot_of(s._cache).capacity == 24 * slot_of(s._cache).copies
        before = [states.clone() for _, *pair in slot_of(s._cache).states() for states in pair]
        s.probe(["Yes", "No"])
        with s.branch():
            s.feed("and more")
            s.flush()
        after = [states for _, *pair in slot_of(s._cache).states() for states in pair]
        assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


def test_a_choice_for_each_query_head_needs_a_mask_of_its_own(loaded, monkeypatch):
    monkeypatch.setattr(loaded[0], "pack_problem", "its attention has a sliding window")
    grouped = loaded[0].shape.heads > loaded[0].shape.kv_heads
    with (
        loaded[0].session(Meter()) as s,
        pytest.raises(CannotRun) if grouped else contextlib.nullcontext() as error,
    ):
        s.user(TEXT)
        s.bound(RULES["observed, each query head"])
    assert (
        error is None
        or "(its attention has a sliding window); choose once for a key/value head"
        in str(error.value)
    )


def test_what_a_bounded_cache_refuses(loaded):
    with loaded[0].session(Meter()) as s:
        s.user("a")
        span = s.feed(TEXT)
        with s.branch(), pytest.raises(ValueError, match="branch would have to bring back"):
            s.bound(RULES["recent"])
        s.bound(RULES["recent"])
        with pytest.raises(ValueError, match="cannot be watched"):
            s.feed("b", watch=[span])


@pytest.mark.parametrize(
    ("scores", "limit", "stays"),
    [
        ([[9, 1, 5, 2, 8, 0], [0, 0, 0, 0, 0, 0]], CacheLimit(3, 0, 1, 2), [0, 4, 5]),
        ([[0, 1, 2, 0, 0, 0], [0, 5, 0, 0, 0, 0]], CacheLimit(3, 1, 1, 2), [0, 1, 5]),
        ([[0, 0, 0, 7, 0, 0], [0, 0, 0, 0, 0, 0]], CacheLimit(4, 0, 1, 2, 3), [2, 3, 4, 5]),
        (None, CacheLimit(4, 1, 3, 0), [0, 3, 4, 5]),
        (None, CacheLimit(4, 1, 1, 0), [0, 3, 4, 5]),
    ],
)
def test_tokens_that_stay(scores, limit, stays):
    given = None if scores is None else torch.tensor(scores, dtype=torch.float32)
    assert kept_tokens(given, 6, limit, 1).tolist() == [stays]


def test_heads_that_share_keys_are_summed():
    scores = torch.tensor([[1.0, 0, 0], [0, 3, 0], [0, 0, 0], [2, 0, 0]])
    assert kept_tokens(scores, 3, CacheLimit(2, 0, 1, 1), 2).tolist() == [[1, 2], [0, 2]]
    query, key = torch.randn(4, 5, 8), torch.randn(2, 5, 8)
    whole = torch.cat([weights.sum(1) for _, weights in weight_blocks(query, key, 0, 1.0)])
    assert whole.sum().item() == pytest.approx(
        4 * 5
    )  # one for each query head and row; a mean over groups gives half


def test_pooling_takes_the_largest_neighbour():
    assert max_pooled(torch.tensor([[0.0, 4, 1, 0, 0]]), 3).tolist() == [[4, 4, 4, 1, 0]]
    assert list(itertools.chain(*max_pooled(torch.tensor([[1.0, 2]]), 1).tolist())) == [1, 2]
