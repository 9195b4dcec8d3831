"""HippoRAG 2: triples, their graph and PageRank, worked by hand on a model that replays a table."""

import json
from collections import Counter

import numpy as np
import pytest
import scipy.sparse.linalg

from harness.llm.scripted import Rule
from harness.types import Document, Passage, Question
from methods.hipporag import HippoRAG, _build_graph, _similar_phrases, passage_ranks
from tests.methods.conftest import FakeTools, WordEncoder, answered

PARAGRAPHS = [
    "Velindra is by Toren.",
    "Toren lives in Kelford.",
    "Mira sold boats.",
    "Kelford lies by a river.",
]
TEXT = "\n\n".join(PARAGRAPHS)
STARTS = [TEXT.index(p) for p in PARAGRAPHS]
PASSAGES = tuple(Passage("", a, a + len(p)) for a, p in zip(STARTS, PARAGRAPHS, strict=True))
DOCUMENT = Document("d", TEXT, passages=PASSAGES)
QUESTION = Question("q", "Where lives the author of Velindra?", ("d",))
TRIPLES = {
    "Velindra is by": '[["Velindra", "is by", "Toren"]]',
    "Toren lives": 'Here: [["Toren", "lives in", "Kelford"], ["Toren", "lives in", "Kelford"], ["cut", "off',
    "Mira sold": "I cannot.",
    "Kelford lies": '[["KELFORD!", "lies by", "a river"], ["", "x", "y"]]',
}
BUILD = [
    *(Rule(when=f"Turn the text below into triples of subject, relation and object. Each triple has at least one of the "
           f"listed entities, better two. Write names in place of pronouns.\n\nText:\n{text}", reply=reply)
      for text, reply in TRIPLES.items()),
    Rule(when="Extract the named entities", reply='["Toren", "Kelford"]'),
]  # fmt: skip


class PhraseEncoder(WordEncoder):
    """The phrases velindra, toren, kelford, a river have vectors of their own, none of length 1."""

    def __init__(self, vectors=((3, 0), (0, 3), (-3, 0), (0, -3))):
        super().__init__()
        self._vectors = np.array(vectors, dtype=np.float32)
        self.queries = []

    def encode(self, texts, kind):
        self.queries += texts if kind == "query" else []
        return self._vectors if "a river" in texts else super().encode(texts, kind)


def built(encoder=None, **params):
    tools = FakeTools(BUILD, similarity=encoder or PhraseEncoder())
    index = HippoRAG(HippoRAG.Config(**params)).index(DOCUMENT, tools)
    return {
        k: v if isinstance(v, np.ndarray) else json.loads(json.dumps(v)) for k, v in index.items()
    }, tools


def linked(reply, **params):
    encoder = PhraseEncoder()
    index, _ = built(encoder, **params)
    tools = FakeTools(
        [Rule(when="Facts:", reply=reply), Rule(when="Answer:", reply="Kelford")],
        similarity=encoder,
    )
    method = HippoRAG(HippoRAG.Config(**{"k": 2, **params}))
    return method.answer(QUESTION, [DOCUMENT], [index], tools), tools


def test_the_index_has_the_triples_of_each_passage_once():
    index, tools = built()
    facts = ["velindra|is by|toren", "toren|lives in|kelford", "kelford|lies by|a river"]
    assert index["facts"] == [fact.split("|") for fact in facts]
    assert index["of"] == [[0], [1], [], [2]]
    assert [TEXT[a:b] for a, b in index["passages"]] == PARAGRAPHS
    assert index["synonyms"] == []
    assert "Entities: Toren, Kelford\n" in next(p for p in tools.reader.prompts if "triples" in p)
    assert len(tools.reader.prompts) == 8
    assert len(tools.kept) == 4


def test_the_triples_that_the_model_keeps_lead_on():
    answer, tools = linked("Facts: 1, 7, 2")
    filter_, *read = answer.steps
    # Of the question's words the first triple's text has none as a word of its own
    # ("('velindra',"), so all tie.
    assert filter_.scores == {"candidates": 3, "kept": 2}
    assert filter_.note.startswith(
        "kept: velindra | is by | toren; kept: toren | lives in | kelford; dropped: kelford"
    )
    assert (answer.text, answer.stop_reason) == ("Kelford", "2 triples kept")
    # Velindra is in one passage and weighs 1; Toren and Kelford are in two and weigh 1/2. Toren's
    # passage, the only one with a word of the question, has both of the latter.
    assert [s.node for s in read] == [0, 1]
    assert "Text:\nVelindra is by Toren.\n\nToren lives in Kelford.\n" in tools.reader.prompts[-1]
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], usage["answer"]["requests"]) == (1, 1)


