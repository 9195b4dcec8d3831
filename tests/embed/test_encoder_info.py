"""Encoders and rerankers on tiny random folders, against pooling computed by hand; broken folders
are a sentence.

No published weights are here, so what is tested is the code path: tokenizer, network, pooling,
norm, prefix, tower.
"""

import functools
import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModel,
    AutoTokenizer,
    BertForSequenceClassification,
    XLMRobertaForSequenceClassification,
    XLMRobertaModel,
)

from harness.config.layers import Choices
from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.encoder_info import conflict, encoder_facts, pooling_of
from harness.embed.load import load_encoder, load_reranker
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.errors import CannotRun, HarnessError
from harness.storage.run_folder import read_run
from tests.embed.saved_models import ARCHITECTURES, packed, saved, tokenizer

# Of several lengths, so that a batch is padded.
TEXTS = ["the old bridge lies north of the river town", "mira", "river town"]


@functools.cache
def loaded(folder):
    return AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()


def by_hand(folder, text, pooling, similarity):
    """One text alone, no padding: the first row or the mean of the last layer, scaled to length 1
    for cosine."""
    words, network = loaded(folder)
    with torch.no_grad():
        hidden = network(**words(text, return_tensors="pt")).last_hidden_state[0]
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
    config = EncoderConfig(
        name="tiny", source=folder, pooling=pooling, similarity=similarity, batch_size=2
    )
    encoder = load_encoder(config, Meter(), "encoder")
    found = encoder.encode(TEXTS, "passage")
    wanted = np.stack([by_hand(folder, text, pooling, similarity) for text in TEXTS])
    assert np.abs(found - wanted).max() < 1e-5
    other = np.stack(
        [by_hand(folder, t, "mean" if pooling == "cls" else "cls", similarity) for t in TEXTS]
    )
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
    config = EncoderConfig(
        name="two", source=passages, query_source=queries, pooling="cls", similarity="dot"
    )
    meter = Meter()
    encoder = load_encoder(config, meter, "encoder")
    found, (query,) = encoder.encode(TEXTS, "passage"), encoder.encode(["the bridge"], "query")
    assert (
        np.abs(found - np.stack([by_hand(passages, t, "cls", "dot") for t in TEXTS])).max() < 1e-5
    )
    assert np.abs(query - by_hand(queries, "the bridge", "cls", "dot")).max() < 1e-5
    assert np.abs(query - by_hand(passages, "the bridge", "cls", "dot")).max() > 1e-2
    # Real lengths: 9, 1 and 2 words, then 2, each with the first and the last mark.
    assert [(e.new, e.pairs, e.requests) for e in meter.events] == [
        (11 + 3 + 4, 121 + 9 + 16, 1),
        (4, 16, 1),
    ]


def test_the_question_tower_is_part_of_the_identity(tmp_path):
    passages, queries = saved(tmp_path / "p", seed=0), saved(tmp_path / "q", seed=1)
    one = EncoderConfig(name="x", source=passages)
    changes = ({}, {"query_source": queries}, {"pooling": "cls"}, {"pooling": "mean"})
    identities = [encoder_facts(one.model_copy(update=change)).identity for change in changes]
    assert identities[0] == identities[3]  # the mean is what a folder without a word about it gets
    assert len({json.dumps(t) for t in identities}) == 3
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
    assert (
        np.abs(found - by_hand(config.source, "the old bridge lies", "mean", "cosine")).max() < 1e-5
    )
    assert [(e.new, e.cut) for e in meter.events] == [(6, 1)]


@pytest.mark.parametrize("legacy", [False, True])
def test_a_folder_that_pools_otherwise_is_refused_by_name(legacy, tmp_path):
    folder = packed(tmp_path, "cls", legacy=legacy)
    assert pooling_of(folder) == "cls"
    config = EncoderConfig(name="mine", source=str(folder), pooling="mean")
    (problem,) = encoder_facts(config).problems
    assert problem == (
        "encoder 'mine' is set to pool by mean, but its folder's own pooling is cls; name the "
        "right folder, or take its "
        "word with --set encoder.pooling=null"
    )
    with pytest.raises(CannotRun, match="is set to pool by mean"):
        load_encoder(config, Meter(), "encoder")
    for said in ("cls", None):
        encoder = load_encoder(config.model_copy(update={"pooling": said}), Meter(), "encoder")
        (found,) = encoder.encode(["river town"], "passage")
        assert (
            np.abs(found - by_hand(str(tmp_path / "raw"), "river town", "cls", "cosine")).max()
            < 1e-5
        )
    assert encoder.identity["pooling"] == "cls"


