"""The retriever of a run, bound to a meter: what `tools.retriever()` returns.

Each search is an event with its seconds, retries and price. Where the retriever gives no price its
money is unknown; what its own models read is in no count of tokens.

    Hit("setup.md", None, 7.2) -> Hit("setup.md", "The warranty ...", 7.2)    the text of the page
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from harness.cost.flops import OWN_RETRIEVER_ROLE, Event
from harness.cost.meter import Meter
from harness.datasets.base import Dataset
from harness.errors import ModelOutputError
from harness.llm.endpoint_http import Tries, timed_tries
from harness.method import Hit
from harness.parallel.scheduler import Took
from harness.retrieval.served import ServedRetriever


class MeteredRetriever:
    """Implements harness.method.Retriever for one question."""

    def __init__(
        self,
        served: ServedRetriever,
        price_per_search: float | None,
        meter: Meter,
        dataset: Dataset,
        embed_query: Callable[[str], Sequence[float]],
    ) -> None:
        """Bind a retriever.

        Args:
            served: The retriever.
            price_per_search: Money; None where unknown.
            meter: Counts its cost.
            dataset: Has the texts of pages that come without one.
            embed_query: Gives the vector of a query, called only where a request holds it.
        """
        self.name = served.name
        self._served = served
        self._price_per_search = price_per_search
        self._meter = meter
        self._dataset = dataset
        self._embed_query = embed_query

    def search(self, query: str, k: int) -> list[Hit]:
        """At most k passages for a query, best first, each with its text. Their page names are
        dropped where none of them is a page of the documents. Also records the search on the meter.

        Raises ModelOutputError where a page that was found is not there, and what the retriever
        raises.
        """
        vector: Sequence[float] | None = None
        if self._served.needs_vector:
            vector = self._embed_query(query)
        took = Took()
        tries = Tries()  # `search` counts in it
        try:
            with timed_tries(tries) as took:  # has the seconds once the block ends
                hits = self._served.search(query, k, vector, tries)
        finally:
            self._record_search(took, tries)
        hits_with_text = [self._with_text(hit) for hit in hits]
        return self._with_known_pages(hits_with_text)

    def _record_search(self, took: Took, tries: Tries) -> None:
        """Record a search on the meter, also one that failed.

        Args:
            took: How long it took, and how long it waited before.
            tries: How often it was sent again.
        """
        event = Event(
            role=OWN_RETRIEVER_ROLE,
            model=self.name,
            phase=self._meter.current_phase,
            kind="search",
            new=0,
            requests=1,
            seconds=took.seconds,
            queued=took.queued,
            retries=tries.retries,
            charged=self._price_per_search,
            money_known=self._price_per_search is not None,
        )
        self._meter.record(event, shape=None)

    def _with_text(self, hit: Hit) -> Hit:
        """The hit with a text: its own, else the text of the page that it names. Raises
        ModelOutputError where no page of the documents has this name."""
        if hit.text is not None:
            return hit
        text = self._text_of_page(hit.page)
        if text is None:
            raise ModelOutputError(
                f"the retriever found '{hit.page}' without a text, and no page of the documents "
                "has this name; say where text and page are: --retriever-map text=PATH page=PATH"
            )
        return replace(hit, text=text)

    def _with_known_pages(self, hits: list[Hit]) -> list[Hit]:
        """The hits as they are where one of them names a page of the documents. Else all without
        pages: they are names of other things (ids of points), and would count as wrong pages."""
        names_a_page = any(self._text_of_page(hit.page) is not None for hit in hits)
        if names_a_page:
            return hits
        return [replace(hit, page="") for hit in hits]

    def _text_of_page(self, name: str) -> str | None:
        """The text of the page, section or document of the data set that has this name; None for
        none."""
        documents = self._dataset.documents
        for document_id, pages_by_name in self._dataset.page_spans.items():
            if name in pages_by_name:
                place = pages_by_name[name]
                return documents[document_id].text[place.start : place.end]
        if name in documents:
            return documents[name].text
        return None
