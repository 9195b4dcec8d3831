"""The shipped data sets of rows that are fetched: complete, alike, each with a made-up twin (tests/pocket has those)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness import presets, scorers
from harness.config import DatasetConfig
from harness.datasets import formats

FOLDER = Path(__file__).parents[2] / "configs" / "datasets"
CONFIGS = sorted(FOLDER.glob("*.yaml"))
LONGBENCH = sorted((FOLDER / "longbench").glob("*.yaml"))
CAPS = {"narrativeqa": 128, "qasper": 128}  # facts of LongBench, which the papers' caps follow; 32 for the others


def fields_of(path: Path) -> dict[str, Any]:
    fields: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    fields.pop("summary")
    return fields


def test_the_globs_find_them() -> None:
    assert {"musique", "hotpotqa", "narrativeqa", "qasper"} <= {path.stem for path in CONFIGS}
    assert [path.stem for path in LONGBENCH] == ["hotpotqa", "musique", "narrativeqa", "qasper"]
    assert {f"longbench/{path.stem}" for path in LONGBENCH} <= set(presets.names("datasets"))


@pytest.mark.parametrize("path", [*CONFIGS, *LONGBENCH], ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_config_files(path: Path) -> None:
    config = DatasetConfig.model_validate(fields_of(path))
    assert config.name in (path.stem, f"{path.parent.name}/{path.stem}")
    assert config.name == path.stem or path.parent.name == "longbench"
    assert config.max_answer_tokens == CAPS.get(path.stem, 32)
    assert "longbench.qa_f1_score" in config.scorers[:2]
    assert scorers.problems(config.scorers) == []
    assert config.format in formats()
    assert config.licence
    assert config.citation
    assert config.hub is not None
    assert config.data is None
    assert config.revision is None


@pytest.mark.parametrize("path", LONGBENCH, ids=lambda path: path.stem)
def test_longbench_is_scored_by_its_own_metric_and_takes_its_own_file(path: Path) -> None:
    config = DatasetConfig.model_validate(fields_of(path))
    assert (config.format, config.subset, config.split) == ("longbench", path.stem, "test")
    assert config.scorers[0] == "longbench.qa_f1_score"
    assert "evidence_recall" not in config.scorers
    assert ("unanswerable" in config.instruction) == (path.stem == "qasper")


@pytest.mark.parametrize("path", CONFIGS, ids=lambda path: path.stem)
def test_the_twin_is_judged_and_asked_alike(path: Path) -> None:
    twin = presets.twin(path.stem)
    assert twin == f"pocket/{path.stem}"
    ours, theirs = (fields_of(p) for p in (path, FOLDER / f"{twin}.yaml"))
    assert ours["instruction"] == theirs["instruction"]
    assert ours["scorers"][0] == theirs["scorers"][0]
    # Stories mark no evidence; only a made-up one knows what supports an answer.
    unmarked = {"evidence_recall"} if path.stem == "narrativeqa" else set()
    assert set(theirs["scorers"]) - set(ours["scorers"]) == unmarked


def test_no_twin() -> None:
    assert presets.twin("pocket/musique") is None
    assert presets.twin("longbench/musique") is None
    assert presets.twin("") is None
    assert presets.twin("musiqe") is None
    assert presets.twin("MuSiQue") == "pocket/musique"
