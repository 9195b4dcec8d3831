"""An index that `harness serve-index` serves: --corpus http://127.0.0.1:8000."""

from dataclasses import dataclass
from typing import Any

import httpx2

from harness.cost.flops import Event, ModelShape
from harness.cost.meter import Meter
from harness.errors import RequestFailed, UserError
from harness.retrieval.passage_store import StoredPassage
from harness.retrieval.search_index import ROLE, hit_of
from harness.types import SearchHit

_TIMEOUT = 120.0


@dataclass(frozen=True)
class ServedFacts:
    """What a served index is; see IndexFacts."""

    described: dict[str, Any]
    identity: dict[str, Any]


def served_facts(url: str) -> ServedFacts:
    """Ask a server what its index is. Raises UserError where nobody answers as it should."""
    try:
        values = httpx2.get(url, timeout=_TIMEOUT).raise_for_status().json()
        return ServedFacts({**values["facts"], "server": url}, values["identity"])
    except (httpx2.HTTPError, ValueError, LookupError, TypeError) as error:
        raise UserError(
            f"--corpus {url}: no index is served there ({error}); start one: harness serve-index DIR"
        ) from None


class ServedIndex:
    """An index behind a server."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._client = httpx2.Client(timeout=_TIMEOUT)

    def search(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The `k` best passages for a query, best first, as SearchIndex.search. Raises
        RequestFailed."""
        try:
            reply = self._client.post(f"{self._url}/hits", json={"query": query, "k": k})
            values = reply.raise_for_status().json()
        except (httpx2.HTTPError, ValueError) as error:
            raise RequestFailed(f"the index at {self._url} does not answer: {error}") from error
        try:
            for entry in values["events"]:
                _record(entry, meter)
            return [_hit(entry) for entry in values["hits"]]
        except (LookupError, TypeError) as error:
            raise RequestFailed(
                f"the index at {self._url} answered in another form: {error}"
            ) from None


def _hit(entry: dict[str, Any]) -> SearchHit:
    passage = StoredPassage(str(entry["id"]), str(entry["title"]), str(entry["text"]))
    return hit_of(passage, float(entry["score"]))


def _record(entry: dict[str, Any], meter: Meter) -> None:
    """Count what the server's encoder did."""
    values = {**entry["event"], "phase": meter.current_phase, "role": ROLE}
    shape = None
    if entry["shape"] is not None:
        shape = ModelShape(**entry["shape"])
    meter.record(Event(**values), shape)
