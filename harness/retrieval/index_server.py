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

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from harness.cost.meter import Meter
from harness.retrieval.search_index import SearchIndex
from harness.types import SearchHit

_TOP = 5
_MOST_BYTES = 1 << 20


class BadRequest(Exception):
    """A request that cannot be read; its message says why."""


@dataclass(frozen=True)
class _Many:
    """A request for the passages of several queries. scores: whether they are asked for too."""

    queries: list[str]
    top: int
    scores: bool


def _integer(body: dict[str, Any], key: str) -> int:
    """A whole number above 0; the default where it is missing or null. Raises BadRequest."""
    value = body.get(key) or _TOP
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise BadRequest(f"{key} should be a whole number above 0")
    return value


def _text(body: dict[str, Any], key: str) -> str:
    """The text in field `key` of a request. Raises BadRequest."""
    value = body.get(key)
    if not isinstance(value, str):
        raise BadRequest(f"{key} should be a text")
    return value


def _texts(body: dict[str, Any], key: str) -> list[str]:
    """The list of texts in field `key` of a request. Raises BadRequest."""
    value = body.get(key)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise BadRequest(f"{key} should be a list of texts")
    return value


def as_document(hit: SearchHit) -> dict[str, str]:
    """A passage as FlashRAG's and Search-R1's servers give it."""
    contents = f"{hit.title}\n{hit.text}"
    return {"id": hit.id, "title": hit.title, "text": hit.text, "contents": contents}


def score_of(hit: SearchHit) -> float:
    """The retriever's score of a passage."""
    return hit.score


class Answers:
    """What the server answers, by path."""

    def __init__(self, index: SearchIndex) -> None:
        self._index = index
        self.paths: dict[str, Callable[[dict[str, Any]], Any]] = {
            "/hits": self._hits,
            "/retrieve": self._retrieve,
            "/search": self._search,
            "/batch_search": self._batch_search,
        }

    def facts(self) -> dict[str, Any]:
        """What the index is."""
        return {"facts": self._index.facts.described, "identity": self._index.facts.identity}

    def _hits(self, body: dict[str, Any]) -> dict[str, Any]:
        """The passages of a query, with the events of encoding it, for a run's meter."""
        meter = Meter("search")
        hits = self._index.search(_text(body, "query"), _integer(body, "k"), meter)
        found: list[dict[str, Any]] = []
        for hit in hits:
            passage = {"id": hit.id, "title": hit.title, "text": hit.text}
            found.append({**passage, "score": hit.score})
        events = []
        for event in meter.events:
            shape = meter.shapes.get(event.shape)
            sizes = None
            if shape is not None:
                sizes = asdict(shape)
            events.append({"event": asdict(event), "shape": sizes})
        return {"hits": found, "events": events}

    def _retrieve(self, body: dict[str, Any]) -> dict[str, Any]:
        """Search-R1's form."""
        many = _Many(
            _texts(body, "queries"), _integer(body, "topk"), bool(body.get("return_scores"))
        )
        result: list[list[dict[str, Any]]] = []
        for documents, scores in zip(*self._lists(many), strict=True):
            if many.scores:
                pairs = zip(documents, scores, strict=True)
                result.append([{"document": d, "score": s} for d, s in pairs])
            else:
                result.append([*documents])
        return {"result": result}

    def _search(self, body: dict[str, Any]) -> Any:
        """The form of servers over FlashRAG's retrievers, for one query."""
        many = _Many(
            [_text(body, "query")], _integer(body, "top_n"), bool(body.get("return_score"))
        )
        documents, scores = self._lists(many)
        if many.scores:
            return [documents[0], scores[0]]
        return documents[0]

    def _batch_search(self, body: dict[str, Any]) -> Any:
        """The form of servers over FlashRAG's retrievers, for several queries."""
        many = _Many(_texts(body, "query"), _integer(body, "top_n"), bool(body.get("return_score")))
        documents, scores = self._lists(many)
        if many.scores:
            return [documents, scores]
        return documents

    def _lists(self, many: _Many) -> tuple[list[list[dict[str, str]]], list[list[float]]]:
        """The passages of each query, and their scores."""
        documents: list[list[dict[str, str]]] = []
        scores: list[list[float]] = []
        for query in many.queries:
            hits = self._index.search(query, many.top, Meter("search"))
            documents.append(list(map(as_document, hits)))
            scores.append(list(map(score_of, hits)))
        return documents, scores


def make_server(index: SearchIndex, host: str, port: int) -> ThreadingHTTPServer:
    """A server for an index; port 0: any free one. Raises OSError."""
    answers = Answers(index)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            self._answer(lambda: answers.facts())

        def do_POST(self) -> None:
            self._answer(lambda: answers.paths[self.path](self._body()))

        def _body(self) -> dict[str, Any]:
            """The JSON object of a request. Raises BadRequest."""
            length = int(self.headers.get("Content-Length") or 0)
            if length > _MOST_BYTES:
                raise BadRequest("the request is longer than a mebibyte")
            try:
                body = json.loads(self.rfile.read(length))
            except ValueError:
                raise BadRequest("the request should be a JSON object") from None
            if not isinstance(body, dict):
                raise BadRequest("the request should be a JSON object")
            return body

        def _answer(self, made: Callable[[], Any]) -> None:
            """Send what `made` returns, or why the request is refused."""
            if self.command == "POST" and self.path not in answers.paths:
                self._send(HTTPStatus.NOT_FOUND, {"error": f"no such path: {self.path}"})
                return
            try:
                self._send(HTTPStatus.OK, made())
            except BadRequest as error:
                self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})

        def _send(self, status: HTTPStatus, value: Any) -> None:
            """Send a value as JSON."""
            content = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
            """Print nothing for each request."""

    return ThreadingHTTPServer((host, port), Handler)
