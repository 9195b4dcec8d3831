"""An index of a corpus that questions are searched in while they are answered.

    build_index(IndexRequest(corpus, out, "hybrid", encoder, words_per_passage=100), report)
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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from pathlib import Path
from typing import Literal, NamedTuple

from harness.config.schema import EncoderConfig
from harness.cost.meter import Meter
from harness.errors import UserError
from harness.retrieval.corpus import Corpus
from harness.retrieval.open_ranker import ranker_in_folder
from harness.retrieval.passage_store import PassageStore, StoredPassage, write_passages
from harness.retrieval.passages import Passages, Report, load_or_make_table
from harness.retrieval.rankers import PassageRanker
from harness.retrieval.retrieval_run import check_packages
from harness.storage.files import (
    check_writable,
    delete_drafts,
    make_folder,
    read_object,
    write_atomic,
)
from harness.storage.json_values import JsonValues
from harness.storage.run_files import folder_lock
from harness.types import VERSION, SearchHit, Shown

Kind = Literal["bm25", "dense", "hybrid"]
KINDS: tuple[Kind, ...] = ("bm25", "dense", "hybrid")
FACTS_FILE = "index.json"
_RANK_CONSTANT = 60  # k of reciprocal rank fusion (Cormack et al.)
_LEAST_PASSAGES_TO_FUSE = 100
"""Passages of each ranking that reciprocal rank fusion looks at, where no more are wanted."""


@dataclass(frozen=True)
class IndexRequest:
    """What is indexed.

    Attributes:
        corpus_file: The file of its pages or passages.
        folder: The index's folder.
        kind: Which rankings it has.
        encoder: None for BM25 alone.
        words_per_passage: The number of words of a passage.
    """

    corpus_file: Path
    folder: Path
    kind: Kind
    encoder: EncoderConfig | None
    words_per_passage: int


class CorpusDescription(JsonValues):
    """What a searched corpus is, for people and manifests.

    Attributes:
        kind: "bm25", "dense" or "hybrid".
        corpus: The name of its file.
        sha256: The sha256 of the file.
        passages: How many can be found.
        documents: How many they belong to.
        encoder: The encoder's name; None for BM25 alone.
        server: The address of a served index; None for a folder.
    """

    kind: str
    corpus: str
    sha256: str
    passages: int
    documents: int
    encoder: str | None = None
    server: str | None = None


@dataclass(frozen=True)
class CorpusFacts:
    """What a searched corpus is. identity: everything that changes what a search finds."""

    described: CorpusDescription
    identity: Mapping[str, object]


@dataclass(frozen=True)
class IndexFacts:
    """What an index is, as index.json has it.

    Attributes:
        kind: Which rankings it has.
        corpus: The name of the corpus file.
        sha256: The sha256 of the corpus file.
        passages: How many can be found.
        documents: How many they belong to.
        encoder: Its configuration; None for BM25 alone.
        identity: Everything that changes what a search finds.
    """

    kind: Kind
    corpus: str
    sha256: str
    passages: int
    documents: int
    encoder: EncoderConfig | None
    identity: Mapping[str, object]

    @property
    def described(self) -> CorpusDescription:
        """The facts that people and manifests are shown; the encoder by its name."""
        encoder = None
        if self.encoder is not None:
            encoder = self.encoder.name
        return CorpusDescription(
            kind=self.kind,
            corpus=self.corpus,
            sha256=self.sha256,
            passages=self.passages,
            documents=self.documents,
            encoder=encoder,
        )

    @property
    def as_corpus(self) -> CorpusFacts:
        """The facts that a run over the index needs."""
        return CorpusFacts(self.described, self.identity)


def read_index_facts(folder: Path) -> IndexFacts:
    """Read index.json, what the index in a folder is.

    Raises UserError where the folder has no finished index, or a damaged one.
    """
    if not folder.is_dir():
        raise UserError(f"--corpus {folder}: no such folder; make it: harness index-corpus")
    if not (folder / FACTS_FILE).exists():
        raise UserError(
            f"--corpus {folder} is no finished index; make one: harness index-corpus CORPUS "
            "--out DIR"
        )
    try:
        values = read_object(folder / FACTS_FILE)
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
    """Build an index in the folder `request.folder`, or complete one whose build was interrupted.
    The folder is locked meanwhile.

    Args:
        request: The corpus and how it is indexed.
        report: Called with the progress.

    Returns:
        What the index is, as it was also written to index.json.

    Raises:
        UserError: The folder has the index of another corpus or of passages of another length, the
            corpus cannot be used, or a package is missing.
        SaveError: A file cannot be written.
    """
    for encoder_or_bm25 in _encoders_of_rankers(request.kind, request.encoder):
        check_packages(encoder_or_bm25)
    folder = request.folder
    make_folder(folder, "--out")
    check_writable(folder)
    with folder_lock(folder):
        delete_drafts(folder)
        corpus = Corpus(request.corpus_file, request.words_per_passage)
        table = load_or_make_table(corpus, folder, report)
        words_of_table = table.counts.words_per_passage
        if words_of_table != request.words_per_passage:
            raise UserError(
                f"{folder} was made with passages of {words_of_table} words; use "
                "--words of then, or another --out"
            )
        write_passages(table, folder, report)
        rankers = _rankers_in_folder(folder, len(table), request.kind, request.encoder)
        for ranker in rankers:
            ranker.build(table, report)
        facts = _describe_index(request, table, rankers)
        write_atomic(folder / FACTS_FILE, _as_json(facts), setting="--out")
    return facts


def _describe_index(
    request: IndexRequest, table: Passages, rankers: Sequence[PassageRanker]
) -> IndexFacts:
    """Describe an index that was built. Its identity is all that changes the results of a search:
    {"kind": "bm25", "sha256": ..., "words": 100, "bm25-1a2b3c4d": {"retriever": "bm25", ...}}.

    Args:
        request: How it was indexed.
        table: The passages of its corpus.
        rankers: The rankers that it has.
    """
    identity: dict[str, object] = {
        "kind": request.kind,
        "sha256": table.counts.sha256,
        "words": request.words_per_passage,
    }
    for ranker in rankers:
        identity[ranker.folder.name] = ranker.facts()
    return IndexFacts(
        kind=request.kind,
        corpus=table.corpus.name,
        sha256=table.counts.sha256,
        passages=len(table),
        documents=table.counts.n_documents,
        encoder=request.encoder,
        identity=identity,
    )


def _as_json(facts: IndexFacts) -> bytes:
    """The facts of an index as the bytes of index.json."""
    encoder = None
    if facts.encoder is not None:
        encoder = facts.encoder.model_dump(mode="json")
    values = {
        **facts.described.to_json(),
        "encoder": encoder,
        "identity": facts.identity,
        "harness": VERSION,
    }
    return (json.dumps(values, indent=2) + "\n").encode()


def _encoders_of_rankers(kind: Kind, encoder: EncoderConfig | None) -> list[EncoderConfig | None]:
    """The encoder of each ranker that an index of this kind has, None for BM25, which comes first.

    "bm25" -> [None]; "dense" -> [encoder]; "hybrid" -> [None, encoder]
    """
    if kind == "bm25":
        return [None]
    if kind == "dense":
        return [encoder]
    return [None, encoder]


def _rankers_in_folder(
    folder: Path, n_passages: int, kind: Kind, encoder: EncoderConfig | None
) -> list[PassageRanker]:
    """The rankers that an index has in its folder, BM25 first.

    Args:
        folder: The folder of the index.
        n_passages: The number of passages of the corpus.
        kind: Which rankers it has.
        encoder: Encodes passages and questions; None for BM25 alone.
    """
    return [
        ranker_in_folder(folder, n_passages, encoder_or_bm25)
        for encoder_or_bm25 in _encoders_of_rankers(kind, encoder)
    ]


def _ignore_progress(_stage: str, _done: int, _total: int | None) -> None:
    """Take the progress of a search and do nothing."""


class _ScoredPassage(NamedTuple):
    """The number of a passage, and its score for a query."""

    number: int
    score: float


class SearchIndex:
    """An index that is open. Several threads may search at once.

    Attributes:
        facts: What it is.
    """

    def __init__(self, folder: Path, facts: IndexFacts) -> None:
        """Open the passages and the rankers of the index in a folder; `facts` is what it is."""
        self.facts = facts
        self._passages = PassageStore(folder)
        self._rankers = _rankers_in_folder(folder, facts.passages, facts.kind, facts.encoder)

    @classmethod
    def open(cls, folder: Path) -> SearchIndex:
        """Read what the index in a folder is, and open it.

        Raises UserError where there is none, CannotRun for a missing package.
        """
        facts = read_index_facts(folder)
        for encoder_or_bm25 in _encoders_of_rankers(facts.kind, facts.encoder):
            check_packages(encoder_or_bm25)
        return cls(folder, facts)

    def search(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The `k` best passages for a query, best first; fewer where fewer match.

        Args:
            query: The text to search for.
            k: The largest number of passages.
            meter: Counts the cost of encoding the query.
        """
        n_of_ranker = self._passages_of_ranker(k)
        rankings = [_rank_passages(ranker, query, n_of_ranker, meter) for ranker in self._rankers]
        best_first = rankings[0]
        if len(rankings) > 1:
            best_first = fuse_rankings(rankings)
        return [hit_in_corpus(self._passages[number], score) for number, score in best_first[:k]]

    def _passages_of_ranker(self, k: int) -> int:
        """How many passages each ranker returns where the best `k` are wanted.

        A hybrid needs at least 100, to fuse them; never more than there are.
        """
        n_passages = k
        if self.facts.kind == "hybrid":
            n_passages = max(k, _LEAST_PASSAGES_TO_FUSE)
        return min(n_passages, self.facts.passages)


