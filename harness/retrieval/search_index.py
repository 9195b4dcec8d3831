"""An index of a corpus that questions are searched in while they are answered.

    build_index(IndexRequest(corpus, out, kind="hybrid", encoder, words=100), report)
    index = SearchIndex.open(out)
    index.search("Who built the mill?", 5, meter)     -> 5 SearchHits, best first

    out/index.json      what it is: kind, counts, the corpus's checksum, the encoder; written last
        passages.jsonl  offsets.npy            (passage_store.py)
        bm25-1a2b3c4d/  e5-5e6f7a8b/           (corpus_bm25.py, dense_index.py)

"hybrid" adds up 1 / (60 + rank) of the best passages of both (reciprocal rank fusion, Cormack et
al., SIGIR 2009). The folder needs no other file: the corpus may be deleted.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.embed.load import load_encoder
from harness.errors import UserError
from harness.retrieval.corpus import Corpus
from harness.retrieval.passage_store import PassageStore, StoredPassage, write_passages
from harness.retrieval.passages import Report, open_table
from harness.retrieval.retrieval_run import check_packages
from harness.storage.files import (
    check_writable,
    delete_drafts,
    make_folder,
    read_object,
    write_atomic,
)
from harness.storage.run_files import folder_lock
from harness.types import VERSION, SearchHit, Shown

Kind = Literal["bm25", "dense", "hybrid"]
KINDS: tuple[Kind, ...] = ("bm25", "dense", "hybrid")
FACTS = "index.json"
ROLE = "retriever"
"""The role under which the cost of encoding a query counts."""
_RANK_CONSTANT = 60
_LEAST_DEPTH = 100
"""Passages of each ranking that reciprocal rank fusion looks at, where no more are asked for."""


@dataclass(frozen=True)
class IndexRequest:
    """What is indexed. corpus: the file; out: the index's folder; encoder: None for BM25 alone;
    words: of a passage."""

    corpus: Path
    out: Path
    kind: Kind
    encoder: EncoderConfig | None
    words: int


@dataclass(frozen=True)
class IndexFacts:
    """What an index is, as index.json has it.

    sha256: of the corpus; encoder: its configuration, None without; identity: everything that
    changes what a search finds.
    """

    kind: Kind
    corpus: str
    sha256: str
    passages: int
    documents: int
    encoder: EncoderConfig | None
    identity: dict[str, Any]

    @property
    def described(self) -> dict[str, Any]:
        """The facts for people and manifests."""
        encoder = None
        if self.encoder is not None:
            encoder = self.encoder.name
        return {
            "kind": self.kind,
            "corpus": self.corpus,
            "sha256": self.sha256,
            "passages": self.passages,
            "documents": self.documents,
            "encoder": encoder,
        }


def read_facts(folder: Path) -> IndexFacts:
    """Read what an index is. Raises UserError where the folder is none."""
    if not folder.is_dir():
        raise UserError(f"--corpus {folder}: no such folder; make it: harness index-corpus")
    if not (folder / FACTS).exists():
        raise UserError(
            f"--corpus {folder} is no finished index; make one: harness index-corpus CORPUS "
            "--out DIR"
        )
    try:
        values = read_object(folder / FACTS)
        encoder = values["encoder"]
        if encoder is not None:
            encoder = EncoderConfig.model_validate(encoder)
        return IndexFacts(
            kind=values["kind"],
            corpus=values["corpus"],
            sha256=values["sha256"],
            passages=int(values["passages"]),
            documents=int(values["documents"]),
            encoder=encoder,
            identity=values["identity"],
        )
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise UserError(f"the index in {folder} is damaged ({error}); make it anew") from None


def build_index(request: IndexRequest, report: Report) -> IndexFacts:
    """Build an index, or complete one whose build was interrupted.

    Args:
        request: The corpus and how it is indexed.
        report: Called with the progress.

    Returns:
        The description of the index.

    Raises:
        UserError: Another corpus, or no corpus, or a package is missing.
        SaveError: A file cannot be written.
    """
    for encoder in _encoders(request):
        check_packages(encoder)
    folder = request.out
    make_folder(folder, "--out")
    check_writable(folder)
    with folder_lock(folder):
        delete_drafts(folder)
        table = open_table(Corpus(request.corpus, request.words), folder, report)
        if int(table.facts["words"]) != request.words:
            raise UserError(
                f"{folder} was made with passages of {table.facts['words']} words; use "
                "--words of then, or another --out"
            )
        write_passages(table, folder, report)
        identity: dict[str, Any] = {"sha256": table.facts["sha256"], "words": request.words}
        for index in _parts(folder, len(table), request.kind, request.encoder):
            index.build(table, report)
            identity[index.folder.name] = index.facts()
        facts = IndexFacts(
            kind=request.kind,
            corpus=table.corpus.name,
            sha256=str(table.facts["sha256"]),
            passages=len(table),
            documents=int(table.facts["documents"]),
            encoder=request.encoder,
            identity={"kind": request.kind, **identity},
        )
        write_atomic(folder / FACTS, _as_json(facts), setting="--out")
    return facts


def _as_json(facts: IndexFacts) -> bytes:
    """The description of an index as the bytes of its file."""
    encoder = None
    if facts.encoder is not None:
        encoder = facts.encoder.model_dump(mode="json")
    values = {**facts.described, "encoder": encoder, "identity": facts.identity}
    return (json.dumps({**values, "harness": VERSION}, indent=2) + "\n").encode()


def _encoders(request: IndexRequest) -> list[EncoderConfig | None]:
    """What the parts of an index rank with; None for BM25."""
    if request.kind == "bm25":
        return [None]
    if request.kind == "dense":
        return [request.encoder]
    return [None, request.encoder]


def _parts(folder: Path, passages: int, kind: Kind, encoder: EncoderConfig | None) -> list[Any]:
    """The indexes of words and of vectors that an index of a kind has, in this order. Imported
    here, because each needs a package of its own."""
    parts: list[Any] = []
    if kind != "dense":
        from harness.retrieval import corpus_bm25

        parts.append(corpus_bm25.BM25Index(folder / corpus_bm25.folder_name(), passages))
    if kind != "bm25":
        from harness.retrieval import dense_index

        assert encoder is not None  # an index with vectors has one
        name = dense_index.folder_name(encoder)
        parts.append(dense_index.DenseIndex(folder / name, passages, encoder))
    return parts


def _no_report(_stage: str, _done: int, _total: int | None) -> None:
    pass


class SearchIndex:
    """An index that is open. facts: what it is. Several threads may search at once."""

    def __init__(self, folder: Path, facts: IndexFacts) -> None:
        self.facts = facts
        self._passages = PassageStore(folder)
        self._parts = _parts(folder, facts.passages, facts.kind, facts.encoder)

    @classmethod
    def open(cls, folder: Path) -> SearchIndex:
        """The index in a folder. Raises UserError where it is none, CannotRun for a missing
        package."""
        facts = read_facts(folder)
        if facts.kind != "dense":
            check_packages(None)
        if facts.encoder is not None:
            check_packages(facts.encoder)
        return cls(folder, facts)

    def search(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The `k` best passages, best first; fewer where fewer match.

        Args:
            query: A text.
            k: Most passages.
            meter: Counts the cost of encoding the query.
        """
        rankings = [self._ranking(part, query, self._depth(k), meter) for part in self._parts]
        ranked = rankings[0]
        if len(rankings) > 1:
            ranked = fused(rankings)
        return [hit_of(self._passages[number], score) for number, score in ranked[:k]]

    def _depth(self, k: int) -> int:
        """How many passages each ranker returns for the best k; a hybrid needs more to fuse."""
        depth = k
        if self.facts.kind == "hybrid":
            depth = max(k, _LEAST_DEPTH)
        return min(depth, self.facts.passages)

    def _ranking(self, part: Any, query: str, k: int, meter: Meter) -> list[tuple[int, float]]:
        """(passage number, score) of the best passages by one part of the index."""
        if part.uses_words:
            scores, numbers = part.search([query], k, _no_report)
        else:
            assert self.facts.encoder is not None  # a part with vectors has one
            encoder = load_encoder(self.facts.encoder, meter, ROLE)
            vectors = encoder.encode([query], "query")
            scores, numbers = part.nearest(np.asarray(vectors), k, _no_report)
        found: list[tuple[int, float]] = []
        for number, score in zip(numbers[0].tolist(), scores[0].tolist(), strict=True):
            if number >= 0:
                found.append((number, score))
        return found


def hit_of(passage: StoredPassage, score: float) -> SearchHit:
    """A passage of a corpus as a hit: a text of no document of the question."""
    hit = SearchHit(passage.id, passage.title, passage.text, score, Shown("quote"))
    shown = Shown("quote", text=hit.titled_text)
    return SearchHit(passage.id, passage.title, passage.text, score, shown)


def fused(rankings: Sequence[Sequence[tuple[int, float]]]) -> list[tuple[int, float]]:
    """Reciprocal rank fusion of rankings of (number, score), best first, ties by number."""
    totals: dict[int, float] = {}
    for ranking in rankings:
        for rank, (number, _) in enumerate(ranking, start=1):
            totals[number] = totals.get(number, 0.0) + 1 / (_RANK_CONSTANT + rank)
    return sorted(totals.items(), key=lambda item: (-item[1], item[0]))
