"""An index that `harness serve-index` serves: --corpus http://127.0.0.1:8000."""

from dataclasses import asdict, dataclass, replace

import httpx2
from pydantic import TypeAdapter, ValidationError

from harness.cost.flops import Event, ModelShape
from harness.cost.meter import Meter
from harness.errors import RequestFailed, UserError
from harness.retrieval.passage_store import StoredPassage
from harness.retrieval.rankers import ROLE
from harness.retrieval.search_index import CorpusDescription, CorpusFacts, hit_in_corpus
from harness.storage.files import wrong_value
from harness.types import SearchHit

_TIMEOUT_SECONDS = 120.0


@dataclass(frozen=True)
class FactsReply:
    """What `GET /` answers. facts: as CorpusDescription; identity: as that of CorpusFacts."""

    facts: dict[str, object]
    identity: dict[str, object]


@dataclass(frozen=True)
class ServedHit:
    """A passage that a search found, as it is sent."""

    id: str
    title: str
    text: str
    score: float

    @classmethod
    def from_hit(cls, hit: SearchHit) -> "ServedHit":
        """The hit of a search in the form in which it is sent."""
        return cls(hit.id, hit.title, hit.text, hit.score)

    def as_hit(self) -> SearchHit:
        """The received hit in the form that a search in a folder's index returns."""
        passage = StoredPassage(self.id, self.title, self.text)
        return hit_in_corpus(passage, self.score)


@dataclass(frozen=True)
class ServedEvent:
    """A call of the server's encoder. shape: its sizes, by which FLOPs are counted; None where they
    are unknown."""

    event: Event
    shape: ModelShape | None

    def count_in(self, meter: Meter) -> None:
        """Count the call in `meter`, in the meter's present phase and under the role of the
        retriever.
        """
        event = replace(self.event, phase=meter.current_phase, role=ROLE)
        meter.record(event, self.shape)


@dataclass(frozen=True)
class HitsReply:
    """What `POST /hits` answers: the passages, best first, and what finding them cost."""

    hits: list[ServedHit]
    events: list[ServedEvent]

    def to_json(self) -> dict[str, object]:
        """The reply as the JSON object that is sent."""
        return asdict(self)


_FACTS_REPLY = TypeAdapter(FactsReply)
_HITS_REPLY = TypeAdapter(HitsReply)


def _problem_in_words(error: ValidationError) -> str:
    """What is wrong with a reply, in words: "hits is missing"."""
    wrong = wrong_value(error)
    return f"{wrong.key} {wrong}".strip()


def ask_for_facts(url: str) -> CorpusFacts:
    """Ask the server at an address what its index is. Raises UserError where none answers as it
    should.
    """
    try:
        values = httpx2.get(url, timeout=_TIMEOUT_SECONDS).raise_for_status().json()
        reply = _FACTS_REPLY.validate_python(values)
        description = CorpusDescription.from_json({**reply.facts, "server": url})
    except (httpx2.HTTPError, ValueError) as error:
        reason = str(error)
        if isinstance(error, ValidationError):
            reason = _problem_in_words(error)
        problem = f"no index is served there ({reason}); start one: harness serve-index DIR"
        raise UserError(f"--corpus {url}: {problem}") from None
    return CorpusFacts(description, reply.identity)


class ServedIndex:
    """An index behind a server."""

    def __init__(self, url: str) -> None:
        """Keep the address and a client with a timeout of two minutes; nothing is sent."""
        self._url = url.rstrip("/")
        self._client = httpx2.Client(timeout=_TIMEOUT_SECONDS)

    def search(self, query: str, k: int, meter: Meter) -> list[SearchHit]:
        """The best passages for a query, best first, from the server.

        Args:
            query: The text to search for.
            k: The largest number of passages.
            meter: Counts what the server's encoder did.

        Raises:
            RequestFailed: The server does not answer, or in another form.
        """
        try:
            response = self._client.post(f"{self._url}/hits", json={"query": query, "k": k})
            values = response.raise_for_status().json()
        except (httpx2.HTTPError, ValueError) as error:
            raise RequestFailed(f"the index at {self._url} does not answer: {error}") from error
        try:
            reply = _HITS_REPLY.validate_python(values)
        except ValidationError as error:
            problem = _problem_in_words(error)
            raise RequestFailed(
                f"the index at {self._url} answered in another form: {problem}"
            ) from None
        for event in reply.events:
            event.count_in(meter)
        return [hit.as_hit() for hit in reply.hits]
