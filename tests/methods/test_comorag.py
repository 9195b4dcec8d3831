"""ComoRAG: probes until the question can be answered, notes, findings, what each round reads."""

import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Passage, Question
from methods.comorag import ComoRAG, final_answer, passages_per_episode, probes_in
from tests.methods.conftest import FakeTools, WordEncoder

PARAGRAPHS = ["The novel Velindra is by Toren.", "Toren lives in Kelford.", "Mira sold boats."]
TEXT = "\n\n".join(PARAGRAPHS)
STARTS = [TEXT.index(p) for p in PARAGRAPHS]
PASSAGES = tuple(Passage("", a, a + len(p)) for a, p in zip(STARTS, PARAGRAPHS, strict=True))
DOCUMENT = Document("d", TEXT, passages=PASSAGES)
QUESTION = Question("q", "Where lives the author of Velindra?", ("d",))
BUILD = [
    Rule(when="Extract the named entities", reply='["Toren"]'),
    Rule(when="Turn the text below into triples", reply="[]"),
    Rule(when="Summarise the text below in the order", reply="Velindra was written first."),
]
READ = [
    Rule(when="Below is what a search found", reply="Key finding: a note"),
    Rule(when="Join the notes below", reply="Toren lives in Kelford."),
    Rule(when="could not be answered", reply='{"probe_1": "Who sold boats?"}'),
    Rule(when="Finding : Toren lives", reply="Kelford it is.\n### Final Answer: Kelford"),
    Rule(when="Answer a question", reply="- nothing\n### Final Answer\n*"),
]


def asked(replies=READ, **params):
    encoder = WordEncoder()
    method = ComoRAG(ComoRAG.Config(**{"reduction": "pca", "k": 2, **params}))
    builder = FakeTools(BUILD, similarity=encoder)
    index = method.index(DOCUMENT, builder)
    tools = FakeTools(replies, similarity=encoder)
    return method.answer(QUESTION, [DOCUMENT], [index], tools), index, tools


def tries(tools):
    return [prompt for prompt in tools.reader.prompts if "Answer a question" in prompt]


def test_the_index_has_passages_and_summaries_of_passages_in_a_row():
    _, index, _ = asked()
    assert [TEXT[start:end].strip() for start, end in index["passages"]] == PARAGRAPHS
    (first, second) = index["episodes"]
    assert first == ("Velindra was written first.", index["passages"][:2])
    assert second == ("Mira sold boats.", index["passages"][2:])
    assert index["summaries"] == []  # three passages are no clusters


def test_a_question_that_is_answered_at_once_reads_passages_and_summaries():
    answer, _, tools = asked([READ[0], Rule(reply="### Final Answer: Kelford")], k=1)
    assert (answer.text, answer.stop_reason) == ("Kelford", "0 rounds of probes, 3 nodes")
    (prompt,) = tries(tools)
    assert (
        "### Detail Chunks\nThe novel Velindra is by Toren.\n\n### Semantic Summary\n\n\n"
        "### Timeline Summary\nVelindra was written first.\n\nQuestion:" in prompt
    )
    assert [shown.kind for shown in answer.shown] == ["span", "generated"]
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], usage["answer"]["requests"]) == (2, 1)


def test_passages_are_read_in_the_order_of_the_text():
    method = ComoRAG(ComoRAG.Config(reduction="pca"))
    encoder = WordEncoder()
    index = method.index(DOCUMENT, FakeTools(BUILD, similarity=encoder))
    tools = FakeTools([READ[0], Rule(reply="### Final Answer: Mira")], similarity=encoder)
    question = Question("q", "Who sold boats. by Mira", ("d",))  # nearest to the last passage
    method.answer(question, [DOCUMENT], [index], tools)
    assert "### Detail Chunks\n" + "\n".join(PARAGRAPHS) in tries(tools)[0]


def test_probes_look_for_what_is_missing_and_notes_are_joined():
    answer, _, tools = asked()
    assert (answer.text, answer.stop_reason) == ("Kelford", "1 rounds of probes, 7 nodes")
    first, second = tries(tools)
    assert "Historical" not in first
    assert (
        "### Historical Information\nprobe : Where lives the author of Velindra?\n"
        "Finding : Toren lives in Kelford." in second
    )
    assert "### Detail Chunks\nKey finding: a note\n" in second
    # The probe finds what the question has not: Mira's passage is left.
    notes = [prompt for prompt in tools.reader.prompts if "Below is what a search found" in prompt]
    assert "Found:\nMira sold boats.\n" in notes[-1]
    assert "Question: Where lives the author of Velindra? Who sold boats?" in notes[-1]
    (probing,) = [prompt for prompt in tools.reader.prompts if "could not be answered" in prompt]
    assert "Earlier queries:\nWhere lives the author of Velindra?" in probing
    assert [step.action for step in answer.steps if step.action in ("try", "probes")] == [
        "try", "probes", "try",
    ]  # fmt: skip


def test_a_question_that_is_not_answered_ends_after_the_last_round():
    answer, _, tools = asked([*READ[:3], READ[4]], rounds=2)
    assert (answer.text, len(tries(tools))) == ("*", 3)
    assert answer.stop_reason.endswith("not answered")


def test_what_does_not_fit_the_window_is_cut_from_its_end():
    answer, _, tools = asked(rounds=0, answer_tokens=8112)
    assert "### Detail Chunks" in tries(tools)[0]
    assert "### Timeline Summary" not in tries(tools)[0]
    assert answer.text == "*"


@pytest.mark.parametrize(
    ("passages", "size"), [(5, 2), (6, 3), (50, 5), (200, 10), (300, 16), (5000, 20)]
)
def test_how_many_passages_a_summary_is_about(passages, size):
    assert passages_per_episode(passages) == size


@pytest.mark.parametrize(
    ("reply", "answer"),
    [("### Final Answer: Rome", "Rome"), ("x\n### Final Answer\n*", "*"), ("Rome", "Rome")],
)
def test_the_final_answer_is_read(reply, answer):
    assert final_answer(reply) == answer


def test_probes_are_read_from_objects_and_lists():
    assert probes_in('{"probe_1": "a", "probe_2": " ", "probe_3": "b"}') == ["a", "b"]
    assert probes_in('["a", "b", "c", "d"]') == ["a", "b", "c"]
    assert probes_in("none") is None
