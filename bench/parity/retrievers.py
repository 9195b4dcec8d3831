"""BM25 and dense retrieval: ranks and scores."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import rank_bm25
from sentence_transformers import util

from bench.parity import Stage, stage
from bench.parity.raptor import encoder
from bench.parity.rows import Rows
from harness.config.resolve import part
from harness.cost.meter import Meter
from harness.embed.load import load_encoder
from methods.chunks import fixed_chunks
from methods.retrieval import bm25_scores, words

PROGRAM = "rank-bm25"
METHODS = "`bm25`, `sbert` (also bm25s and sentence-transformers)"
QUESTIONS = 20
LAST = "of equal scores its last is first"
TIES = "kept: the first of equal scores is first (docs/methods/retrieval.md#bm25)"
IDF = "its idf is ln(1 + (N - n + 0.5) / (n + 0.5)), rank-bm25's ln((N - n + 0.5) / (n + 0.5))"


def run(_code: Path | None, rows: Rows) -> Iterator[Stage]:
    """Chunks of real documents, ranked by each program."""
    texts = rows.texts("hotpotqa", QUESTIONS)
    cut = [(question, [text[a:b] for a, b in fixed_chunks(text, 100, rows.metered)]) for question, text in texts]
    yield from _sparse(cut, rows)
    yield from _few()
    yield from _dense(cut)


def _lucene(split: list[list[str]], query: list[str]) -> list[float]:
    """Scores of bm25s with its default method."""
    import bm25s

    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(split, show_progress=False)
    return [float(score) for score in index.get_scores(query)]


def _sparse(cut: Sequence[tuple[str, list[str]]], rows: Rows) -> Iterator[Stage]:
    scores: list[list[list[float]]] = [[], [], []]
    best: list[list[list[int]]] = [[], [], []]
    for question, chunks in cut:
        split, query = [words(chunk) for chunk in chunks], words(question)
        okapi = rank_bm25.BM25Okapi(split)
        found = (okapi.get_scores(query).tolist(), _lucene(split, query), bm25_scores(query, split).tolist())
        orders = (
            okapi.get_top_n(query, list(range(len(chunks))), 5),
            np.argsort(-np.array(found[1]), kind="stable")[:5].tolist(),
            np.argsort(-np.array(found[2]), kind="stable")[:5].tolist(),
        )
        for kept, values in zip((*scores, *best), (*found, *orders), strict=True):
            kept.append(values)
    yield stage("rank-bm25: scores of all chunks (questions)", scores[0], scores[2])
    yield stage(
        "rank-bm25: the five best, in order (questions)", best[0], best[2], "its last of equal scores is first", TIES
    )
    yield stage("bm25s: the five best, in order (questions)", best[1], best[2], IDF, "kept: rank-bm25's")
    shown = [
        ["\n\n".join(chunks[i] for i in order) for (_, chunks), order in zip(cut, found, strict=True)] for found in best
    ]
    yield rows.answers("bm25s", *map(rows.read, shown[1:]))


def _few() -> Iterator[Stage]:
    """200 made-up collections of two to four texts over eight words."""
    dice = random.Random(5)
    okapi, lucene = [], []
    orders: list[list[list[int]]] = [[], []]
    for _ in range(200):
        split = [dice.choices("abcdefgh", k=dice.randint(2, 9)) for _ in range(dice.randint(2, 4))]
        query = dice.choices("abcdefgh", k=3)
        index, ours = rank_bm25.BM25Okapi(split), bm25_scores(query, split).tolist()
        if index.average_idf > 0:
            orders[0].append(index.get_top_n(query, list(range(len(split)))))
            orders[1].append(np.argsort(-np.array(ours), kind="stable").tolist())
        (lucene if index.average_idf <= 0 else okapi).append((split, query, ours))
    yield stage(
        "rank-bm25: scores of 2 to 4 texts whose mean idf is positive",
        [rank_bm25.BM25Okapi(split).get_scores(query).tolist() for split, query, _ in okapi],
        [ours for _, _, ours in okapi],
    )
    yield stage("rank-bm25: order of these texts", *orders, LAST, TIES)
    pairs = [(_lucene(split, query), ours) for split, query, ours in lucene]
    yield Stage(
        "bm25s: order of 2 to 4 texts whose mean idf is not positive",
        len(pairs),
        sum(np.allclose(np.array(a) * 2.5, b, rtol=1e-4, atol=1e-6) for a, b in pairs),
        settled="there ours takes Lucene's idf, with which no word weighs less than nothing (rank-bm25: some do)",
    )


def _dense(cut: Sequence[tuple[str, list[str]]]) -> Iterator[Stage]:
    largest, best = [], [[], []]
    ours = load_encoder(part("encoders", sets={"encoder": "minilm"}), Meter("search"), "encoder")
    for question, chunks in cut:
        vectors = encoder().encode([question, *chunks], show_progress_bar=False)
        query, passages = ours.encode([question], "query"), ours.encode(chunks, "passage")
        largest.append(float(abs(vectors - np.concatenate([query, passages])).max()))
        cosine = util.cos_sim(vectors[0], vectors[1:])[0].numpy()
        for kept, values in zip(best, (cosine, ours.similarity(query[0], passages)), strict=True):
            kept.append(values.argsort(kind="stable")[::-1][:5].tolist())
    name = f"sentence-transformers: vectors, largest difference {max(largest):.1g}"
    yield Stage(name, len(largest), sum(x < 1e-5 for x in largest))
    yield stage("sentence-transformers: the five nearest, in order (questions)", *best)
