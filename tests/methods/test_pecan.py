"""PECAN's known answers, worked by hand, on a model that replays a table."""

import contextlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.errors import QuestionError, WindowExceeded
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.types import Document, Question
from methods.pecan import Pecan
from methods.pecan.build import pack_nodes
from methods.pecan.config import PecanConfig
from methods.pecan.points import parse_points
from methods.pecan.prompts import POINTS
from tests.methods.conftest import FakeTools
from tests.methods.pecan_search import CHUNKS, SUMMARY, TEXT, attention, probes, run


def test_options_are_shown_in_the_second_turn_alone():
    """The papers have no multiple choice; a question whose options nobody showed cannot be answered
    with one of them."""
    method = Pecan(PecanConfig(chunk_tokens=3, reserve=20, min_ip_levels=1, similarity=False))
    document = Document("d", TEXT)
    shown = "Options:\n(A) red\n(B) blue"
    first, second = Rule(when=shown, reply="blue"), Rule(reply="nobody showed the options")
    tools = FakeTools([SUMMARY, first, second], probes(0.9), attention)
    index = method.index(document, tools)
    asked = Question("q", "who zz", ("d",), ("red", "blue"))
    assert method.answer(asked, [document], [index], tools).text == "blue"
    without = method.answer(Question("q", "who zz", ("d",)), [document], [index], tools)
    assert without.text == "nobody showed the options"


@pytest.mark.parametrize(
    ("p_yes", "params", "visited", "reason"),
    [
        ([0.9], {}, 2, "yes"),
        ([0.5, 0.51], {}, 3, "yes"),  # p_yes must be above t_p, not at it
        # Cumulative, not consecutive (docs/methods/pecan.md#pecan-patience).
        ([0.9, 0.1, 0.9, 0.1, 0.9], {"t_n": 3}, 6, "yes"),
        ([0.9, 0.9, 0.9, 0.9], {"t_n": 3}, 4, "yes"),
        ([0.9, 0.9, 0.97, 0.99], {"t_p": 0.98}, 5, "yes"),
        ([0.0] * 9, {"max_nodes": 4}, 4, "max-nodes"),
        ([0.0] * 9, {"max_nodes": 1}, 1, "max-nodes"),
        ([0.0] * 9, {}, 6, "exhausted"),
    ],
)
def test_stop_rules(p_yes, params, visited, reason):
    answer, _, tools = run(p_yes, **params)
    assert len(answer.steps) == visited
    assert answer.stop_reason == reason
    assert [s.p_yes for s in answer.steps if s.p_yes is not None] == p_yes[
        : visited - 1
    ] or reason != "yes"
    # The answer is always asked behind "Yes" in a second turn.
    turn = "[reply]Yes\n[user]Given the above information and question, answer the question as concisely as you can."
    assert tools.reader.prompts[-1].endswith(turn)


def test_prompt_is_the_printed_one():
    _, _, tools = run([0.9])
    summary = next(p for p in tools.reader.prompts if "Summary the following" in p)
    assert summary.startswith(
        "\n[user]Summary the following information. Each segment is separated by a new line "
        "symbol.\n\n"
        "aa ab ac\nba bb bc\nca cb cc\nda db dc\n\nSplit your summary into different summary points"
    )
    first = next(p for p in tools.reader.prompts if "Can this question" in p)
    assert first == (
        "\n[user]Can this question be answered by the following information? Response "
        "\u201cYes\u201d or \u201cNo\u201d "
        "in one word. Do not provide any explanation.\n\nQuestion:\nwho zz\n\nInformation:\n* "
        "first point\n* second point"
    )


