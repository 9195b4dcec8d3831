"""IRCoT: paragraphs found by the sentences of a reasoning, worked by hand on a model that replays a
table."""

import contextlib

import pytest

from harness.errors import WindowExceeded
from harness.llm.scripted import Rule
from harness.types import Document, Passage, Question
from methods.ircot import IRCoT, next_query
from tests.methods.conftest import FakeTools, answered

PARAGRAPHS = [
    "Velindra\nThe novel of the winter, written by Toren.",
    "Toren\nToren lives in Kelford.",
    "Mira\nShe sold two green boats.",
    "Kelford\nThe town by the Une.",
]
TEXT = "\n\n".join(PARAGRAPHS)
STARTS = [TEXT.index(p) for p in PARAGRAPHS]
SPANS = [(a, a + len(p)) for a, p in zip(STARTS, PARAGRAPHS, strict=True)]
DOCUMENT = Document(
    "d", TEXT, passages=tuple(Passage(TEXT[a:b].partition("\n")[0], a, b) for a, b in SPANS)
)
QUESTION = Question("q", "Who knows which river the author of the novel Velindra saw?", ("d",))


def reasoned(*sentences, question=QUESTION, window=8192, **params):
    rules = [Rule(when="Next sentence:", reply=sentence, once=True) for sentence in sentences]
    tools = FakeTools([*rules, Rule(when="Answer:", reply="the Une")], window=window)
    method = IRCoT(IRCoT.Config(**{"k": 1, "sentence_tokens": 20, **params}))
    return answered(method, tools, DOCUMENT, question)[0], tools


def test_each_sentence_retrieves_the_next_paragraph():
    answer, tools = reasoned(
        "Toren lives in a town. He is old.", "The town is Kelford.", "So the answer is: the Une."
    )
    assert (answer.text, answer.stop_reason) == ("the Une", "3 sentences")
    assert [(s.action, s.node, s.note) for s in answer.steps] == [
        ("retrieve", 0, "knows river the author of the novel Velindra saw?"),
        ("reason", None, "Toren lives in a town."),
        ("retrieve", 1, "Toren lives in a town."),
        ("reason", None, "The town is Kelford."),
        ("retrieve", 2, "The town Kelford."),
        ("reason", None, "So the answer is: the Une."),
    ]
    second = tools.reader.prompts[1]
    assert f"Passages:\n{PARAGRAPHS[0]}\n\n{PARAGRAPHS[1]}\n\nThe passages end here." in second
    assert "Reasoning so far: Toren lives in a town.\n" in second
    assert "Reasoning so far: (none)\n" in tools.reader.prompts[0]
    read = "\n\n".join(PARAGRAPHS[i] for i in (0, 1, 3))
    assert f"Text:\n{read}\n\nThe text ends here." in tools.reader.prompts[-1]
    assert [(s.start, s.end) for s in answer.shown] == [SPANS[i] for i in (0, 1, 3)]
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], usage["answer"]["requests"]) == (3, 1)


@pytest.mark.parametrize(
    ("sentences", "text"),
    [
        (["So the answer is: the Une."], "the Une"),
        (["It is by Toren.", "The ANSWER is the Une"], "the Une"),
        (['So the answer is: "The Une"'], '"The Une"'),
        (["So the answer is: $5 million."], "$5 million"),
        (["So the answer is: (B)"], "(B)"),
        (["So the answer is: -3."], "-3"),
        (["So the answer is: **Une**"], "**Une**"),
        (["It is by Toren.", ""], "It is by Toren."),
        (["It is by J. R. Toren of St. Une. More.", ""], "It is by J. R. Toren of St. Une."),
        (["Nobody knows what the answer is.", ""], "Nobody knows what the answer is."),
    ],
)
def test_the_answer_of_the_reasoning(sentences, text):
    answer, tools = reasoned(*sentences, answer_from="reasoning")
    assert answer.text == text
    assert len(tools.reader.prompts) == len(sentences)


@pytest.mark.parametrize(
    ("params", "asked", "found"),
    [
        ({"max_sentences": 2}, 2, 2),
        ({"most": 1, "max_sentences": 3}, 3, 1),
        ({"k": 3, "most": 2, "max_sentences": 1}, 1, 2),
    ],
)
def test_limits(params, asked, found):
    answer, tools = reasoned(*["The town is Kelford."] * 9, **params)
    assert answer.stop_reason == f"{asked} sentences, none gives an answer"
    assert len(tools.reader.prompts) == asked + 1
    assert len(answer.shown) == found


@pytest.mark.parametrize(
    ("reasoning", "query"),
    [
        ([], "knows river the author of the novel Velindra saw?"),
        (["It is by Toren."], "It by Toren."),
        (["It is by Toren.", "Thus, he knows."], "It by Toren."),
        (
            ["So it goes.", "Therefore yes.", "That makes 12 + 3 = 15."],
            "knows river the author of the novel Velindra saw?",
        ),
        (["Sources name Kelford."], "Sources name Kelford."),
    ],
)
def test_queries(reasoning, query):
    assert next_query(QUESTION.text, reasoning) == query


def test_paragraphs_that_do_not_fit_are_left_out_of_a_request_and_told():
    seen = []
    for window in range(90, 160):
        with contextlib.suppress(WindowExceeded):
            answer, _ = reasoned("So the answer is: x.", k=3, window=window)
            seen.append(answer.steps[-1].note.partition("(")[2])
    assert list(dict.fromkeys(seen)) == [*(f"{n} of 2 paragraphs fit)" for n in range(2)), ""]
    with pytest.raises(WindowExceeded, match="more than the window of 60"):
        reasoned("x", window=60)