def test_a_folder_that_normalises_cannot_be_compared_by_dot_product(tmp_path):
    folder = packed(tmp_path, "mean", normalise=True)
    config = EncoderConfig(name="mine", source=str(folder), similarity="dot")
    assert "normalises every vector; say --set encoder.similarity=cosine" in (
        conflict(folder, config) or ""
    )
    assert conflict(folder, config.model_copy(update={"similarity": "cosine"})) is None


@pytest.mark.parametrize(
    ("architecture", "cls"),
    [("xlm-roberta", XLMRobertaForSequenceClassification), ("bert", BertForSequenceClassification)],
)
def test_a_reranker_scores_a_pair_as_its_network_does(architecture, cls, tmp_path):
    """One logit a pair, whatever the batch it is in; bge-reranker and bce-reranker are of
    XLM-RoBERTa."""
    folder = saved(tmp_path / "m", architecture, cls=cls, num_labels=1)
    config = EncoderConfig(name="tiny", source=folder, max_length=12, batch_size=2)
    reranker = load_reranker(config, Meter(), "reranker")
    found = reranker.score("mira", TEXTS)
    net = cls.from_pretrained(folder).eval()
    words = tokenizer(ARCHITECTURES[architecture][2])
    with torch.no_grad():
        alone = [float(net(**words("mira", t, return_tensors="pt")).logits) for t in TEXTS[1:]]
        cut = words("mira", TEXTS[0], truncation=True, max_length=12, return_tensors="pt")
        alone.insert(0, float(net(**cut).logits))
    assert found == pytest.approx(alone, abs=1e-5)


ROWS = {"dataset.questions": 2, "dataset.tokens": 300}


@pytest.fixture(autouse=True)
def _home(tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))


def choices(method: str, **sets) -> Choices:
    return Choices(method=method, dataset="pocket/musique", sets={**ROWS, **sets}, limit=1)


@pytest.mark.parametrize(
    ("name", "content", "why"),
    [
        ("1_Pooling/config.json", "{", "cannot be read (Expecting property name"),
        ("1_Pooling/config.json", "[]", "it holds a list where a dict belongs"),
        ("modules.json", "no json", "cannot be read (Expecting value"),
        ("modules.json", '{"type": "x"}', "it holds a dict where a list belongs"),
        ("modules.json", '["x"]', "it does not list modules"),
    ],
)
def test_a_broken_pooling_file_is_a_sentence_of_the_plan(name, content, why, tmp_path):
    folder = packed(tmp_path, "cls")
    (folder / name).write_text(content)
    with pytest.raises(HarnessError) as caught:
        plan_choices(choices("sbert", encoder=str(folder)))
    assert f"the encoder's file {folder / name}" in str(caught.value)
    assert why in str(caught.value)
    assert "download the folder again" in str(caught.value)


def test_a_way_of_pooling_that_nobody_knows_is_a_sentence(tmp_path):
    folder = packed(tmp_path, "cls")
    (path,) = folder.glob("*Pooling/config.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "pooling_mode": "majority"}))
    config = EncoderConfig(name="mine", source=str(folder), pooling="mean")
    assert "its folder's own pooling is majority" in encoder_facts(config).problems[0]


@pytest.mark.parametrize(
    ("method", "role", "numbers"),
    [("sbert", "encoder", "embeddings"), ("bge-reranker", "reranker", "scores")],
)
def test_weights_that_are_nan_fail_the_question_and_are_told(method, role, numbers, tmp_path):
    classes = (
        {"cls": XLMRobertaForSequenceClassification, "num_labels": 1} if role == "reranker" else {}
    )
    folder = saved(tmp_path / "m", "xlm-roberta", **classes)
    path = tmp_path / "m" / "model.safetensors"
    weights = load_file(str(path))
    name = next(n for n in weights if n.endswith("layer.1.output.dense.weight"))
    save_file(
        {**weights, name: torch.full_like(weights[name], float("nan"))},
        str(path),
        metadata={"format": "pt"},
    )
    plan = plan_choices(choices(method, **{role: folder}))
    result = run(plan, tmp_path / "out", command=["harness"], progress=Silent())
    stored = read_run(result.folder)
    (record,) = stored.records
    assert (record.prediction, record.error["type"]) == ("", "ModelOutputError")
    assert f"gave NaN or infinite {numbers}" in record.error["message"]
    assert (result.summary.n_failed, result.summary.n_scored) == (1, 0)


def test_an_encoder_is_no_reranker(tmp_path):
    folder = saved(tmp_path / "m", "xlm-roberta", cls=XLMRobertaModel, num_labels=1)
    config = EncoderConfig(name="mine", source=folder, max_length=12)
    with pytest.raises(
        CannotRun, match=r"'mine' is no reranker: its weights have no 'classifier\.dense\.weight'"
    ):
        load_reranker(config, Meter(), "reranker")
