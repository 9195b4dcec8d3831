"""The formula for encoders and rerankers, and for a prefill, against operator counters of two libraries."""

import pytest
import torch
from transformers import BertForSequenceClassification

from harness.config.schema import EncoderConfig
from harness.cost.events import Event
from harness.cost.flops import flops
from harness.cost.meter import Meter
from harness.embed.load import load_encoder, load_reranker
from harness.errors import CannotRun
from tests.cost.operator_count import counted
from tests.embed.saved_models import saved
from tests.llm.conftest import tiny, tiny_folder  # noqa: F401

PASSAGES = ["the old bridge lies north", "mira tal founded the school", "river"]


def bert(folder, cls=None, **more):
    return EncoderConfig(name="tiny-bert", source=saved(folder, cls=cls, **more), batch_size=1)


def cross(folder, labels=1):
    return bert(folder, BertForSequenceClassification, num_labels=labels)


def test_the_formula_equals_the_operator_counter(tmp_path):
    encoded, ranked = Meter(), Meter()
    encoder = load_encoder(bert(tmp_path / "bi"), encoded, "encoder")
    reranker = load_reranker(cross(tmp_path / "cross"), ranked, "reranker")
    for meter, run in (
        (encoded, lambda: encoder.encode(PASSAGES, "passage")),
        (ranked, lambda: reranker.score("where is the bridge", PASSAGES)),
    ):
        total = counted(run)
        assert total > 0
        assert meter.flops("executed") == pytest.approx(total, rel=1e-3)


def test_reranker_edges(tmp_path):
    reranker = load_reranker(cross(tmp_path / "cross"), Meter(), "reranker")
    assert reranker.score("x", []).shape == (0,)
    with pytest.raises(CannotRun, match="gives 2 scores a pair"):
        load_reranker(cross(tmp_path / "two", 2), Meter(), "reranker")


def test_prefill_equals_fvcore_with_a_handler_for_its_missing_attention(tiny):  # noqa: F811
    fvcore = pytest.importorskip("fvcore.nn", reason="the extra 'flops' is not installed")
    tiny.net.set_attn_implementation("sdpa")

    class Forward(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = tiny.net

        def forward(self, ids):
            return self.net(input_ids=ids, use_cache=False).logits

    def attention(inputs, _outputs):
        (batch, heads, rows, size), key = (i.type().sizes() for i in inputs[:2])
        return 2 * batch * heads * rows * key[2] * size

    def total(**handlers):
        count = fvcore.FlopCountAnalysis(Forward(), torch.randint(0, 50, (1, 60), device=tiny.device))
        count.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
        return count.set_op_handle(**handlers).total()

    try:
        without, macs = total(), total(**{"aten::scaled_dot_product_attention": attention})
    finally:
        tiny.net.set_attn_implementation("harness")
    event = Event("reader", "m", "answer", "prefill", 60, 0, 60, 60 * 60)
    # fvcore counts a multiply-add as one, and skips fused attention unless told (docs/methods/costs.md#flops-formulas).
    assert 2 * macs == pytest.approx(flops(event, tiny.shape, "executed"), rel=1e-3)
    assert 2 * without < 0.99 * flops(event, tiny.shape, "executed")