def _rank_passages(ranker: PassageRanker, query: str, k: int, meter: Meter) -> list[_ScoredPassage]:
    """The best passages for a query by one ranker, best first.

    Args:
        ranker: The ranker.
        query: The text to search for.
        k: The largest number of passages.
        meter: Counts the cost of encoding the query.
    """
    (scores,), (numbers,) = ranker.search([query], k, _ignore_progress, meter)
    found: list[_ScoredPassage] = []
    for number, score in zip(numbers.tolist(), scores.tolist(), strict=True):
        is_match = number >= 0
        if is_match:
            found.append(_ScoredPassage(number, score))
    return found


def hit_in_corpus(passage: StoredPassage, score: float) -> SearchHit:
    """A passage of a corpus as a hit of a search.

    It is in no document of the question, so what a reader is shown of it, title and text, is
    recorded as a quote.
    """
    hit = SearchHit(passage.id, passage.title, passage.text, score, Shown("quote"))
    return replace(hit, shown=Shown("quote", text=hit.titled_text))


def fuse_rankings(rankings: Sequence[Sequence[tuple[int, float]]]) -> list[_ScoredPassage]:
    """Fuse rankings by reciprocal rank: a passage gets the sum of 1 / (60 + its rank) over them.

    [[(7, 9.1), (3, 8.0)], [(3, 0.9)]] -> [(3, 1/62 + 1/61), (7, 1/61)]

    Args:
        rankings: (passage number, score) of each ranking, best first.

    Returns:
        The passages with their fused scores, best first, ties by number.
    """
    fused_score_by_number: dict[int, float] = {}
    for ranking in rankings:
        for rank, (number, _) in enumerate(ranking, start=1):
            fused_score = fused_score_by_number.get(number, 0.0)
            fused_score_by_number[number] = fused_score + 1 / (_RANK_CONSTANT + rank)
    by_number = [_ScoredPassage(*pair) for pair in sorted(fused_score_by_number.items())]
    return sorted(by_number, key=attrgetter("score"), reverse=True)  # equal ones stay in order
