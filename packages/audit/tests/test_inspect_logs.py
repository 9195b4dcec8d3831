"""Runs as logs of Inspect."""

import importlib.util
import json
from dataclasses import asdict, replace

import pytest
from harness_audit import inspect_logs

from harness.cli.main import main
from harness.storage.json_lines import json_line
from harness.storage.kept_requests import REQUESTS, request_rows
from harness.storage.run_folder import read_run
from harness.types import Shown, Step
from tests.reports.build import record, write_run

F1 = "longbench.qa_f1_score"


def _records():
    asked = {"gold": {"answers": ["Ann", "Anne"], "supporting": [], "extra": {}}, "document_characters": [9]}
    seen = Shown("span", "d0", 0, 9, "Ann is 8.")
    steps = [asdict(Step("visit", node=3, level=1, scores={"total": 0.5}, tokens=9, shown=seen))]
    answered = {"shown": [asdict(seen)], "steps": steps, "question": "Who is 8?", **asked}
    right = {"prediction": "Ann", "scores": {F1: 1.0}, **answered}
    long = {**right, "prediction": "Ann of\nHill", "scores": {F1: 0.5}, "steps": [], "options": ["Ann", "Bob"]}
    failed = {"question": "Who failed?", "scores": {}, **asked}
    return [record(0, 1.0, **right), record(1, 0.5, **long), record(2, None, **failed)]


@pytest.fixture
def folder(tmp_path):
    data = {"name": "longbench/hotpotqa", "format": "longbench", "scorers": [F1], "max_answer_tokens": 32}
    scores = {F1: {"mean": 0.5, "low": 0.1, "high": 0.9, "n": 3}}
    return write_run(
        tmp_path / "results",
        _records(),
        dataset="longbench~hotpotqa",
        method="bm25",
        settings={"dataset": data},
        summary={"state": "finished", "scores": scores},
        manifest={"finished": "2026-01-02T03:05:05+00:00"},
    )


def test_a_run_as_an_inspect_log(folder, tmp_path) -> None:
    path = inspect_logs.write_log(read_run(folder), tmp_path / "logs")
    assert path.name == "2026-01-02T03-04-05+00-00_longbench-hotpotqa-bm25_0123abcd.json"
    log = json.loads(path.read_bytes())
    assert (log["version"], log["status"], log["eval"]["solver"]) == (2, "success", "bm25")
    assert log["results"]["scores"][0]["metrics"]["mean"] == {"name": "mean", "value": 0.5}
    assert (log["results"]["total_samples"], log["results"]["completed_samples"]) == (3, 2)
    first, second, failed = log["samples"]
    assert (first["input"], first["target"], first["choices"]) == ("Who is 8?", ["Ann", "Anne"], None)
    assert [m["content"] for m in first["messages"]] == ["Ann is 8.\n\nWho is 8?", "Ann"]
    assert first["scores"][F1]["value"] == 1.0
    assert first["events"][0]["data"] == {
        "action": "visit", "node": 3, "level": 1, "scores": {"total": 0.5}, "tokens": 9, "shown": "Ann is 8."
    }  # fmt: skip
    assert first["output"]["usage"] == {
        "input_tokens": 200, "output_tokens": 10, "total_tokens": 224, "input_tokens_cache_read": 14, "reasoning_tokens": 0
    }  # fmt: skip
    assert log["stats"]["model_usage"]["tiny"]["input_tokens"] == 400  # the failed question has no usage
    assert second["choices"] == ["Ann", "Bob"]
    assert failed["error"]["message"] == "WindowExceeded: too long"
    assert failed["scores"] == {}
    assert inspect_logs.write_log(read_run(folder), tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.skipif(importlib.util.find_spec("inspect_ai") is None, reason="inspect-ai is not installed")
def test_inspect_reads_it(folder, tmp_path) -> None:
    from inspect_ai.log import read_eval_log

    log = read_eval_log(str(inspect_logs.write_log(read_run(folder), tmp_path)))
    assert [sample.output.completion for sample in log.samples] == ["Ann", "Ann of\nHill", ""]


def test_a_kept_request_is_the_message(folder, tmp_path) -> None:
    from harness.cost.events import Request

    sent = [Request("reader", "answer", "write", "Read: Ann is 8.\nWho is 8?", "Ann")]
    rows = request_rows(sent, {"question_id": "q0"})
    (folder / REQUESTS).write_bytes(b"".join(map(json_line, rows)))
    samples = inspect_logs.eval_log(read_run(folder))["samples"]
    assert samples[0]["messages"][0]["content"] == "Read: Ann is 8.\nWho is 8?"
    assert samples[0]["metadata"]["prompt"] == "as it was sent"
    assert samples[1]["messages"][0]["content"] == "Ann is 8.\n\nWho is 8?"


def test_names_from_a_run_folder_lead_nowhere_else(folder, tmp_path) -> None:
    run = read_run(folder)
    out = tmp_path / "out"
    for bad in ("../../x", "..", "/etc/x", "a\x00b\n"):
        named = {"name": bad}
        config = {**run.config, "method": named, "model": named, "dataset": {**run.config["dataset"], **named}}
        other = replace(run, config=config, manifest={"started": bad})
        assert inspect_logs.write_log(other, out).resolve().parent == out.resolve()


def test_runs_without_texts_are_refused(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_run(tmp_path, [record(0, 1.0)])
    with pytest.raises(SystemExit, match="2"):
        main(["export", str(folder), "--to", "inspect", "--out", str(tmp_path / "out")])
    assert "holds neither questions nor right answers" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["export", "RUN", "--to", "inspct", "--out", "o"], "Did you mean 'inspect'?"),
        (["export", "RUN", "--to", "inspect"], "name the folder for the files"),
    ],
)
def test_mistakes(folder, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main([str(folder) if a == "RUN" else a for a in arguments])
    assert problem in capsys.readouterr().err
