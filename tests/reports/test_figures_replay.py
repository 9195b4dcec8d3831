"""Stops of other rules, worked by hand and against a search that is played."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from harness.errors import UserError
from reports.figures.replay import Rule, recorded_rule
from tests.reports.build import parsed, record
from tests.reports.figure_searches import TERA, recording, searched, searched_run, settings, step

# Yes at t_p 0.5: probes 1, 3, 4; at 0.8: probe 3; at 0.1: all five. The likeliest token was Yes at
# 1 and 4.
P_YES = [0.2, 0.6, 0.4, 0.9, 0.7]
ANSWERS = ["a", "b", "c", "d", "e"]
GREEDY = [0, 1, 0, 0, 1]
WHOLE = searched(0, P_YES, ANSWERS, stop=1, greedy=GREEDY)
RECORD = parsed(WHOLE)
OWN = Rule(1, 0.5)


@pytest.mark.parametrize(
    ("rule", "most", "place"),
    [
        (Rule(1, 0.5), Rule(3, 0.5), 1),
        (Rule(2, 0.5), Rule(3, 0.5), 3),
        (Rule(3, 0.5), Rule(3, 0.5), 4),
        (Rule(1, 0.8), Rule(3, 0.5), 3),  # stricter than recorded, but it was reached
        (
            Rule(2, 0.8),
            Rule(3, 0.5),
            None,
        ),  # not reached, and the recording ended because it had its three Yes
        (Rule(4, 0.5), Rule(3, 0.5), None),
        (
            Rule(4, 0.5),
            Rule(4, 0.5),
            4,
        ),  # three Yes only: window or graph ended it, and would have ended this too
        (Rule(9, 0.99), Rule(4, 0.5), 4),
        (Rule(2, 0.8), Rule(2, 0.8), 4),
        (Rule(1, 0.1), Rule(3, 0.5), 0),
        (Rule(5, 0.1), Rule(3, 0.5), 4),
        (Rule(2, 0.6), Rule(3, 0.5), 4),  # p_yes must be above t_p: 0.6 is no Yes at 0.6
        (Rule(1, None), Rule(3, 0.5), 1),
        (Rule(2, None), Rule(3, 0.5), 4),
        (Rule(3, None), Rule(3, 0.5), None),
    ],
    ids=str,
)
def test_stops_worked_by_hand(rule, most, place):
    stop = recording(OWN, most).stop(RECORD, rule)
    if place is None:
        assert stop is None
        return
    assert (stop.step, stop.answer, stop.is_own_stop) == (place, ANSWERS[place], place == 1)
    assert stop.flops == pytest.approx((place + 1.1) * TERA)
    assert [s["start"] for s in Rule.shown_after(stop.steps(RECORD))] == list(range(place + 1))


def test_a_plain_run_holds_its_own_stop_and_no_other_answer():
    plain = parsed(searched(0, P_YES[:4], stop=3))
    replay = recording(Rule(2, 0.5), Rule(2, 0.5))
    own = replay.stop(plain, Rule(2, 0.5))
    assert (own.answer, own.flops, own.is_own_stop) == (
        "answer at 3",
        pytest.approx(4.1 * TERA),
        True,
    )
    assert (
        replay.stop(plain, Rule(1, 0.5)) is None
    )  # the place is known, what it would have answered is not
    assert replay.stop(plain, Rule(1, 0.8)) == own  # another rule with the same stop
    assert replay.stop(plain, Rule(3, 0.5)) is None
    # It had one Yes of two, so the window or the graph ended it: a stricter rule would have ended
    # there too.
    assert replay.stop(parsed(searched(0, P_YES[:3], stop=2)), Rule(3, 0.5)) is not None


def test_a_recording_that_ended_with_an_error_says_nothing_of_what_lies_behind_it():
    ended = {
        **step(5, action="study", node=None),
        "note": "recording ended after 5 probes: MemoryError",
    }
    replay = recording(OWN, Rule(4, 0.5))
    broken = replace(RECORD, steps=[*RECORD.steps, ended])
    for rule in (OWN, Rule(2, 0.5), Rule(3, 0.5), Rule(1, 0.8)):
        assert replay.stop(broken, rule) == replay.stop(RECORD, rule) is not None
    # Without the error, three of four Yes mean that the window or the graph ended the search.
    assert replay.stop(RECORD, Rule(4, 0.5)) is not None
    assert replay.stop(broken, Rule(4, 0.5)) is None
    # An error before the run's own stop: nothing was recorded behind it, and not what an earlier
    # stop would answer.
    first, second, *_ = RECORD.steps
    own = replace(RECORD, steps=[{**first, "answer": None}, second, ended])
    assert replay.stop(own, OWN) is not None
    assert [replay.stop(own, rule) for rule in (Rule(1, 0.1), Rule(2, 0.5))] == [None, None]


def test_unknown_flops_stay_unknown_and_a_search_without_probes_has_its_own_stop_only():
    spent = {p: {**u, "uncounted": 1} for p, u in WHOLE["usage"].items()}
    replay = recording(OWN, Rule(3, 0.5))
    for rule in (OWN, Rule(2, 0.5)):
        assert replay.stop(replace(RECORD, usage=spent), rule).flops is None
    assert replay.stop(parsed(record(0, 0.5)), Rule(2, 0.5)) is None
    assert replay.stop(parsed(record(0, 0.5)), OWN) is not None


def test_a_text_over_several_documents_is_its_parts_again():
    parts = {
        "kind": "span",
        "document_id": "",
        "start": 0,
        "end": 0,
        "text": "",
        "sources": [["x", 1, 2], ["y", 3, 4]],
    }
    found = Rule.shown_after([{**WHOLE["steps"][0], "shown": parts}])
    assert [(s["document_id"], s["start"], s["end"]) for s in found] == [("x", 1, 2), ("y", 3, 4)]


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, (OWN, OWN)),
        ({"record_stops": 8}, (OWN, Rule(8, 0.5))),
        ({"record_stops": 8, "record_t_p": 0.9}, (OWN, Rule(8, 0.9))),
        ({"record_stops": None, "record_t_p": None}, (OWN, OWN)),
        ({"verdict": "greedy"}, (Rule(1, None), Rule(1, None))),
        ({"verdict": "greedy", "record_stops": 3}, (Rule(1, None), Rule(3, None))),
        ({"t_n": None}, None),
    ],
    ids=str,
)
def test_what_a_run_says_of_its_rule(tmp_path, params, expected):
    made = settings()
    made["method"]["params"] |= params
    found = recorded_rule(searched_run(tmp_path, [WHOLE], settings=made), Rule)
    assert (None if found is None else (found.own_rule, found.furthest_rule)) == expected


def test_a_method_without_probes_has_no_rule(tmp_path):
    assert (
        recorded_rule(searched_run(tmp_path, [record(0, 0.5)], settings=settings()), Rule) is None
    )


def play(p_yes, rule):
    """Where a search stops: at the t_n-th Yes, or at the last node there is."""
    count = 0
    for i, p in enumerate(p_yes):
        count += p > (rule.t_p or 0.0)
        if count >= rule.t_n:
            return i
    return len(p_yes) - 1


@hypothesis_settings(deadline=None)
@given(
    st.lists(st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]), min_size=1, max_size=12),
    st.integers(1, 4), st.sampled_from([0.2, 0.4, 0.6]), st.integers(1, 5), st.sampled_from([0.2, 0.4, 0.6, 0.8]),
)  # fmt: skip
def test_every_recorded_rule_is_where_a_search_by_it_would_stop(graph, t_n, t_p, stops, most_p):
    """A search over `graph` that records; every rule it covers, and every one it happens to hold,
    is played again."""
    own, most = Rule(t_n, t_p), Rule(stops, most_p)
    end = max(play(graph, own), play(graph, most))
    kept = graph[: end + 1]
    answers = [f"{i}" for i in range(len(kept))]
    found = parsed(searched(0, kept, answers, stop=play(graph, own)))
    for n in range(1, 7):
        for p in (0.2, 0.4, 0.6, 0.8):
            stop = recording(own, most).stop(found, Rule(n, p))
            if n <= stops and p <= most_p:
                assert stop is not None
            if stop is not None:
                assert stop.step == play(graph, Rule(n, p))


def test_a_method_that_cannot_replay_says_so(tmp_path):
    def run(implementation):
        made = settings()
        made["method"]["implementation"] = implementation
        return searched_run(tmp_path / implementation.partition(":")[0], [WHOLE], settings=made)

    older = recorded_rule(run("methods.pecan:Pecan"), Rule)
    assert older is not None, "run folders of older versions hold the class"
    assert recorded_rule(run("bm25"), Rule) is None, (
        "it has no stop rule, whatever its run.yaml says"
    )
    with pytest.raises(UserError, match="code that nobody chose, so it is not imported"):
        recorded_rule(run("mine:Method"), Rule)


def test_the_command_leaves_out_a_run_whose_method_cannot_be_loaded(tmp_path, monkeypatch, command):
    monkeypatch.chdir(tmp_path)
    made = settings()
    searched_run(tmp_path / "results", [WHOLE], settings=made)
    made["method"] = {**made["method"], "name": "mine", "implementation": "mine:Method"}
    searched_run(tmp_path / "results", [WHOLE], settings=made, method="mine")
    code, _, err = command("report", "curves", "results")
    assert code == 2
    assert "no run here recorded other stops" in err  # of the other run, which was read
    assert (
        "warning: left out: results/musique/mine--tiny--0123abcd: 'mine:Method' is code that "
        "nobody chose" in err
    )
