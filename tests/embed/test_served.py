"""Encoders and rerankers behind a server on this machine: batches, order, costs, and replies that
cannot be used."""

import json
from pathlib import Path

import numpy as np
import pytest

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.encoder_info import encoder_facts
from harness.embed.load import load_encoder, load_reranker
from harness.errors import CannotRun, RequestFailed
from harness.llm.endpoint_http import RetryPolicy
from tests.llm.loopback import Loopback


def config(url, **more):
    return EncoderConfig(
        **{"name": "e", "source": "big-e", "base_url": url, "retries": 1, "batch_size": 2, **more}
    )


def vector(text):
    """Two numbers that depend on the text alone."""
    return [float(len(text)), float(sum(map(ord, text)) % 11 + 1)]


def embeddings(body, usage=True):
    rows = [{"index": n, "embedding": vector(text)} for n, text in enumerate(body["input"])]
    return {"data": rows[::-1], **({"usage": {"prompt_tokens": 7}} if usage else {})}


def scores(body):
    return [{"index": n, "score": float(len(text))} for n, text in enumerate(body["texts"])][::-1]


def test_vectors_come_in_the_order_of_the_texts_and_are_normalised_here():
    texts = ["one", "three", "a river"]
    with Loopback([embeddings]) as server:
        meter = Meter("index")
        encoder = load_encoder(config(server.url, passage_prefix="passage: "), meter, "encoder")
        found = encoder.encode(texts, "passage")
        asked = [(body["model"], body["input"]) for body in server.asked]
    assert asked == [("big-e", ["passage: one", "passage: three"]), ("big-e", ["passage: a river"])]
    whole = np.asarray([vector("passage: " + text) for text in texts])
    assert found.dtype == np.float32
    assert np.allclose(found, whole / np.linalg.norm(whole, axis=1, keepdims=True))
    assert encoder.similarity(found[0], found)[0] == pytest.approx(1.0)
    usage = meter.usage()["index"]
    assert (usage["tokens_in"], usage["requests"], usage["texts"], usage["recounted"]) == (
        14,
        2,
        3,
        0,
    )
    assert encoder.encode([], "query").shape[0] == 0


def test_tokens_that_the_server_does_not_tell_are_estimated_and_dot_products_keep_their_length():
    with Loopback([lambda body: embeddings(body, usage=False)]) as server:
        meter = Meter("index")
        encoder = load_encoder(config(server.url, similarity="dot"), meter, "encoder")
        assert encoder.encode(["one two"], "query").tolist() == [vector("one two")]
    usage = meter.usage()["index"]
    assert (usage["tokens_in"], usage["recounted"]) == (2, 1)


def test_a_reranker_scores_each_passage():
    with Loopback([scores]) as server:
        meter = Meter("search")
        reranker = load_reranker(config(server.url), meter, "reranker")
        assert reranker.score("Who?", ["a", "abc", "ab"]).tolist() == [1.0, 3.0, 2.0]
        assert [body["texts"] for body in server.asked] == [["a", "abc"], ["ab"]]
        assert {body["query"] for body in server.asked} == {"Who?"}
    assert meter.usage()["search"]["encoder_requests"] == 2


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        ({"data": [{"index": 0, "embedding": [1.0]}]}, "not one result for each of 2 texts"),
        ({"data": [{"index": 0, "embedding": [1.0]}] * 2}, "not one result for each of 2 texts"),
        ({"data": [{"index": n, "embedding": ["x"]} for n in range(2)]}, "no list of numbers"),
        ({"data": [{"index": n, "embedding": []} for n in range(2)]}, "no list of numbers"),
        ({"error": "busy"}, "no list of results"),
        ([1, 2], "no list of results"),
    ],
)
def test_a_reply_that_cannot_be_used_is_asked_again_and_then_fails(reply, message, monkeypatch):
    monkeypatch.setattr(RetryPolicy, "wait_before", lambda *_: 0.0)
    with Loopback([lambda body: reply]) as server:
        encoder = load_encoder(config(server.url), Meter(), "encoder")
        with pytest.raises(RequestFailed, match=message):
            encoder.encode(["a", "b"], "passage")
        assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"base_url": "localhost:1"}, "encoder.base_url is no address"),
        (
            {"api_key_env": "NOT_SET"},
            "variable NOT_SET, which should hold the key of 'e', is not set",
        ),
        (
            {"api_key_env": "sk-x"},
            "encoder.api_key_env must be the name of an environment variable",
        ),
        ({"query_source": "other"}, "encoder.query_source: a server runs one network"),
        ({"base_url": None, "retries": 2}, "encoder.retries is for a server; set encoder.base_url"),
    ],
)
def test_mistakes_are_found_without_asking_anybody(more, message):
    (problem,) = encoder_facts(config("http://127.0.0.1:9/v1").model_copy(update=more)).problems
    assert message in problem