@pytest.mark.parametrize("reply", ["Facts: none", "Facts: 9", "I do not know."])
def test_without_a_triple_passages_are_ranked_by_similarity(reply):
    answer, _ = linked(reply)
    assert answer.stop_reason == "no triple kept: ranked by similarity"
    assert [s.scores["similarity"] for s in answer.steps[1:]] == [1.0, 0.0]


def test_similar_phrases_are_joined_by_their_cosine_whatever_the_length_of_their_vectors():
    def alike():
        return PhraseEncoder([(3, 4), (30, 40), (0.1, 2), (0.5, 0)])

    assert built(alike())[0]["synonyms"] == [
        [0, 1, pytest.approx(1)], [0, 2, pytest.approx(0.829, abs=0.001)],
        [1, 0, pytest.approx(1)], [1, 2, pytest.approx(0.829, abs=0.001)],
        [2, 0, pytest.approx(0.829, abs=0.001)], [2, 1, pytest.approx(0.829, abs=0.001)],
    ]  # fmt: skip
    assert [pair[:2] for pair in built(alike(), synonyms=0.9)[0]["synonyms"]] == [[0, 1], [1, 0]]


def test_a_phrase_of_three_letters_has_at_most_a_hundred_similar_ones():
    phrases = ["ab", *(f"a{n:03}" for n in range(150))]
    tools = FakeTools(similarity=PhraseEncoder([[1, 0]] * len(phrases)))
    pairs = _similar_phrases([*phrases[:-1], "a river"], 0.8, tools)
    assert Counter(i for i, _, _ in pairs) == dict.fromkeys(range(1, 151), 100)


def test_a_similarity_takes_the_place_of_how_often_triples_join_two_phrases():
    index = {"of": [[0, 0, 0], [0]], "synonyms": [[0, 1, 0.9], [1, 0, 0.9]]}
    facts = [("velindra", "is by", "toren")]
    weights = _build_graph(index, facts, {"velindra": 0, "toren": 1}).edge_weights
    assert weights[0, 1] + weights[1, 0] == pytest.approx(1.8)
    weights = _build_graph(
        {**index, "synonyms": []}, facts, {"velindra": 0, "toren": 1}
    ).edge_weights
    assert weights[0, 1] + weights[1, 0] == 8


def test_ranks_of_a_large_graph_are_those_of_the_equations():
    """A ring of 6,000 phrases with a passage each. PageRank is the solution of linear equations."""
    n = 6000
    facts = [[f"p{i}", "is by", f"p{(i + 1) % n}"] for i in range(n)]
    index = {"facts": facts, "of": [[i] for i in range(n)], "synonyms": []}
    similarity = np.linspace(0, 1, n)
    config = HippoRAG.Config()
    ranks = passage_ranks(index, np.ones(n), [7], similarity, config)

    phrases = {f"p{i}": i for i in range(n)}
    weights = _build_graph(index, [tuple(fact) for fact in facts], phrases).edge_weights
    edges = (list(weights.values()), tuple(zip(*weights, strict=True)))
    one_way = scipy.sparse.coo_array(edges, shape=(2 * n, 2 * n)).tocsr()
    links = one_way + one_way.T
    starts = np.zeros(2 * n)
    starts[[7, 8]] = 0.5  # each phrase is in two passages
    starts[n:] = config.passage_weight * similarity
    starts /= starts.sum()
    walk = scipy.sparse.eye_array(2 * n) - config.damping * links / links.sum(axis=1)
    exact = scipy.sparse.linalg.spsolve(walk.tocsc(), (1 - config.damping) * starts)
    assert np.abs(ranks - exact[n:]).max() < 1e-10


def test_the_question_is_encoded_once_as_it_is():
    _, tools = linked("Facts: 1")
    assert tools.encoder().queries == [QUESTION.text]


def test_replies_that_cannot_be_read_are_counted():
    _, tools = built()
    assert tools.meter.usage()["answer"]["replies"] == {"unread": 1}  # "I cannot."
    _, tools = linked("The first two.")
    assert tools.meter.usage()["search"]["replies"] == {"unread": 1}


@pytest.mark.parametrize("text", ["", "no triple in here"])
def test_a_text_without_triples_is_ranked_by_similarity(text):
    tools = FakeTools([Rule(when="Answer", reply="x"), Rule(reply="none")])
    answer, _ = answered(HippoRAG(HippoRAG.Config()), tools, Document("d", text), QUESTION)
    assert (answer.steps[0].note, len(answer.shown)) == ("the index has no triple", bool(text))
