"""Recording what other stops would have answered changes nothing, and what it records is what those
runs would do."""

from dataclasses import replace

import pytest

from harness.cost.flops import Flops
from harness.errors import ModelOutputError
from harness.llm.scripted import Rule
from harness.storage.records import StoredRecord
from harness.storage.run_summary import summarise
from tests.methods.conftest import Counted, FakeTools
from tests.methods.pecan_search import SUMMARY, attention, probes, run

# The answer tells how far the search was when it was written. Order of visits: 4, 5 | 3, 1, 2, 0
# (test_pecan.py).
REPLIES = [
    SUMMARY,
    Rule(when="aa ab ac\n[reply]Yes", reply="all"),
    Rule(when="ca cb cc\n[reply]Yes", reply="three chunks"),
    Rule(when="ba bb bc\n[reply]Yes", reply="two chunks"),
    Rule(when="da db dc\n[reply]Yes", reply="one chunk"),
    Rule(when="second point\n[reply]Yes", reply="points"),
]
ANSWERS = ["points", "one chunk", "two chunks", "three chunks", "all"]
P_YES = [0.2, 0.6, 0.9, 0.4, 0.95]


def search(**params):
    return run([], FakeTools(REPLIES, probes(*P_YES), attention), **params)


def bare(steps):
    """Steps without what recording adds to them."""
    return [replace(step, answer=None, answer_flops={}) for step in steps]


def usage(tools, *phases):
    found = {
        phase: {k: v for k, v in u.items() if k != "seconds"}
        for phase, u in tools.meter.usage().items()
    }
    return {phase: found.get(phase) for phase in phases}


@pytest.mark.parametrize(
    ("params", "stop", "end", "reason", "ends"),
    [
        # Probes 1 to 5; p_yes 0.2, 0.6, 0.9, 0.4, 0.95, t_p 0.5: Yes at 2, 3 and 5.
        ({"record_stops": 1}, 2, 2, "yes", None),
        ({"record_stops": 2}, 2, 3, "yes", "2 Yes"),
        ({"record_stops": 3}, 2, 5, "yes", "3 Yes"),
        ({"record_stops": 9}, 2, 5, "yes", "exhausted"),
        (
            {"record_stops": 1, "t_n": 2},
            3,
            3,
            "yes",
            None,
        ),  # fewer than the stop itself: nothing is searched on
        ({"record_stops": 3, "t_n": 2}, 3, 5, "yes", "3 Yes"),
        ({"record_stops": 1, "record_t_p": 0.8}, 2, 3, "yes", "1 Yes"),
        ({"record_stops": 2, "record_t_p": 0.8}, 2, 5, "yes", "2 Yes"),
        ({"record_stops": 1, "record_t_p": 0.1}, 2, 2, "yes", None),
        ({"record_stops": 2, "t_p": 0.99}, 5, 5, "exhausted", None),
        ({"record_stops": 9, "max_nodes": 4}, 2, 3, "yes", "max-nodes"),
        ({"record_stops": 9, "max_nodes": 3, "t_p": 0.8}, 2, 2, "max-nodes", None),
        ({"record_stops": 2, "verdict": "greedy"}, 2, 3, "yes", "2 Yes"),
        ({"record_stops": 1, "record_t_p": 0.93, "verdict": "greedy"}, 2, 5, "yes", "1 Yes"),
    ],
    ids=str,
)
def test_a_recorded_search_is_the_search_and_more(params, stop, end, reason, ends):
    extra = {k: v for k, v in params.items() if k.startswith("record")}
    plain, _, plain_tools = search(**{k: v for k, v in params.items() if k not in extra})
    answer, _, tools = search(**params)
    until = stop + 1  # two points at the start, one probe behind them
    assert (answer.text, answer.stop_reason, answer.shown) == (
        plain.text,
        plain.stop_reason,
        plain.shown,
    )
    assert (answer.text, answer.stop_reason) == (ANSWERS[stop - 1], reason)
    assert bare(answer.steps[:until]) == list(plain.steps)
    assert usage(tools, "search", "answer") == usage(plain_tools, "search", "answer")
    # What is recorded: an answer a probe, and what lies behind the stop is study.
    assert [s.answer for s in answer.steps] == [None, *ANSWERS[:end]]
    assert [s.p_yes for s in answer.steps] == [None, *P_YES[:end]]
    assert [s.action for s in answer.steps[until:]] == ["study"] * (end - stop)
    notes = [*[""] * (end - stop - 1), f"recording ends: {ends}"] if end > stop else []
    assert [s.note for s in answer.steps[until:]] == notes
    assert set(tools.meter.usage()) - {"index"} == {"search", "answer"} | (
        {"study"} if end > 1 else set()
    )
    assert set(plain_tools.meter.usage()) - {"index"} == {"search", "answer"}


def test_each_recorded_answer_is_that_of_a_run_that_stops_there():
    answer, _, _ = search(record_stops=9)
    for t_n, t_p in [
        (1, 0.5),
        (2, 0.5),
        (3, 0.5),
        (1, 0.1),
        (2, 0.1),
        (1, 0.8),
        (2, 0.8),
        (1, 0.93),
    ]:
        plain, _, _ = search(t_n=t_n, t_p=t_p)
        asked = [s for s in answer.steps if s.p_yes is not None]
        counted = [i for i, s in enumerate(asked) if s.p_yes > t_p]
        assert asked[counted[t_n - 1]].answer == plain.text
        assert [s.node for s in plain.steps] == [
            s.node for s in answer.steps[: counted[t_n - 1] + 2]
        ]


