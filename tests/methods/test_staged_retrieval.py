"""Retrieval in stages: each stage by hand on a small text, and what the command records of it."""

import bm25s
import numpy as np
import pytest
from pydantic import ValidationError

from harness.bm25 import bm25
from harness.llm.scripted import Rule
from harness.method import Hit
from harness.types import Document, Passage, Question
from harness.words import words
from methods.fusion import reciprocal_rank_fusion
from methods.rewriting import parse_queries
from methods.staged_retrieval import StagedConfig, StagedRetrieval
from tests.methods.conftest import FakeTools, answered

SENTENCES = [
    "The pump was repaired in May.",
    "A pump needs oil every month.",
    "Repair of a valve takes two days.",
    "The office is closed in May.",
    "Nobody repaired the old valve.",
    "Oil is kept in the cellar.",
]
TEXT = " ".join(SENTENCES)
QUESTION = Question("q", "When was the pump repaired?", ("d",))
EACH_SENTENCE = {"chunks": "sentences", "chunk_sentences": 1}
VOCABULARY = sorted({word for sentence in SENTENCES for word in words(sentence)})


class WordCounts:
    """An encoder whose vectors count the words of TEXT, of length 1."""

    name, identity = "word counts", {}

    def __init__(self):
        self.asked = []

    def encode(self, texts, kind):
        self.asked.append((kind, list(texts)))
        counts = [[words(text).count(word) for word in VOCABULARY] for text in texts]
        vectors = np.array(counts, dtype=np.float32).reshape(-1, len(VOCABULARY))
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return vectors / np.maximum(lengths, 1e-9)

    def similarity(self, query, passages):
        return passages @ query


