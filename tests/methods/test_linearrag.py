"""LinearRAG: names in passages, the way from the question's names to further ones, PageRank."""

import math
import re

import numpy as np
import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Passage, Question
from methods.linearrag import Activated, LinearRAG, NameGraph
from tests.methods.conftest import FakeTools, answered

PARAGRAPHS = [
    "The novel Velindra is by Toren.",
    "Every winter Toren lives in Kelford.",
    "In those years Mira sold boats.",
    "They say that Kelford lies by the Orne.",
]
TEXT = "\n\n".join(PARAGRAPHS)
STARTS = [TEXT.index(p) for p in PARAGRAPHS]
PASSAGES = tuple(Passage("", a, a + len(p)) for a, p in zip(STARTS, PARAGRAPHS, strict=True))
DOCUMENT = Document("d", TEXT, passages=PASSAGES)
QUESTION = Question("q", "Where lives the author of Velindra?", ("d",))
# Cosines of the question and each sentence: 2 of 6 and 6 words are the same, and so on.
FIT = np.array([1 / 3, 1 / 6, 0, 1 / math.sqrt(48)])


class BagEncoder:
    """Vectors that count words, so that cosines can be worked by hand."""

    name, identity = "bag", {}

    def __init__(self):
        self._places = {}

    def encode(self, texts, kind):
        vectors = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in re.findall(r"\w+", text.lower()):
                vectors[row, self._places.setdefault(word, len(self._places))] += 1
        return vectors


def read(question=QUESTION, document=DOCUMENT, **params):
    tools = FakeTools([Rule(reply="Kelford")], similarity=BagEncoder())
    method = LinearRAG(LinearRAG.Config(**{"k": 2, "least": 0.05, **params}))
    answer, index = answered(method, tools, document, question)
    return answer, index, tools


def made_graph(index):
    return NameGraph(PARAGRAPHS, index["names"], index["of_sentences"], index["of_passages"])


def test_the_index_has_the_names_of_passages_and_sentences():
    _, index, tools = read()
    assert index["names"] == ["Velindra", "Toren", "Kelford", "Mira", "Orne"]
    assert index["of_passages"] == [[0, 1], [1, 2], [3], [2, 4]]
    assert index["of_sentences"] == [[0, 1], [1, 2], [3], [2, 4]]
    assert tools.meter.usage()["answer"]["requests"] == 1  # no model writes the index


def test_sentences_that_fit_the_question_lead_to_further_names():
    _, index, _ = read()
    weights, reached = made_graph(index).activate({0: 1.0}, FIT, LinearRAG.Config(least=0.05))
    assert weights == pytest.approx([4 / 3, 1 / 3 + 1 / 18, 1 / 18, 0, 0])
    assert reached == {
        0: Activated(pytest.approx(1 / 3), 2),
        1: Activated(pytest.approx(1 / 18), 3),
        2: Activated(pytest.approx(1 / 18), 3),
    }


@pytest.mark.parametrize(
    ("params", "found"),
    [({"least": 0.1}, {0, 1}), ({"rounds": 1}, {0}), ({"rounds": 4, "least": 0}, {0, 1, 2, 4})],
)
def test_a_weak_name_and_the_last_round_lead_no_further(params, found):
    _, index, _ = read()
    config = LinearRAG.Config(**{"least": 0.05, **params})
    _, reached = made_graph(index).activate({0: 1.0}, FIT, config)
    assert set(reached) == found


def test_a_passage_weighs_by_similarity_and_by_the_names_that_it_has():
    _, index, _ = read()
    reached = {0: Activated(0.5, 1), 1: Activated(0.3, 2)}
    starts = made_graph(index).passage_start_weights(FIT, reached, LinearRAG.Config())
    first = 2 * 1 + math.log1p(0.5 * math.log(2) + 0.3 * math.log(2) / 2)
    second = 2 * 0.5 + math.log1p(0.3 * math.log(2) / 2)
    assert starts[:3] == pytest.approx([0.05 * first, 0.05 * second, 0])


def test_the_best_passages_are_read():
    answer, _, tools = read()
    names, *passages = answer.steps
    assert (answer.text, names.note) == ("Kelford", "1 names of the question, 3 reached")
    assert set(names.scores) == {"Velindra", "Toren", "Kelford"}
    assert [step.node for step in passages] == [0, 1]
    assert "Text:\nThe novel Velindra is by Toren.\n\nEvery winter" in tools.reader.prompts[-1]


@pytest.mark.parametrize(
    ("question", "document"),
    [
        (Question("q", "Where does the author live?", ("d",)), DOCUMENT),
        (QUESTION, Document("d", "there is no name in here")),
    ],
)
def test_without_a_name_passages_are_ranked_by_similarity(question, document):
    answer, _, _ = read(question, document)
    assert answer.steps[0].note == "no name: ranked by similarity"
    assert "similarity" in answer.steps[1].scores
