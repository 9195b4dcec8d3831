"""The shipped data sets of rows that are fetched: complete, alike, each with a made-up twin (tests/pocket has those)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import presets
from harness.config import DatasetConfig

CONFIGS = sorted((Path(__file__).parents[2] / "configs" / "datasets").glob("*.yaml"))


def fields_of(path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields.pop("summary")
    return fields


def test_the_glob_finds_them() -> None:
    assert {"musique", "hotpotqa"} <= {path.stem for path in CONFIGS}


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_config_files(path: Path) -> None:
    config = DatasetConfig.model_validate(fields_of(path))
    assert config.name == path.stem
    assert config.instruction == "Answer the question as concisely as you can."
    assert config.max_answer_tokens == 32
    assert config.scorers[0] == "longbench.qa_f1_score"
    assert "evidence_recall" in config.scorers
    assert config.licence
    assert config.citation
    assert config.hub is not None
    assert config.data is None
    assert config.revision is None


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_twin_is_judged_and_asked_alike(path: Path) -> None:
    twin = presets.twin(path.stem)
    assert twin == f"pocket/{path.stem}"
    ours, theirs = (fields_of(p) for p in (path, path.parent / f"{twin}.yaml"))
    for key in ("instruction", "max_answer_tokens", "scorers"):
        assert ours[key] == theirs[key]


def test_no_twin() -> None:
    assert presets.twin("pocket/musique") is None
    assert presets.twin("") is None
    assert presets.twin("musiqe") is None
    assert presets.twin("MuSiQue") == "pocket/musique"