class Ordered:
    """A reranker that likes the last sentences best, and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def score(self, query, passages):
        self.asked.append((query, list(passages)))
        return np.array([float(SENTENCES.index(p)) for p in passages], dtype=np.float32)


def ask(replies=(), text=TEXT, passages=(), question=QUESTION, **settings):
    """The pieces shown, the answer and the tools of one question."""
    reranker = Ordered()
    rules = [*replies, Rule(reply="May")]
    tools = FakeTools(rules, similarity=WordCounts(), reranker=reranker)
    method = StagedRetrieval(StagedConfig(**{**EACH_SENTENCE, **settings}))
    document = Document("d", text, passages=passages)
    answer, _ = answered(method, tools, document, question)
    shown = [text[s.start : s.end] for s in answer.shown]
    return shown, answer, tools


def test_reciprocal_rank_fusion_by_hand():
    fused = reciprocal_rank_fusion([[2, 0, 1], [2, 1]], 4, 60)
    assert fused.tolist() == pytest.approx([1 / 62, 1 / 63 + 1 / 62, 1 / 61 + 1 / 61, 0])


def bm25s_scores(query):
    """Scores by the library bm25s, which has no factor k1 + 1."""
    index = bm25s.BM25(method="robertson", k1=1.5, b=0.75)
    index.index([words(sentence) for sentence in SENTENCES], show_progress=False)
    known = [word for word in words(query) if word in VOCABULARY]
    return (2.5 * index.get_scores(known)).tolist()


def test_bm25_is_that_of_another_library():
    """For words of fewer than half of the texts: of others both make the idf positive, in ways of
    their own."""
    for query in ("pump", "repaired", "valve oil", "pump repaired may"):
        assert bm25(query, SENTENCES) == pytest.approx(bm25s_scores(query), abs=1e-6)


def plain_ranking(scores):
    """Numbers by falling score, without those of score 0; equal scores in their order."""
    return [i for i in sorted(range(len(scores)), key=lambda i: -scores[i]) if scores[i] > 0]


def plain_cosines(query, sentences):
    """Cosines of word counts, without numpy."""
    asked = [words(query).count(word) for word in VOCABULARY]
    cosines = []
    for sentence in sentences:
        counts = [words(sentence).count(word) for word in VOCABULARY]
        product = sum(a * b for a, b in zip(asked, counts, strict=True))
        lengths = sum(a * a for a in asked) * sum(b * b for b in counts)
        cosines.append(product / lengths**0.5)
    return cosines


def test_hybrid_is_the_fusion_of_both_rankings():
    shown, answer, _ = ask(ranking="hybrid", k=6)
    first = plain_ranking(bm25s_scores(QUESTION.text))
    second = sorted(range(6), key=lambda i: -plain_cosines(QUESTION.text, SENTENCES)[i])
    fused = [0.0] * 6
    for ranking in (first, second):
        for rank, sentence in enumerate(ranking, 1):
            fused[sentence] += 1 / (60 + rank)
    order = sorted(range(6), key=lambda i: -fused[i])
    assert order == [0, 4, 1, 3, 5, 2]
    assert shown == [SENTENCES[i] for i in order]
    best = answer.steps[0]
    assert best.scores == {
        "bm25 rank": 1.0,
        "dense rank": 1.0,
        "fused": pytest.approx(1 / 61 + 1 / 61),
    }


def test_a_reranker_reads_the_first_chunks_and_orders_these():
    shown, answer, tools = ask(ranking="bm25", rerank=2, k=3)
    first, second = SENTENCES[0], SENTENCES[4]
    assert tools.reranker().asked == [(QUESTION.text, [first, second])]
    assert shown[:2] == [second, first]
    assert [step.scores.get("reranker") for step in answer.steps] == [4.0, 0.0, None]


SECTIONS = (Passage("", 0, len(" ".join(SENTENCES[:3]))), Passage("", 94, len(TEXT)))


@pytest.mark.parametrize(
    ("settings", "shown"),
    [
        ({"k": 1}, ["The pump was repaired in May. A pump needs oil every month. Repair of a valve takes two days."]),
        ({"k": None, "budget": 20}, ["The pump was repaired in May. A pump needs oil every month. Repair of a valve takes two days."]),
        # Two chunks of the first section are better than any of the second: it stands there once.
        ({"k": None, "budget": 60}, [" ".join(SENTENCES[:3]), " ".join(SENTENCES[3:])]),
        # A longer section is cut where a sentence ends.
        ({"k": 1, "section_tokens": 12}, ["The pump was repaired in May. A pump needs oil every month."]),
    ],
)  # fmt: skip
def test_the_section_of_a_chunk_is_shown_in_its_place(settings, shown):
    settings = {"section_tokens": 50, "ranking": "dense", **settings}
    found, answer, _ = ask(passages=SECTIONS, **settings)
    assert [text.strip() for text in found] == shown
    assert answer.steps[0].node == 0  # the chunk that found it
    assert answer.steps[0].scores == {"dense rank": 1.0}


def test_hyde_searches_by_the_mean_of_passages_and_question():
    passage = Rule(when="Passage:", reply="Oil is kept in the cellar.")
    shown, answer, tools = ask([passage], ranking="dense", hypothetical_passages=2, k=1)
    assert shown == ["Oil is kept in the cellar."]
    assert ("passage", ["Oil is kept in the cellar."] * 2) in tools.encoder().asked
    assert [s.note for s in answer.steps if s.action == "rewrite"] == [passage.reply] * 2
    # The question counts as one of three: a single passage that is far off does not outvote it.
    far = Rule(when="Passage:", reply="cellar")
    assert ask([far], ranking="dense", hypothetical_passages=1, k=1)[0] == [SENTENCES[0]]


def test_rankings_of_rewritten_queries_are_fused_with_the_questions():
    reply = Rule(when="Queries:", reply="Here are they:\n1. cellar oil\n2. kept oil")
    shown, answer, tools = ask([reply], ranking="bm25", rewritten_queries=2, k=2)
    # 1/61 twice, and 1/62 for the other sentence on oil; the question's own best has 1/61 once.
    assert shown == [SENTENCES[5], SENTENCES[1]]
    assert "Write 2 search queries" in tools.reader.prompts[0]
    assert [s.note for s in answer.steps if s.action == "rewrite"] == ["cellar oil", "kept oil"]
    _, _, tools = ask([reply], ranking="dense", rewritten_queries=2, k=2)
    searched = [texts for kind, texts in tools.encoder().asked if kind == "query"]
    assert searched == [[QUESTION.text], ["cellar oil"], ["kept oil"]]


class Shelf:
    """A retriever that finds the sentences with the last word of a query, and notes what it was
    asked."""

    def __init__(self):
        self.asked = []

    def search(self, query, k):
        self.asked.append((query, k))
        word = words(query)[-1]
        return [Hit("page", text, None) for text in SENTENCES if word in words(text)][:k]


@pytest.mark.parametrize(
    ("settings", "asked", "shown"),
    [
        ({"k": 1}, [(QUESTION.text, 1)], [SENTENCES[0]]),
        # Twice found, by the two queries, against once by the question.
        ({"k": 1, "rewritten_queries": 2}, [(QUESTION.text, 1), ("may", 1), ("in may", 1)], [SENTENCES[0]]),
        ({"k": 2, "rewritten_queries": 2}, [(QUESTION.text, 2), ("may", 2), ("in may", 2)], [SENTENCES[0], SENTENCES[3]]),
        ({"k": 1, "rerank": 6}, [(QUESTION.text, 6)], [SENTENCES[4]]),
        ({"k": 2, "rerank": 1}, [(QUESTION.text, 2)], [SENTENCES[0], SENTENCES[4]]),
        ({"k": 1, "hypothetical_passages": 1}, [(QUESTION.text, 1), ("Kept in the cellar.", 1)], [SENTENCES[0]]),
    ],
)  # fmt: skip
def test_a_retriever_ranks_in_place_of_bm25_and_the_encoder(settings, asked, shown):
    replies = [
        Rule(when="Queries:", reply="may\nin may"),
        Rule(when="Passage:", reply="Kept in the cellar."),
        Rule(reply="May"),
    ]
    tools = FakeTools(replies, similarity=WordCounts(), reranker=Ordered())
    shelf = Shelf()
    tools.retriever = lambda: shelf
    method = StagedRetrieval(StagedConfig(**{**EACH_SENTENCE, **settings}))
    answer = method.answer(QUESTION, [Document("d", TEXT)], [{}], tools)
    assert shelf.asked == asked
    assert [place.text for place in answer.shown if place.kind == "quote"] == shown


@pytest.mark.parametrize(
    ("reply", "queries"),
    [
        ("a pump\nthe pump", ["a pump", "the pump"]),
        ("1. a pump\n2) the pump\n- oil", ["a pump", "the pump", "oil"]),
        ("Queries:\n\n* a pump\n* a pump\n", ["a pump"]),
        ("the question\n2 pumps\n", ["2 pumps"]),
        ("a\nb\nc\nd\n", ["a", "b", "c"]),
        (" \n", []),
    ],
)
def test_lines_of_a_reply_are_queries(reply, queries):
    assert parse_queries(reply, "the question", 3) == queries


def test_without_a_query_the_question_alone_is_searched():
    replies = [Rule(when="Queries:", reply="\n")]
    alone, _, _ = ask(ranking="bm25", k=2)
    assert ask(replies, ranking="bm25", rewritten_queries=2, k=2)[0] == alone


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ranking": "bm25", "hypothetical_passages": 1}, "searched by an encoder"),
        ({"rewritten_queries": 1, "hypothetical_passages": 1}, "set one of"),
        ({"rerank": 0}, "greater than 0"),
    ],
)
def test_settings_that_exclude_each_other_are_refused(settings, sentence):
    with pytest.raises(ValidationError, match=sentence):
        StagedConfig(**settings)


def test_a_text_without_a_word_is_answered_without_one():
    for settings in ({}, {"ranking": "bm25", "rerank": 2}, {"section_tokens": 9}):
        shown, answer, _ = ask(text=" \n ", **settings)
        assert (shown, answer.text, answer.stop_reason) == ([], "May", "exhausted")
