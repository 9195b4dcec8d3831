"""BM25 and dense retrieval: ranks and scores."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import bm25s
import numpy as np
import rank_bm25
from sentence_transformers import SentenceTransformer, util

from bench.parity import Found
from bench.parity.raptor import minilm
from bench.parity.rows import Rows
from harness.bm25 import bm25_scores
from harness.words import words
from methods.chunks import fixed_chunks
from methods.retrieval import best_first

PROGRAM = "rank-bm25"
METHODS = "`bm25`, `sbert` (also bm25s and sentence-transformers)"
FIVE, ORDER = "bm25s: the five best, in order (questions)", "rank-bm25: order of these texts"
LUCENE = "bm25s: scores of 2 to 4 texts whose mean idf is not positive"
REASONS = {
    FIVE: "its idf is ln(1 + (N - n + 0.5) / (n + 0.5)), rank-bm25's ln((N - n + 0.5) / (n + 0.5)), which ours keeps",
    ORDER: "of equal scores its last is first; kept: ours takes the first",
    LUCENE: "there ours takes Lucene's idf",
}


def compare(_code: Path | None, rows: Rows, found: Found) -> None:
    """Compare the ranks of chunks of real documents by each program."""
    cut = [
        (asked, [text[a:b] for a, b in fixed_chunks(text, 100, rows.metered)])
        for asked, text in rows.texts()
    ]
    shown: list[list[str]] = [[], []]
    for question, chunks in cut:
        split, query = [words(chunk) for chunk in chunks], words(question)
        okapi, ours = rank_bm25.BM25Okapi(split), bm25_scores(query, split).tolist()
        found.add(
            "rank-bm25: scores of all chunks (questions)", okapi.get_scores(query).tolist(), ours
        )
        orders = [best_first(np.array(scores))[:5] for scores in (_lucene(split, query), ours)]
        top = okapi.get_top_n(query, list(range(len(chunks))), 5)
        found.add("rank-bm25: the five best, in order (questions)", top, orders[1])
        found.add(FIVE, *orders)
        for texts, order in zip(shown, orders, strict=True):
            texts.append("\n\n".join(chunks[i] for i in order))
    rows.answers(found, FIVE, *map(rows.read, shown))
    _small_collections(found)
    _dense(cut, rows, found)


def _lucene(split: list[list[str]], query: list[str]) -> list[float]:
    """Scores [texts] of bm25s with its default method."""
    index = bm25s.BM25(k1=1.5, b=0.75)
    index.index(split, show_progress=False)
    return [float(score) for score in index.get_scores(query)]


def _small_collections(found: Found) -> None:
    """Compare scores in 200 made-up collections of two to four texts over eight words."""
    dice = random.Random(5)
    for _ in range(200):
        split = [dice.choices("abcdefgh", k=dice.randint(2, 9)) for _ in range(dice.randint(2, 4))]
        query = dice.choices("abcdefgh", k=3)
        index, ours = rank_bm25.BM25Okapi(split), bm25_scores(query, split)
        if index.average_idf > 0:
            name = "rank-bm25: scores of 2 to 4 texts whose mean idf is positive"
            found.add(name, index.get_scores(query).tolist(), ours.tolist())
            found.add(ORDER, index.get_top_n(query, list(range(len(split)))), best_first(ours))
        else:
            found.add(LUCENE, [2.5 * score for score in _lucene(split, query)], ours.tolist(), 1e-4)


def _dense(cut: Sequence[tuple[str, list[str]]], rows: Rows, found: Found) -> None:
    """Compare MiniLM's vectors and nearest chunks. cut: (question, chunks of its document)."""
    encoder, ours = SentenceTransformer(str(minilm()), device="cpu"), rows.encoder
    for question, chunks in cut:
        vectors = encoder.encode([question, *chunks], show_progress_bar=False)
        query, passages = ours.encode([question], "query"), ours.encode(chunks, "passage")
        name = "sentence-transformers: vectors within 1e-6 (questions)"
        found.add(name, vectors.tolist(), [*query.tolist(), *passages.tolist()], 1e-6)
        cosine = util.cos_sim(vectors[0], vectors[1:])[0].numpy()
        best = (best_first(scores)[:5] for scores in (cosine, ours.similarity(query[0], passages)))
        found.add("sentence-transformers: the five nearest, in order (questions)", *best)
