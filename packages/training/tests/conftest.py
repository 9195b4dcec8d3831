"""A tiny random base with the world's tokenizer, saved once a session."""

import pytest

from harness.config.schema import ModelConfig
from packages.training.tests import small
from tests.tracking.conftest import bad_server

__all__ = ["bad_server"]


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return small.save(tmp_path_factory.mktemp("bases") / "small")


@pytest.fixture(scope="session")
def base(folder):
    return ModelConfig(name="small", source=str(folder))
