"""Retrieval in stages, each a setting of one method.

    question ──► queries ──► a ranking by each query and ranker ──► one order ──► reranked ──► pieces
                 rewritten   BM25, an encoder, or both              fused         the first n  chunks,
                 or passages                                                                   or sections

Every stage but the ranking can be left out. Sources of the defaults: docs/methods/stages.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import numpy as np
from pydantic import model_validator

from harness.bm25 import bm25
from harness.method import Hit, Index, Indexes, MethodConfig, Retriever, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.prompts import Prompt
from harness.types import Answer, Document, Question, Step
from methods.chunks import Span, shifted, shown_spans, spans_as_lists, texts_at
from methods.found import MAX_HITS, retrieve_steps_of_hits, shown_hits, texts_of
from methods.fusion import reciprocal_rank_fusion
from methods.packing import passage_chunks
from methods.reading import Reading, ReadingMethod
from methods.retrieval import RetrievalConfig, best_first, read_best_fitting, read_hits_fitting
from methods.rewriting import (
    HYPOTHESIS,
    QUERIES,
    Writing,
    rewrite_question,
    write_hypothetical_passages,
)

Ranker = Literal["bm25", "dense"]
RANKERS: dict[str, tuple[Ranker, ...]] = {
    "bm25": ("bm25",),
    "dense": ("dense",),
    "hybrid": ("bm25", "dense"),
}
"""Value of the setting `ranking` -> what ranks the chunks."""


class StagedConfig(RetrievalConfig):
    """The stages. Chunks, k, budget and order are those of top-k retrieval."""

    # Index
    section_tokens: int | None = index_setting(
        None,
        gt=0,
        help=(
            "Show the section of the document that a chunk is of, in place of the chunk; one of "
            "more tokens is cut at the ends of sentences. k and budget then count sections. "
            "None: chunks are shown."
        ),
    )
    # Search
    ranking: Literal["bm25", "dense", "hybrid"] = setting(
        "hybrid",
        help='What ranks chunks: "bm25", "dense" (a sentence encoder), or "hybrid" (both, fused).',
    )
    rrf_k: int = setting(
        60, gt=0, help="The constant of reciprocal rank fusion (Cormack et al. 2009)."
    )
    rerank: int | None = setting(
        None,
        gt=0,
        help="A reranker orders so many of the first chunks anew. None: there is no reranker.",
    )
    hypothetical_passages: int | None = setting(
        None,
        gt=0,
        help=(
            "HyDE: the model writes so many passages that would answer the question, and the "
            "encoder searches by the mean of their vectors and the question's."
        ),
    )
    rewritten_queries: int | None = setting(
        None,
        gt=0,
        help=(
            "The model writes so many queries more; the rankings of all and of the question are "
            "fused."
        ),
    )
    rewrite_tokens: int = setting(512, gt=0, help="Most tokens of a reply that holds queries.")
    rewrite_temperature: float = setting(
        0.0, ge=0, help="Temperature of replies that hold queries; 0 is greedy."
    )

    @model_validator(mode="after")
    def _check_stages(self) -> StagedConfig:
        """Raise ValueError for hypothetical passages without an encoder, or together with rewritten
        queries."""
        if self.hypothetical_passages is not None and self.ranking == "bm25":
            raise ValueError(
                "hypothetical_passages are searched by an encoder; set ranking=dense or hybrid"
            )
        if self.hypothetical_passages is not None and self.rewritten_queries is not None:
            raise ValueError("set one of hypothetical_passages and rewritten_queries, not both")
        return self

    @property
    def rewrites(self) -> bool:
        """Whether a model writes queries or passages to search by."""
        return self.hypothetical_passages is not None or self.rewritten_queries is not None

    @property
    def rankers(self) -> tuple[Ranker, ...]:
        """The rankers that the setting `ranking` stands for: "hybrid" -> ("bm25", "dense")."""
        return RANKERS[self.ranking]

    def sections(self, document: Document, model: MeteredModel) -> list[Span]:
        """The parts of a document that are shown in place of chunks, as spans of characters; []
        where chunks are shown."""
        if self.section_tokens is None:
            return []
        return passage_chunks(document, self.section_tokens, model)


@dataclass(frozen=True)
class Queries:
    """What is searched for.

    Attributes:
        texts: The question, and other words for it.
        passages: HyDE's passages, which the encoder searches with beside the question.
    """

    texts: list[str]
    passages: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Ranked:
    """Chunks in an order, and why.

    Attributes:
        order: The numbers of all chunks, best first.
        ranking_by_question: Ranker -> its ranking by the question itself.
        fused: The scores [chunks] where several rankings were fused.
        logits: Chunk -> the reranker's score.
    """

    order: list[int]
    ranking_by_question: dict[str, list[int]]
    fused: list[float] = field(default_factory=list)
    logits: dict[int, float] = field(default_factory=dict)

    def scores_of(self, chunk: int) -> dict[str, float]:
        """The scores that a step records of a chunk, by name.

        "bm25 rank", "dense rank"   places in the rankings, from 1 on
        "fused"                     its score after fusion
        "reranker"                  its logit
        """
        scores: dict[str, float] = {}
        for ranker, ranking in self.ranking_by_question.items():
            if chunk in ranking:
                scores[f"{ranker} rank"] = float(ranking.index(chunk) + 1)
        if self.fused:
            scores["fused"] = self.fused[chunk]
        if chunk in self.logits:
            scores["reranker"] = self.logits[chunk]
        return scores


class StagedRetrieval(ReadingMethod):
    """Queries, rankings, their fusion, a reranker, and what is shown."""

    Config = StagedConfig
    summary = "top-k retrieval in stages: hybrid ranking, a reranker, sections, rewritten queries"
    scope = "document"
    encoders: ClassVar[tuple[str, ...]] = ("encoder", "reranker")
    index_roles: ClassVar[tuple[str, ...]] = ("reader", "encoder")

    def __init__(self, config: MethodConfig) -> None:
        """Keep the settings, and set the encoders, index roles and traits that follow from them.

        A dense ranking needs the encoder, also for the index; `rerank` needs the reranker. One
        request is enough where no queries are written; a retriever of the user's own can take part
        where no sections are shown.
        """
        super().__init__(config)
        stages: StagedConfig = self.config
        encoders: list[str] = []
        index_roles = ["reader"]
        if "dense" in stages.rankers:
            encoders.append("encoder")
            index_roles.append("encoder")
        if stages.rerank is not None:
            encoders.append("reranker")
        self.encoders = tuple(encoders)  # type: ignore[misc]
        self.index_roles = tuple(index_roles)  # type: ignore[misc]
        self.traits = Traits(  # type: ignore[misc]
            one_request=not stages.rewrites, takes_retriever=stages.section_tokens is None
        )

    def most_shown(self) -> int | None:
        """The most chunks, or sections, that a reader is shown: the setting k; None with a
        budget."""
        k: int | None = self.config.k
        return k

    def most_tokens_shown(self) -> int | None:
        """The most tokens that a reader is shown: k of the longest chunks or sections, or the
        budget."""
        stages: StagedConfig = self.config
        if stages.k is None:
            return stages.budget
        return (stages.section_tokens or stages.chunk_tokens) * stages.k

    def templates(self) -> Sequence[Prompt]:
        """The prompts that it sends: the one for passages or queries where these are written, and
        the shared reading prompts."""
        stages: StagedConfig = self.config
        own: list[Prompt] = []
        if stages.hypothetical_passages is not None:
            own.append(HYPOTHESIS)
        if stages.rewritten_queries is not None:
            own.append(QUERIES)
        return (*own, *super().templates())

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document.

        Returns:
            "chunks" and "sections" as [start, end] in characters; "section_of": the section of
            each chunk, where there are any; "embeddings" [chunks, width] for a dense ranking.
        """
        model = tools.model()
        sections = self.config.sections(document, model)
        chunks: list[Span] = []
        section_of: list[int] = []
        for number, section in enumerate(sections):
            chunks_of_section = self._chunks_of_section(document, section, model)
            chunks += chunks_of_section
            section_of += [number] * len(chunks_of_section)
        if not sections:
            chunks = self.config.cut(document, model)
        index: Index = {
            "chunks": spans_as_lists(chunks),
            "sections": spans_as_lists(sections),
            "section_of": section_of,
        }
        if "dense" in self.config.rankers:
            texts = texts_at(document.text, chunks)
            index["embeddings"] = tools.encoder().encode(texts, "passage")
        return index

    def _chunks_of_section(
        self, document: Document, section: Span, model: MeteredModel
    ) -> list[Span]:
        """The chunks of document.text[start:end], where `section` is (start, end), as spans of the
        document."""
        start, end = section
        section_alone = Document(document.id, document.text[start:end])
        return shifted(self.config.cut(section_alone, model), start)

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Write queries, rank the chunks, rerank the first ones, and answer from the best chunks or
        sections that fit.

        Without a setting for it, a stage is left out.
        """
        (document,) = documents
        (index,) = indexes
        retriever = tools.retriever()
        if retriever is not None:
            return self.read_hits(question, document, retriever, tools)
        texts = texts_at(document.text, index["chunks"])
        with tools.phase("search"):
            queries, steps = self.write_queries(question, tools)
            ranked = self.rank_by_queries(queries, texts, index, tools)
            ranked = self.reranked(question, ranked, texts, tools)
            flops = tools.meter.flops()
        candidates = ShownCandidates.of(ranked, index)
        pieces = texts_at(document.text, candidates.pieces)
        request = Reading(tools.task, config=self.config)
        read = read_best_fitting(question, pieces, candidates.order, tools, request)
        shown = shown_spans(document, [candidates.pieces[number] for number in read.numbers])
        for piece, span_shown in zip(read.numbers, shown, strict=True):
            chunk = candidates.best_chunk[piece]
            scores = ranked.scores_of(chunk)
            tokens = tools.model().count(pieces[piece])
            step = Step(
                "retrieve", chunk, scores=scores, tokens=tokens, flops=flops, shown=span_shown
            )
            steps.append(step)
        return Answer(read.answer, shown, read.stop_reason, tuple(steps))

    def read_hits(
        self, question: Question, document: Document, retriever: Retriever, tools: Tools
    ) -> Answer:
        """Answer from the passages of a retriever of the user's own, which ranks in place of BM25
        and the encoder.

        Args:
            question: The question.
            document: The document, whose order of passages may count.
            retriever: Finds passages by each query; the rankings of several are fused.
            tools: The engine's tools.
        """
        with tools.phase("search"):
            queries, steps = self.write_queries(question, tools)
            hits = self.search_and_fuse(queries, retriever)
            best_hits = self.reranked_hits(question, hits, tools)[: self.config.k]
        request = Reading(tools.task, config=self.config)
        read = read_hits_fitting(question, document, best_hits, tools, request)
        steps += retrieve_steps_of_hits(hits, tools)
        return Answer(read.answer, shown_hits(read.hits), read.stop_reason, tuple(steps))

    def search_and_fuse(self, queries: Queries, retriever: Retriever) -> list[Hit]:
        """What a retriever finds for all queries and passages, each text once, best first.

        Of several searches the order is the fusion of their rankings (reciprocal rank fusion).
        """
        search_texts = [*queries.texts, *queries.passages]
        hits_per_search = max(self.config.k or MAX_HITS, self.config.rerank or 0)
        if len(search_texts) == 1:
            return list(retriever.search(search_texts[0], hits_per_search))
        hits: list[Hit] = []
        number_of_text: dict[str, int] = {}
        rankings: list[list[int]] = []
        for query in search_texts:
            ranking: dict[int, None] = {}  # each passage once
            for hit in retriever.search(query, hits_per_search):
                text = hit.text or ""
                if text not in number_of_text:
                    number_of_text[text] = len(hits)
                    hits.append(hit)
                ranking[number_of_text[text]] = None
            rankings.append(list(ranking))
        fused = reciprocal_rank_fusion(rankings, len(hits), self.config.rrf_k)
        return [hits[number] for number in best_first(fused)]

    def reranked_hits(self, question: Question, hits: list[Hit], tools: Tools) -> list[Hit]:
        """The hits with the first `rerank` of them in the order of the reranker; the others follow
        as they were. Without this setting the hits are returned unchanged."""
        count = self.config.rerank
        if count is None:
            return hits
        scores = tools.reranker().score(question.text, texts_of(hits[:count]))
        return [hits[number] for number in best_first(scores)] + hits[count:]

    def write_queries(self, question: Question, tools: Tools) -> tuple[Queries, list[Step]]:
        """Let the model write what to search for, as the settings ask.

        Returns the queries, the question among them, and a step of the trace for each text that the
        model wrote.

        Without a setting that asks for passages or queries they are the question alone, without
        steps.
        """
        stages: StagedConfig = self.config
        writing = Writing(
            max_tokens=stages.rewrite_tokens,
            temperature=stages.rewrite_temperature,
            config=stages,
        )
        question_alone = Queries([question.text])
        if stages.hypothetical_passages is not None:
            n_texts = stages.hypothetical_passages
            written = write_hypothetical_passages(question, n_texts, writing, tools)
            return replace(question_alone, passages=written), self._rewrite_steps(written, tools)
        if stages.rewritten_queries is not None:
            n_texts = stages.rewritten_queries
            written = rewrite_question(question, n_texts, writing, tools)
            return Queries([question.text, *written]), self._rewrite_steps(written, tools)
        return question_alone, []

    def _rewrite_steps(self, written_texts: Sequence[str], tools: Tools) -> list[Step]:
        """A step "rewrite" of the trace for each text that the model wrote to search by."""
        flops = tools.meter.flops()
        model = tools.model()
        return [
            Step("rewrite", tokens=model.count(text), flops=flops, note=text)
            for text in written_texts
        ]

    def rank_by_queries(
        self, queries: Queries, texts: Sequence[str], index: Index, tools: Tools
    ) -> Ranked:
        """Rank all chunks: by one ranking, at whose end stand the chunks that it leaves out, or by the
        fusion of those by each ranker and query.

        Args:
            queries: What is searched for, the question first.
            texts: The chunks' texts.
            index: The document's index, as `index` built it.
            tools: The engine's tools.
        """
        rankings: list[list[int]] = []
        ranking_by_question: dict[str, list[int]] = {}
        for ranker in self.config.rankers:
            rankings_of_ranker: list[list[int]] = []
            for query in queries.texts:
                ranking = rank_chunks(ranker, query, queries, texts, index, tools)
                rankings_of_ranker.append(ranking)
            ranking_by_question[ranker] = rankings_of_ranker[0]
            rankings += rankings_of_ranker
        if len(rankings) == 1:
            return Ranked(completed(rankings[0], len(texts)), ranking_by_question)
        fused = reciprocal_rank_fusion(rankings, len(texts), self.config.rrf_k)
        return Ranked(best_first(fused), ranking_by_question, fused=fused.tolist())

    def reranked(
        self, question: Question, ranked: Ranked, texts: Sequence[str], tools: Tools
    ) -> Ranked:
        """The ranking with the first `rerank` chunks in the order of the reranker; the others
        follow as they were. Without this setting it is returned unchanged.

        Args:
            question: The question, as it was asked.
            ranked: The ranking of the first stage.
            texts: The chunks' texts.
            tools: The engine's tools.
        """
        count = self.config.rerank
        if count is None:
            return ranked
        chunks_to_rerank = ranked.order[:count]
        other_chunks = ranked.order[count:]
        texts_to_rerank = [texts[chunk] for chunk in chunks_to_rerank]
        logits = np.asarray(tools.reranker().score(question.text, texts_to_rerank))
        reranked_order = [chunks_to_rerank[number] for number in best_first(logits)]
        logit_of_chunk = dict(zip(chunks_to_rerank, logits.tolist(), strict=True))
        return replace(ranked, order=[*reranked_order, *other_chunks], logits=logit_of_chunk)


@dataclass(frozen=True)
class ShownCandidates:
    """What may be shown: chunks, or the sections that they are of.

    Attributes:
        pieces: Spans of the document.
        order: Their numbers, best first.
        best_chunk: Piece -> the chunk that found it.
    """

    pieces: list[Span]
    order: list[int]
    best_chunk: dict[int, int]

    @classmethod
    def of(cls, ranked: Ranked, index: Index) -> ShownCandidates:
        """What may be shown: the chunks as they are ranked; or, where the index has sections, each
        section once, at the rank of its best chunk."""
        if not index["sections"]:
            return cls(index["chunks"], ranked.order, {chunk: chunk for chunk in ranked.order})
        best_chunk: dict[int, int] = {}
        for chunk in ranked.order:
            best_chunk.setdefault(index["section_of"][chunk], chunk)
        return cls(index["sections"], list(best_chunk), best_chunk)


def rank_chunks(
    ranker: Ranker, query: str, queries: Queries, texts: Sequence[str], index: Index, tools: Tools
) -> list[int]:
    """Numbers of the chunks that a ranker finds for one query, best first.

    Args:
        ranker: "bm25" finds the chunks with a word of the query, "dense" finds all.
        query: One of the texts of `queries`.
        queries: All queries, with the passages whose vectors "dense" averages with the query's.
        texts: The chunks' texts.
        index: The document's index, as StagedRetrieval.index built it.
        tools: The engine's tools.
    """
    if ranker == "bm25":
        scores = bm25(query, texts)
        return [chunk for chunk in best_first(scores) if scores[chunk] > 0]
    return ranked_by_encoder(query, queries.passages, index, tools)


def ranked_by_encoder(query: str, passages: Sequence[str], index: Index, tools: Tools) -> list[int]:
    """Numbers of all chunks, the most similar to a query first.

    Args:
        query: The query.
        passages: Passages that a model wrote for it; where there are any, the search is by the mean
            of the vectors of query and passages.
        index: The document's index; has the "embeddings" of the chunks [chunks, width].
        tools: The engine's tools.
    """
    encoder = tools.encoder()
    query_vectors = encoder.encode([query], "query")
    if passages:
        passage_vectors = encoder.encode(passages, "passage")
        query_vectors = np.concatenate([query_vectors, passage_vectors]).mean(axis=0, keepdims=True)
    return best_first(encoder.similarity(query_vectors[0], np.asarray(index["embeddings"])))


def completed(ranking: Sequence[int], count: int) -> list[int]:
    """A ranking of the items 0 to `count` - 1, with those that it leaves out added at its end, in
    their order: [2, 0], 4 -> [2, 0, 1, 3]."""
    ranked = set(ranking)
    return [*ranking, *(item for item in range(count) if item not in ranked)]
