"""Top-k retrieval: chunks ranked by BM25, a sentence encoder, a reranker or chance, shown in one
prompt.

    document ──chunks──► rank(question) ──k chunks, or chunks up to a token budget──► the shared reading prompt

PECAN and GARLIC use the same 300-token chunks as their own method and concatenate in rank order
(docs/methods/retrieval.md#retrieval-rows). RECOMP's extractive compressor is the same with
sentences as chunks, shown in the order of the text (docs/methods/retrieval.md#recomp), as are DOS
RAG and OP-RAG (#dos-rag).
"""

from __future__ import annotations

import abc
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import model_validator

from harness.bm25 import bm25
from harness.method import Hit, Index, Indexes, MethodConfig, Retriever, Tools, Traits
from harness.method.settings import index_setting, setting
from harness.models import MeteredModel
from harness.types import Answer, Document, Question, Section, Shown, Step
from methods import packing
from methods.chunks import (
    Span,
    fixed_chunks,
    shifted,
    shown_spans,
    stored,
    texts_at,
    with_sentence_ends,
)
from methods.found import MOST_HITS, in_document_order, shown_hits, steps_of, texts_of
from methods.reading import Reading, ReadingMethod, ask, how_many_fit, question_text, room_for_text


class RetrievalConfig(MethodConfig):
    """The chunks that are ranked, and how many are shown."""

    # Index
    chunks: Literal["tokens", "packed", "clauses", "sentences", "passages"] = index_setting(
        "tokens",
        help=(
            '"tokens": hard cut every chunk_tokens; "packed": whole sentences up to '
            'chunk_tokens; "clauses": the same, a longer sentence is cut after its clauses; '
            '"sentences": chunk_sentences whole sentences, where one of more than '
            'chunk_tokens tokens is cut and counts as several; "passages": the paragraphs '
            "of the document, longer ones cut."
        ),
    )
    chunk_tokens: int = index_setting(300, gt=0, help="Most tokens of a chunk.")
    chunk_sentences: int | None = index_setting(
        None, gt=0, help='Sentences of a chunk with chunks="sentences".'
    )
    least_characters: int = index_setting(1, gt=0, help="Shorter chunks are dropped.")
    # Search
    k: int | None = setting(5, gt=0, help="Chunks shown.")
    budget: int | None = setting(
        None, gt=0, help="Tokens shown instead of k chunks (set k to null)."
    )
    order: Literal["rank", "document"] = setting(
        "rank", help='Shown best first ("rank") or as they stand in the text ("document").'
    )

    @model_validator(mode="after")
    def _check_limits(self) -> RetrievalConfig:
        """Raise ValueError unless one of k and budget is set, and chunk_sentences just with
        chunks=sentences."""
        if (self.k is None) == (self.budget is None):
            raise ValueError(
                "set exactly one of k and budget (method.k=null method.budget=1500 for a budget)"
            )
        if (self.chunks == "sentences") != (self.chunk_sentences is not None):
            raise ValueError(
                "chunk_sentences goes with chunks=sentences (method.chunks=sentences "
                "chunk_sentences=6)"
            )
        return self

    def cut(self, document: Document, model: MeteredModel) -> list[Span]:
        """The chunks of a document as spans of characters, in order.

        None runs across two of the document's sections, where it has any; those of less than
        `least_characters` are dropped.
        """
        sections = [one for one in document.passages if isinstance(one, Section)]
        spans = (
            self._spans_in(sections, document, model) if sections else self._spans(document, model)
        )
        return [(start, end) for start, end in spans if end - start >= self.least_characters]

    def _spans_in(
        self, sections: Sequence[Section], document: Document, model: MeteredModel
    ) -> list[Span]:
        """The chunks of a document with sections: none runs across two of them.

        Args:
            sections: The sections.
            document: The document.
            model: The model whose tokens are counted.
        """
        spans: list[Span] = []
        for section in sections:
            text = document.text[section.start : section.end]
            inside = Document(document.id, text)
            parts = with_sentence_ends(text, self._spans(inside, model))
            spans += shifted(parts, section.start)
        return spans

    def _spans(self, document: Document, model: MeteredModel) -> list[Span]:
        """Cut a document into chunks as the setting `chunks` says, without regard to its
        sections."""
        size = self.chunk_tokens
        if self.chunks == "tokens":
            return fixed_chunks(document.text, size, model)
        if self.chunks == "passages":
            return packing.passage_chunks(document, size, model)
        if self.chunks == "packed":
            return packing.packed_chunks(document.text, size, model)
        if self.chunks == "clauses":
            return packing.clause_chunks(document.text, size, model)
        assert self.chunk_sentences is not None  # as _check_limits demands with "sentences"
        return packing.sentence_chunks(document.text, self.chunk_sentences, size, model)

    @property
    def ends_with_sentences(self) -> bool:
        """Whether ends of sentences decide where a chunk ends."""
        return self.chunks != "tokens"


