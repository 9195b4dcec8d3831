"""A server for an index, which several runs share: `harness serve-index DIR`.

    GET  /            what the index is, {"facts": {...}, "identity": {...}}
    POST /hits        {"query", "k"} -> {"hits": [{"id", "title", "text", "score"}], "events": [...]}; runs use it
    POST /retrieve    {"queries": [..], "topk": 3, "return_scores": true}, as Search-R1's server takes it and
                      answers it (docs/search.md#serve)
    POST /search      {"query": "..", "top_n": 5, "return_score": false} and
    POST /batch_search    {"query": [..], ...}: as servers over FlashRAG's retrievers take them (ReSearch)

A passage is {"id", "title", "text", "contents"} there; contents is FlashRAG's form, the title on a
line of its own before the text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from harness.cost.meter import Meter
from harness.retrieval.search_index import SearchIndex
from harness.retrieval.served_index import HitsReply, ServedEvent, ServedHit
from harness.types import SearchHit

_TOP = 5
_MOST_BYTES = 1 << 20


class BadRequest(Exception):
    """A request that cannot be read; its message says why."""


@dataclass(frozen=True)
class RequestBody:
    """The JSON object of a request. A field that is not as it should be raises BadRequest."""

    values: Mapping[str, object]

    @classmethod
    def parse(cls, content: bytes) -> RequestBody:
        """Parse the bytes of a request. Raises BadRequest."""
        try:
            values = json.loads(content)
        except ValueError:
            raise BadRequest("the request should be a JSON object") from None
        if not isinstance(values, dict):
            raise BadRequest("the request should be a JSON object")
        return cls(values)

    def count(self, key: str) -> int:
        """A whole number above 0; 5 where it is missing or null."""
        value = self.values.get(key) or _TOP
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadRequest(f"{key} should be a whole number above 0")
        return value

    def flag(self, key: str) -> bool:
        """Whether the field is true."""
        return bool(self.values.get(key))

    def text(self, key: str) -> str:
        """A text."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise BadRequest(f"{key} should be a text")
        return value

    def texts(self, key: str) -> list[str]:
        """A list of texts."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise BadRequest(f"{key} should be a list of texts")
        return value


def as_document(hit: SearchHit) -> dict[str, str]:
    """A passage as FlashRAG's and Search-R1's servers give it."""
    contents = f"{hit.title}\n{hit.text}"
    return {"id": hit.id, "title": hit.title, "text": hit.text, "contents": contents}


@dataclass(frozen=True)
class RankedPassages:
    """The passages of one query, best first, and the retriever's score of each."""

    documents: list[dict[str, str]]
    scores: list[float]

    def with_scores(self) -> list[dict[str, object]]:
        """The passages as Search-R1's server gives them with their scores."""
        pairs = zip(self.documents, self.scores, strict=True)
        return [{"document": document, "score": score} for document, score in pairs]


class Answers:
    """What the server answers, by path."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self.paths: dict[str, Callable[[RequestBody], object]] = {
            "/hits": self._hits,
            "/retrieve": self._retrieve,
            "/search": self._search,
            "/batch_search": self._batch_search,
        }

    def facts(self) -> dict[str, object]:
        """What the index is, as FactsReply."""
        facts = self._index.facts
        return {"facts": facts.described.to_json(), "identity": facts.identity}

    def _hits(self, body: RequestBody) -> dict[str, object]:
        """The passages of a query, with the events of encoding it for a run's meter, as
        HitsReply."""
        meter = Meter("search")
        hits = self._index.search(body.text("query"), body.count("k"), meter)
        shapes = meter.shapes
        events = [ServedEvent(event, shapes.get(event.shape)) for event in meter.events]
        return HitsReply(list(map(ServedHit.of, hits)), events).to_json()

    def _retrieve(self, body: RequestBody) -> dict[str, object]:
        """The passages of several queries in the form of Search-R1's server."""
        scores_wanted = body.flag("return_scores")
        result: list[object] = []
        for ranked in self._ranked(body.texts("queries"), body.count("topk")):
            if scores_wanted:
                result.append(ranked.with_scores())
            else:
                result.append(ranked.documents)
        return {"result": result}

    def _search(self, body: RequestBody) -> list[object]:
        """The passages of one query in the form of servers over FlashRAG's retrievers."""
        (ranked,) = self._ranked([body.text("query")], body.count("top_n"))
        if body.flag("return_score"):
            return [ranked.documents, ranked.scores]
        return [*ranked.documents]

    def _batch_search(self, body: RequestBody) -> list[object]:
        """The passages of several queries in the form of servers over FlashRAG's retrievers."""
        all_ranked = self._ranked(body.texts("query"), body.count("top_n"))
        documents = [ranked.documents for ranked in all_ranked]
        if body.flag("return_score"):
            return [documents, [ranked.scores for ranked in all_ranked]]
        return [*documents]

    def _ranked(self, queries: Sequence[str], top: int) -> list[RankedPassages]:
        """The `top` best passages of each query."""
        all_ranked: list[RankedPassages] = []
        for query in queries:
            hits = self._index.search(query, top, Meter("search"))
            documents = list(map(as_document, hits))
            all_ranked.append(RankedPassages(documents, [hit.score for hit in hits]))
        return all_ranked


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; `answers` is set by `make_server`."""

    protocol_version = "HTTP/1.1"
    answers: Answers

    def do_GET(self) -> None:
        """Send what the index is."""
        self._send(HTTPStatus.OK, self.answers.facts())

    def do_POST(self) -> None:
        """Send the passages that are asked for, or why the request is refused."""
        answer = self.answers.paths.get(self.path)
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, {"error": f"no such path: {self.path}"})
            return
        try:
            self._send(HTTPStatus.OK, answer(self._body()))
        except BadRequest as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _body(self) -> RequestBody:
        """The JSON object of the request. Raises BadRequest."""
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MOST_BYTES:
            raise BadRequest("the request is longer than a mebibyte")
        return RequestBody.parse(self.rfile.read(length))

    def _send(self, status: HTTPStatus, value: object) -> None:
        """Send a value as JSON."""
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing for each request."""


def make_server(index: SearchIndex, host: str, port: int) -> ThreadingHTTPServer:
    """A server for an index.

    Args:
        index: What is searched.
        host: The address to listen at.
        port: Its port; 0 for any free one.

    Raises:
        OSError: The address cannot be used.
    """
    handler = type("Handler", (_Handler,), {"answers": Answers(index)})
    return ThreadingHTTPServer((host, port), handler)
