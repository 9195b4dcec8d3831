"""The encoder's door: pooling against a computation by hand, costs from real lengths, and weights
that are not theirs."""

from dataclasses import replace
from functools import partial
from unittest.mock import patch

import numpy as np
import pytest
import yaml

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.encoder_info import chunk_warning, cut_warning, encoder_facts, max_tokens
from harness.embed.load import load_encoder
from harness.errors import CannotRun
from harness.parallel.scheduler import Scheduler

TEXTS = ["The old bridge lies north of Abel.", "Mira", "A river town. " * 200]


@pytest.fixture(scope="session")
def minilm():
    with open("configs/encoders/minilm.yaml", encoding="utf-8") as f:
        values = yaml.safe_load(f)
    values.pop("summary")
    return EncoderConfig(name="minilm", **values)


@pytest.fixture(scope="session")
def vectors(minilm):
    meter = Meter("index")
    encoder = load_encoder(minilm, meter, "encoder")
    return encoder, encoder.encode(TEXTS, "passage"), meter


def test_cost_counts_real_lengths_and_texts_that_were_cut(vectors):
    encoder, found, meter = vectors
    assert found.shape == (3, 384)
    assert encoder.encode([], "passage").shape == (0, 384)
    (event,) = meter.events
    lengths = [len(ids) for ids in encoder._networks.passage.net.tokenizer(TEXTS)["input_ids"]]
    kept = [min(n, encoder._networks.passage.net.max_seq_length) for n in lengths]
    assert (event.new, event.pairs, event.cut, event.texts) == (
        sum(kept),
        sum(n * n for n in kept),
        1,
        3,
    )
    # MiniLM by docs/methods/costs.md#flops-formulas: 6 layers, width 384, MLP 1536, not gated: 6 (4
    # d^2 + 2 d f) multiply-adds a token.
    linear = 2 * 6 * (4 * 384**2 + 2 * 384 * 1536) * sum(kept)
    # and the pooler, which sentence-transformers runs although mean pooling ignores it.
    assert meter.flops("full") == linear + 4 * 6 * 384 * event.pairs + 2 * 384**2 * 3


def counts(meter):
    return [replace(event, seconds=0.0, queued=0.0) for event in meter.events]


@pytest.mark.parametrize(("alone", "calls"), [(False, [3, 34]), (True, [1, 2, 34])])
def test_short_calls_that_wait_together_are_one(minilm, alone, calls):
    asks, seen, found = [["Mira"], TEXTS[:2], ["A river town."] * 34], [], {}
    meters = [Meter() for _ in asks]
    encoders = [load_encoder(minilm, meter, "encoder", alone) for meter in meters]

    def ask(n):
        found[n] = encoders[n].encode(asks[n], "query")

    net, scheduler = encoders[0]._networks.passage.net, Scheduler(3)
    plain = net.encode
    with patch.object(
        net, "encode", lambda texts, **more: seen.append(len(texts)) or plain(texts, **more)
    ):
        scheduler.start_threads(*(partial(ask, n) for n in range(3)))
        scheduler.wait()
    assert sorted(seen) == calls
    for n, texts in enumerate(asks):
        meter = Meter()
        own = load_encoder(minilm, meter, "encoder").encode(texts, "query")
        assert np.allclose(found[n], own, atol=1e-6)
        assert np.array_equal(found[n], own) or not alone
        assert counts(meters[n]) == counts(meter)


def test_the_files_of_a_loaded_encoder_are_not_read_again(minilm, monkeypatch):
    first = load_encoder(minilm, Meter(), "encoder")
    monkeypatch.setattr("harness.embed.load.encoder_facts", None)
    assert load_encoder(minilm, Meter(), "encoder").identity == first.identity


def test_a_call_that_fails_in_company_fails_alone(minilm):
    together = load_encoder(minilm, Meter(), "encoder")._networks.passage
    (vectors, lengths), error = together.run([["Mira"], [None]])
    assert (vectors.shape, len(lengths)) == ((1, 384), 1)
    assert isinstance(error, Exception)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"package": "no-such-package"}, "pip install no-such-package"),
        ({"package": None, "source": "./missing"}, "no model folder './missing'"),
        ({"sha256": "0" * 64}, "are not the published ones"),
        ({"package_path": "nowhere"}, "are not the published ones"),
        ({"package_path": "nowhere", "sha256": None}, "no folder"),
    ],
)
def test_unusable_encoders_are_named_before_loading(minilm, change, message):
    config = minilm.model_copy(update=change)
    (problem,) = encoder_facts(config).problems
    assert message in problem
    with pytest.raises(CannotRun):
        load_encoder(config, Meter(), "encoder")


def test_how_much_an_encoder_reads_is_known_without_loading_it(minilm, vectors, tmp_path):
    assert max_tokens(minilm) == vectors[0]._networks.passage.net.max_seq_length == 256
    assert max_tokens(minilm.model_copy(update={"max_length": 100})) == 100
    bare = EncoderConfig(name="bare", source=str(tmp_path))
    (tmp_path / "config.json").write_text('{"max_position_embeddings": 514}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert max_tokens(bare) == 514
    (tmp_path / "tokenizer_config.json").write_text('{"model_max_length": 512}')
    assert max_tokens(bare) == 512
    (tmp_path / "tokenizer_config.json").write_text(
        '{"model_max_length": 1000000000000000019884624838656}'
    )
    assert max_tokens(bare) == 514
    (tmp_path / "config.json").write_text("{}")
    assert max_tokens(bare) is None


def test_what_is_said_of_texts_that_are_too_long(minilm):
    longer = "; --set encoder=mpnet reads 512"
    assert (
        cut_warning([minilm], 412, 260)
        == f"encoder minilm reads 256 tokens: 63 % of 412 texts were cut{longer}"
    )
    assert (
        cut_warning([minilm], None, 4)
        == f"encoder minilm reads 256 tokens: 4 texts were cut{longer}"
    )
    wide = minilm.model_copy(update={"name": "wide", "max_length": 512})
    assert cut_warning([wide], 10, 1) == "encoder wide reads 512 tokens: 10 % of 10 texts were cut"
    assert cut_warning([minilm], 412, 4) is None  # 0.97 %
    assert (
        chunk_warning(minilm, 300)
        == f"encoder minilm reads 256 tokens, and chunks have up to 300: what is longer is cut, and "
        f"counted in texts_cut{longer}"
    )
    assert [chunk_warning(*case) for case in ((minilm, 256), (minilm, None), (wide, 300))] == [
        None
    ] * 3