def failing_at(node):
    """Attention that runs out of memory where this node is read in a search."""

    def attend(row, column):
        if row.strip() == node and "who" in column:
            raise MemoryError("out of memory")
        return attention(row, column)

    return attend


def without(words):
    return [rule for rule in REPLIES if rule.reply != words]


NO_RULE = "ModelOutputError: the script of 'scripted' has no rule"


@pytest.mark.parametrize(
    ("replies", "attend", "probed", "written", "note"),
    [
        # The stop is at probe 2. The recorded answer at probe 4, and the node behind probe 3, fail.
        (
            without("three chunks"),
            attention,
            4,
            ANSWERS[:3],
            f"recording ended after 4 probes: {NO_RULE}",
        ),
        (
            REPLIES,
            failing_at("ca cb cc"),
            3,
            ANSWERS[:3],
            "recording ended after 3 probes: MemoryError: out of memory",
        ),
        # The answer at probe 1, before the stop, is the recording's alone too.
        (
            without("points"),
            attention,
            2,
            [None, ANSWERS[1]],
            f"recording ended after 1 probes: {NO_RULE}",
        ),
    ],
    ids=["answer behind the stop", "node behind the stop", "answer before the stop"],
)
def test_what_fails_in_the_recording_alone_costs_the_rest_of_the_recording(
    replies, attend, probed, written, note
):
    plain, _, plain_tools = search()
    tools = FakeTools(replies, probes(*P_YES), attend)
    answer, _, _ = run([], tools, record_stops=9)
    assert (answer.text, answer.stop_reason, answer.shown) == (
        plain.text,
        plain.stop_reason,
        plain.shown,
    )
    assert [bare([s])[0] for s in answer.steps[:3]] == list(plain.steps)
    assert usage(tools, "search", "answer") == usage(plain_tools, "search", "answer")
    *steps, last = answer.steps
    assert [s.p_yes for s in steps if s.p_yes is not None] == P_YES[:probed]
    assert [s.answer for s in steps if s.p_yes is not None] == [
        *written,
        *[None] * (probed - len(written)),
    ]
    assert (last.action, last.node, last.p_yes) == ("study", None, None)
    assert last.note.startswith(note)


def test_what_fails_at_the_stop_itself_fails_the_question():
    for params in ({}, {"record_stops": 9}):
        with pytest.raises(ModelOutputError):
            run([], FakeTools(without("one chunk"), probes(*P_YES), attention), **params)


def test_a_search_that_shows_nothing_is_recorded_too():
    rules = [Rule(when="Summary", reply="* a b c d e f g h"), Rule(reply="x")]
    plain, _, tools = run([], FakeTools(rules, probes(), attention), "")
    answer, _, more = run([], FakeTools(rules, probes(), attention), "", record_stops=2)
    assert (answer.text, answer.stop_reason, bare(answer.steps)) == (
        "x",
        "exhausted",
        list(plain.steps),
    )
    assert usage(more, "search", "answer") == usage(tools, "search", "answer")


def counted(**params):
    """The steps of a search, and its usage by the sizes of a small model."""
    meter = Counted("answer")
    answer, _, _ = run([], FakeTools(REPLIES, probes(*P_YES), attention), meter=meter, **params)
    return answer.steps, meter.usage()


def spent(used, *phases):
    return sum((Flops(used[phase]["flops"]) for phase in phases), Flops())


def test_a_recorded_stop_costs_what_a_run_costs_that_stops_there():
    steps, used = counted(t_n=2, record_stops=9)
    asked = [step for step in steps if step.p_yes is not None]
    yes = [step for step in asked if step.p_yes > 0.5]
    for t_n, step in enumerate(yes, 1):
        theirs, other = counted(t_n=t_n)
        assert step.flops == theirs[-1].flops == spent(other, "search")
        assert Flops(step.flops) + step.answer_flops == spent(other, "search", "answer")
    assert {phase: spent(used, phase) for phase in ("search", "answer")} == {
        "search": yes[1].flops, "answer": yes[1].answer_flops
    }  # fmt: skip
    # All the rest is study: the answers beside the run's own, and the search behind the stop.
    beside = [Flops(step.answer_flops) for step in asked if step is not yes[1]]
    assert spent(used, "study") == sum(beside, Flops(asked[-1].flops) - yes[1].flops)


def test_probes_are_booked_as_their_own_part_of_the_search():
    steps, used = counted(t_n=2, record_stops=9)
    asked = [step for step in steps if step.p_yes is not None]
    for phase, probed in (("search", asked[:3]), ("study", asked[3:])):
        fields = used[phase]["probes"]
        assert (fields["requests"], fields["tokens"]) == (len(probed), len(probed))
        assert fields["flops"] == sum((Flops(step.probe_flops) for step in probed), Flops())
        assert 0 < fields["flops"]["full"] < 0.5 * used[phase]["flops"]["full"]
    assert "probes" not in used["answer"]
    record = StoredRecord(question_id="q", document_ids=["d"], prediction="", scores={}, usage=used)
    assert summarise([record], []).usage["search"]["probes"] == used["search"]["probes"]