def test_what_is_served_and_not_where_identifies_an_encoder():
    def identity(**more):
        return encoder_facts(config("http://127.0.0.1:9/v1").model_copy(update=more)).identity

    assert identity() == identity(base_url="https://elsewhere/v1", timeout=3.0, api_key_env=None)
    for other in (
        {"source": "n"},
        {"revision": "2"},
        {"query_prefix": "q: "},
        {"similarity": "dot"},
    ):
        assert identity(**other) != identity()


def test_a_server_that_is_gone_is_named_by_the_setting():
    with pytest.raises(CannotRun, match=r"or correct its address \(encoder\.base_url\)"):
        load_encoder(config("http://127.0.0.1:9/v1", retries=0), Meter(), "encoder")


def test_a_run_asks_the_server_for_every_vector_and_score(here):
    with Loopback([embeddings]) as encoder, Loopback([scores]) as reranker:
        sets = [
            f"encoder.base_url={encoder.url}",
            f"reranker.base_url={reranker.url}",
            "encoder.source=big-e",
        ]
        for method, served in (("dos-rag", encoder), ("bce-reranker", reranker)):
            words = [
                "run",
                "--method",
                method,
                "--dataset",
                "pocket/musique",
                "--profile",
                "pocket",
                "--limit",
                "2",
            ]
            done = here(
                *words, "--model", "random", "--mlflow", "off", "--json", "--set", *sets
            ).checked(0)
            assert served.asked, method
            run = Path(json.loads(done.stdout.rstrip("\n").rsplit("\n", 1)[-1])["run"])
            assert json.loads((run / "summary.json").read_text())["n_failed"] == 0


def test_what_served_encoders_take_is_in_tables_and_limits_indexes_included(here):
    texts = []

    def counted(body):
        texts.extend(body["input"])
        reply = embeddings(body)
        return reply | {"usage": {"prompt_tokens": 10 * len(body["input"])}}

    with Loopback([counted]) as encoder, Loopback() as reader:
        prices = ["model.price.input=0", "model.price.output=0"]
        sets = [
            f"encoder.base_url={encoder.url}",
            "encoder.source=big-e",
            f"model.base_url={reader.url}",
            *prices,
        ]
        words = [
            "run",
            "--method",
            "dos-rag",
            "--dataset",
            "pocket/musique",
            "--profile",
            "pocket",
            "--limit",
            "3",
        ]
        words += ["--mlflow", "off", "--model", "endpoint", "--set", "model.window=8000", *sets]
        refused = here(*words, "--max-money", "1").checked(2)
        assert "--set encoder.price=...)" in refused.stderr
        stopped = here(*words, "encoder.price=1000", "--max-money", "0.0001").checked(3)
        assert "1 of 3" in stopped.stderr or "2 of 3" in stopped.stderr
        here(*words, "encoder.price=1000", "--max-money", "100").checked()
    (row,) = json.loads(here("report", "results", "--format", "json").stdout)
    assert row["money.run"] == pytest.approx(len(texts) * 10 * 1000 / 1e6)
    assert row["money.index"] > row["money.run"] / 6
    assert row["money"] * 3 == pytest.approx(row["money.run"])