class TopK(ReadingMethod):
    """Chunks, a ranking, a prompt; subclasses say how to rank."""

    Config = RetrievalConfig
    traits = Traits(one_request=True)
    scope = "document"
    index_roles: ClassVar[tuple[str, ...]] = ("reader",)
    # method.k=from:RUN_FOLDER shows as many chunks as cost what that run's questions cost.
    from_other_runs: Mapping[str, str] = {"k": "chunk_tokens"}

    def __init__(self, config: MethodConfig) -> None:
        """Keep the settings; give the index the version "2" where its chunks end with sentences."""
        super().__init__(config)
        if self.config.ends_with_sentences:
            # Version 2 has another rule for ends of sentences; other chunks are as before.
            self.index_version = "2"  # type: ignore[misc]

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: {"chunks": [[start, end], ...] in characters}, and what
        `prepare` adds for the ranking."""
        chunks = self.config.cut(document, tools.model())
        texts = texts_at(document.text, chunks)
        return {"chunks": stored(chunks), **self.prepare(texts, tools)}

    def most_shown(self) -> int | None:
        """The most chunks that a reader is shown: the setting k; None with a budget."""
        k: int | None = self.config.k
        return k

    def most_tokens_shown(self) -> int | None:
        """The most tokens that a reader is shown: k chunks of `chunk_tokens` each, or the
        budget."""
        if self.config.k is None:
            budget: int | None = self.config.budget
            return budget
        tokens: int = self.config.k * self.config.chunk_tokens
        return tokens

    def passages_are_disjoint(self) -> bool:
        """True: no two chunks of the one cut overlap."""
        return True

    def prepare(self, texts: list[str], tools: Tools) -> Index:
        """What the index of a document holds for the ranking, beside the chunks, such as their
        vectors; {} by default.

        Args:
            texts: The texts of the chunks.
            tools: The engine's tools.
        """
        return {}

    @abc.abstractmethod
    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """Score the chunks of a document for a question.

        Args:
            question: The question.
            texts: The texts of the chunks.
            index: The document's index, as `index` built it.
            tools: The engine's tools.

        Returns:
            A score of each chunk [chunks], higher is better.
        """

    def steps(
        self, shown: Sequence[Shown], kept: Sequence[int], ranks: np.ndarray, tools: Tools
    ) -> list[Step]:
        """Steps of the trace for the chunks that were read; none by default.

        Args:
            shown: The spans of these chunks, in the order of the prompt.
            kept: Their numbers among all chunks, in the same order.
            ranks: The scores of all chunks [chunks].
            tools: The engine's tools.
        """
        return []

    def answer(
        self, question: Question, documents: Sequence[Document], indexes: Indexes, tools: Tools
    ) -> Answer:
        """Rank the chunks, show the best, answer.

        If not even one fits, the answer is given without a text, and the stop reason says so.
        """
        (document,) = documents
        (index,) = indexes
        request = Reading(tools.task, config=self.config)
        return self.read_best(question, document, index, tools, request)

    def read_best(
        self, question: Question, document: Document, index: Index, tools: Tools, request: Reading
    ) -> Answer:
        """Answer from the best chunks that fit.

        Args:
            question: The question.
            document: The document.
            index: Its index.
            tools: The engine's tools.
            request: How the answer is asked for.

        Returns:
            An answer whose stop reason is k, budget, window, or exhausted (all fit).
        """
        retriever = tools.retriever()
        if retriever is not None:
            return self.read_hits(question, document, retriever, tools, request)
        chunks: list[Span] = [(start, end) for start, end in index["chunks"]]
        texts = texts_at(document.text, chunks)
        with tools.phase("search"):
            scores = self.rank(question, texts, index, tools)
        order = best_first(scores)
        read = read_best_fitting(question, self.as_read(texts), order, tools, request)
        shown = shown_spans(document, [chunks[i] for i in read.numbers])
        steps = self.steps(shown, read.numbers, scores, tools)
        return Answer(read.answer, shown, read.stop_reason, tuple(steps))

    def read_hits(
        self,
        question: Question,
        document: Document,
        retriever: Retriever,
        tools: Tools,
        request: Reading,
    ) -> Answer:
        """Answer from the passages of a retriever of the user's own, in place of chunks.

        Args:
            question: The question.
            document: The document, whose order of passages may count.
            retriever: What finds them.
            tools: The engine's tools.
            request: How the answer is asked for.

        Returns:
            An answer whose stop reason is k, budget, window, or exhausted (all were shown).
        """
        with tools.phase("search"):
            found = retriever.search(self.query(question), self.candidates())
            best = self.chosen(question, found, tools)[: self.config.k]
        read = read_hits_fitting(question, document, best, tools, request, self.as_read)
        steps = tuple(steps_of(found, tools))
        return Answer(read.answer, shown_hits(read.hits), read.stop_reason, steps)

    def query(self, question: Question) -> str:
        """The text that a retriever of the user's own is asked to search for: the question."""
        return question.text

    def candidates(self) -> int:
        """How many passages a retriever of the user's own is asked to find: k, or MOST_HITS with a
        budget."""
        return self.config.k or MOST_HITS

    def chosen(self, question: Question, hits: list[Hit], tools: Tools) -> list[Hit]:
        """The passages of a retriever in the order in which they are shown; its own order by
        default.

        Args:
            question: The question.
            hits: What the retriever found, best first.
            tools: The engine's tools, for methods that rank the passages anew.
        """
        return hits

    def as_read(self, texts: list[str]) -> list[str]:
        """The texts of all chunks, in the order of the document, as the prompt shows them:
        unchanged by default; a subclass may number them."""
        return texts


