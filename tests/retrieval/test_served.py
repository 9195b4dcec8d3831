"""The client of a retriever of the user's own, against replies in the shapes of the published references."""

import pytest

from harness.config import registry
from harness.config.schema import RetrieverConfig
from harness.errors import ModelOutputError
from harness.method import Hit
from harness.retrieval.served import ServedRetriever, find_problems
from tests.llm.loopback import Loopback

QUERY = "How long is the warranty?"
ELASTICSEARCH = {
    "took": 5, "timed_out": False, "_shards": {"total": 1, "successful": 1, "skipped": 0, "failed": 0},
    "hits": {
        "total": {"value": 2, "relation": "eq"}, "max_score": 1.3862942,
        "hits": [
            {"_index": "wiki", "_id": "a1", "_score": 1.3862942,
             "_source": {"text": "lasts two years", "source": "setup.md"}},
            {"_index": "wiki", "_id": "prices.md", "_score": 0.2, "_source": {"content": "forty euros"}},
        ],
    },
}  # fmt: skip
QDRANT = {
    "usage": {"hardware": None}, "time": 0.001, "status": "ok",
    "result": {
        "points": [
            {"id": 42, "version": 3, "score": 0.75,
             "payload": {"page_content": "lasts two years", "metadata": {"source": "setup.md"}}},
            {"id": "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", "version": 3, "score": 0.5,
             "payload": {"text": "forty euros"}},
        ]
    },
}  # fmt: skip
FORMS = {
    "json": (
        {"query": QUERY, "k": 2},
        [{"page": "setup.md", "text": "lasts two years", "score": 2}, {"id": "prices.md"}],
        [Hit("setup.md", "lasts two years", 2.0), Hit("prices.md")],
    ),
    "elasticsearch": (
        {"size": 2, "query": {"multi_match": {"query": QUERY}}},
        ELASTICSEARCH,
        [Hit("setup.md", "lasts two years", 1.3862942), Hit("prices.md", "forty euros", 0.2)],
    ),
    "qdrant": (
        {"query": [0.5, 1.0], "limit": 2, "with_payload": True},
        QDRANT,
        [
            Hit("setup.md", "lasts two years", 0.75),
            Hit("5c56c793-69f3-4fbf-87e6-c4bf54c28c26", "forty euros", 0.5),
        ],
    ),
}


def retriever(server, **settings):
    """A retriever at the server."""
    return ServedRetriever(RetrieverConfig(name="wiki", base_url=server.url, **settings))


@pytest.mark.parametrize("form", FORMS)
def test_each_form_is_asked_and_read_as_published(form):
    sent, reply, hits = FORMS[form]
    with Loopback([lambda body: reply]) as server:
        served = retriever(server, format=form)
        assert served.search(QUERY, 2, (0.5, 1) if served.needs_vector else None) == hits
    assert server.asked == [sent]


def test_more_hits_than_asked_for_are_left_out():
    with Loopback([lambda body: {"results": ["one", "two", "three"]}]) as server:
        assert retriever(server).search(QUERY, 2) == [Hit(text="one"), Hit(text="two")]


@pytest.mark.parametrize("reply", [[], {"hits": []}, {"results": []}])
def test_no_hit_is_no_mistake(reply):
    with Loopback([lambda body: reply]) as server:
        assert retriever(server).search(QUERY, 2) == []


def test_a_map_and_a_body_of_ones_own():
    reply = {"data": {"docs": [{"uri": "setup.md", "snippet": "two years"}]}}
    places = {"hits": "data.docs", "page": "uri", "text": "snippet"}
    body = '{"q": {{ query | tojson }}, "top": {{ k }}}'
    with Loopback([lambda body: reply]) as server:
        found = retriever(server, map=places, body=body).search(QUERY, 3)
    assert found == [Hit("setup.md", "two years")]
    assert server.asked == [{"q": QUERY, "top": 3}]


@pytest.mark.parametrize(
    ("reply", "sentence"),
    [
        ({"took": 3}, "no list at .*it has took.*--retriever-map hits=PATH"),
        (
            [{"passage": "x"}],
            "neither a text nor a page .it has passage.*--retriever-map text=PATH",
        ),
        (
            [{"text": ["x"]}],
            "text of the reply: should be a text; correct --retriever-map text=PATH",
        ),
        ([{"text": "x", "score": "high"}], "score of the reply: should be a number"),
    ],
)
def test_a_reply_of_another_shape_names_the_option(reply, sentence):
    with Loopback([lambda body: reply]) as server, pytest.raises(ModelOutputError, match=sentence):
        retriever(server).search(QUERY, 2)


async def nearest(query, k):
    return [Hit("setup.md", f"{query} {number}") for number in range(k)]


def test_a_function_gives_the_hits():
    target = f"{__name__}:nearest"
    registry.trust(target)
    config = RetrieverConfig(name="own", function=target)
    assert find_problems(config) == []
    assert ServedRetriever(config).search("Who?", 2) == [
        Hit("setup.md", "Who? 0"),
        Hit("setup.md", "Who? 1"),
    ]
