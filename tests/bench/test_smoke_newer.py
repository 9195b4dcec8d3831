"""`python -m bench.smoke_newer`: the command of a cell, and a line of the table for each preset."""

import json
from pathlib import Path

import pytest

from bench import smoke_newer
from bench.smoke_newer import METHODS, newer_sets, table
from bench.smoke_real import REFUSED, SCRIPTED, Folders, Key, run_cell
from harness.config import presets


def test_every_newer_preset_is_known():
    assert len(newer_sets()) == 72
    assert set(METHODS) <= set(presets.names("methods"))


def test_a_preset_is_run_by_the_command_and_has_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(
        smoke_newer, "newer_sets", lambda: ["loong/legal", "babilong/qa1", "locomo"]
    )
    monkeypatch.setattr(smoke_newer, "METHODS", ("tool-agent",))
    folders = Folders(tmp_path, tmp_path)
    for dataset in ("loong/legal", "babilong/qa1"):
        folder, why = run_cell(Key("full-context", dataset, SCRIPTED), folders, retry=False)
        assert (why, folder.is_relative_to(tmp_path)) == ("", True)
    (tmp_path / REFUSED).write_text(json.dumps([["full-context", "locomo", SCRIPTED, "no rows"]]))
    lines = [line.split() for line in table([SCRIPTED], tmp_path).splitlines()]
    assert lines[1:5] == [
        ["loong/legal", "scripted", "3", "0", "0.0"],
        ["babilong/qa1", "scripted", "3", "0", "0.0"],
        ["locomo", "scripted", "did", "not", "run"],
        ["tool-agent", "scripted", "left"],
    ]
    assert " ".join(lines[6]) == "scripted: 2 presets, 6 rows, 0 failed"


def test_a_cell_that_the_command_refuses_has_its_sentence(tmp_path: Path):
    key = Key("oracle-evidence", "babilong/qa1", SCRIPTED)
    folder, why = run_cell(key, Folders(tmp_path, tmp_path), retry=False)
    assert folder is None
    assert why.startswith("error: ")