@dataclass(frozen=True)
class BestRead:
    """Which of the ranked texts were read, and what the reader answered.

    Attributes:
        answer: The reader's answer.
        numbers: The numbers of the texts that were read, in the order of the prompt.
        stop_reason: Why no more were read: "k", "budget", "window", or "exhausted" where all fit.
    """

    answer: str
    numbers: list[int]
    stop_reason: str


def _retrieval_config(request: Reading) -> RetrievalConfig:
    """The method's settings in a request, which say how many passages are read, and in which
    order."""
    assert isinstance(request.config, RetrievalConfig)
    return request.config


@dataclass(frozen=True)
class _Fitting:
    """How many of the best texts fit, from the best one on.

    Attributes:
        count: Their number.
        reason: Why no more are read: "budget" or "window" where not all fit, "k" where all fit and
            there are more, else "exhausted".
    """

    count: int
    reason: str


def _fit(
    question: Question, best: Sequence[str], are_all: bool, tools: Tools, request: Reading
) -> _Fitting:
    """Find how many texts fit into the budget of `request` and the window.

    Args:
        question: The question.
        best: The k best texts as the prompt shows them, best first.
        are_all: Whether there are no further texts.
        tools: The engine's tools.
        request: How the answer is asked for; its `config` is a RetrievalConfig.
    """
    config = _retrieval_config(request)
    model = tools.model()
    room = room_for_text(question, tools, model, request)
    limit = room
    if config.budget is not None:
        limit = min(room, config.budget)
    count = how_many_fit(best, limit, model)
    if count < len(best):
        if limit < room:
            return _Fitting(count, "budget")
        return _Fitting(count, "window")
    if are_all:
        return _Fitting(count, "exhausted")
    return _Fitting(count, "k")


def read_best_fitting(
    question: Question, texts: Sequence[str], order: Sequence[int], tools: Tools, request: Reading
) -> BestRead:
    """Answer from the best texts, as many as the settings of `request` and the window allow.

    Args:
        question: The question.
        texts: The pieces as the prompt shows them.
        order: Their numbers, best first.
        tools: The engine's tools.
        request: How the answer is asked for; its `config` is a RetrievalConfig.
    """
    config = _retrieval_config(request)
    best = order[: config.k]
    are_all = len(best) == len(order)
    fitting = _fit(question, [texts[i] for i in best], are_all, tools, request)
    reason = fitting.reason
    if best and fitting.count == 0:
        reason += ": not even one chunk fits"
    read = list(best[: fitting.count])
    if config.order == "document":
        read.sort()
    answer = ask(question, [texts[i] for i in read], tools, tools.model(), request)
    return BestRead(answer, read, reason)


@dataclass(frozen=True)
class HitsRead:
    """Which passages of a retriever were read, and what the reader answered.

    Attributes:
        answer: The reader's answer.
        hits: The passages that were read, in the order of the prompt.
        stop_reason: Why no more were read: "k", "budget", "window", or "exhausted" where all fit.
    """

    answer: str
    hits: list[Hit]
    stop_reason: str


def read_hits_fitting(
    question: Question,
    document: Document,
    best: Sequence[Hit],
    tools: Tools,
    request: Reading,
    as_read: Callable[[list[str]], list[str]] = list,
) -> HitsRead:
    """Answer from the best passages of a retriever, as many as the settings and the window allow.

    Args:
        question: The question.
        document: The document, whose order of passages may count.
        best: The passages to show, best first.
        tools: The engine's tools.
        request: How the answer is asked for; its `config` is a RetrievalConfig.
        as_read: The passages' texts -> as the prompt shows them, such as TopK.as_read; unchanged by
            default.
    """
    config = _retrieval_config(request)
    # A retriever that gives k passages may have more.
    are_all = len(best) != config.k
    fitting = _fit(question, as_read(texts_of(best)), are_all, tools, request)
    read = list(best[: fitting.count])
    if config.order == "document":
        read = in_document_order(read, [document])
    answer = ask(question, as_read(texts_of(read)), tools, tools.model(), request)
    return HitsRead(answer, read, fitting.reason)


