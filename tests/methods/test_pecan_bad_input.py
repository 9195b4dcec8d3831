"""Documents, questions, summaries and windows that are not as they should be: each has one clear
outcome."""

import time

import pytest

from harness.errors import QuestionError, WindowExceeded
from harness.llm.scripted import Rule, Script, ScriptedModel
from harness.types import Document, Question
from methods.pecan import Pecan
from methods.pecan.build import build_graph
from methods.pecan.config import PecanConfig
from tests.methods.conftest import FakeTools
from tests.methods.pecan_search import SUMMARY, attention, probes, run


def fed(text, reply="* it", **params):
    tools = FakeTools(
        [Rule(when="Summary", reply=reply), Rule(reply="x")], probes(), lambda row, column: 0.1
    )
    return run([], tools, text, **params)


@pytest.mark.parametrize("text", ["", " \n\t \n ", "\u00a0"])
def test_a_document_without_text_is_searched_in_vain_and_says_so(text):
    answer, graph, tools = fed(text)
    (step,) = answer.steps
    assert (step.action, step.node) == ("start", None)
    assert step.note == "the document has no text, so there is nothing to search"
    # The model is still asked, and answers from the question alone.
    assert (step.p_yes, answer.stop_reason, answer.text, answer.shown) == (
        0.0,
        "exhausted",
        "x",
        (),
    )
    assert not any(graph.text)
    assert {e.role for e in tools.meter.events} == {"searcher"}  # nothing was built


def test_an_empty_document_as_a_tree_and_without_probes():
    assert fed("", graph="tree")[0].stop_reason == "exhausted"
    answer, _, _ = fed("", progress_control=False, max_nodes=3)
    assert ([s.node for s in answer.steps], answer.stop_reason) == ([None], "exhausted")


def test_a_document_shorter_than_one_chunk_has_a_chunk_and_its_points():
    answer, graph, _ = fed("tiny text", "* one\n* two")
    assert (graph.text, graph.level) == (["tiny text", "one", "two"], [1, 2, 2])
    assert [(s.node, s.level) for s in answer.steps] == [(1, 2), (2, 2), (0, 1)]
    assert graph.edges == [(1, 0, 1.0), (2, 0, 1.0)]  # one chunk: all of the weight


@pytest.mark.parametrize("question", ["", "  ", "\n"])
def test_an_empty_question_fails(question):
    tools = FakeTools([SUMMARY, Rule(reply="x")], probes(), attention)
    method, document = (
        Pecan(PecanConfig(chunk_tokens=3, reserve=20, min_ip_levels=1)),
        Document("d", "aa ab ac"),
    )
    index = method.index(document, tools)
    with pytest.raises(
        QuestionError, match="the question 'q7' has no text, so there is nothing to search for"
    ):
        method.answer(Question("q7", question, ("d",)), [document], [index], tools)


@pytest.mark.parametrize(
    ("reply", "reserve", "points", "note"),
    [
        ("first line\nsecond line", 20, ["first line", "second line"], "1 of 1 summaries had no bullet: its lines were taken"),
        ("One. Two!", 20, ["One.", "Two!"], "1 of 1 summaries had no bullet: its lines were taken"),
        ("* one two\n* three four", 4, ["one two"], "1 of 1 summaries were cut at 4 tokens"),
        ("* one two three", 2, ["one"], "1 of 1 summaries were cut at 2 tokens"),  # the only point is kept as it is
        ("* one two\n* three four", 20, ["one two", "three four"], ""),
        ("* one\n* two\n* One\n* two", 20, ["one", "two"], "2 points that a call had written before were dropped"),
    ],
)  # fmt: skip
def test_a_summary_that_is_not_as_asked_is_told_in_the_first_steps(reply, reserve, points, note):
    answer, graph, _ = fed("aa ab ac ba bb bc", reply, reserve=reserve, repeated_points="drop")
    assert [t for t, level in zip(graph.text, graph.level, strict=True) if level == 2] == points
    notes = [s.note for s in answer.steps]
    # It stands at the last node of the start, beside what the start itself has to say.
    assert notes[len(points) - 1] == (f"level 2: {note}" if note else "")
    assert "".join(notes) == notes[len(points) - 1]


def test_of_a_repeated_point_the_first_copy_and_its_weights_are_kept():
    # The copy, told apart by its capital, attends to the two chunks otherwise than the first.
    def attend(row, column):
        return 0.3 if (row == "* One") == column.strip().startswith("aa") else 0.1

    rules = [Rule(when="Summary", reply="* one\n* two\n* One"), Rule(reply="x")]
    tops = []
    for kept in ("drop", "keep"):
        _, graph, _ = run(
            [], FakeTools(rules, probes(), attend), "aa ab ac ba bb bc", repeated_points=kept
        )
        tops.append(
            [
                (graph.text[i], [part.tolist() for part in graph.edges_below(i)])
                for i in graph.highest_nodes()
            ]
        )
    drop, keep = tops
    assert [text for text, _ in keep] == ["one", "two", "One"]
    assert keep[0][1] != keep[2][1]
    assert drop == keep[:2]