@pytest.mark.parametrize(
    ("window_full", "visited"),
    [
        # "* da" is shorter than "* aa ab ac", which has the highest score.
        ("stop", [("window", [None]), ("window", [4]), ("window", [4, 5]), ("window", [4, 5, 0])]),
        (
            "skip",
            [("window", w) for w in ([None], [None, 3], [4], [4, 3], [4, 5], [4, 5, 3], [4, 5, 0])],
        ),
    ],
)
def test_window_full_stops_or_skips(window_full, visited):
    text = "aa ab ac ba bb bc ca cb cc da"
    columns = ["aa ab ac", "ba bb bc", "ca cb cc", "da"]
    rows = {"first": [0.1, 0.1, 0.1, 0.0], "second": [0.9, 0.0, 0.0, 0.1]}

    def attend(row, column):
        if "who" in column:
            return 1.0
        points = next((v for k, v in rows.items() if k in row), None)
        return (
            points[columns.index(column.strip())] if points and column.strip() in columns else 0.0
        )

    def search(window):
        searcher = ScriptedModel(
            Script(replies=[Rule(reply="x")], probes=probes(), window=window), attention=attend
        )
        tools = FakeTools([SUMMARY], probes(), attend, searcher=searcher)
        return run([], tools, text, window_full=window_full)[0], searcher

    # As the window grows by a token at a time, what is visited grows by the smallest thing that
    # fits.
    seen = []
    for window in range(40, 90):
        with contextlib.suppress(WindowExceeded):
            answer, _ = search(window)
            walk = (answer.stop_reason, [s.node for s in answer.steps])
            if walk not in seen:
                seen.append(walk)
                left_out = 2 - len(
                    [x for x in answer.steps if x.action == "start" and x.node is not None]
                )
                note = f"{left_out} top nodes left out" if left_out else ""
                assert "".join(x.note for x in answer.steps) == note
    assert [w for w in seen if len(w[1]) <= 3] == visited
    assert seen[-1] == ("exhausted", [4, 5, 0, 1, 2, 3])


def test_levels_go_on_until_one_call_held_all():
    replies = [
        Rule(when="aa ab ac\nba bb bc\n\nSplit", reply="* one", once=True),
        Rule(when="ca cb cc\nda db dc\n\nSplit", reply="* two", once=True),
        Rule(when="* one\n* two\n\nSplit", reply="* root", once=True),
        Rule(reply="x"),
    ]
    tools = FakeTools(replies, probes(0.9), lambda row, column: 0.5)
    frame = 2 + sum(len(tools.reader.offsets(piece)) for piece in POINTS.fill(nodes=[]))
    answer, graph, _ = run(
        [0.9], tools, window=frame + 20 + 8
    )  # eight tokens of text a call: two chunks
    assert graph.level == [1, 1, 1, 1, 2, 2, 3]
    assert [(i, j) for i, j, _ in graph.edges] == [(4, 0), (4, 1), (5, 2), (5, 3), (6, 4), (6, 5)]
    assert graph.highest_nodes() == [6]
    (shown,) = answer.shown
    assert (shown.kind, shown.text) == ("generated", "root")
    assert [TEXT[a:b].strip() for _, a, b in shown.sources] == CHUNKS
    assert [s[2] for s in tools.said] == ["level 2 summaries"] * 2 + ["level 3 summaries"]


def test_chunks_are_shown_as_spans_of_the_document():
    answer, _, _ = run([0.0, 0.9])
    kinds = [
        (s.kind, TEXT[s.start : s.end].strip() if s.kind == "span" else s.text)
        for s in answer.shown
    ]
    assert kinds == [
        ("generated", "first point"),
        ("generated", "second point"),
        ("span", "da db dc"),
    ]


@pytest.mark.parametrize(
    ("reply", "graph"),
    [("", "points"), ("* \n*  \n", "points"), ("\u2026\u2026", "points"), (" \n", "tree")],
)
def test_a_summary_without_any_text_fails_the_question(reply, graph):
    with pytest.raises(QuestionError, match="the builder wrote no summary for 4 nodes of level 1"):
        run([], FakeTools([Rule(reply=reply)], probes(), attention), graph=graph)


