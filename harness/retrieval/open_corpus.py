"""The corpus of --corpus: the folder of an index, or the address of a server that has one."""

from pathlib import Path
from typing import Protocol

from harness.cost.meter import Meter
from harness.retrieval.search_index import CorpusFacts, SearchIndex, read_facts
from harness.retrieval.served_index import ServedIndex, served_facts
from harness.types import SearchHit


class OpenIndex(Protocol):
    """What can be searched."""

    def search(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The best passages for a query, best first.

        Args:
            query: The text to search for.
            k: The largest number of passages.
            meter: Counts the cost of encoding the query.
        """


def _is_server(place: str) -> bool:
    """Whether --corpus is the address of a server rather than a folder."""
    return place.startswith(("http://", "https://"))


def corpus_facts(place: str) -> CorpusFacts:
    """Find out what the corpus at a folder or address is, without opening it for searches.

    Raises UserError where no index is there.
    """
    if _is_server(place):
        return served_facts(place)
    return read_facts(Path(place)).as_corpus


def open_corpus(place: str) -> OpenIndex:
    """Open the index at a folder or address for searches.

    Raises UserError where no index is there, and CannotRun for a missing package.
    """
    if _is_server(place):
        return ServedIndex(place)
    return SearchIndex.open(Path(place))
