"""A tiny random base with the world's tokenizer, saved once a session."""

from pathlib import Path

import pytest

from harness.config.schema import ModelConfig
from tests.training import small


@pytest.fixture(scope="session")
def folder(tmp_path_factory) -> Path:
    return small.save(tmp_path_factory.mktemp("bases") / "small")


@pytest.fixture(scope="session")
def base(folder) -> ModelConfig:
    return ModelConfig(name="small", source=str(folder))
