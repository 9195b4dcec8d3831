"""Searches while questions are answered: in the run's corpus, else in a question's own documents.

run_searches = RunSearches(plan.corpus)
searcher = run_searches.searcher(documents)
searcher.search("Who built the mill?", 5, meter)      -> 5 SearchHits; the meter has the search and its cost

searches_for_record(meter, documents)     the searches as the record holds them: hits with their places
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from harness.cost.flops import Event
from harness.cost.meter import Meter
from harness.engine.named_sources import Pages, with_places
from harness.engine.planned_corpus import PlannedCorpus
from harness.method import Hit, Retriever
from harness.retrieval.open_corpus import SearchableIndex, open_corpus
from harness.retrieval.own_documents import search_documents
from harness.retrieval.rankers import ROLE
from harness.types import (
    GAP,
    Answer,
    Document,
    Passage,
    RecordedHit,
    RecordedSearch,
    Search,
    SearchHit,
    Shown,
)


@dataclass(frozen=True)
class Searcher:
    """What one question searches in.

    Attributes:
        index: The index of the run's corpus; None where the question's own documents are searched.
        documents: The question's own documents; () with a corpus.
    """

    index: SearchableIndex | None
    documents: Sequence[Document]

    def search(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The best passages for a query, best first. Also records the search on the meter: its
        cost, and the search itself, which the question's record will show.

        Args:
            query: The query, as the method wrote it.
            k: How many passages.
            meter: Records the search.
        """
        start_time = time.perf_counter()
        n_events_before = len(meter.events)
        hits = self._find_passages_unrecorded(query, k, meter)
        seconds = time.perf_counter() - start_time
        # The encoder of the query has events of its own, with their seconds.
        encoding_seconds = sum(event.seconds for event in meter.events[n_events_before:])
        phase = meter.current_phase
        event = Event(
            role=ROLE, model=self.name, phase=phase, kind="search", new=0, found=len(hits)
        )
        own_seconds = max(seconds - encoding_seconds, 0.0)
        meter.record(replace(event, seconds=own_seconds), shape=None)
        meter.searches.append(Search(query, phase, round(seconds, 6), tuple(hits)))
        return hits

    def search_with_retriever(
        self, retriever: Retriever, query: str, k: int, meter: Meter
    ) -> list[SearchHit]:
        """The best passages by the retriever of the user's own, which counts its cost itself. Also
        records the search on the meter.

        Args:
            retriever: The run's retriever.
            query: The query, as the method wrote it.
            k: How many passages.
            meter: Records the search.
        """
        start_time = time.perf_counter()
        hits = [_hit_from_passage(passage) for passage in retriever.search(query, k)]
        seconds = round(time.perf_counter() - start_time, 6)
        meter.searches.append(Search(query, meter.current_phase, seconds, tuple(hits)))
        return hits

    def _find_passages_unrecorded(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The best passages for a query, best first: from the corpus, or from the question's own
        documents by BM25. The search itself is recorded by `search`.

        Args:
            query: The query.
            k: How many passages.
            meter: Counts what the encoder of a query reads.
        """
        if self.index is None:
            return search_documents(self.documents, query, k)
        return self.index.search(query, k, meter)

    @property
    def name(self) -> str:
        """What is searched, as events of the meter name it: "corpus" or "own documents"."""
        if self.index is None:
            return "own documents"
        return "corpus"


def _hit_from_passage(passage: Hit) -> SearchHit:
    """A hit of a search, made from a passage of a retriever: its page is the title, page and text
    together are the id.

    Hit("setup.md", "Press ...", 7.2) -> SearchHit("setup.md: Press ...", "setup.md", "Press ...",
    7.2, ...)
    """
    text = passage.text or ""
    shown = Shown("quote", text=text)
    return SearchHit(
        id=f"{passage.page}: {text}",
        title=passage.page,
        text=text,
        score=passage.score or 0.0,
        shown=shown,
    )


class RunSearches:
    """What the questions of a run search in; the corpus is opened at the first search."""

    def __init__(self, corpus: PlannedCorpus | None) -> None:
        """Begin without an open corpus.

        Args:
            corpus: The run's corpus; None where questions search their own documents.
        """
        self.corpus = corpus
        self._index: SearchableIndex | None = None
        self._lock = threading.Lock()

    def searcher(self, documents: Sequence[Document]) -> Searcher:
        """What a question searches in: the run's corpus, which the first call opens, else these
        documents of the question. Raises as open_corpus."""
        if self.corpus is None:
            return Searcher(index=None, documents=documents)
        with self._lock:
            if self._index is None:
                self._index = open_corpus(self.corpus.location)
        return Searcher(self._index, documents=())


def passages_as_documents(hits: Sequence[SearchHit]) -> list[Document]:
    """The passages that a search found, each as a document with its title, best first."""
    documents: list[Document] = []
    for hit in hits:
        text = hit.titled_text
        whole = Passage(hit.title, 0, len(text))
        documents.append(Document(hit.id, text, hit.title, (whole,)))
    return documents


def with_passages_quoted(answer: Answer, searches: Sequence[Search]) -> Answer:
    """A copy of an answer in which each shown span of a passage of the corpus is that passage's
    text: no document of the question has the passage's id.

        Shown("span", "passage 7", 0, 4) -> Shown("quote", text="Rome")

    Args:
        answer: The answer, with spans of these passages.
        searches: The searches that found these passages.
    """
    texts: dict[str, str] = {}
    for search in searches:
        texts |= {hit.id: hit.titled_text for hit in search.hits}
    steps = []
    for step in answer.steps:
        shown = step.shown
        if shown is not None:
            shown = _without_corpus_places(shown, texts)
        steps.append(replace(step, shown=shown))
    shown_texts = tuple(_without_corpus_places(piece, texts) for piece in answer.shown)
    return replace(answer, shown=shown_texts, steps=tuple(steps))


def _without_corpus_places(piece: Shown, texts: Mapping[str, str]) -> Shown:
    """A shown piece without any place in a corpus: a span becomes its text, the parts that it was
    made of with a blank line between them; what a model wrote loses its sources.

    Args:
        piece: The shown piece.
        texts: Id of a passage -> its text.
    """
    if piece.kind == "span":
        spans = piece.sources or [(piece.document_id, piece.start, piece.end)]
        parts = [texts.get(name, "")[start:end] for name, start, end in spans]
        return Shown("quote", text=GAP.join(parts))
    return replace(piece, sources=())


def searches_for_record(
    meter: Meter, documents: Sequence[Document], pages: Pages
) -> tuple[RecordedSearch, ...]:
    """The searches of a question as its record holds them.

    Args:
        meter: The meter of the question, which has its searches.
        documents: Its own documents, in which texts and titles that were found get their places.
        pages: Id of a document -> its named parts.
    """
    places_by_title = _places_by_title(documents, pages)
    searches: list[RecordedSearch] = []
    for search in meter.searches:
        recorded_hits = tuple(
            _hit_for_record(hit, documents, pages, places_by_title) for hit in search.hits
        )
        searches.append(RecordedSearch(search.query, search.phase, search.seconds, recorded_hits))
    return tuple(searches)


class TitledPlace(NamedTuple):
    """A part of a document that has a title, as records hold it."""

    document_id: str
    start: int
    end: int


def _hit_for_record(
    hit: SearchHit,
    documents: Sequence[Document],
    pages: Pages,
    places_by_title: Mapping[str, Sequence[TitledPlace]],
) -> RecordedHit:
    """A hit as the record holds it: with the places, in the question's documents, of its text and
    of its title.

    Args:
        hit: A hit of a search.
        documents: The documents of the question.
        pages: Id of a document -> its named parts.
        places_by_title: Title, as `_title_key` writes it -> the places that have it.
    """
    answer_that_shows_it = Answer("", shown=(hit.shown,))
    shown_with_places = with_places(answer_that_shows_it, documents, pages).shown
    pages_of_title = places_by_title.get(_title_key(hit.title), ())
    return RecordedHit(
        id=hit.id,
        title=hit.title,
        score=round(hit.score, 6),
        shown=shown_with_places,
        pages=tuple(pages_of_title),
    )


def _title_key(title: str) -> str:
    """A title without differences of case and space: "The  Mill" -> "the mill"."""
    return " ".join(title.casefold().split())


def _places_by_title(documents: Sequence[Document], pages: Pages) -> dict[str, list[TitledPlace]]:
    """Where each title is: {"the mill": [TitledPlace("d1", 0, 120), ...]}.

    A title, by `_title_key`, is that of a passage, or of a document without passages: all that have
    it are its places. The name of a page counts where nothing before it has that title.
    """
    places: dict[str, list[TitledPlace]] = {}
    for document in documents:
        parts = document.passages or (Passage(document.title, 0, len(document.text)),)
        for part in parts:
            key = _title_key(part.title)
            if key:
                place = TitledPlace(document.id, part.start, part.end)
                places.setdefault(key, []).append(place)
        for name, page in pages.get(document.id, {}).items():
            key = _title_key(name)
            if key not in places:
                places[key] = [TitledPlace(page.document_id, page.start, page.end)]
    return places
