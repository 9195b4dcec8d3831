"""MemWalker's known answers, worked by hand, on a model that replays a table."""

import pytest
from harness_training.method_skills import skills_of
from harness_training.tasks import Scene
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import WindowExceeded
from harness.llm.scripted import Rule, ScriptedSession
from harness.types import Document, Question, Shown
from methods.graph import Graph
from methods.memwalker import MemWalker
from methods.memwalker.config import MemWalkerConfig
from methods.memwalker.method import even_groups
from methods.memwalker.replies import BACK, Verdict, parse_choice, parse_verdict
from tests.methods.conftest import FakeTools, answered

# Four segments of four words; at most two children: s0 s1 | s2 s3, then a root over the two.
SEGMENTS = ["Ann is a baker.", "Bob is a sailor.", "Cid is a weaver.", "Dan is a miner."]
TEXT = " ".join(SEGMENTS)
SPANS = [(0, 15), (15, 32), (32, 49), (49, 65)]
QUESTION = Question("q", "Who weaves?", ("d",))
TREE = [
    Rule(when="[user]Text:\n" + segment, reply=f"sum {i}")
    for i, segment in enumerate(SEGMENTS)
] + [
    Rule(when="follow each other.\n\nsum 0\nsum 1\n\nShorten", reply="left  half"),
    Rule(when="follow each other.\n\nsum 2\nsum 3\n\nShorten", reply="right\nhalf"),
    Rule(when="follow each other.\n\nleft half\nright half\n\nShorten", reply="all of it"),
]  # fmt: skip


SIZES = {"segment_tokens": 4, "children": 2, "summary_tokens": 8, "reasoning": False}


def said(*replies):
    return [Rule(when="Question: Who weaves?", reply=reply, once=True) for reply in replies]


def walk(*replies, text=TEXT, window=8192, tools=None, question=QUESTION, **params):
    tools = tools or FakeTools([*TREE, *said(*replies)], window=window)
    method = MemWalker(MemWalkerConfig(**{**SIZES, **params}))
    answer, index = answered(method, tools, Document("d", text), question)
    asked = [p for p in tools.reader.prompts if "Question: Who weaves?" in p]
    return answer, Graph.from_index(index), asked, tools


def moves(answer):
    return [(s.action, s.node) for s in answer.steps[:-1]]


def test_tree_of_four_segments():
    _, graph, _, tools = walk("Action: 0", "Action: 0", "Action: -2\nAnswer: Ann")
    assert graph.text == [
        "sum 0",
        "sum 1",
        "sum 2",
        "sum 3",
        "left half",
        "right half",
        "all of it",
    ]
    assert graph.level == [1, 1, 1, 1, 2, 2, 3]
    assert graph.span == [*SPANS, None, None, None]
    assert graph.edges == [(a, b, 0.5) for a, b in ((4, 0), (4, 1), (5, 2), (5, 3), (6, 4), (6, 5))]
    assert len(tools.kept) == 7
    assert tools.said[-1] == (1, 1, "level 3 summaries")