@pytest.mark.parametrize(
    ("graph", "said"), [("points", "no room to write"), ("tree", "no room for a summary")]
)
def test_a_node_that_fills_the_builders_window_is_refused_with_numbers(graph, said):
    # One chunk, longer than what a call has room for: it gets a call of its own, and as it grows by
    # a token at a time, first less is written, then nothing can be, then not even the chunk fits.
    outcomes = []
    for n in range(40, 170):
        builder = ScriptedModel(Script(replies=[Rule(reply="* a b c d e")], window=160), "builder")
        tools = FakeTools([Rule(reply="x")], probes(), builder=builder)
        try:
            run([], tools, "w " * n, chunk_tokens=200, reserve=5, graph=graph)
        except QuestionError as error:
            outcomes.append(str(error))
        else:
            outcomes.append("built")
    kinds = ("built", "wrote no summary", said, "do not fit the window of 160")
    seen = [next(kind for kind in kinds if kind in outcome) for outcome in outcomes]
    assert seen == sorted(seen, key=kinds.index)
    assert {"built", said, kinds[-1]} <= set(seen)
    assert all("of 160" in outcome for outcome in outcomes if said in outcome)


def searched(window, **params):
    builder = ScriptedModel(Script(replies=[SUMMARY]), "builder", attention)
    searcher = ScriptedModel(
        Script(replies=[Rule(reply="x")], probes=probes(), window=window), "searcher", attention
    )
    return run([], FakeTools(builder=builder, searcher=searcher), **params)[0]


def test_a_searcher_whose_window_does_not_hold_the_top_level_starts_with_what_is_nearest():
    whole = searched(8192)
    assert [s.action for s in whole.steps][:3] == ["start", "start", "visit"]
    # Windows from too small to large enough: nothing but the question, one point, both points.
    outcomes = []
    for window in range(20, 90):
        try:
            answer = searched(window)
        except WindowExceeded as error:
            outcomes.append("window" in str(error))
        else:
            starts = tuple(s.node for s in answer.steps if s.action == "start")
            outcomes.append((starts, answer.steps[len(starts) - 1].note))
    assert list(dict.fromkeys(outcomes)) == [
        True,
        ((None,), "2 top nodes left out"),
        ((4,), "1 top nodes left out"),  # both are equally far from the question: the first one
        ((4, 5), ""),
    ]


def test_a_window_that_does_not_hold_the_question_says_how_much_it_takes():
    with pytest.raises(
        WindowExceeded, match=r"takes \d+ tokens, more than the searcher's window of 50; raise"
    ):
        # The model's own window is larger: the one that is configured holds, too.
        document, tools = Document("d", ""), FakeTools([Rule(reply="x")], probes(), attention)
        index = Pecan(PecanConfig()).index(document, tools)
        Pecan(PecanConfig(window=50)).answer(
            Question("q", "who " * 20, ("d",)), [document], [index], tools
        )


class Anew(FakeTools):
    """Tools that keep no parts, so that identical calls are made again."""

    def keep(self, key, fn):
        return fn()


def building(chunks):
    tools = Anew(
        [Rule(when="Summary", reply="* one\n* two"), Rule(reply="x")],
        probes(),
        lambda row, column: 0.5,
    )
    config = PecanConfig(chunk_tokens=3, batch_nodes=20, reserve=20, min_ip_levels=1, max_nodes=60)
    document = Document("d", " ".join(["so it goes"] * chunks))
    began = time.process_time()
    graph = build_graph(document, config, tools)
    return time.process_time() - began, graph, document, config, tools


def test_ten_thousand_identical_chunks_take_time_in_proportion():
    few = building(2500)[0]
    many, graph, document, config, tools = building(10_000)
    assert graph.level.count(1) == 10_000
    assert graph.level.count(2) == 2 * 500
    # Four times the chunks: four times the time, where comparing all with all would take sixteen.
    assert many < 8 * few + 0.5
    index = {**graph.to_index(), "embeddings": tools.encoder().encode(graph.text, "passage")}
    began = time.process_time()
    answer = Pecan(config).answer(Question("q", "who zz", ("d",)), [document], [index], tools)
    assert time.process_time() - began < 10
    assert answer.stop_reason == "max-nodes"
    assert len(answer.steps) == 60
