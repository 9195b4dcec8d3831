"""Hours and money of a forecast, out of the speed of stored runs on this hardware."""

import json
import os
from dataclasses import replace

import pytest

from harness.cli.forecast_table import as_table
from harness.engine.forecast import Forecast, append_actual, expected_hours, measured_runs
from tests.engine.fakes import make_plan

USAGE = {"tokens_in": 900, "tokens_out": 100, "seconds": 2.0}


def stored(out, name, method="words", dataset="tiny", **more):
    folder = out / dataset / name
    folder.mkdir(parents=True)
    config = {"method": {"name": method}, "dataset": {"name": dataset, "scorers": ["s"]}, "model": {"name": "fake"}}
    (folder / "run.yaml").write_text(json.dumps({"config": {**config, "seed": 0}}))
    index = {"usage": {"index": {"tokens_in": 1000, "tokens_out": 0, "seconds": 1.0}}}
    summary = {"n_total": 12, "n_failed": 2, "usage": {"answer": USAGE}, "index": index, "scores": {}, "errors": {}}
    (folder / "summary.json").write_text(json.dumps(summary))
    manifest = {"gpu": None, "cpus": os.cpu_count(), "models": {"reader": {}}, "starts": [{"parallel": 1}], **more}
    (folder / "manifest.json").write_text(json.dumps(manifest))


def test_the_nearest_runs_on_this_hardware_give_the_speed(tmp_path):
    plan = make_plan()
    assert expected_hours(plan, 1e6, measured_runs(tmp_path)) == (None, f"no run with fake on {os.cpu_count()} CPUs")
    stored(tmp_path, "other", method="lead", starts=[{"parallel": 2}])  # its calls overlapped: twice as fast
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.yaml").write_text("[")
    stored(tmp_path, "elsewhere", gpu="H100", cpus=999)
    known = measured_runs(tmp_path)
    time, why = expected_hours(plan, 11000 / 21 * 2 * 3600, known)
    assert time == pytest.approx(1.0)
    assert why == "1,048 tokens/s: fake, 1 run"
    stored(tmp_path, "own")
    time, why = expected_hours(plan, 11000 / 21 * 3600, measured_runs(tmp_path))
    assert time == pytest.approx(1.0)
    assert why == "524 tokens/s: words on tiny, 1 run"
    assert expected_hours(plan, None, known) == (None, "unknown")


def test_hours_are_divided_among_workers_and_cost_money(tmp_path):
    row = Forecast("words", "tiny", 6, 0, 1e6, 2.0, "stored: ...", 8.0, "524 tokens/s: words, 1 run")
    text = as_table("2 rows", [row, replace(row, hours=None, speed="no run")], workers=4, price=2.5)
    assert "4 workers: about 2 h, 20.00 at 2.50 for an hour of a worker, without 1 row of unknown speed" in text
    assert "time of one worker, by earlier runs on this hardware (524 tokens/s: words, 1 run)" in text
    assert "unknown: no earlier run" in as_table("1 row", [replace(row, hours=None)], price=2.5)
    assert "worker" not in as_table("1 row", [replace(row, hours=None)])
    append_actual(tmp_path, "words on tiny", "f", 4, 2.0, 2.2)
    assert json.loads((tmp_path / "forecasts.jsonl").read_text())["hours"] == 2.2
