"""BM25 and dense retrieval: ranks and scores."""

from __future__ import annotations

from collections.abc import Iterator
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


def run(_code: Path | None, rows: Rows) -> Iterator[Stage]:
    """Chunks of real documents, ranked by each program."""
    import bm25s

    model = rows.metered
    okapi, ours, lucene, ranks = [], [], [], []
    vectors, own_vectors, cosine, own_cosine = [], [], [], []
    ours_encoder = load_encoder(part("encoders", sets={"encoder": "minilm"}), Meter("search"), "encoder")
    for question, text in rows.texts("hotpotqa", QUESTIONS):
        chunks = [text[a:b] for a, b in fixed_chunks(text, 100, model)]
        split, query = [words(chunk) for chunk in chunks], words(question)
        okapi.append(rank_bm25.BM25Okapi(split).get_scores(query).tolist())
        scores = bm25_scores(query, split)
        ours.append(scores.tolist())
        index = bm25s.BM25(k1=1.5, b=0.75)
        index.index(split, show_progress=False)
        lucene.append(int(np.argmax(index.get_scores(query))))
        ranks.append(int(np.argmax(scores)))
        vectors.append(encoder().encode([question, *chunks], show_progress_bar=False))
        query_vector, passages = ours_encoder.encode([question], "query"), ours_encoder.encode(chunks, "passage")
        own_vectors.append(np.concatenate([query_vector, passages]))
        cosine.append(
            util.cos_sim(vectors[-1][0], vectors[-1][1:])[0].numpy().argsort(kind="stable")[::-1][:5].tolist()
        )
        own_cosine.append(ours_encoder.similarity(query_vector[0], passages).argsort(kind="stable")[::-1][:5].tolist())
    yield stage(
        "rank-bm25: scores of all chunks (questions)", okapi, ours, "its idf is negative on few texts", "see docs"
    )
    yield stage("bm25s (Lucene's idf): the first chunk (questions)", lucene, ranks, "another idf", "kept: rank-bm25's")
    largest = [float(abs(a - b).max()) for a, b in zip(vectors, own_vectors, strict=True)]
    yield Stage(
        f"sentence-transformers: vectors, largest difference {max(largest):.1g}",
        len(largest),
        sum(x < 1e-5 for x in largest),
    )
    yield stage("sentence-transformers: the five nearest, in order (questions)", cosine, own_cosine)
