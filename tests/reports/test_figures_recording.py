"""The contract between a search that records and what is replayed out of it: equal to real runs, in
all that is drawn.

Once with a table for a model, whose every token is counted as a small model's would be; once with
the embedded model, through the engine, the store and the command.
"""

import json
from dataclasses import asdict

import pytest

import harness
from harness.cost.flops import CONVENTIONS, DEFAULT_CONVENTION
from harness.storage.records import StoredRecord
from harness.storage.run_folder import read_run
from reports.figures.replay import Rule
from tests.methods.conftest import Counted, FakeTools
from tests.methods.pecan_search import attention, probes
from tests.methods.pecan_search import run as search
from tests.methods.test_recording import P_YES, REPLIES
from tests.reports.figure_searches import recording


def asked(**params):
    """The record of one question; a model without weights counts as a small one."""
    tools = FakeTools(REPLIES, probes(*P_YES), attention)
    tools.meter = Counted("answer")
    answer, _, _ = search([], tools, **params)
    parts = asdict(answer)
    return StoredRecord(
        question_id="q",
        document_ids=["d"],
        prediction=answer.text,
        scores={},
        usage=tools.meter.usage(),
        shown=parts["shown"],
        stop_reason=answer.stop_reason,
        steps=parts["steps"],
    )


def test_every_replayed_stop_is_that_of_a_real_run():
    record = asked(record_stops=3, record_t_p=0.8)
    replay = recording(Rule(1, 0.5), Rule(3, 0.8))
    own = replay.stop(record, Rule(1, 0.5))
    headline = record.steps[own.step]
    # The two ways to the cost of the run's own stop: what was measured, and what the steps say.
    assert (
        own.flops
        == headline["flops"][DEFAULT_CONVENTION] + headline["answer_flops"][DEFAULT_CONVENTION]
        > 0
    )
    answers = set()
    for t_n in (1, 2, 3):
        for t_p in (0.1, 0.3, 0.5, 0.8):
            real = asked(t_n=t_n, t_p=t_p)
            stop = replay.stop(record, Rule(t_n, t_p))
            assert stop.answer == real.prediction
            for convention in CONVENTIONS:
                spent = sum(
                    real.usage[phase]["flops"][convention] for phase in ("search", "answer")
                )
                counted = replay.stop(record, Rule(t_n, t_p), convention)
                assert counted.flops == pytest.approx(spent, rel=1e-12)
            probed = sum(
                step["probe_flops"].get(DEFAULT_CONVENTION, 0.0) for step in stop.steps(record)
            )
            assert probed == pytest.approx(
                real.usage["search"]["probes"]["flops"][DEFAULT_CONVENTION]
            )
            assert [s["node"] for s in real.steps] == [s["node"] for s in stop.steps(record)]
            assert Rule.shown_after(stop.steps(record)) == list(real.shown)
            answers.add(stop.answer)
    assert len(answers) == 5


# Short summaries: writing them takes most of the time, and what they say does not matter here.
SIZE = {"dataset.tokens": 200, "dataset.questions": 2, "method.reserve": 60}


def test_with_the_embedded_model_through_the_command(tmp_path, monkeypatch, command):
    for name in ("HARNESS_HOME", "HARNESS_CACHE"):
        monkeypatch.setenv(name, str(tmp_path / name))
    monkeypatch.chdir(tmp_path)

    def run(out, **params):
        sets = {**SIZE, **{f"method.{k}": v for k, v in params.items()}}
        return harness.run(
            "pecan", "pocket/musique", profile="pocket", limit=2, out=out, mlflow="off", set=sets
        ).folder

    # p_yes is above a t_p of 0 after every node, so that each t_n stops one node later.
    folder = run("recorded", t_p=0.0, record_stops=3)
    assert any(
        step["action"] == "study" for record in read_run(folder).records for step in record.steps
    )
    table = json.loads(command("report", "curves", "recorded", "--format", "json", "--t-n", "3")[1])
    replayed = {row["t_n"]: row for row in table if row["t_p"] == 0}
    real, there = read_run(run("real", t_p=0.0, t_n=3)), replayed[3]
    f1 = [r.scores["longbench.qa_f1_score"] for r in real.records]
    spent = [
        sum(r.usage[p]["flops"][DEFAULT_CONVENTION] for p in ("search", "answer"))
        for r in real.records
    ]
    assert there["mean"] == pytest.approx(sum(f1) / len(f1))
    assert there["tflops"] == pytest.approx(sum(spent) / len(spent) / 1e12, rel=1e-9)
    probed = [r.usage["search"]["probes"]["flops"]["all-params"] for r in real.records]
    assert there["tflops.probes"] == pytest.approx(sum(probed) / len(probed) / 1e12, rel=1e-9)
    assert there["nodes"] == pytest.approx(
        sum(len(r.steps) for r in real.records) / len(real.records)
    )
    known = recording(Rule(1, 0.0), Rule(3, 0.0))
    for theirs, ours in zip(real.records, read_run(folder).records, strict=True):
        stop = known.stop(ours, Rule(3, 0.0))
        assert stop.answer == theirs.prediction
    assert len({replayed[t_n]["tflops"] for t_n in (1, 2, 3)}) == 3
