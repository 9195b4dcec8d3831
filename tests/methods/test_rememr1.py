"""ReMemR1's workflow: a memory that each segment overwrites, and queries that recall earlier
ones."""

import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Question, Shown
from methods.rememr1 import NOT_RECALLED, ReMemR1, nearest_memory
from tests.methods.conftest import FakeTools

TEXT = "Toren wrote Velindra here. He lives in Kelford. Mira sold two boats."
SPANS = [(0, 26), (26, 47), (47, 68)]
QUESTION = Question("q", "Where lives Toren?", ("d",), ("Kelford", "Rome"))
BOXES = "<recalled_memory>\n{}\n</recalled_memory>\n\n<memory>\n{}\n</memory>\n\n"
FIRST = "<update>Toren wrote Velindra</update>"
SECOND = "<update>lives in Kelford</update>"
RULES = [
    Rule(
        when=BOXES.format(NOT_RECALLED, "No previous memory") + "<section>\nToren wrote",
        reply=f"\n{FIRST}\n",
    ),
    Rule(
        when=BOXES.format(NOT_RECALLED, FIRST) + "<section>\n He lives",
        reply=f"{SECOND} <recall>who wrote velindra</recall>",
    ),
    Rule(
        when=BOXES.format(FIRST, SECOND) + "<section>\n Mira sold",
        reply="three <recall>who wrote velindra</recall>",
    ),
    Rule(when=BOXES.format(FIRST, "three") + "Your answer:", reply="Kelford"),
    Rule(when=BOXES.format(NOT_RECALLED, "No previous memory") + "Your answer:", reply="nobody"),
]


def read(text=TEXT, **params):
    tools = FakeTools(RULES)
    method = ReMemR1(ReMemR1.Config(**{"segment_tokens": 4, "memory_tokens": 9, **params}))
    return method.answer(QUESTION, [Document("d", text)], [{}], tools), tools


def test_the_memory_is_overwritten_and_earlier_ones_are_recalled():
    answer, tools = read()
    assert (answer.text, answer.stop_reason) == ("Kelford", "3 segments, 2 recalls")
    assert [(s.action, s.node, s.note) for s in answer.steps] == [
        ("memory", 0, FIRST),
        ("memory", 1, SECOND),
        ("recall", 1, f"who wrote velindra -> {FIRST}"),
        ("memory", 2, "three"),
        ("recall", 2, f"who wrote velindra -> {FIRST}"),
    ]
    sources = tuple(("d", *span) for span in SPANS)
    assert answer.shown == (
        Shown("generated", "d", text="three", sources=sources),
        Shown("generated", "d", text=FIRST, sources=sources),
    )
    *updates, final = tools.reader.prompts
    problem = "<problem> \nWhere lives Toren?\nOptions:\n(A) Kelford\n(B) Rome\n</problem>"
    assert all(problem in prompt for prompt in tools.reader.prompts)
    assert all(update.endswith("Updated memory:\n") for update in updates)
    assert "Answer the question as concisely as you can." in final
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], usage["answer"]["requests"]) == (3, 1)


@pytest.mark.parametrize(
    ("query", "memories", "found"),
    [
        ("Velindra", ["Toren wrote velindra", "Mira sold boats"], "Toren wrote velindra"),
        ("the boats", ["the the mill", "boats"], "boats"),  # a rare word counts more
        ("unknown", ["one", "two"], "two"),  # all alike: the newest
        ("unknown", [""], NOT_RECALLED),
    ],
)
def test_the_nearest_memory_is_recalled(query, memories, found):
    assert nearest_memory(query, memories, FakeTools().model()) == found


def test_without_a_text_there_is_no_memory():
    answer, _ = read("")
    assert (answer.text, answer.shown, answer.steps) == ("nobody", (), ())
