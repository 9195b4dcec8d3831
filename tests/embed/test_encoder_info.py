"""Every architecture of the encoder presets on tiny random folders, against pooling computed by hand.

No published weights are here, so what is tested is the code path: tokenizer, network, pooling, norm, prefix, tower.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from transformers import (
    XLMRobertaForSequenceClassification,
)

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.encoder_info import disagreement, encoder_facts, pooling_of
from harness.embed.load import load_encoder, load_reranker
from harness.errors import CannotRun
from tests.embed.saved_models import ARCHITECTURES, packed, saved, tokenizer

# Of several lengths, so that a batch is padded.
TEXTS = ["the old bridge lies north of the river town", "mira", "river town"]


def by_hand(folder, text, pooling, similarity):
    """One text alone, no padding: the first row or the mean of the last layer, scaled to length 1 for cosine."""
    from transformers import AutoModel, AutoTokenizer

    with torch.no_grad():
        row = AutoTokenizer.from_pretrained(folder)(text, return_tensors="pt")
        hidden = AutoModel.from_pretrained(folder).eval()(**row).last_hidden_state[0]
    vector = hidden[0] if pooling == "cls" else hidden.mean(0)
    return (vector / vector.norm() if similarity == "cosine" else vector).numpy()


@pytest.mark.parametrize(
    ("architecture", "pooling", "similarity"),
    [
        ("bert", "cls", "cosine"),  # bge
        ("bert", "mean", "dot"),  # contriever, recomp
        ("bert", "mean", "cosine"),  # e5
        ("xlm-roberta", "mean", "cosine"),
        ("xlm-roberta", "cls", "dot"),
        ("mpnet", "mean", "cosine"),  # sbert
    ],
)
def test_pooling_by_hand(architecture, pooling, similarity, tmp_path):
    folder = saved(tmp_path / "m", architecture)
    config = EncoderConfig(name="tiny", source=folder, pooling=pooling, similarity=similarity, batch_size=2)
    encoder = load_encoder(config, Meter(), "encoder")
    found = encoder.encode(TEXTS, "passage")
    wanted = np.stack([by_hand(folder, text, pooling, similarity) for text in TEXTS])
    assert np.abs(found - wanted).max() < 1e-5
    other = np.stack([by_hand(folder, t, "mean" if pooling == "cls" else "cls", similarity) for t in TEXTS])
    assert np.abs(found - other).max() > 1e-2  # the test can tell the two apart
    scores = encoder.similarity(found[0], found)
    assert scores == pytest.approx([float(found[0] @ v) for v in found], abs=1e-5)
    if similarity == "cosine":
        assert np.linalg.norm(found, axis=1) == pytest.approx(np.ones(3), abs=1e-5)
    else:
        assert np.abs(np.linalg.norm(found, axis=1) - 1).max() > 0.1


def test_two_towers(tmp_path):
    """As DRAGON+: one network a side, the first position, no norm."""
    passages, queries = saved(tmp_path / "p", seed=0), saved(tmp_path / "q", seed=1)
    config = EncoderConfig(name="two", source=passages, query_source=queries, pooling="cls", similarity="dot")
    meter = Meter()
    encoder = load_encoder(config, meter, "encoder")
    found, (query,) = encoder.encode(TEXTS, "passage"), encoder.encode(["the bridge"], "query")
    assert np.abs(found - np.stack([by_hand(passages, t, "cls", "dot") for t in TEXTS])).max() < 1e-5
    assert np.abs(query - by_hand(queries, "the bridge", "cls", "dot")).max() < 1e-5
    assert np.abs(query - by_hand(passages, "the bridge", "cls", "dot")).max() > 1e-2
    # Real lengths: 9, 1 and 2 words, then 2, each with the first and the last mark.
    assert [(e.new, e.pairs, e.requests) for e in meter.events] == [(11 + 3 + 4, 121 + 9 + 16, 1), (4, 16, 1)]


def test_the_question_tower_is_part_of_the_identity(tmp_path):
    passages, queries = saved(tmp_path / "p", seed=0), saved(tmp_path / "q", seed=1)
    one = EncoderConfig(name="x", source=passages)
    told = [
        encoder_facts(c).identity
        for c in (
            one,
            one.model_copy(update={"query_source": queries}),
            one.model_copy(update={"pooling": "cls"}),
            one.model_copy(update={"pooling": "mean"}),
        )
    ]
    assert told[0] == told[3]  # the mean is what a folder without a word about it gets
    assert len({json.dumps(t) for t in told}) == 3
    missing = one.model_copy(update={"query_source": str(tmp_path / "nowhere")})
    assert "not run: weights: no model folder" in encoder_facts(missing).problems[0]


def test_prefixes_reach_their_side_alone(tmp_path):
    folder = saved(tmp_path / "m")
    prefixes = {"query_prefix": "query: ", "passage_prefix": "passage: "}
    encoder = load_encoder(EncoderConfig(name="e5", source=folder, **prefixes), Meter(), "encoder")
    for kind, prefix in (("query", "query: "), ("passage", "passage: ")):
        (found,) = encoder.encode(["mira"], kind)
        assert np.abs(found - by_hand(folder, prefix + "mira", "mean", "cosine")).max() < 1e-5


def test_a_text_longer_than_the_limit_is_cut_and_counted(tmp_path):
    config = EncoderConfig(name="m", source=saved(tmp_path / "m"), max_length=6)
    meter = Meter()
    encoder = load_encoder(config, meter, "encoder")
    (found,) = encoder.encode([TEXTS[0]], "passage")
    assert np.abs(found - by_hand(config.source, "the old bridge lies", "mean", "cosine")).max() < 1e-5
    assert [(e.new, e.cut) for e in meter.events] == [(6, 1)]


@pytest.mark.parametrize("legacy", [False, True])
def test_a_folder_that_pools_otherwise_is_refused_by_name(legacy, tmp_path):
    folder = packed(tmp_path, "cls", legacy=legacy)
    assert pooling_of(folder) == "cls"
    config = EncoderConfig(name="mine", source=str(folder), pooling="mean")
    (problem,) = encoder_facts(config).problems
    assert problem == (
        "encoder 'mine' is set to pool by mean, but its folder's own pooling is cls; name the right folder, or take its "
        "word with --set encoder.pooling=null"
    )
    with pytest.raises(CannotRun, match="is set to pool by mean"):
        load_encoder(config, Meter(), "encoder")
    for said in ("cls", None):
        encoder = load_encoder(config.model_copy(update={"pooling": said}), Meter(), "encoder")
        (found,) = encoder.encode(["river town"], "passage")
        assert np.abs(found - by_hand(str(tmp_path / "raw"), "river town", "cls", "cosine")).max() < 1e-5
    assert encoder.identity["pooling"] == "cls"


def test_a_folder_that_normalises_cannot_be_compared_by_dot_product(tmp_path):
    folder = packed(tmp_path, "mean", normalise=True)
    config = EncoderConfig(name="mine", source=str(folder), similarity="dot")
    assert "normalises every vector; say --set encoder.similarity=cosine" in (disagreement(folder, config) or "")
    assert disagreement(folder, config.model_copy(update={"similarity": "cosine"})) is None


def test_a_reranker_of_xlm_roberta(tmp_path):
    """As bge-reranker and bce-reranker: one logit a pair, whatever the batch it is in."""
    folder = saved(tmp_path / "m", "xlm-roberta", cls=XLMRobertaForSequenceClassification, num_labels=1)
    config = EncoderConfig(name="tiny", source=folder, max_length=12, batch_size=2)
    reranker = load_reranker(config, Meter(), "reranker")
    found = reranker.score("mira", TEXTS)
    net = XLMRobertaForSequenceClassification.from_pretrained(folder).eval()
    words = tokenizer(ARCHITECTURES["xlm-roberta"][2])
    with torch.no_grad():
        alone = [float(net(**words("mira", t, return_tensors="pt")).logits) for t in TEXTS[1:]]
        cut = words("mira", TEXTS[0], truncation=True, max_length=12, return_tensors="pt")
        alone.insert(0, float(net(**cut).logits))
    assert found == pytest.approx(alone, abs=1e-5)
