"""A tiny random base with the world's tokenizer, saved once a session."""

from pathlib import Path

import pytest

from harness.config.schema import ModelConfig
from tests.training import small


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small.save(tmp_path_factory.mktemp("bases") / "small")


@pytest.fixture(scope="session")
def base(folder: Path) -> ModelConfig:
    return ModelConfig(name="small", source=str(folder))
