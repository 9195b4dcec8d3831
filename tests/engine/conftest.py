from __future__ import annotations

from pathlib import Path

import pytest

from tests.engine import fakes


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has its own cache and the fake model."""
    monkeypatch.setenv("HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("harness.llm.load.load_model", fakes.FakeModel)
