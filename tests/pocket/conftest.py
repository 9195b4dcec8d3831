"""The pocket model's own tokenizer and its teacher, built once a session."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.pocket import tokenizer
from harness.pocket.recall import Drill
from harness.pocket.teacher import Teacher


@pytest.fixture(scope="session")
def tokenizer_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tokenizer")
    tokenizer.build(folder, 0)
    return folder


@pytest.fixture(scope="session")
def own(tokenizer_folder: Path) -> Any:
    """The tokenizer as it is loaded from disk."""
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(str(tokenizer_folder))


@pytest.fixture(scope="session")
def teacher(own: Any) -> Teacher:
    return Teacher(own)


@pytest.fixture(scope="session")
def drills(teacher: Teacher) -> Drill:
    return Drill(teacher)
