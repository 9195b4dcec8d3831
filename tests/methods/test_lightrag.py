"""LightRAG: entities and relations, their two searches and what is read, worked by hand on a model
that replays a table."""

import json
from itertools import pairwise

import numpy as np
import pytest

from harness.llm.scripted import Rule
from harness.types import Document, Question
from methods.lightrag import LightRAG, items_in
from tests.methods.conftest import FakeTools

TEXT = "Velindra is by Toren. Toren lives in Kelford. Mira sold boats."
CHUNKS = ["Velindra is by Toren. Toren", "Toren lives in Kelford. Mira", "Mira sold boats."]
DOCUMENT, QUESTION = (
    Document("d", TEXT),
    Question("q", "Where lives the author of Velindra?", ("d",)),
)
FIRST = [["entity", "Velindra", "event", "a novel"], ["entity", "Toren", "person", "writes"],
         ["relation", "Velindra", "Toren", "is by", "authorship", 9]]  # fmt: skip
SECOND = [["entity", "toren", "geo", "lives in Kelford"], ["entity", "Kelford", "geo", "a town"],
          ["relation", "Toren", "Kelford", "lives in", "home", 5]]  # fmt: skip
BUILD = [
    Rule(
        when="Many are missing",
        reply='[["relation", "Toren", "Velindra", "wrote it", "a novel"]]',
        once=True,
    ),
    Rule(when="Many are missing", reply="[]"),
    Rule(when=CHUNKS[0], reply=json.dumps(FIRST)),
    Rule(when=CHUNKS[1], reply=json.dumps(SECOND)),
    Rule(
        when=CHUNKS[2],
        reply='Here: [["relation", "Mira", "Boats", "sold", "trade", 2]] and ["entity", "cut',
    ),
]
SMALL = {"segment_tokens": 5, "overlap": 1}


class Bag:
    """Vectors that count four words, so that each similarity can be told by hand."""

    name, identity = "bag", {}

    def __init__(self):
        self.texts = []

    def encode(self, texts, kind):
        self.texts += texts
        counts = [
            [text.lower().count(word) for word in ("velindra", "toren", "kelford", "authorship")]
            for text in texts
        ]
        return np.array([[*c, 0.1] for c in counts], dtype=np.float32).reshape(len(texts), 5)


def built(rules=BUILD, document=DOCUMENT, **params):
    tools = FakeTools(rules, similarity=Bag())
    index = LightRAG(LightRAG.Config(**{**SMALL, **params})).index(document, tools)
    return {
        k: v if isinstance(v, np.ndarray) else json.loads(json.dumps(v)) for k, v in index.items()
    }, tools


def asked(keywords, index=None, document=DOCUMENT, window=8192, **params):
    rules = [Rule(when="Answer:", reply="Kelford"), Rule(when="List the keywords", reply=keywords)]
    tools = FakeTools(rules, similarity=Bag(), window=window)
    method = LightRAG(LightRAG.Config(**{**SMALL, **params}))
    return method.answer(QUESTION, [document], [index or built()[0]], tools), tools


def test_the_index_joins_what_chunks_say_of_one_name_or_pair():
    index, tools = built()
    assert [TEXT[a:b].strip() for a, b in index["chunks"]] == CHUNKS
    assert index["items"] == [
        [["VELINDRA"], "a novel", "EVENT", 0, [0]],
        [["TOREN"], "lives in Kelford<SEP>writes", "PERSON", 0, [0, 1]],
        [["TOREN", "VELINDRA"], "is by<SEP>wrote it", "a novel<SEP>authorship", 10, [0]],
        [["KELFORD"], "a town", "GEO", 0, [1]],
        [["KELFORD", "TOREN"], "lives in", "home", 5, [1]],
        [["BOATS", "MIRA"], "sold", "trade", 2, [2]],
        [["BOATS"], "sold", "UNKNOWN", 0, [2]],
        [["MIRA"], "sold", "UNKNOWN", 0, [2]],
    ]
    # The last two have no vector: they are never found themselves.
    assert tools.encoder().texts[2] == "a novel<SEP>authorshipTORENVELINDRAis by<SEP>wrote it"
    assert index["vectors"].shape == (6, 5)
    assert (len(tools.reader.prompts), len(tools.kept)) == (6, 3)
    assert "replies" not in tools.meter.usage()["answer"]


