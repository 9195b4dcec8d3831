"""The rows PECAN is compared with: what is shown, in which order, and what is said when something does not fit."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import WindowExceeded
from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.chunks import fixed_chunks, keep
from methods.retrieval import BM25, SBERT, RetrievalConfig, bm25_scores, words
from methods.window import ClosedBook, FullContext
from tests.methods.conftest import FakeTools

TEXT = "red fox runs | blue fox sleeps | red red fish | green bird sings | blue whale"
QUESTION = Question("q", "Which RED fox?", ("d",))
REPLY = [Rule(reply=" the reply \n")]


def answer(method, tools, text=TEXT, question=QUESTION):
    document = Document("d", text)
    index = {} if method.scope == "none" else method.index(document, tools)
    return method.answer(question, [document], [index], tools)


def shown(found, text=TEXT):
    return [text[s.start : s.end].strip() for s in found.shown]


def test_bm25_shows_the_best_chunks_in_rank_order():
    tools = FakeTools(REPLY)
    found = answer(BM25(RetrievalConfig(chunk_tokens=4, k=2)), tools)
    assert shown(found) == ["red fox runs |", "red red fish |"]
    assert found.text == "the reply"
    assert found.stop_reason == "k"
    prompt = tools.reader.prompts[0]
    assert prompt.index("red fox runs") < prompt.index("red red fish") < prompt.index("Question: Which RED fox?")
    assert prompt.count("Answer the question as concisely as you can.") == 2
    assert prompt.endswith("Answer:")


def test_sbert_ranks_by_the_encoder_and_keeps_embeddings():
    tools = FakeTools(REPLY)
    method = SBERT(RetrievalConfig(chunk_tokens=4, k=1))
    assert set(method.index(Document("d", TEXT), tools)) == {"chunks", "embeddings"}
    assert shown(answer(method, tools, question=Question("q", "where is the whale", ("d",)))) == ["blue whale"]


@pytest.mark.parametrize(
    ("budget", "count", "reason"), [(9, 2, "budget"), (1000, 5, "exhausted"), (3, 0, "budget: not even one chunk fits")]
)
def test_token_budget(budget, count, reason):
    found = answer(BM25(RetrievalConfig(chunk_tokens=4, k=None, budget=budget)), FakeTools(REPLY))
    assert (len(found.shown), found.stop_reason) == (count, reason)


def test_bm25_words_and_degenerate_corpora():
    assert words("The St. Mary's-School, \u00e9t\u00e9_2") == ["the", "st", "mary", "s", "school", "\u00e9t\u00e9", "2"]
    assert bm25_scores(["a"], [[], []]).tolist() == [0, 0]
    assert np.isfinite(bm25_scores(["a", "zz"], [["a"], ["a", "b"]])).all()


def test_bm25_of_two_texts_counts_what_they_have():
    # rank_bm25's idf gives -0.044 to the text with "the" alone and -0.065 to the one with four of the five words.
    asked = words("who wrote the novel Velindra")
    poor = words("On Sunday the baker of Kelford sold bread and cakes to all who came.")[:8]
    rich = words("Toren wrote the novel Velindra in one winter, and the town read it aloud by candle light.")
    for texts in ([poor, rich], [rich, poor]):
        scores = bm25_scores(asked, texts)
        assert int(np.argmax(scores)) == texts.index(rich)
        assert (scores > 0).all()
    # By hand, equal lengths: ln(1 + 1.5 / 1.5) for a word of one text, ln(1 + 0.5 / 2.5) for one of both.
    assert bm25_scores(["a", "b"], [["a", "b"], ["a", "c"]]) == pytest.approx(
        [math.log(2) + math.log(1.2), math.log(1.2)]
    )
    # One text has no rank to lose, and where the official idf works it stays: ln(2.5 / 1.5) for one of three.
    assert bm25_scores(["a"], [["a"]]) == pytest.approx([math.log(4 / 3)])
    assert bm25_scores(["a"], [["a", "d"], ["b", "e"], ["c", "f"]]) == pytest.approx([math.log(2.5 / 1.5), 0, 0])


@pytest.mark.parametrize("method", [FullContext(FullContext.Config()), BM25(RetrievalConfig())])
def test_question_longer_than_the_window(method):
    with pytest.raises(WindowExceeded, match="the question with its prompt and answer takes .* raise model.window"):
        answer(method, FakeTools(REPLY, window=100), question=Question("q", "why " * 100, ("d",)))


def test_closed_book_sees_no_text_and_options_are_lettered():
    tools = FakeTools(REPLY)
    found = answer(ClosedBook(ClosedBook.Config()), tools, question=Question("q", "who?", ("d",), ("Ann", "Bob")))
    assert found.shown == ()
    assert "fox" not in tools.reader.prompts[0]
    assert tools.reader.prompts[0].endswith("Question: who?\nOptions:\n(A) Ann\n(B) Bob\nAnswer:")


@given(st.text(alphabet="ab \n.\u00e9", max_size=80), st.integers(1, 7), st.integers(0, 20))
def test_chunks_tile_and_truncation_keeps_ends(text, size, most):
    model = FakeTools(REPLY).model()
    chunks = fixed_chunks(text, size, model)
    assert "".join(text[a:b] for a, b in chunks) == (text if model.count(text) else "")
    assert all(model.count(text[a:b]) <= size for a, b in chunks)
    spans, tokens = keep(text, most, model)
    assert tokens == model.count(text)
    assert sum(model.count(text[a:b]) for a, b in spans) <= max(most, 0)
    assert (spans == [(0, len(text))]) == (tokens <= most)