@given(st.integers(1, 200), st.integers(2, 9))
def test_groups_are_consecutive_few_and_even(count, most):
    groups = even_groups(list(range(count)), most)
    assert [i for group in groups for i in group] == list(range(count))
    assert len(groups) == -(-count // most)
    assert max(map(len, groups)) <= most
    assert max(map(len, groups)) - min(map(len, groups)) <= 1


def test_summaries_that_do_not_fit_together_are_shortened_first():
    long = "w1 w2 w3 w4 w5 w6 w7 w8"
    replies = [
        Rule(when="fluent summary", reply=long),
        Rule(when=f"follow each other.\n\n{long}\n\nShorten", reply="v1 v2 v3 v4 v5 v6 v7 v8"),
        # The window of 61 leaves 27 tokens for the summaries beside 26 of prompt and 8 to write: 3
        # summaries of 8 with a line's end each are 27, 4 are 36. So four are first shortened to 27
        # // 4 - 1 = 5 tokens each.
        Rule(when="\n".join(["v1 v2 v3 v4 v5"] * 4), reply="the root"),
    ]
    config = MemWalkerConfig(segment_tokens=4, children=4, summary_tokens=8)
    tools = FakeTools(replies, window=61)
    index = MemWalker(config).index(Document("d", TEXT), tools)
    assert index["text"] == [long] * 4 + ["the root"]
    # Three fit as they are.
    tools = FakeTools([*replies[:1], Rule(when="\n".join([long] * 3), reply="the root")], window=61)
    index = MemWalker(config).index(Document("d", TEXT[: SPANS[2][1]]), tools)
    assert index["text"] == [long] * 3 + ["the root"]


def test_straight_down_to_the_answer():
    answer, _, asked, tools = walk("Action: 1", "Action: 0", "Action: -2\nAnswer: Cid")
    assert (answer.text, answer.stop_reason) == ("Cid", "answered")
    assert moves(answer) == [("choose", 6), ("choose", 5), ("read", 2)]
    assert answer.shown == (
        Shown("generated", "d", text="all of it", sources=tuple(("d", *s) for s in SPANS)),
        Shown("generated", "d", text="right half", sources=(("d", *SPANS[2]), ("d", *SPANS[3]))),
        Shown("span", "d", *SPANS[2]),
    )
    assert answer.steps[-1].scores == {
        "calls": 3,
        "invalid": 0,
        "reverts": 0,
        "depth": 3,
        "read": 17 / 65,
    }
    assert [s.level for s in answer.steps] == [3, 2, 1, None]
    assert asked[0] == (
        "\n[user]The passages below are summaries of the parts of one text.\n\nQuestion: Who "
        "weaves?\n\nWhich summary most "
        "likely belongs to the part with the answer?\n\nSummary 0: left half\n\nSummary 1: right "
        "half\n\nChoose exactly one "
        "summary by its number. Reply in this form:\nAction: number of the summary"
    )
    # The root was gone through: it is the working memory of the second choice, and both of the
    # reading.
    assert (
        "one text.\n\nBackground, from what was read before:\nall of it\n\nQuestion: Who"
        in asked[1]
    )
    assert "the answer?\n\nSummary 0: sum 2\n\nSummary 1: sum 3\n\nChoose" in asked[1]
    assert asked[2] == (
        "\n[user]Answer a question from the text below, if it can be answered.\n\nBackground, "
        "from what was read before:\nall of it\nright half\n\nText:\nCid is a weaver.\n\nQuestion: "
        "Who weaves?\n\nThe text ends here. If the answer "
        "cannot be inferred from it and the background, choose action -1. If it can, choose action "
        "-2 and give the "
        "answer. Answer the question as concisely as you can. Reply in this form:\nAction: -1 or "
        "-2\nAnswer: the "
        "answer, if the action is -2"
    )
    assert [e.phase for e in tools.meter.events if e.kind == "decode"][-3:] == [
        "search",
        "search",
        "answer",
    ]


def test_going_back_leaves_out_what_was_given_up():
    back = ("Action: -1", "Action: -1")
    answer, _, asked, _ = walk("Action: 0", "Action: 1", *back, "Action: -2\nAnswer: Dan", "x", "y")
    # Segment 1 is rejected; segment 0 is the only other one, so it is not asked for; then node 4 is
    # used up, and node 5 the only one left; there an answer is no parse_choice.
    assert moves(answer)[:7] == [
        ("choose", 6), ("choose", 4), ("read", 1), ("revert", 4), ("choose", 4), ("read", 0), ("revert", 4),
    ]  # fmt: skip
    assert answer.steps[4].note == "the only part left"
    assert moves(answer)[7:] == [("revert", 6), ("choose", 6), ("choose", 5)]
    assert answer.steps[-2].note.startswith("invalid reply 'Action: -2")
    assert answer.stop_reason == "no answer"
    assert "before:\nall of it\nleft half\nsum 1\n\nText:\nAnn is" in asked[3]
    assert "before:\nall of it\nleft half\nsum 1\nsum 0\n\nQuestion: " in asked[4]


def test_every_part_tried():
    back = ("Action: -1", "Action: -1")
    answer, _, _, _ = walk("Action: 1", "Action: 1", *back, "Action: 0", *back)
    assert (answer.text, answer.stop_reason) == ("", "no answer")
    assert [n for a, n in moves(answer) if a == "read"] == [3, 2, 0, 1]
    assert answer.steps[-1].note == "every part was tried"
    # Back from 3, 2, the whole right half, 0, 1 and the whole left half.
    assert answer.steps[-1].scores == {
        "calls": 7,
        "invalid": 0,
        "reverts": 6,
        "depth": 3,
        "read": 1.0,
    }
    # What the reader saw holds every segment once, in the order of reading.
    assert [(s.start, s.end) for s in answer.shown if s.kind == "span"] == [
        SPANS[3],
        SPANS[2],
        SPANS[0],
        SPANS[1],
    ]


def test_repetitions_are_sampled_with_seeds_of_their_own(monkeypatch):
    asked, write = [], ScriptedSession.write
    monkeypatch.setattr(
        ScriptedSession, "write", lambda s, n, **how: asked.append(how) or write(s, n, **how)
    )
    replies = ("the second", "Action: 7", "Action: 1", "Action: 0", "Action: -2\nAnswer: Cid")
    answer, _, _, _ = walk(*replies)
    assert answer.text == "Cid"
    assert answer.steps[0].note == "invalid reply 'the second'; invalid reply 'Action: 7'"
    assert answer.steps[-1].scores["invalid"] == 2
    how = [h for h in asked if "temperature" in h]
    assert [(h["temperature"], h["top_p"]) for h in how] == [
        (0, 1),
        (0.7, 0.9),
        (0.7, 0.9),
        (0, 1),
        (0, 1),
    ]
    assert len({h["seed"] for h in how}) == 5
    asked.clear()
    walk(*replies)
    assert [h for h in asked if "temperature" in h] == how


@pytest.mark.parametrize(
    ("replies", "params", "calls", "why"),
    [
        (["?"] * 3, {}, 3, "3 invalid replies"),
        (
            ["?", "Action: 0", "?", "?", "?"],
            {},
            5,
            "3 invalid replies",
        ),  # strikes count for one request
        (["?"] * 5, {"strikes": 5}, 5, "5 invalid replies"),
        (["Action: 0", "Action: 0", "Action: -1"], {"max_calls": 3}, 3, "the walk took 3 replies"),
        (["?"] * 3, {"max_calls": 2}, 2, "the walk took 2 replies"),
    ],
)
def test_walks_that_end_without_an_answer(replies, params, calls, why):
    answer, _, asked, _ = walk(*replies, **params)
    assert (answer.text, answer.stop_reason, answer.steps[-1].note) == ("", "no answer", why)
    assert answer.steps[-1].scores["calls"] == calls == len(asked)


def test_fallback_answers_from_the_working_memory():
    replies = ["Action: 0", "Action: 0", "?", "?", "?", "from memory"]
    answer, _, asked, _ = walk(*replies, fallback=True)
    assert (answer.text, answer.stop_reason) == ("from memory", "no answer")
    assert answer.steps[-1].note == "3 invalid replies; answered from the working memory"
    assert "Text:\nall of it\n\nleft half\n\nThe text ends here." in asked[-1]
    # Nothing was visited before the first parse_choice, so there is no memory to answer from.
    answer, _, asked, _ = walk("?", "?", "?", fallback=True)
    assert (answer.text, len(asked)) == ("", 3)


def test_reasons_are_asked_for_and_skipped():
    answer, _, asked, _ = walk(
        "Reasoning: the right one.\nAction: 1",
        "Reasoning: Action: 1 would be\nAction: 0",
        "Reasoning: it says so\nAction: -2\nAnswer: Cid\n",
        reasoning=True,
    )
    assert answer.text == "Cid"
    assert (
        "First compare the summaries and give your reasoning, then choose.\n\nSummary 0:"
        in asked[0]
    )
    assert "Reply in this form:\nReasoning: the comparison\nAction: number" in asked[0]
    assert "Reasoning: why\nAction: -1 or -2\nAnswer:" in asked[2]


def test_going_back_from_an_inner_node_where_it_is_allowed():
    answer, _, asked, _ = walk(
        "Action: 0", "Action: -1", "Action: 0", "Action: -2\nAnswer: Cid", inner_revert=True
    )
    assert moves(answer) == [
        ("choose", 6),
        ("choose", 4),
        ("revert", 6),
        ("choose", 6),
        ("choose", 5),
        ("read", 2),
    ]
    assert "exactly one summary by its number, or -1 to go back if none can. Reply" in asked[1]
    assert "or -1" not in asked[0]  # there is nothing above the root
    # Otherwise -1 is no parse_choice.
    assert (
        walk("Action: 0", "Action: -1", "Action: -1", "Action: -1")[0].steps[-1].note
        == "3 invalid replies"
    )


def test_without_working_memory():
    _, _, asked, _ = walk("Action: 1", "Action: 0", "Action: -2\nAnswer: Cid", working_memory=False)
    assert not any("Background" in p for p in asked)


def test_the_oldest_memory_goes_where_the_window_is_short():
    whole = [
        "Action: 0",
        "Action: 0",
        "Action: -1",
        "Action: -1",
        "Action: 0",
        "Action: -2\nAnswer: Cid",
    ]
    kept = []
    for window in range(100, 140):
        try:
            answer, _, asked, _ = walk(*whole, window=window)
        except WindowExceeded:
            continue
        memory = asked[-1].partition("before:\n")[2].partition("\n\nText:")[0].splitlines()
        left_out = f"{5 - len(memory)} of 5 summaries in the working memory did not fit"
        assert answer.steps[-2].note == (left_out if len(memory) < 5 else "")
        if memory not in kept:
            kept.append(memory)
    full = ["all of it", "left half", "sum 0", "sum 1", "right half"]
    assert kept == [full[i:] for i in range(5, -1, -1)]
    with pytest.raises(
        WindowExceeded, match="a request with its reply takes .* lower method.segment_tokens"
    ):
        walk(*whole, window=60)


def test_an_answer_is_cut_to_the_length_of_the_task():
    answer, _, _, _ = walk(
        "Action: 1", "Action: 0", "Action: -2\nAnswer: one two three four five six seven eight nine"
    )
    assert answer.text == "one two three four five six seven eight"


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_document_without_text(text):
    answer, _, asked, _ = walk(text=text)
    assert (answer.text, answer.stop_reason, asked) == ("", "no answer", [])
    assert "the document has no text" in answer.steps[-1].note
    assert answer.steps[-1].scores["read"] == 0


def test_a_document_of_one_segment_is_read_at_once():
    answer, graph, _, _ = walk("Action: -2\nAnswer: Ann", text=SEGMENTS[0])
    assert (answer.text, moves(answer), graph.level) == ("Ann", [("read", 0)], [1])
    assert walk("Action: -1", text=SEGMENTS[0])[0].steps[-1].note == "every part was tried"


def test_summaries_that_were_not_written():
    replies = [Rule(when="fluent summary", reply=" "), Rule(when="Shorten", reply="\n")]
    tools = FakeTools([*replies, *said("Action: 1", "Action: 0", "Action: -2\nAnswer: Cid")])
    answer, _, asked, _ = walk(tools=tools)
    assert answer.text == "Cid"
    assert "Summary 0: (empty)\n\nSummary 1: (empty)" in asked[0]
    assert "7 of 7 summaries are empty" in answer.steps[-1].note
    assert [s.kind for s in answer.shown] == ["span"]


def test_options_are_shown_to_both_requests():
    question = Question("q", "Who weaves?", ("d",), ("Ann", "Cid"))
    _, _, asked, _ = walk("Action: 1", "Action: 0", "Action: -2\nAnswer: Cid", question=question)
    assert all("Who weaves?\nOptions:\n(A) Ann\n(B) Cid\n\n" in p for p in asked)


def test_skills_ask_in_the_words_of_the_walk():
    _, _, asked, tools = walk("Action: 1", "Action: 0", "Action: -2\nAnswer: Cid")
    parents = next(p for p in tools.reader.prompts if "follow each other.\n\nsum 2\nsum 3" in p)
    skills = {s.scene: s for s in skills_of(MemWalker(MemWalkerConfig(reasoning=False)))}
    assert [*skills] == ["summary", "shortened", "triage", "leaf"]
    for kind, texts, wanted in (
        ("shortened", ("sum 2", "sum 3"), parents),
        ("triage", ("", "left half", "right half"), asked[0]),
        ("triage", ("all of it", "sum 2", "sum 3"), asked[1]),
        ("leaf", ("all of it\nright half", SEGMENTS[2]), asked[2]),
    ):
        tools = FakeTools([Rule(reply="x")])
        skills[kind].play(Scene(QUESTION, texts, tools.task), tools)
        assert tools.reader.prompts == [wanted]


CHOICES = [
    ("Action: 2", 3, False, 2),
    ("  Action: 0.  ", 1, False, 0),
    ("Reasoning: x\nAction: 1\n", 2, False, 1),
    ("Action: 1\nAction: 1", 2, False, 1),
    ("Action: 0\nAction: 1", 2, False, None),
    ("Action: 3", 3, False, None),
    ("Action: -1", 3, False, None),
    ("Action: -1", 3, True, BACK),
    ("Action: -2", 3, True, None),
    ("Action: two", 3, False, None),
    ("Action: 1 or 2", 3, False, None),
    ("2", 3, False, None),
    ("I take Action: 2", 3, False, None),
    ("Action: 99999999999999999999", 3, False, None),
    ("Action: \u0662", 3, False, None),
    ("", 3, False, None),
]
VERDICTS = [
    ("Action: -1", Verdict(None)),
    ("Action: -1\nAnswer: none", Verdict(None)),
    ("Action: -2\nAnswer: Kelford", Verdict("Kelford")),
    ("Reasoning: r\nAction: -2\nAnswer: Kelford\nand more", Verdict("Kelford\nand more")),
    ("Action: -2", None),
    ("Action: -2\nAnswer:", None),
    ("Action: -2\nAnswer:  \n ", None),
    ("Answer: Kelford\nAction: -2", None),
    ("Action: 2\nAnswer: Kelford", None),
    ("Action: -1\nAction: -2\nAnswer: Kelford", None),
    ("Kelford", None),
    ("", None),
]


@pytest.mark.parametrize(("reply", "count", "back", "number"), CHOICES)
def test_choices_are_read_strictly(reply, count, back, number):
    assert parse_choice(reply, count, back) == number


@pytest.mark.parametrize(("reply", "found"), VERDICTS)
def test_verdicts_are_read_strictly(reply, found):
    assert parse_verdict(reply) == found
