"""A-RAG's conversation: what each tool returns, what ends it and what was seen, worked by hand on
scripted replies."""

import json

import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.search_agent import SearchAgent, _DocumentTools, _ToolCall
from tests.methods.conftest import FakeTools, answered

TEXT = "Velindra is by Toren. Toren lives in Kelford. Mira sold boats. Oh!"
DOCUMENT, QUESTION = (
    Document("d", TEXT),
    Question("q", "Where lives the author of Velindra?", ("d",)),
)
SEARCH, READ = (
    {"tool": "keyword_search", "keywords": ["Toren"]},
    {"tool": "read_chunk", "chunks": [0, "1"]},
)
SNIPPETS = "Chunk 0: ... Velindra is by Toren ...\n\nChunk 1: ... Toren lives in Kelford ..."
WHOLE = "[Chunk 0]\nVelindra is by Toren.\n\n[Chunk 1]\nToren lives in Kelford."


def asked(*replies, document=DOCUMENT, window=8192, **params):
    tools = FakeTools(
        [Rule(reply=r if isinstance(r, str) else json.dumps(r), once=True) for r in replies],
        window=window,
    )
    config = {"segment_tokens": 4, "reply_tokens": 20, **params}
    answer, index = answered(SearchAgent(SearchAgent.Config(**config)), tools, document, QUESTION)
    return answer, tools, index


def test_the_model_searches_reads_and_answers_in_one_conversation():
    answer, tools, _ = asked(SEARCH, READ, "So it is there.\nAnswer: Kelford")
    prompt = tools.reader.prompts[-1]
    assert (
        prompt.index(SNIPPETS)
        < prompt.index('"read_chunk", "chunks": [0, "1"]')
        < prompt.index(WHOLE)
    )
    assert (answer.text, answer.stop_reason) == ("Kelford", "answered in reply 3")
    assert [TEXT[s.start : s.end] for s in answer.shown] == [
        "Velindra is by Toren.",
        "Toren lives in Kelford.",
    ]
    assert [(step.action, step.tokens) for step in answer.steps] == [
        ("keyword_search", 16),
        ("read_chunk", 12),
    ]
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], "answer" in usage and usage["answer"]["requests"]) == (
        3,
        0,
    )


def test_the_index_has_the_vectors_of_sentences_of_more_than_ten_characters():
    _, _, index = asked("Kelford")
    assert [TEXT[a:b] for a, b in index["chunks"]] == [
        "Velindra is by Toren.", "Toren lives in Kelford.", "Mira sold boats. Oh!",
    ]  # fmt: skip
    assert [(i, TEXT[a:b]) for i, a, b in json.loads(json.dumps(index["sentences"]))] == [
        (0, "Velindra is by Toren"), (1, "Toren lives in Kelford"), (2, "Mira sold boats"),
    ]  # fmt: skip
    assert index["vectors"].shape == (3, 1)


@pytest.mark.parametrize(
    ("call", "result"),
    [
        # Longer keywords count more, and each occurrence.
        ({"tool": "keyword_search", "keywords": ["by", "KELFORD"]}, "Chunk 1: ... Toren lives in Kelford ...\n\nChunk 0: ... Velindra is by Toren ..."),
        ({"tool": "keyword_search", "keywords": ["by", "kelford"], "top": 1}, "Chunk 1: ... Toren lives in Kelford ..."),
        ({"tool": "keyword_search", "keywords": "o"}, "Chunk 2: ... Mira sold boats ... Oh ...\n\nChunk 1: ... Toren lives in Kelford ...\n\nChunk 0: ... Velindra is by Toren ..."),
        ({"tool": "keyword_search", "keywords": ["nowhere"]}, "Nothing is found."),
        ({"tool": "keyword_search"}, "Error: there is no such tool, or what it needs is missing."),
        ({"tool": "semantic_search", "query": "who lives in kelford", "top": 1}, "Chunk 1: ... Toren lives in Kelford ..."),
        ({"tool": "read_chunk", "chunks": [1, 1, 7, "x"]}, "[Chunk 1]\nToren lives in Kelford.\n\n[Chunk 1] You have read it before.\n\n[Chunk 7] There is none.\n\n[Chunk x] There is none."),
        ({"tool": "read_chunk", "chunks": 2}, "[Chunk 2]\nMira sold boats. Oh!"),
        ({"tool": "browse", "query": "x"}, "Error: there is no such tool, or what it needs is missing."),
    ],
)  # fmt: skip
def test_what_a_tool_returns(call, result):
    tools, config = FakeTools(), SearchAgent.Config(segment_tokens=4)
    calls = _DocumentTools(DOCUMENT, SearchAgent(config).index(DOCUMENT, tools), config, tools)
    assert calls.run(_ToolCall.parse(call)) == result


