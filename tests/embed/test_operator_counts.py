"""The formula for encoders and rerankers against the operators that torch counts."""

import pytest
from transformers import BertForSequenceClassification

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.load import load_encoder, load_reranker
from harness.errors import CannotRun
from tests.cost.operator_count import counted
from tests.embed.saved_models import saved

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
