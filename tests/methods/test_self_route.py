"""Self-Route: an answer from the nearest chunks, or a refusal and the whole document."""

from harness.llm.scripted import Rule
from harness.method import Task
from harness.types import Document, Question, Shown
from methods.self_route import SelfRoute
from tests.methods.conftest import FakeTools, answered

TEXT = (
    "red fox runs | blue fox sleeps | green bird sings | blue whale swims"  # chunks of four words
)
QUESTION = Question("q", "Where is the whale that swims?", ("d",))
DECLINE = "write “unanswerable”."


def routed(*replies, task=None, text=TEXT, **params):
    tools = FakeTools([Rule(reply=reply, once=True) for reply in replies])
    tools.task = task or tools.task
    method = SelfRoute(SelfRoute.Config(**{"chunk_words": 4, "k": 2, **params}))
    return answered(method, tools, Document("d", text), QUESTION)[0], tools


def test_an_answer_from_the_chunks_is_accepted():
    answer, tools = routed("in the sea")
    assert (answer.text, answer.stop_reason) == ("in the sea", "answered from the chunks")
    (prompt,) = tools.reader.prompts
    assert "Text:\n[4] blue whale swims\n\n[1] red fox runs |\n\nThe text ends" in prompt
    assert prompt.count(DECLINE) == 2, "it stands where the instruction does"
    assert answer.shown == (Shown("span", "d", 52, 68), Shown("span", "d", 0, 14))
    assert [(s.action, s.tokens, s.note) for s in answer.steps] == [("accept", 7, "k: in the sea")]
    assert set(tools.meter.usage()) == {"search"}


def test_a_refusal_leads_to_the_whole_document_and_both_requests_are_booked():
    answer, tools = routed("Unanswerable, I fear", "in the sea")
    assert (answer.text, answer.stop_reason) == ("in the sea", "whole")
    assert answer.shown == (Shown("span", "d", 0, len(TEXT)),)
    first, second = tools.reader.prompts
    assert DECLINE in first
    assert DECLINE not in second
    assert f"Text:\n{TEXT}\n" in second
    assert [(s.action, s.note) for s in answer.steps] == [("decline", "k: Unanswerable, I fear")]
    usage = tools.meter.usage()
    assert [usage[phase]["requests"] for phase in ("search", "answer")] == [1, 1]
    assert answer.steps[0].flops == usage["search"]["flops"]


def test_a_document_above_the_window_loses_its_middle():
    answer, _ = routed("unanswerable", "x", text=TEXT + " | more" * 40, window=80)
    assert (answer.stop_reason, answer.truncated["side"]) == ("truncated", "middle")


def test_an_instruction_that_has_a_refusal_stays_as_it_is():
    task = Task(instruction="Answer, or say 'unanswerable'.", max_answer_tokens=8)
    assert DECLINE not in routed("x", task=task)[1].reader.prompts[0]
