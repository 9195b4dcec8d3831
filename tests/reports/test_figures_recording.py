"""The contract between a search that records and what is replayed out of it: equal to real runs, in all that is drawn."""

from dataclasses import asdict

import pytest

from harness.cost.flops import CONVENTIONS, DEFAULT
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
    told = {"question_id": "q", "document_ids": ["d"], "scores": {}, "error": None, "usage": tools.meter.usage()}
    return {**told, "prediction": answer.text, **{k: asdict(answer)[k] for k in ("steps", "shown", "stop_reason")}}


def test_every_replayed_stop_is_that_of_a_real_run():
    record = asked(record_stops=3, record_t_p=0.8)
    told = recording(Rule(1, 0.5), Rule(3, 0.8))
    own = told.stop(record, Rule(1, 0.5))
    headline = record["steps"][own.step]
    # The two ways to the cost of the run's own stop: what was measured, and what the steps say.
    assert own.flops == headline["flops"][DEFAULT] + headline["answer_flops"][DEFAULT] > 0
    answers = set()
    for t_n in (1, 2, 3):
        for t_p in (0.1, 0.3, 0.5, 0.8):
            real = asked(t_n=t_n, t_p=t_p)
            stop = told.stop(record, Rule(t_n, t_p))
            assert stop.answer == real["prediction"]
            for convention in CONVENTIONS:
                spent = sum(real["usage"][phase]["flops"][convention] for phase in ("search", "answer"))
                counted = told.stop(record, Rule(t_n, t_p), convention)
                assert counted.flops == pytest.approx(spent, rel=1e-12)
            probed = sum(step["probe_flops"].get(DEFAULT, 0.0) for step in stop.steps(record))
            assert probed == pytest.approx(real["usage"]["search"]["probes"]["flops"][DEFAULT])
            assert [s["node"] for s in real["steps"]] == [s["node"] for s in stop.steps(record)]
            assert Rule.shown(stop.steps(record)) == list(real["shown"])
            answers.add(stop.answer)
    assert len(answers) == 5
