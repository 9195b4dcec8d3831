"""Runs over a data set beside runs over its twin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from reports.figures.memory import figure, frame, pairs
from tests.reports.build import stored

SWAP = {"dataset": {"fingerprint": "t" * 64, "twin": {"of": "f" * 64, "seed": 0, "recogniser": {"name": "rules"}}}}


def _runs(root: Path, before: list[float], after: list[float], **changes: Any) -> list[Any]:
    twin = stored(root, after, hash8="11111111", manifest=SWAP, **changes)
    return [twin, stored(root, before, hash8="22222222", **changes)]


def test_the_drop_is_paired_and_has_an_interval(tmp_path: Path) -> None:
    runs = _runs(tmp_path, [1.0, 1.0, 1.0, 0.0, 1.0, 0.0] * 4, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0] * 4)
    (pair,) = pairs(runs)
    assert (pair.original, pair.twin) == (runs[1], runs[0])
    (row,) = frame([pair]).to_dict("records")
    assert (row["method"], row["n"], row["recogniser"]) == ("pecan", 24, "rules")
    assert [row[name] for name in ("original", "twin", "drop", "recalled")] == pytest.approx([4 / 6, 2 / 6, 2 / 6, 0.5])
    assert 0 < row["drop.low"] < row["drop"] < row["drop.high"] < 1
    assert 0.1 < row["recalled.low"] < 0.5 < row["recalled.high"] <= 1
    assert row["p"] < 0.05
    (panel,) = figure(runs, score=None, warn=print).panels
    assert [point.y for point in panel.lines[0].points] == pytest.approx([400 / 6, 200 / 6])


def test_runs_that_differ_in_more_are_no_pair(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twin, original = _runs(tmp_path, [1.0, 0.0], [0.0, 0.0])
    other = stored(tmp_path / "b", [1.0, 0.0], settings={"seed": 1})
    assert list(pairs([twin, other])) == []
    assert [pair.twin for pair in pairs([other, twin, original])] == [twin]
    with pytest.raises(SystemExit, match="2"):
        main(["report", "memory", str(tmp_path / "b")])
    assert "with and without --set dataset.swap=entities" in capsys.readouterr().err


def test_without_a_score_to_lose_there_is_no_share(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = _runs(tmp_path, [0.0, 0.0, 0.0], [1.0, 0.0, 0.0])
    (row,) = frame(list(pairs(runs))).to_dict("records")
    assert row["recalled"] != row["recalled"]
    with pytest.raises(SystemExit, match="0"):
        main(["report", "memory", str(tmp_path)])
    assert "drop: original minus twin" in " ".join(capsys.readouterr().out.split())
