"""The reranker that comes with the project: its files, what it finds, what it costs, and the rows it stands in for."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness.config.layers import Choices
from harness.config.resolve import resolve_part
from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts, encoder_folder
from harness.embed.load import load_reranker
from harness.engine.plan import plan_choices
from harness.engine.progress import Silent
from harness.engine.runner import run
from harness.storage.file_hash import file_hash
from harness.storage.run_folder import read_run
from pocket.reranker.data import chunk_lists
from pocket.reranker.train import offsets_of
from pocket.world.sample import sample
from tests.cost.operator_count import counted

ROWS = {"dataset.questions": 2, "dataset.tokens": 500, "dataset.hops": [1]}


@pytest.fixture(scope="module")
def config() -> EncoderConfig:
    found: EncoderConfig = resolve_part("encoders", Choices(sets={"encoder": "pocket-reranker"})).parts["encoder"]
    return found


@pytest.fixture(scope="module")
def folder(config) -> Path:
    return encoder_folder(config)


def test_its_files_are_those_of_its_card_and_its_preset(config, folder):
    assert encoder_facts(config).problems == []
    card = json.loads((folder / "card.json").read_text(encoding="utf-8"))
    assert card["sha256"] == {name: file_hash(folder / name) for name in card["sha256"]}
    assert config.sha256 == card["sha256"]["model.safetensors"]
    assert (folder / "model.safetensors").stat().st_size <= 6 * 2**20
    assert f"first {card['trained']['layers']} layers" in (folder / "CARD.md").read_text(encoding="utf-8")


def test_a_changed_file_is_refused(config):
    (problem,) = encoder_facts(config.model_copy(update={"sha256": "0" * 64})).problems
    assert problem.startswith("not run: weights: the weights of encoder 'pocket-reranker' are not the published ones")


def test_it_finds_what_chance_does_not(config, folder):
    """One-hop questions on texts that nothing was chosen on: chance finds one in three."""
    from transformers import AutoTokenizer

    offsets = offsets_of(AutoTokenizer.from_pretrained(str(folder)))
    reranker = load_reranker(config, Meter(), "reranker")
    found, chance = [], []
    for number in range(8):
        made = sample("musique", 5, tokens=1640, purpose="evaluation", hops=(1,), number=number)
        for one in chunk_lists(made, 100, offsets):
            best = np.argsort(-reranker.score(one.question, one.texts), kind="stable")[:5]
            found.append(bool(one.stating[best].any()))
            chance.append(5 / len(one.texts))
    assert len(found) == 8
    assert sum(found) >= 6
    assert np.mean(chance) < 0.4  # by chance six of eight happen in less than one case in fifty


def test_its_cost_is_that_of_the_operators(config):
    meter = Meter()
    reranker = load_reranker(config.model_copy(update={"batch_size": 1}), meter, "reranker")
    passages = ["Mira is a school in Kelford.", "Tal was founded by Toren. On most days the air is calm."]
    total = counted(lambda: reranker.score("Who founded Tal?", passages))
    assert meter.flops("executed") == pytest.approx(total, rel=1e-3)


@pytest.mark.parametrize("method", ["bge-reranker", "bce-reranker"])
def test_it_stands_in_by_name(method, tmp_path, monkeypatch):
    monkeypatch.setenv("HARNESS_HOME", str(tmp_path / "home"))
    plan = plan_choices(Choices(method=method, dataset="pocket/musique", profile="pocket", sets=ROWS, limit=1))
    assert plan.config.method.name == f"{method}[pocket-reranker]"
    assert plan.encoders["reranker"].name == "pocket-reranker"
    result = run(plan, tmp_path / "out", command=["harness"], progress=Silent())
    (record,) = read_run(result.folder).records
    assert record["error"] is None
    assert record["usage"]["search"]["flops"]["full"] > 0


def test_rows_without_a_reranker_keep_their_names_and_their_hashes():
    for method in ("bm25", "longrefiner", "longrefiner-bce-reranker"):
        said = {"dataset": "pocket/musique", "profile": "pocket", "sets": ROWS}
        plan = plan_choices(Choices(method=method, **said))
        assert "pocket-reranker" not in plan.config.method.name
        assert "reranker" not in plan.encoders
