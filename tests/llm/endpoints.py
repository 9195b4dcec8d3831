"""Models behind a loopback server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.config.schema import ModelConfig
from harness.llm.endpoint import EndpointModel
from harness.llm.load import load_model
from tests.llm.loopback import Loopback

POCKET = Path(__file__).resolve().parents[2] / "pocket" / "model"


def config(url: str | None, **more: Any) -> ModelConfig:
    return ModelConfig(**{"name": "m", "backend": "endpoint", "base_url": url, "tokenizer": str(POCKET), **more})


def loaded(loopback: Loopback, **more: Any) -> EndpointModel:
    found = load_model(config(loopback.url, retries=1, timeout=5.0, **more))
    assert isinstance(found, EndpointModel)
    return found