def test_a_search_takes_three_sentences_a_chunk_and_twenty_chunks_at_most():
    text = "Ann lives here now. Bob was there then. Ann lives here in May."
    tools, config = FakeTools(), SearchAgent.Config(segment_tokens=20)
    document = Document("d", text)
    calls = _DocumentTools(document, SearchAgent(config).index(document, tools), config, tools)
    by_meaning = {"tool": "semantic_search", "query": "ann lives here in may", "top": 1}
    found = calls.run(_ToolCall.parse(by_meaning))
    assert (
        found
        == "Chunk 0: ... Ann lives here now ... Bob was there then ... Ann lives here in May ..."
    )
    document, config = Document("d", "Ann came. " * 30), SearchAgent.Config(segment_tokens=2)
    calls = _DocumentTools(document, SearchAgent(config).index(document, tools), config, tools)
    by_keyword = {"tool": "keyword_search", "keywords": ["ann"], "top": 25}
    assert calls.run(_ToolCall.parse(by_keyword)).count("Chunk") == 20


@pytest.mark.parametrize(
    ("limits", "reason", "shown"),
    [
        ({"max_loops": 1}, "max_loops", True),
        ({"budget": 100}, "budget", True),
        ({"window": 240}, "window", False),
    ],
)
def test_at_a_limit_the_model_is_told_to_answer(limits, reason, shown):
    answer, tools, _ = asked(SEARCH, "Answer: Kelford", **limits)
    assert (answer.text, answer.stop_reason) == ("Kelford", f"told to answer: {reason}")
    assert "This was the last tool call. Answer now" in tools.reader.prompts[-1]
    assert (SNIPPETS in tools.reader.prompts[-1]) == shown


@pytest.mark.parametrize(
    ("reply", "text"),
    [("Answer: Kelford", "Kelford"), ("It is there.\n**Answer:** Kelford.", "Kelford."), ("answer:\n(B)", "(B)"),
     ("The answer is Kelford", "The answer is Kelford")],
)  # fmt: skip
def test_the_answer_stands_behind_its_label_or_is_the_reply(reply, text):
    assert asked(reply)[0].text == text


@pytest.mark.parametrize(
    ("replies", "counted"),
    [(["Kelford"], {"unsearched": 1}), ([""], {"empty": 1}), ([SEARCH, "Kelford"], None)],
)
def test_an_answer_without_a_tool_call_is_counted(replies, counted):
    assert asked(*replies)[1].meter.usage()["search"].get("replies") == counted


def test_several_tools_may_be_called_in_one_reply():
    answer, tools, _ = asked(
        f"First {json.dumps(SEARCH)} then {json.dumps(READ)}", "I say Kelford."
    )
    assert f"{SNIPPETS}\n\n{WHOLE}" in tools.reader.prompts[-1]
    assert (answer.text, len(answer.steps)) == ("I say Kelford.", 2)


def test_sentences_seen_in_a_search_are_shown_beside_the_chunks_that_were_read():
    answer, _, _ = asked(SEARCH, {"tool": "read_chunk", "chunks": [0]}, "Answer: Kelford")
    assert [TEXT[s.start : s.end] for s in answer.shown] == [
        "Velindra is by Toren.",
        "Toren lives in Kelford",
    ]


@pytest.mark.parametrize("text", ["", "Oh!"])
def test_a_text_without_sentences_can_be_searched(text):
    call = {"tool": "semantic_search", "query": "Toren"}
    answer, tools, _ = asked(call, "Answer: none", document=Document("d", text))
    assert "Nothing is found." in tools.reader.prompts[-1]
    assert answer.text == "none"