@pytest.mark.parametrize(
    ("text", "truncated", "points", "how"),
    [
        ("* one\n* two", False, ["one", "two"], "bullets"),
        ("Here it is:\n* one\n  and more\n\n- two\n\u2022 three\n4. four\n5) five", False,
         ["one and more", "two", "three", "four", "five"], "bullets"),
        ("* one\n* tw", True, ["one"], "bullets cut"),
        ("* only one, cut", True, ["only one, cut"], "bullets"),
        ("*\n* \n* two", False, ["two"], "bullets"),
        ("line one\nline two", False, ["line one", "line two"], "lines"),
        ("One. Two! Three", False, ["One.", "Two!", "Three"], "lines"),
        ("* summary\n\u2026\u2026", False, ["summary \u2026\u2026"], "bullets"),
        ("", False, [], "lines"),
        ("3.5 million people\n* x", False, ["x"], "bullets"),
        ("-5 degrees", False, ["-5 degrees"], "lines"),
        ("*bold* start", False, ["bold* start"], "bullets"),
        ("**Points**\n* one\n* two\n**More:**\n* three", False, ["one", "two", "three"], "bullets"),
        ("**Ann:** one\n**Bob:** two", False, ["**Ann:** one", "**Bob:** two"], "lines"),
    ],
)  # fmt: skip
def test_parse_points(text, truncated, points, how):
    found = parse_points(text, truncated)
    assert [p.text for p in found.points] == points
    assert found.parser == how
    assert all(" ".join(text[p.start : p.end].split()) == p.text for p in found.points)


@settings(deadline=None)
@given(st.lists(st.integers(1, 9), max_size=60), st.integers(1, 12))
def test_pack_spreads_nodes_evenly(lengths, most):
    sizes = [len(b) for b in pack_nodes(lengths, 10**6, most)]
    assert len(sizes) == -(-len(lengths) // most)
    assert sum(sizes) == len(lengths)
    assert not sizes or (max(sizes) <= most and max(sizes) - min(sizes) <= 1)
    tight = pack_nodes(lengths, 12, most)
    assert [i for b in tight for i in b] == list(range(len(lengths)))
    assert all(len(b) <= most and sum(lengths[i] for i in b) <= 12 for b in tight)


WORDS = " ".join(f"w{n}" for n in range(60))
REPLY = Rule(reply="* one two\n* three")


def shown(batch_tokens, **params):
    """What stands between head and tail of every call of a graph over 20 chunks of three words."""
    tools = FakeTools([REPLY], attention=lambda row, column: 0.1)
    config = {
        "chunk_tokens": 3,
        "reserve": 20,
        "similarity": False,
        "batch_tokens": batch_tokens,
        **params,
    }
    Pecan(PecanConfig(**{"min_ip_levels": 1, **config})).index(Document("d", WORDS), tools)
    (head,), (tail,) = POINTS.around("nodes")
    prompts = [p for p in tools.reader.prompts if head in p]
    return [p.partition(head)[2].partition(tail)[0] for p in prompts]


@pytest.mark.parametrize("batch_tokens", [4, 7, 8, 12, 30, 79, 80, 1000])
def test_no_call_is_shown_more(batch_tokens):
    tools = FakeTools()
    calls = shown(batch_tokens, max_levels=2)
    assert all(tools.reader.count(call) <= batch_tokens for call in calls)
    # Three words and a line's end a chunk: as many a call as fit.
    assert len(calls) == -(-20 // min(20, batch_tokens // 4))
    assert "".join(" ".join(calls).split()) == "".join(WORDS.split()), (
        "every chunk is shown once, in order"
    )


@pytest.mark.parametrize("batch_tokens", [9, 16])
def test_it_holds_on_every_level(batch_tokens):
    tools, calls = FakeTools(), shown(batch_tokens)
    assert any("* " in call for call in calls), "there are points of points"
    assert all(tools.reader.count(call) <= batch_tokens for call in calls)


def test_without_it_the_window_is_the_bound():
    assert len(shown(None, max_levels=2)) == 1
