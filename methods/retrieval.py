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
    spans_as_lists,
    texts_at,
    with_sentence_ends,
)
from methods.found import MAX_HITS, in_document_order, retrieve_steps_of_hits, shown_hits, texts_of
from methods.reading import Reading, ReadingMethod, ask, how_many_fit, question_text, room_for_text

_MIN_SHARE_OF_ALL_CHUNKS = 0.5
"""The least share of a text that all chunks of it hold together."""


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
        sections = [passage for passage in document.passages if isinstance(passage, Section)]
        if not sections:
            return self._without_short(self._spans(document, model))
        return self._without_short(self._spans_in_sections(sections, document, model))

    def _without_short(self, spans: Sequence[Span]) -> list[Span]:
        """The spans of at least `least_characters` characters."""
        return [(start, end) for start, end in spans if end - start >= self.least_characters]

    def _spans_in_sections(
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
            section_alone = Document(document.id, text)
            section_spans = with_sentence_ends(text, self._spans(section_alone, model))
            spans += shifted(section_spans, section.start)
        return spans

    def _spans(self, document: Document, model: MeteredModel) -> list[Span]:
        """Cut a document into chunks as the setting `chunks` says, without regard to its
        sections."""
        max_tokens = self.chunk_tokens
        if self.chunks == "tokens":
            return fixed_chunks(document.text, max_tokens, model)
        if self.chunks == "passages":
            return packing.passage_chunks(document, max_tokens, model)
        if self.chunks == "packed":
            return packing.packed_chunks(document.text, max_tokens, model)
        if self.chunks == "clauses":
            return packing.clause_chunks(document.text, max_tokens, model)
        assert self.chunk_sentences is not None  # as _check_limits demands with "sentences"
        return packing.sentence_chunks(document.text, self.chunk_sentences, max_tokens, model)

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
            # Version 2 has another rule for ends of sentences; other chunks are those of version 1.
            self.index_version = "2"  # type: ignore[misc]

    def index(self, document: Document, tools: Tools) -> Index:
        """The index of a document: {"chunks": [[start, end], ...] in characters}, and what
        `index_for_ranking` adds for the ranking."""
        chunks = self.config.cut(document, tools.model())
        texts = texts_at(document.text, chunks)
        return {"chunks": spans_as_lists(chunks), **self.index_for_ranking(texts, tools)}

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

    def passages_are_in_order(self) -> bool:
        """Whether the chunks are shown as they stand in the text."""
        return bool(self.config.order == "document")

    def least_share_shown(self, stop_reason: str) -> float:
        """Half of the text where all chunks were shown, as a cut leaves out no more than the white
        space between them."""
        if stop_reason == "exhausted" and self.config.least_characters == 1:
            return _MIN_SHARE_OF_ALL_CHUNKS
        return 0.0

    def index_for_ranking(self, texts: list[str], tools: Tools) -> Index:
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

    def steps_of_chunks(
        self, shown: Sequence[Shown], chunk_numbers: Sequence[int], scores: np.ndarray, tools: Tools
    ) -> list[Step]:
        """Steps of the trace for the chunks that were read; none by default.

        Args:
            shown: The spans of these chunks, in the order of the prompt.
            chunk_numbers: Their numbers among all chunks, in the same order.
            scores: The scores of all chunks [chunks].
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
        """Answer from the best chunks that fit; a retriever of the user's own takes their place.

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
        chunk_numbers = best_first(scores)
        texts = self.texts_as_shown(texts)
        read = read_best_fitting(question, texts, chunk_numbers, tools, request)
        shown = shown_spans(document, [chunks[number] for number in read.numbers])
        steps = self.steps_of_chunks(shown, read.numbers, scores, tools)
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
            found = retriever.search(self.query(question), self.max_hits())
            best = self.order_of_showing(question, found, tools)[: self.config.k]
        read = read_hits_fitting(question, document, best, tools, request, self.texts_as_shown)
        steps = tuple(retrieve_steps_of_hits(found, tools))
        return Answer(read.answer, shown_hits(read.hits), read.stop_reason, steps)

    def query(self, question: Question) -> str:
        """The text that a retriever of the user's own is asked to search for: the question."""
        return question.text

    def max_hits(self) -> int:
        """How many passages a retriever of the user's own is asked to find: k, or MAX_HITS with a
        budget."""
        return self.config.k or MAX_HITS

    def order_of_showing(self, question: Question, hits: list[Hit], tools: Tools) -> list[Hit]:
        """The passages of a retriever in the order in which they are shown; its own order by
        default.

        Args:
            question: The question.
            hits: What the retriever found, best first.
            tools: The engine's tools, for methods that rank the passages anew.
        """
        return hits

    def texts_as_shown(self, texts: list[str]) -> list[str]:
        """The texts of all chunks, in the order of the document, as the prompt shows them:
        unchanged by default; a subclass may number them."""
        return texts


@dataclass(frozen=True)
class TextsRead:
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
class _FittingTexts:
    """How many of the best texts fit, from the best one on.

    Attributes:
        count: Their number.
        stop_reason: Why no more are read: "budget" or "window" where not all fit, "k" where all fit
            and there are more, else "exhausted".
    """

    count: int
    stop_reason: str


def _count_fitting_texts(
    question: Question, best_texts: Sequence[str], tools: Tools, request: Reading, *, are_all: bool
) -> _FittingTexts:
    """Find how many texts fit into the budget of `request` and the window, and what limits them:
    "budget" or "window" where not all fit, else "exhausted" where there are no others, else "k".

    Args:
        question: The question.
        best_texts: The k best texts as the prompt shows them, best first.
        tools: The engine's tools.
        request: How the answer is asked for; its `config` is a RetrievalConfig.
        are_all: Whether there are no texts beside `best_texts`.
    """
    config = _retrieval_config(request)
    model = tools.model()
    room_tokens = room_for_text(question, tools, model, request)
    max_tokens = room_tokens
    if config.budget is not None:
        max_tokens = min(room_tokens, config.budget)
    count = how_many_fit(best_texts, max_tokens, model)
    if count < len(best_texts):
        if max_tokens < room_tokens:
            return _FittingTexts(count, "budget")
        return _FittingTexts(count, "window")
    if are_all:
        return _FittingTexts(count, "exhausted")
    return _FittingTexts(count, "k")


def read_best_fitting(
    question: Question,
    texts: Sequence[str],
    numbers_best_first: Sequence[int],
    tools: Tools,
    request: Reading,
) -> TextsRead:
    """Answer from the best texts, as many as the settings of `request` and the window allow, shown in
    the order that the setting `order` says.

    Args:
        question: The question.
        texts: The pieces as the prompt shows them.
        numbers_best_first: Their numbers, best first.
        tools: The engine's tools.
        request: How the answer is asked for; its `config` is a RetrievalConfig.
    """
    config = _retrieval_config(request)
    best_numbers = numbers_best_first[: config.k]
    are_all = len(best_numbers) == len(numbers_best_first)
    best_texts = [texts[number] for number in best_numbers]
    fitting = _count_fitting_texts(question, best_texts, tools, request, are_all=are_all)
    stop_reason = fitting.stop_reason
    if best_numbers and fitting.count == 0:
        stop_reason += ": not even one chunk fits"
    numbers_shown = list(best_numbers[: fitting.count])
    if config.order == "document":
        numbers_shown.sort()  # the pieces are numbered in the order of the document
    answer = ask(
        question, [texts[number] for number in numbers_shown], tools, tools.model(), request
    )
    return TextsRead(answer, numbers_shown, stop_reason)


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
    texts_as_shown: Callable[[list[str]], list[str]] = list,
) -> HitsRead:
    """Answer from the best passages of a retriever, as many as the settings and the window allow.

    Args:
        question: The question.
        document: The document, whose order of passages may count.
        best: The passages to show, best first.
        tools: The engine's tools.
        request: How the answer is asked for; its `config` is a RetrievalConfig.
        texts_as_shown: The passages' texts -> as the prompt shows them, such as
            TopK.texts_as_shown; unchanged by default.
    """
    config = _retrieval_config(request)
    # A retriever that gives k passages may have more.
    are_all = len(best) != config.k
    best_texts = texts_as_shown(texts_of(best))
    fitting = _count_fitting_texts(question, best_texts, tools, request, are_all=are_all)
    hits_shown = list(best[: fitting.count])
    if config.order == "document":
        hits_shown = in_document_order(hits_shown, [document])
    answer = ask(question, texts_as_shown(texts_of(hits_shown)), tools, tools.model(), request)
    return HitsRead(answer, hits_shown, fitting.stop_reason)


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

    def index_for_ranking(self, texts: list[str], tools: Tools) -> Index:
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
        query_as_question = replace(question, text=self.query(question))
        return super().rank(query_as_question, texts, index, tools)


class Reranked(TopK):
    """A cross-encoder reads the question with every chunk: no first stage could lose one."""

    summary = "top-k chunks by a reranker over all chunks"
    traits = Traits(one_request=True, draws=False, takes_retriever=True)
    encoders = ("reranker",)

    def max_hits(self) -> int:
        """How many passages a retriever of the user's own is asked to find: MAX_HITS, from which
        the reranker chooses."""
        return MAX_HITS

    def order_of_showing(self, question: Question, hits: list[Hit], tools: Tools) -> list[Hit]:
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
        generator = random.Random(f"{tools.seed} {question.id}")
        return np.array([generator.random() for _ in texts])
