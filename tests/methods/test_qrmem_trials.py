"""Recording what other maxima of trials would have answered changes nothing, and tells what those
runs would do."""

from dataclasses import asdict

import pytest
from harness_audit.trials import requests_at_stop

from harness.cost.flops import CONVENTIONS
from harness.errors import RequestFailed, WindowExceeded
from harness.llm.scripted import Rule
from harness.types import Document
from methods import reading
from methods.qrmem import QRMeM
from methods.qrmem.config import QRMeMConfig
from reports.figures.replay import Recorded, Trials
from tests.methods.conftest import Counted, FakeTools
from tests.methods.qrmem_graph import QUESTION, TEXT, Overlap, choose, memory, no, yes
from tests.reports.build import parsed

# What is read last tells which segments there are: 0 | 0, 1, 3 | all four.
READ = [
    Rule(when="Text:\nVelindra is by Toren.\n\nThe text ends here", reply="one"),
    Rule(when="Text:\nVelindra is by Toren.\n\nToren comes from Kelford.\n\nMira", reply="three"),
    Rule(when="Text:\nVelindra is by Toren.\n\nToren comes from Kelford.\n\nKelford", reply="four"),
    Rule(when="Text:\nToren comes from Kelford.\n\nKelford", reply="two"),
    Rule(when="Text:\nKelford lies on the Une.\n\nThe text ends here", reply="last"),
    Rule(when="Read the text below", reply="others"),
    Rule(when="from what you know", reply="guess"),
]


def search(*replies, rules=(), **params):
    """The record of one question, as far as a replay needs it."""
    encoder = Overlap()
    asked = [Rule(when="Read the text and answer", reply=reply, once=True) for reply in replies]
    tools = FakeTools([*asked, *rules, *READ], similarity=encoder)
    tools.meter = Counted("answer")
    method = QRMeM(QRMeMConfig(**{"reasoning_tokens": 20, **params}))
    answer = method.answer(QUESTION, [Document("d", TEXT)], [memory(encoder).to_index()], tools)
    facts = {
        "question_id": "q",
        "document_ids": ["d"],
        "error": None,
        "scores": {},
        "notes": {},
        "usage": tools.meter.usage(),
    }
    return {
        **facts,
        "prediction": answer.text,
        **{k: asdict(answer)[k] for k in ("steps", "shown", "stop_reason")},
    }


def bare(steps):
    """Steps without what recording adds to them."""
    return [{**step, "answer": None, "answer_flops": {}} for step in steps]


def usage(record):
    phases = [record["usage"].get(phase, {}) for phase in ("search", "answer")]
    return [{k: v for k, v in phase.items() if k != "seconds"} for phase in phases]


CASES = {
    "never answered": ([no("by?"), no("river?"), no("else?"), no("?")], {}),
    "answered late": ([no("by?"), no("river?"), yes("the Une")], {}),
    "answered at once": ([yes("the Une")], {}),
    "never parsed": ([no("by?"), *["I do not know."] * 5], {}),
    "entities chosen": (
        [no("a"), no("b"), no("c"), no("d")],
        {
            "navigation": "entity-trial",
            "rules": choose("* Toren\n* Kelford", "* Une", "* Une\n* Kelford\n* Velindra", "none"),
        },
    ),
    "none chosen": (
        [no("a"), no("b")],
        {"navigation": "entity-trial", "rules": choose("* Toren", "none")},
    ),
}


def recorded(own, most):
    return Recorded(Trials(own), Trials(most), QRMeM(QRMeM.Config()))


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("own", [0, 1, 3])
def test_every_maximum_is_that_of_a_real_run(name, own):
    replies, params = CASES[name]
    recording = search(*replies, max_trials=own, record_stops=6, **params)
    plain = search(*replies, max_trials=own, **params)
    trials = recorded(own, 6)
    # Recording changes nothing up to the stop.
    assert (recording["prediction"], recording["stop_reason"]) == (
        plain["prediction"],
        plain["stop_reason"],
    )
    assert recording["shown"] == plain["shown"]
    assert usage(recording) == usage(plain)
    assert bare(recording["steps"][: len(plain["steps"])]) == list(plain["steps"])
    assert {s["action"] for s in recording["steps"][len(plain["steps"]) :]} <= {"study"}
    # All maxima are there, those beyond the end of the search too.
    for most in range(7):
        real = search(*replies, max_trials=most, **params)
        found = trials.stop(parsed(recording), Trials(most))
        assert found is not None, most
        assert found.answer == real["prediction"]
        assert requests_at_stop(parsed(recording), found) == sum(
            u.get("requests", 0) for u in usage(real)
        )
        for convention in CONVENTIONS:
            found = trials.stop(parsed(recording), Trials(most), convention)
            assert found.flops == pytest.approx(
                sum(u["flops"][convention] for u in usage(real) if u), rel=1e-12
            )
        spans = [(s["start"], s["end"]) for s in Trials.shown_after(found.steps(parsed(recording)))]
        assert spans == [(s["start"], s["end"]) for s in real["shown"]]


