"""An index that is searched while questions are answered, against the libraries themselves."""

import json

import bm25s
import faiss
import numpy as np
import pytest

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.errors import UserError
from harness.retrieval import corpus_bm25, dense_index
from harness.retrieval.rankers import ROLE
from harness.retrieval.search_index import IndexRequest, SearchIndex, build_index, fuse_rankings

WORDS = ("mill", "river", "boat", "winter", "green", "stone", "harbour", "letter", "blue", "tower")


def rows(count=40):
    draw = np.random.default_rng(0)
    return [
        (f"Page {n}", " ".join(draw.choice(WORDS, size=int(draw.integers(3, 9)))))
        for n in range(count)
    ]


def build(folder, kind, encoder=None, words=100, made=None):
    corpus = folder / "corpus.jsonl"
    lines = []
    for n, (title, text) in enumerate(made or rows()):
        lines.append(json.dumps({"id": f"p{n}", "title": title, "text": text}) + "\n")
    corpus.write_text("".join(lines))
    request = IndexRequest(corpus, folder / kind, kind, encoder, words)
    build_index(request, lambda *_: None)
    return folder / kind


@pytest.fixture(scope="module")
def encoder(tmp_path_factory):
    from tests.embed.saved_models import saved

    folder = saved(tmp_path_factory.mktemp("encoder") / "net")
    return EncoderConfig(name="tiny", source=folder, device="cpu")


def ids(hits):
    return [hit.id for hit in hits]


def test_bm25_over_shards_ranks_as_one_index_of_the_library(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_bm25, "PASSAGES_PER_SHARD", 7)
    index = SearchIndex.open(build(tmp_path, "bm25"))
    whole = bm25s.BM25()
    texts = [f"{title}\n{text}" for title, text in rows()]
    whole.index(bm25s.tokenize(texts, show_progress=False), show_progress=False)
    for query in ("the green mill", "blue tower blue", "letter 12", "nowhere"):
        (asked,) = bm25s.tokenize([query], return_ids=False, show_progress=False)
        scores = whole.get_scores(asked)
        best = [n for n in np.argsort(-scores, kind="stable")[:6] if scores[n] > 0]
        hits = index.search(query, 6, Meter())
        assert ids(hits) == [f"p{n}" for n in best]
        assert [hit.score for hit in hits] == pytest.approx([float(scores[n]) for n in best])
    (first, *_) = index.search("the green mill", 1, Meter())
    assert (first.title, first.text) == rows()[int(first.id[1:])]


def test_dense_ranks_as_faiss_and_encoding_a_query_is_counted(tmp_path, monkeypatch, encoder):
    from sentence_transformers import SentenceTransformer

    monkeypatch.setattr(dense_index, "PASSAGES_PER_FILE", 16)
    index = SearchIndex.open(build(tmp_path, "dense", encoder))
    net = SentenceTransformer(encoder.source, device="cpu")
    texts = [f"{title}\n{text}" for title, text in rows()]
    vectors = net.encode(texts, normalize_embeddings=True)
    flat = faiss.IndexFlatIP(vectors.shape[1])
    flat.add(vectors)
    scores, _ = flat.search(net.encode(["the green mill"], normalize_embeddings=True), 5)
    meter = Meter("search")
    hits = index.search("the green mill", 5, meter)
    np.testing.assert_allclose([hit.score for hit in hits], scores[0], atol=2e-4)
    (event,) = meter.events
    assert (event.kind, event.role) == ("embed", ROLE)
    assert meter.flops("all-params") > 0


def test_hybrid_adds_up_the_reciprocal_ranks_of_both(tmp_path, encoder):
    assert fuse_rankings([[(4, 9.0), (7, 8.0)], [(7, 0.5), (1, 0.4)]]) == [
        (7, 1 / 62 + 1 / 61),
        (4, 1 / 61),
        (1, 1 / 62),
    ]
    hybrid = SearchIndex.open(build(tmp_path, "hybrid", encoder))
    words = ids(SearchIndex.open(build(tmp_path, "bm25")).search("green mill", 100, Meter()))
    near = ids(
        SearchIndex.open(build(tmp_path, "dense", encoder)).search("green mill", 100, Meter())
    )
    totals = dict.fromkeys(near, 0.0)
    for ranking in (words, near):
        for rank, name in enumerate(ranking, 1):
            totals[name] += 1 / (60 + rank)
    best = sorted(totals, key=lambda name: (-totals[name], int(name[1:])))[:5]
    assert ids(hybrid.search("green mill", 5, Meter())) == best


def test_a_long_row_is_several_passages_with_ids_of_their_own(tmp_path):
    long = " ".join(f"w{n}" for n in range(250))
    index = SearchIndex.open(build(tmp_path, "bm25", made=[("Long", long), ("Short", "mill")]))
    assert index.facts.passages == 4
    assert ids(index.search("w0 w249", 3, Meter())) == ["p0#3", "p0#1"]
    assert index.search("w249", 1, Meter())[0].text == " ".join(f"w{n}" for n in range(200, 250))


def test_a_stopped_build_is_no_index_and_goes_on(tmp_path, monkeypatch):
    def stopped(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(corpus_bm25.BM25Index, "_write_shard", stopped)
        with pytest.raises(KeyboardInterrupt):
            build(tmp_path, "bm25")
    with pytest.raises(UserError, match="is no finished index"):
        SearchIndex.open(tmp_path / "bm25")
    assert len(SearchIndex.open(build(tmp_path, "bm25")).search("mill", 3, Meter())) == 3


def test_another_corpus_does_not_go_into_an_index(tmp_path):
    build(tmp_path, "bm25")
    with pytest.raises(UserError, match="has changed since its index was made"):
        build(tmp_path, "bm25", made=[("Other", "text")])
    with pytest.raises(UserError, match="was made with passages of 100 words"):
        build(tmp_path, "bm25", words=50)