@pytest.mark.parametrize(("gleanings", "requests", "weight"), [(0, 3, 9), (1, 6, 10)])
def test_the_model_is_asked_for_what_is_missing(gleanings, requests, weight):
    index, tools = built(gleanings=gleanings)
    assert len(tools.reader.prompts) == requests
    assert [item[3] for item in index["items"] if item[0] == ["TOREN", "VELINDRA"]] == [weight]


def test_long_descriptions_of_a_name_are_joined_by_the_model():
    long = " ".join(["long"] * 300)
    rules = [
        Rule(when="Join these descriptions of TOREN into one", reply=" All of Toren. "),
        *(
            Rule(when=CHUNKS[i], reply=json.dumps([["entity", "Toren", "person", f"{i} {long}"]]))
            for i in (0, 1)
        ),
        Rule(reply="none"),
    ]
    index, tools = built(rules, gleanings=0)
    assert [item[:2] for item in index["items"]] == [[["TOREN"], "All of Toren."]]
    assert f"in.\n\n0 {long}\n1 {long}\n\nThe descriptions" in tools.reader.prompts[-1]
    assert tools.meter.usage()["answer"]["replies"] == {"unread": 1}


@pytest.mark.parametrize(
    ("mode", "entities", "relations", "chunks"),
    [
        ("hybrid", ["TOREN | lives in Kelford<SEP>writes | PERSON | 2", "VELINDRA | a novel | EVENT | 1",
                    "KELFORD | a town | GEO | 1"], [1, 2], [0, 1]),
        ("global", ["TOREN | lives in Kelford<SEP>writes | PERSON | 2", "VELINDRA | a novel | EVENT | 1"], [1], [0]),
        ("local", ["KELFORD | a town | GEO | 1", "TOREN | lives in Kelford<SEP>writes | PERSON | 2"], [1, 2], [1, 0]),
    ],
)  # fmt: skip
def test_each_level_finds_its_side_of_the_graph_first(mode, entities, relations, chunks):
    answer, tools = asked('{"high": ["authorship"], "low": ["Kelford", "town"]}', mode=mode)
    rows = {
        1: "TOREN | VELINDRA | is by<SEP>wrote it | a novel<SEP>authorship | 10 | 3",
        2: "KELFORD | TOREN | lives in | home | 5 | 3",
    }
    listed = ["Entities (name | description | type | rank):", *entities, ""]
    listed += [
        "Relations (name | name | description | keywords | weight | rank):",
        *(rows[i] for i in relations),
        "",
    ]
    sources = "\n\n".join(["Sources:", *(CHUNKS[i] for i in chunks), "The text ends here"])
    assert "\n".join([*listed, sources]) in tools.reader.prompts[-1]
    assert answer.text == "Kelford"
    written, *spans = answer.shown
    assert [TEXT[s.start : s.end].strip() for s in spans] == [CHUNKS[i] for i in chunks]
    assert [TEXT[a:b].strip() for _, a, b in written.sources] == CHUNKS[:2]  # of Toren
    assert [(step.action, step.node) for step in answer.steps] == [
        ("keywords", None),
        *(("read", i) for i in chunks),
    ]
    usage = tools.meter.usage()
    assert (usage["search"]["requests"], usage["answer"]["requests"]) == (1, 1)