def test_by_hand():
    record = search(no("by?"), no("river?"), no("?"), max_trials=1, record_stops=2)
    marked = [
        (s["action"], s["scores"]["updates"], s["answer"])
        for s in record["steps"]
        if "updates" in s["scores"]
    ]
    assert marked == [("ask", 0, "one"), ("ask", 1, None), ("study", 2, "four")]
    assert record["prediction"] == "three"
    assert record["steps"][-1]["note"] == "ask: ?"
    trials = recorded(1, 2)
    *found, beyond = [trials.stop(parsed(record), Trials(most)) for most in range(4)]
    stops = [(f.answer, f.is_own_stop, requests_at_stop(parsed(record), f)) for f in found]
    assert stops == [("one", False, 2), ("three", True, 3), ("four", False, 4)]
    assert beyond is None, (
        "the search was not recorded up to 3 updates, and had not ended by itself"
    )


def test_without_recording_only_what_the_search_itself_tells_is_known():
    record = search(no("by?"), yes("Toren"), max_trials=4)
    found = [recorded(4, 4).stop(parsed(record), Trials(most)) for most in range(7)]
    assert [f and f.answer for f in found] == [None, *["Toren"] * 6]
    assert all(f.is_own_stop and requests_at_stop(parsed(record), f) == 2 for f in found[1:])
    assert all(s["answer"] is None for s in record["steps"])


def test_a_recording_that_fails_costs_nothing_else(monkeypatch):
    read = reading.ask

    def broken(question, texts, *more):
        if len(texts) != 3:
            raise RequestFailed("the server is gone")
        return read(question, texts, *more)

    monkeypatch.setattr(reading, "ask", broken)
    record = search(no("by?"), no("river?"), no("?"), max_trials=1, record_stops=2)
    assert (record["prediction"], record["stop_reason"]) == ("three", "max trials")
    notes = [(s["action"], s["note"]) for s in record["steps"] if "server" in s["note"]]
    assert notes == [
        ("stop", "not recorded: the server is gone"),
        ("study", "stop: not recorded: the server is gone"),
    ]
    known = [
        most for most in range(4) if recorded(1, 2).stop(parsed(record), Trials(most)) is not None
    ]
    assert known == [1]


def test_a_search_that_breaks_behind_the_stop_is_recorded_up_to_there():
    # There is no reply to the third request.
    record = search(no("by?"), no("river?"), max_trials=1, record_stops=4)
    assert record["prediction"] == "three"
    assert record["steps"][-1]["note"].startswith("stop: recording ends: ")
    known = [
        most for most in range(5) if recorded(1, 4).stop(parsed(record), Trials(most)) is not None
    ]
    assert known == [0, 1]


def test_a_segment_that_leaves_is_told():
    replies = (no("birthplace?"), no("river?"), yes("the Une"))
    whole = next(w for w in range(100, 400) if _shown(replies, w) == 4)
    record = search(*replies, window=whole - 1)
    (gone,) = [s for s in record["steps"] if s["action"] == "leave"]
    assert gone["note"] == "its score is the lowest, and not all segments fit"
    places = {
        s["node"]: (s["shown"]["start"], s["shown"]["end"])
        for s in record["steps"]
        if s["action"] == "segment"
    }
    assert places[gone["scores"]["segment"]] not in [
        (s["start"], s["end"]) for s in record["shown"]
    ]
    seen = Trials.shown_after(record["steps"])
    assert [(s["start"], s["end"]) for s in seen] == [
        (s["start"], s["end"]) for s in record["shown"]
    ]


def _shown(replies, window):
    try:
        return len(search(*replies, window=window)["shown"])
    except WindowExceeded:
        return 0
