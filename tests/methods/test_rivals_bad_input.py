"""Texts that no row may stumble over, through every row of the table's rivals: what is shown is of
the text, in time."""

import json
import re
import time

import numpy as np
import pytest

from harness.llm import scripted
from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.compression import LLMLingua, LongLLMLingua, SelectiveContext
from methods.long_context import FullContext, SlidingWindow
from methods.memwalker import MemWalker
from methods.raptor import Raptor
from methods.retrieval import BM25, Dense, RandomChunks, Reranked
from tests.methods.conftest import FakeTools, answered
from tests.methods.raptor_tree import Vectors
from tests.methods.table_model import Table
from tests.methods.test_retrieval_rows import ByLength

CHINESE = (
    "\u6821\u957f\u662f\u8c01\uff1f\u5b66\u6821\u5f88\u5927\u3002\u6cb3\u5f88\u957f\uff0c\u5c71\u5f88\u9ad8\u3002"
    * 30
)
ENDLESS = "word7 " * 10_000  # without a full stop
GLUED = "x" * 60_000
SIX = {"chunks": "sentences", "chunk_sentences": 6, "k": None, "budget": 60}


# As real tokenizers cut them: a Chinese character is a token, and a long word is several.
PIECES = re.compile(r"\s*(?:[\u3000-\u9fff\uff00-\uffef]|[^\s\u3000-\u9fff\uff00-\uffef]{1,6})|\s+")


@pytest.fixture(autouse=True)
def _pieces(monkeypatch):
    monkeypatch.setattr(scripted, "_TOKEN", PIECES)


def chunked(kind, **more):
    return kind(kind.Config(**{"chunk_tokens": 50, "k": 3, **more}))


ROWS = {
    "bm25": chunked(BM25),
    "bm25-packed": chunked(BM25, chunks="packed"),
    "bm25-six-sentences": chunked(BM25, **SIX),
    "sbert": chunked(Dense),
    "recomp": chunked(Dense, chunks="sentences", chunk_sentences=1, order="document"),
    "bge-reranker": chunked(Reranked),
    "random": chunked(RandomChunks),
    "raptor-ct": Raptor(Raptor.Config(reduction="pca", components=3)),
    "raptor-tt": Raptor(
        Raptor.Config(reduction="pca", components=3, retrieval="traversal", top_k=2)
    ),
    "memwalker": MemWalker(MemWalker.Config(segment_tokens=2000)),
    "longllmlingua": LongLLMLingua(LongLLMLingua.Config(target_tokens=100)),
    "longllmlingua, lines": LongLLMLingua(
        LongLLMLingua.Config(target_tokens=100, contexts="lines", chunk_tokens=300)
    ),
    "llmlingua": LLMLingua(LLMLingua.Config(target_tokens=100)),
    "selective-context": SelectiveContext(SelectiveContext.Config(target_tokens=100)),
    "full-context": FullContext(FullContext.Config(max_tokens=400)),
    "keep-right": FullContext(FullContext.Config(max_tokens=400, keep="right")),
    "sliding-window": SlidingWindow(SlidingWindow.Config()),
}


def read(method, text):
    replies = [Rule(when="Action:", reply="Action: 0"), Rule(reply="Mira")]
    tools = FakeTools(
        replies, compressor=Table(), similarity=Vectors(), reranker=ByLength(), window=16_384
    )
    question = Question("q", "\u6821\u957f\u662f\u8c01 word7?", ("d",))
    result, index = answered(method, tools, Document("d", text), question)
    json.dumps({k: v for k, v in index.items() if not isinstance(v, np.ndarray)})
    return result, tools


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize(
    "text", [CHINESE, ENDLESS, GLUED, "\u6821"], ids=["chinese", "endless", "glued", "one"]
)
def test_every_row_answers_from_what_is_in_the_text(row, text):
    began = time.process_time()
    result, tools = read(ROWS[row], text)
    assert time.process_time() - began < 10
    assert result.text == (
        "" if row == "memwalker" else "Mira"
    )  # it was told to go on for ever, and ended
    prompts = tools.reader.prompts
    for shown in result.shown:
        if shown.kind == "span":
            assert 0 <= shown.start < shown.end <= len(text)
            part = text[shown.start : shown.end]
            assert any(part.strip() in " ".join(p.split()) or part in p for p in prompts)
    assert result.stop_reason


@pytest.mark.parametrize("row", ["longllmlingua", "llmlingua", "selective-context"])
def test_a_target_smaller_than_one_context_still_reads_some_of_it(row):
    method = type(ROWS[row])(type(ROWS[row]).Config(target_tokens=1))
    result, _ = read(method, "one w3 three w9 five w1 seven. " * 40)
    assert result.text == "Mira"
    assert result.stop_reason in ("compressed", "nothing was kept of the text")
