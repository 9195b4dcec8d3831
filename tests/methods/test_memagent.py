"""MemAgent's workflow: a memory that each segment overwrites, and the answer from it alone."""

import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Question, Shown
from methods.memagent import MemAgent
from tests.methods.conftest import FakeTools

TEXT = "Toren wrote Velindra here. He lives in Kelford. Mira sold two boats."
QUESTION = Question("q", "Where lives Toren?", ("d",), ("Kelford", "Rome"))
NEW = "<memory>\nNo previous memory\n</memory>\n\n"
RULES = [
    Rule(when=f"{NEW}<section>\nToren wrote Velindra here.\n</section>", reply=" one\n"),
    Rule(
        when="<memory>\n one\n\n</memory>\n\n<section>\n He lives in Kelford.\n</section>",
        reply="two two",
    ),
    Rule(
        when="<memory>\ntwo two\n</memory>\n\n<section>\n Mira sold two boats.\n</section>",
        reply="three",
    ),
    Rule(when="<memory>\nthree\n</memory>\n\nYour answer:", reply="Kelford"),
    Rule(when=f"{NEW}Your answer:", reply="nobody knows"),
]


def read(text=TEXT, window=8192, **params):
    tools = FakeTools(RULES, window=window)
    method = MemAgent(MemAgent.Config(**{"segment_tokens": 4, "memory_tokens": 6, **params}))
    return method.answer(QUESTION, [Document("d", text)], [{}], tools), tools


def test_the_memory_is_overwritten_and_read_alone():
    answer, tools = read()
    assert (answer.text, answer.stop_reason) == ("Kelford", "3 segments")
    spans = [(0, 26), (26, 47), (47, 68)]
    assert [(s.action, s.node, s.note, (s.shown.start, s.shown.end)) for s in answer.steps] == [
        ("memory", i, memory, spans[i]) for i, memory in enumerate((" one\n", "two two", "three"))
    ]
    assert answer.shown == (
        Shown("generated", "d", text="three", sources=tuple(("d", *s) for s in spans)),
    )
    *updates, final = tools.reader.prompts
    problem = "<problem> \nWhere lives Toren?\nOptions:\n(A) Kelford\n(B) Rome\n</problem>"
    assert all(problem in p for p in tools.reader.prompts)
    assert "Answer the question as concisely as you can." in final
    assert final.endswith("Your answer:\n")
    assert all(update.endswith("Updated memory:\n") for update in updates)
    assert not any("concisely" in p for p in updates)
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], usage["answer"]["requests"]) == (3, 1)


@pytest.mark.parametrize(("cap", "words"), [({}, 20), ({"answer_tokens": None}, 8)])
def test_an_answer_is_as_long_as_the_authors_allow_or_the_data_set(cap, words):
    tools = FakeTools([Rule(reply=" ".join(["word"] * 20))])
    answer = MemAgent(MemAgent.Config(**cap)).answer(QUESTION, [Document("d", "")], [{}], tools)
    assert len(answer.text.split()) == words


def test_white_space_at_the_ends_of_a_text_is_in_no_segment():
    answer, _ = read(f"\n\n {TEXT}\n ")
    spans = [(step.shown.start, step.shown.end) for step in answer.steps]
    assert spans == [(3, 29), (29, 50), (50, 71)]


def test_without_a_text_there_is_no_memory():
    answer, _ = read("")
    assert (answer.text, answer.shown, answer.steps) == ("nobody knows", (), ())
