"""A tiny random Llama with grouped heads, saved once a session."""

import pytest

from harness.config.schema import ModelConfig
from harness.llm.load import load_model
from pocket.random_model import save
from tests.datasets.fake_hub import FakeHub

WORDS = (
    "The river town of Abel lies north of the old bridge. Mira Tal founded the school in 1902. "
    "Yes No Question Information answer \u00e9t\u00e9 \u6771\u4eac caf\u00e9 \U0001f409 * Given the above. "
)
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 3, "num_attention_heads": 4}


@pytest.fixture(scope="session")
def tiny_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models") / "tiny"
    save(folder, [WORDS * 3], seed=1, num_key_value_heads=2, max_position_embeddings=1024, **SIZES)
    return folder


@pytest.fixture(scope="session")
def tiny(tiny_folder):
    return load_model(ModelConfig(name="tiny", source=str(tiny_folder)))


@pytest.fixture(scope="session")
def tiny_pieces(tiny_folder):
    """The same model, prefilling 7 tokens at a time."""
    return load_model(ModelConfig(name="tiny", source=str(tiny_folder), prefill_chunk=7))


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub that this process asks, with a home and a cache of the test's own."""
    import huggingface_hub.constants as constants

    found = FakeHub()
    for name, value in {"HF_ENDPOINT": found.endpoint, "HARNESS_HOME": str(tmp_path / "home"), "NO_PROXY": "*"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    yield found
    found.close()