def test_chunks_that_neighbours_share_come_first_and_each_list_ends_at_its_budget():
    document = Document("d", "a1 a2 b1 b2 c1 c2")
    index = {
        "chunks": [[0, 5], [6, 11], [12, 17]],
        "items": [[["TOREN"], "t t t", "PERSON", 0, [0, 1, 2]], [["X"], "x x x", "GEO", 0, [1, 2]],
                  [["Y"], "y", "GEO", 0, [2]], [["TOREN", "X"], "r r r", "k", 1, [1]], [["TOREN", "Y"], "s", "k", 7, [2]]],
        "vectors": Bag().encode(["Toren", "", "", "", ""], "passage"),
    }  # fmt: skip
    keywords = '{"high": [], "low": ["Toren"]}'
    answer, tools = asked(keywords, index, document, mode="local")
    assert "Sources:\n\nc1 c2\n\nb1 b2\n\na1 a2\n" in tools.reader.prompts[-1]
    assert "weight | rank):\nTOREN | Y | s | k | 7 | 3\nTOREN | X" in tools.reader.prompts[-1]
    answer, tools = asked(keywords, index, document, mode="local", budget=3)
    assert "Sources:\n\nc1 c2\n\nThe text" in tools.reader.prompts[-1]
    assert "TOREN | X" not in tools.reader.prompts[-1]
    assert answer.stop_reason == "1 entities, 1 relations, 1 of 1 chunks"


def test_where_the_window_is_short_entities_and_relations_get_a_third_of_it_each():
    said, names = " ".join(["said"] * 90), ["TOREN", "TORENA", "TORENB"]
    items = [[[name], said, "PERSON", 0, [0]] for name in names]
    items += [[[a, b], said, "k", 1, [0]] for a, b in pairwise(names)]
    vectors = Bag().encode([names[0] for _ in items], "passage")
    index = {"chunks": [[0, len(TEXT)]], "items": items, "vectors": vectors}
    keywords = '{"high": [], "low": ["Toren"]}'
    assert (
        asked(keywords, index, window=600)[0].stop_reason
        == "3 entities, 2 relations, 1 of 1 chunks"
    )
    assert (
        asked(keywords, index, window=552)[0].stop_reason
        == "1 entities, 1 relations, 1 of 1 chunks"
    )


@pytest.mark.parametrize(
    ("mode", "reply", "text"),
    [
        ("hybrid", "I do not know.", "unanswerable"),
        ("local", '{"high": ["authorship"], "low": []}', "unanswerable"),
        ("local", '{"high": [], "low": ["Mira"]}', "unanswerable"),
        ("hybrid", '{"high": [], "low": ["Mira"]}', "Kelford"),
    ],
)
def test_without_keywords_or_a_match_it_declines_but_asks_by_both_levels(mode, reply, text):
    answer, _ = asked(reply, mode=mode)
    assert answer.text == text
    assert [s.kind for s in answer.shown] == (["generated"] if text == "Kelford" else [])


@pytest.mark.parametrize(
    ("reply", "records"),
    [
        ("[['entity', ' Ann ', 'person', 'lives']]", [[["ANN"], "lives", "PERSON", 0.0]]),
        ('[["relation", "b", "a", "is", "k", 3.5]]', [[["B", "A"], "is", "k", 3.5]]),
        ('[["relation", "b", "a", "is", "k"]]', [[["B", "A"], "is", "k", 1.0]]),
        ('[["relation", "b", "a", "is", "k", "7"]]', [[["B", "A"], "is", "k", 7.0]]),
        ('[["relation", "b", "a", "is", "k", " .5"]]', [[["B", "A"], "is", "k", 0.5]]),
        ('[["relation", "b", "a", "is", "k", "7/10"]]', [[["B", "A"], "is", "k", 1.0]]),
        (
            '[["relation", "b", "", "is", "k", 1], ["entity", "a", "b"], ["note", "a", "b", "c", "d"]]',
            None,
        ),
        ('[["entity", Ann, "person", "b"]]', None),
        ("[]", []),
        ("none", None),
    ],
)
def test_records(reply, records):
    found = items_in(reply)
    assert (found if found is None else list(map(list, found))) == records


@pytest.mark.parametrize("text", ["", "nothing is named in here"])
def test_a_text_without_entities_can_be_asked_about(text):
    document = Document("d", text)
    index, _ = built([Rule(reply="none")], document)
    answer, _ = asked('{"high": ["a"], "low": ["b"]}', index, document)
    assert answer.stop_reason == "0 entities, 0 relations, 0 of 0 chunks"
