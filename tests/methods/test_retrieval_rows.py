"""The retrieval rows: how a text is cut, what is chosen and in which order it is shown, and the
floor of chance."""

import itertools
import json
import math
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.bm25 import bm25, bm25_scores
from harness.config import presets, suites
from harness.config.layers import Choices
from harness.config.resolve import resolve
from harness.llm.scripted import Rule
from harness.types import Document, Passage, Question
from harness.words import words
from methods.chunks import word_chunks
from methods.packing import packed_chunks, passage_chunks, sentence_chunks, sentences
from methods.retrieval import BM25, Dense, DosRag, RandomChunks, Reranked, RetrievalConfig
from tests.datasets.support import config as dataset_config
from tests.datasets.support import needs_real, real
from tests.methods.conftest import FakeTools, WordEncoder, answered

TEXT = "Red fox runs. Blue fox sleeps! Is red red fish? Green bird sings. Blue whale."
QUESTION = Question("q", "Which RED fox?", ("d",))
REPLY = [Rule(reply="x")]


def answer(method, tools=None, text=TEXT, question=QUESTION):
    found, _ = answered(method, tools or FakeTools(REPLY), Document("d", text), question)
    return [text[s.start : s.end] for s in found.shown], found


@pytest.mark.parametrize("piece", ["x", ".\n", '!" ', "\u3002", "U.S. "])
def test_a_text_of_200000_characters_takes_linear_time(piece):
    text = piece * (200_000 // len(piece))
    model = FakeTools(REPLY).model()
    began = time.process_time()
    found = sentences(text)
    packed = packed_chunks(text, 300, model)
    assert time.process_time() - began < 5
    assert all(a < b for a, b in found)
    assert "".join("".join(text[a:b] for a, b in packed).split()) == "".join(text.split())


@settings(deadline=None)
@given(st.text(alphabet='ab .!\n\u3002"', max_size=60), st.integers(1, 6), st.integers(1, 3))
def test_sentence_chunks_keep_every_letter_once_and_in_order(text, most, count):
    model = FakeTools(REPLY).model()
    plain = [c for c in text if not c.isspace()]
    packed = packed_chunks(text, most, model)
    for chunks in (sentences(text), sentence_chunks(text, count, most, model), packed):
        assert all(a < b for a, b in chunks)
        assert all(b <= c for (_, b), (c, _) in itertools.pairwise(chunks))
        assert [c for a, b in chunks for c in text[a:b] if not c.isspace()] == plain
    assert all(model.count(text[a:b]) <= most for a, b in packed)


TITLED = Document(
    "d",
    "Fox\nRed fox runs. It is red.\n\nWhale\nBlue.",
    passages=(Passage("Fox", 0, 28), Passage("Whale", 30, 41)),
)


@pytest.mark.parametrize(
    ("document", "size", "chunks"),
    [
        (TITLED, 9, ["Fox\nRed fox runs. It is red.", "Whale\nBlue."]),
        (
            TITLED,
            4,
            ["Fox\nRed fox runs.", " It is red.", "Whale\nBlue."],
        ),  # a paragraph that is too long
        (Document("d", "No title here. None."), 3, ["No title here.", " None."]),
        (Document("d", " \n"), 3, []),
    ],
)
def test_chunks_are_the_documents_own_paragraphs(document, size, chunks):
    found = passage_chunks(document, size, FakeTools(REPLY).model())
    assert [document.text[a:b] for a, b in found] == chunks


def test_chunks_of_words():
    text = " one two\nthree  four five"
    assert [text[a:b] for a, b in word_chunks(text, 2)] == ["one two", "three  four", "five"]
    assert word_chunks(" \n", 2) == []


SENTENCES = {"chunks": "sentences", "chunk_sentences": 1}


@pytest.mark.parametrize(
    ("params", "shown", "reason"),
    [
        # BM25 for "which red fox": red is in two sentences and twice in one, fox in two; "Is red
        # red fish?" is longer.
        ({"k": 2}, ["Red fox runs.", "Is red red fish?"], "k"),
        ({"k": 3, "order": "document"}, ["Red fox runs.", "Blue fox sleeps!", "Is red red fish?"], "k"),
        ({"k": 9, "least_characters": 15}, ["Is red red fish?", "Blue fox sleeps!", "Green bird sings."], "exhausted"),
        ({"k": None, "budget": 8}, ["Red fox runs.", "Is red red fish?"], "budget"),
        ({"k": None, "budget": 2}, [], "budget: not even one chunk fits"),
        ({"k": 1, "least_characters": 99}, [], "exhausted"),
        ({"k": 1, "chunk_sentences": 2}, ["Red fox runs. Blue fox sleeps!"], "k"),
        ({"k": 1, "chunk_tokens": 2}, ["Red fox"], "k"),
        ({"k": 1, "chunks": "packed", "chunk_sentences": None, "chunk_tokens": 7}, ["Red fox runs. Blue fox sleeps!"], "k"),
    ],
)  # fmt: skip
def test_what_is_shown(params, shown, reason):
    found, result = answer(BM25(RetrievalConfig(**{**SENTENCES, **params})))
    assert (found, result.stop_reason) == (shown, reason)


def test_what_is_shown_in_the_order_of_the_text_is_chosen_by_rank():
    # The last sentence is the best; a budget for one chunk must not take the first of the text
    # instead.
    config = RetrievalConfig(**SENTENCES, k=None, budget=2, order="document")
    assert answer(BM25(config), question=Question("q", "whale", ("d",)))[0] == ["Blue whale."]


@pytest.mark.parametrize(
    ("with_options", "shown"), [(False, ["Red fox runs."]), (True, ["Green bird sings."])]
)
def test_options_can_be_part_of_the_query(with_options, shown):
    question = Question("q", "Which fox?", ("d",), ("green bird", "green sings"))
    config = DosRag.Config(**SENTENCES, k=1, budget=None, query_options=with_options)
    assert answer(DosRag(config), question=question)[0] == shown


@pytest.mark.parametrize("text", ["", " \n "])
def test_a_text_without_a_word_is_answered_without_one(text):
    for method in (BM25, Dense, Reranked, RandomChunks):
        shown, result = answer(
            method(RetrievalConfig(**SENTENCES)), FakeTools(REPLY, reranker=ByLength()), text
        )
        assert (shown, result.text, result.stop_reason) == ([], "x", "exhausted")


def test_chinese_is_ranked_by_its_characters():
    text = "\u5c71\u5f88\u9ad8\u3002\u6cb3\u5f88\u957f\u3002\u6d77\u5f88\u6df1\u3002\u57ce\u5f88\u5927\u3002"
    question = Question("q", "\u6d77\u591a\u6df1", ("d",))
    assert answer(BM25(RetrievalConfig(**SENTENCES, k=1)), text=text, question=question)[0] == [
        "\u6d77\u5f88\u6df1\u3002"
    ]


def test_the_prompt_shows_the_best_first_and_asks_twice():
    tools = FakeTools(REPLY)
    answer(BM25(RetrievalConfig(**SENTENCES, k=2)), tools)
    (prompt,) = tools.reader.prompts
    assert (
        prompt.index("Red fox runs")
        < prompt.index("Is red red fish")
        < prompt.index("Question: Which RED fox?")
    )
    assert prompt.count("Answer the question as concisely as you can.") == 2
    assert prompt.endswith("Answer:")


def test_bm25_of_texts_without_words():
    assert bm25_scores(["a"], [[], []]).tolist() == [0, 0]
    assert np.isfinite(bm25_scores(["a", "zz"], [["a"], ["a", "b"]])).all()


def test_bm25_of_two_texts_counts_what_they_have():
    # rank_bm25's idf gives -0.044 to the text with "the" alone and -0.065 to the one with four of
    # the five words.
    asked = words("who wrote the novel Velindra")
    poor = words("On Sunday the baker of Kelford sold bread and cakes to all who came.")[:8]
    rich = words(
        "Toren wrote the novel Velindra in one winter, and the town read it aloud by candle light."
    )
    for texts in ([poor, rich], [rich, poor]):
        scores = bm25_scores(asked, texts)
        assert int(np.argmax(scores)) == texts.index(rich)
        assert (scores > 0).all()
    # By hand, equal lengths: ln(1 + 1.5 / 1.5) for a word of one text, ln(1 + 0.5 / 2.5) for one of
    # both.
    assert bm25_scores(["a", "b"], [["a", "b"], ["a", "c"]]) == pytest.approx(
        [math.log(2) + math.log(1.2), math.log(1.2)]
    )
    # One text has no rank to lose, and where the official idf works it stays: ln(2.5 / 1.5) for one
    # of three.
    assert bm25_scores(["a"], [["a"]]) == pytest.approx([math.log(4 / 3)])
    assert bm25_scores(["a"], [["a", "d"], ["b", "e"], ["c", "f"]]) == pytest.approx(
        [math.log(2.5 / 1.5), 0, 0]
    )


class ByLength:
    """A reranker that likes long passages, and notes what it was asked."""

    def __init__(self):
        self.asked = []

    def score(self, query, passages):
        self.asked.append((query, len(passages)))
        return np.array([len(p) for p in passages], dtype=np.float32)


def test_a_reranker_sees_every_chunk_and_orders_by_its_scores():
    reranker = ByLength()
    found, result = answer(
        Reranked(RetrievalConfig(**SENTENCES, k=2)), FakeTools(REPLY, reranker=reranker)
    )
    assert found == [
        "Green bird sings.",
        "Blue fox sleeps!",
    ]  # 17 characters; 16, as "Is red red fish?" behind it
    assert reranker.asked == [("Which RED fox?", 5)]
    assert result.stop_reason == "k"


def test_passages_are_encoded_once_a_document_and_questions_once_each():
    class Counting(WordEncoder):
        def __init__(self):
            super().__init__()
            self.asked = []

        def encode(self, texts, kind):
            self.asked.append((kind, len(texts)))
            return super().encode(texts, kind)

    encoder = Counting()
    tools, document = FakeTools(REPLY, similarity=encoder), Document("d", TEXT)
    method = Dense(RetrievalConfig(**SENTENCES, k=1))
    index = method.index(document, tools)
    for text in ("red fox", "blue whale."):
        found = method.answer(Question("q", text, ("d",)), [document], [index], tools)
    assert encoder.asked == [("passage", 5), ("query", 1), ("query", 1)]
    assert [TEXT[s.start : s.end] for s in found.shown] == ["Blue whale."]


def drawn(seed, question_id, text="a b c d e f", k=2):
    tools = FakeTools(REPLY)
    tools.seed = seed
    method = RandomChunks(RetrievalConfig(chunk_tokens=1, k=k))
    return "".join(answer(method, tools, text, Question(question_id, "why", ("d",)))[0]).replace(
        " ", ""
    )


def test_chance_is_drawn_by_the_seed_and_the_question_alone():
    assert drawn(0, "q1") == drawn(0, "q1")
    # random.Random("0 q1") and so on, the same in every process.
    assert [drawn(s, q) for s, q in ((0, "q1"), (0, "q2"), (1, "q1"))] == ["cb", "db", "be"]
    assert drawn(0, "q1", "u v w x y z") == drawn(0, "q1").translate(
        str.maketrans("abcdef", "uvwxyz")
    )


def test_chance_shows_as_much_as_bm25():
    assert resolve_params("random", "musique") == resolve_params("bm25", "musique")


def resolve_params(method, dataset):
    return RetrievalConfig(**resolve(Choices(method=method, dataset=dataset)).config.method.params)


@pytest.mark.parametrize("method", ["bm25-topx", "sbert-topx"])
@pytest.mark.parametrize(
    ("dataset", "k"), [("narrativeqa", 7), ("qasper", 14), ("hotpotqa", 4), ("musique", 7)]
)
def test_top_x_is_the_papers(method, dataset, k):
    for name in (dataset, f"pocket/{dataset}"):
        found = resolve_params(method, name)
        assert (found.k, found.chunk_tokens, found.chunks, found.order) == (
            k,
            300,
            "tokens",
            "rank",
        )


@pytest.mark.parametrize(
    ("method", "dataset", "params"),
    [
        ("dos-rag", "narrativeqa", {"budget": 10_000}),
        ("dos-rag", "quality", {"budget": 8_000}),
        ("dos-rag-40k", "quality", {"budget": 40_000}),
        ("op-rag", "musique", {"k": 128}),
        ("op-rag-48k", "musique", {"k": 384}),
    ],
)
def test_chunks_in_the_order_of_the_document_at_the_papers_budgets(method, dataset, params):
    found = resolve_params(method, dataset)
    own = {"chunks": "clauses", "chunk_tokens": 100, "k": None}
    shared = own if method.startswith("dos") else {"chunk_tokens": 128}
    assert found == RetrievalConfig(**{**shared, "order": "document", **params})


def test_the_suite_has_the_rows_of_the_papers_table_in_their_order():
    suite = suites.read_suite("pocket-pecan-table1")
    assert [presets.find("methods", name) for name in suite.methods] == list(suite.methods)
    # Without the Top-X rows, which need a number from the run of pecan.
    printed = ["bm25", "sbert", "dragon", "longllmlingua", "memwalker"]
    printed += ["raptor-tt", "raptor-ct", "full-context", "garlic", "pecan"]
    rows = [
        name for name in suite.methods if name not in ("random", "closed-book", "oracle-evidence")
    ]
    # A row that has no preset yet is left out; one that has may not be.
    assert rows == [name for name in printed if name in presets.names("methods")]
    assert not any(suite.methods.values())
    assert list(suite.datasets) == [
        f"pocket/{name}" for name in ("narrativeqa", "qasper", "hotpotqa", "musique")
    ]


@needs_real
@pytest.mark.parametrize(
    "name",
    [
        "musique/musique_ans_v1.0_dev_sample.jsonl",
        "hotpotqa/hotpot_dev_distractor_sample.json",
        "2wikimultihopqa/dev_sample.json",
    ],
)
def test_recall_on_real_rows_equals_the_golden_values(name):
    from harness.datasets import load

    golden = json.loads(real("golden", "bm25_recall.json").read_text("utf-8"))["results"][name][
        "own_candidates"
    ]
    data = load(dataset_config(name.split("/")[0], data=str(real("data", name))))
    hits = {1: [], 2: [], 3: [], 5: []}
    for example in data.examples:
        document = data.documents[example.question.id]
        spans = [(p.start, p.end) for p in document.passages]
        wanted = {spans.index((s.start, s.end)) for s in example.gold.supporting}
        if len(spans) < 4 or not 0 < len(wanted) < len(spans):
            continue  # the recipe's "skipped"
        # The recipe's words: whatever stands between spaces.
        texts = [document.text[a:b].lower().split() for a, b in spans]
        order = np.argsort(
            -bm25_scores(example.question.text.lower().split(), texts), kind="stable"
        )
        for k, found in hits.items():
            found.append(len(wanted & set(order[:k].tolist())) / len(wanted))
    assert {f"recall@{k}": round(float(np.mean(v)), 6) for k, v in hits.items()} == {
        key: value for key, value in golden.items() if key.startswith("recall@")
    }
    assert len(hits[1]) == golden["questions"]


def test_bm25_reads_the_texts_once_for_all_questions(monkeypatch):
    read = []
    monkeypatch.setattr("harness.bm25.words", lambda text: read.append(text) or words(text))
    texts = ["a fox that is read once", "a hen that is read once", "a cow"]
    first, second = bm25("the fox", texts), bm25("the hen", list(texts))
    assert [first.argmax(), second.argmax()] == [0, 1]
    assert sorted(read) == sorted(["the fox", "the hen", *texts])