def similarity_to(query: str, vectors: ArrayLike, tools: Tools) -> np.ndarray:
    """How similar a query is to each passage, [passages], by the run's encoder; higher is better.

    Args:
        query: The query.
        vectors: The vectors of the passages, made by the same encoder [passages, width].
        tools: The engine's tools.
    """
    encoder = tools.encoder()
    (vector,) = encoder.encode([query], "query")
    return encoder.similarity(vector, np.asarray(vectors))


def best_first(scores: np.ndarray) -> list[int]:
    """The indices of the scores, the highest first; equal ones keep their order.

    [0.2, 0.9, 0.2] -> [1, 0, 2]
    """
    order: list[int] = np.argsort(-scores, kind="stable").tolist()
    return order


class BM25(TopK):
    """BM25 over the document's own chunks."""

    summary = "top-k chunks by BM25"
    traits = Traits(one_request=True, draws=False, takes_retriever=True)

    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """The BM25 score of each chunk for the question, [chunks]; the index is not used."""
        return bm25(question.text, texts)


class Dense(TopK):
    """A sentence encoder over the document's chunks; embeddings are kept with the index."""

    summary = "top-k chunks by a sentence encoder"
    traits = Traits(one_request=True, draws=False, takes_retriever=True)
    encoders = ("encoder",)
    index_roles = ("reader", "encoder")

    def prepare(self, texts: list[str], tools: Tools) -> Index:
        """{"embeddings": the vectors of the chunks' texts by the encoder, [chunks, width]}."""
        return {"embeddings": tools.encoder().encode(texts, "passage")}

    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """How similar the question is to each chunk by the encoder, [chunks]; `index` has the
        chunks' vectors."""
        return similarity_to(question.text, index["embeddings"], tools)


class DosRagConfig(RetrievalConfig):
    """Chunks up to a budget of tokens."""

    k: int | None = setting(None, gt=0, help="Chunks shown, None: as many as the budget holds.")
    budget: int | None = setting(10_000, gt=0, help="Tokens shown.")
    query_options: bool = setting(
        True, help="Rank by the question together with the answers to choose from."
    )


class DosRag(Dense):
    """DOS RAG's ranking: as by a sentence encoder, but for the query
    (docs/methods/retrieval.md#dos-rag)."""

    Config = DosRagConfig
    summary = "chunks by a sentence encoder up to a budget, in the order of the document (DOS RAG)"
    traits = Traits(one_request=True, draws=False, takes_retriever=True)

    def query(self, question: Question) -> str:
        """The text that is searched for: the question, with its options where `query_options` is
        set."""
        if self.config.query_options:
            return question_text(question)
        return question.text

    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """How similar the query of this method (question and options) is to each chunk,
        [chunks]."""
        asked = replace(question, text=self.query(question))
        return super().rank(asked, texts, index, tools)


class Reranked(TopK):
    """A cross-encoder reads the question with every chunk: no first stage could lose one."""

    summary = "top-k chunks by a reranker over all chunks"
    traits = Traits(one_request=True, draws=False, takes_retriever=True)
    encoders = ("reranker",)

    def candidates(self) -> int:
        """How many passages a retriever of the user's own is asked to find: MOST_HITS, from which
        the reranker chooses."""
        return MOST_HITS

    def chosen(self, question: Question, hits: list[Hit], tools: Tools) -> list[Hit]:
        """The passages of a retriever, best first by the reranker.

        Args:
            question: The question.
            hits: What the retriever found.
            tools: The engine's tools, which have the reranker.
        """
        scores = tools.reranker().score(question.text, texts_of(hits))
        return [hits[i] for i in best_first(scores)]

    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """The reranker's score of each chunk for the question, [chunks]; the index is not used."""
        return tools.reranker().score(question.text, texts)


class RandomChunks(TopK):
    """Chunks by chance, by the run's seed and the question: the floor that every choice must
    beat."""

    summary = "k chunks by chance: the floor of retrieval"
    traits = Traits(one_request=True, floor=True)

    def rank(self, question: Question, texts: list[str], index: Index, tools: Tools) -> np.ndarray:
        """A random score in [0, 1) for each chunk, [chunks]; the same in every run with this seed
        and question."""
        draw = random.Random(f"{tools.seed} {question.id}")
        return np.array([draw.random() for _ in texts])
