"""The corpus of --corpus: the folder of an index, or the address of a server that has one."""

from pathlib import Path
from typing import Protocol

from harness.cost.meter import Meter
from harness.retrieval.search_index import CorpusFacts, SearchIndex, read_index_facts
from harness.retrieval.served_index import ServedIndex, ask_for_facts
from harness.types import SearchHit


class SearchableIndex(Protocol):
    """An index that is open for searches."""

    def search(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The best passages for a query, best first.

        Args:
            query: The text to search for.
            k: The largest number of passages.
            meter: Counts the cost of encoding the query.
        """


def _is_url(folder_or_url: str) -> bool:
    """Whether --corpus is the address of a server rather than a folder."""
    return folder_or_url.startswith(("http://", "https://"))


def read_corpus_facts(folder_or_url: str) -> CorpusFacts:
    """Find out what the corpus of an index is, without opening it for searches.

    Reads a file of the folder, or asks the server at the address. Raises UserError where no index is
    there.
    """
    if _is_url(folder_or_url):
        return ask_for_facts(folder_or_url)
    return read_index_facts(Path(folder_or_url)).as_corpus


def open_corpus(folder_or_url: str) -> SearchableIndex:
    """Open the index in a folder, or at the address of a server, for searches.

    Raises UserError where no index is there, and CannotRun for a missing package.
    """
    if _is_url(folder_or_url):
        return ServedIndex(folder_or_url)
    return SearchIndex.open(Path(folder_or_url))
