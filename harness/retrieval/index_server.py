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
        """Parse the bytes of a request. Raises BadRequest for what is no JSON object."""
        try:
            values = json.loads(content)
        except ValueError:
            raise BadRequest("the request should be a JSON object") from None
        if not isinstance(values, dict):
            raise BadRequest("the request should be a JSON object")
        return cls(values)

    def count(self, key: str) -> int:
        """The whole number above 0 in a field; 5 where it is missing, null or 0. Raises
        BadRequest.
        """
        value = self.values.get(key) or _TOP
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadRequest(f"{key} should be a whole number above 0")
        return value

    def flag(self, key: str) -> bool:
        """Whether the value of a field is true; a missing one is not."""
        return bool(self.values.get(key))

    def text(self, key: str) -> str:
        """The text in a field. Raises BadRequest if it is no text."""
        value = self.values.get(key)
        if not isinstance(value, str):
            raise BadRequest(f"{key} should be a text")
        return value

    def texts(self, key: str) -> list[str]:
        """The list of texts in a field. Raises BadRequest if it is none."""
        value = self.values.get(key)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise BadRequest(f"{key} should be a list of texts")
        return value


def as_document(hit: SearchHit) -> dict[str, str]:
    """A passage as FlashRAG's and Search-R1's servers give it: {"id", "title", "text",
    "contents"}.

    contents is the title, a line end and the text.
    """
    contents = f"{hit.title}\n{hit.text}"
    return {"id": hit.id, "title": hit.title, "text": hit.text, "contents": contents}


@dataclass(frozen=True)
class RankedPassages:
    """The passages of one query, best first, and the retriever's score of each."""

    documents: list[dict[str, str]]
    scores: list[float]

    def with_scores(self) -> list[dict[str, object]]:
        """The passages as Search-R1's server gives them: [{"document": {..}, "score": 7.2},
        ..].
        """
        pairs = zip(self.documents, self.scores, strict=True)
        return [{"document": document, "score": score} for document, score in pairs]


class Answers:
    """What the server answers, by path."""

    def __init__(self, index: SearchIndex) -> None:
        """Keep the index; `paths` maps each path of a POST to the method that answers it."""
        self._index = index
        self.paths: dict[str, Callable[[RequestBody], object]] = {
            "/hits": self._hits,
            "/retrieve": self._retrieve,
            "/search": self._search,
            "/batch_search": self._batch_search,
        }

    def facts(self) -> dict[str, object]:
        """What the index is, in the form of FactsReply: {"facts": {..}, "identity": {..}}."""
        facts = self._index.facts
        return {"facts": facts.described.to_json(), "identity": facts.identity}

    def _hits(self, body: RequestBody) -> dict[str, object]:
        """Answer /hits: the passages of one query, in the form of HitsReply.

        With the events of encoding the query, which the run counts by its own meter.
        """
        meter = Meter("search")
        hits = self._index.search(body.text("query"), body.count("k"), meter)
        shapes = meter.shapes
        events = [ServedEvent(event, shapes.get(event.shape)) for event in meter.events]
        return HitsReply(list(map(ServedHit.of, hits)), events).to_json()

    def _retrieve(self, body: RequestBody) -> dict[str, object]:
        """Answer /retrieve, as Search-R1's server does: {"result": [the passages of each
        query]}.
        """
        scores_wanted = body.flag("return_scores")
        result: list[object] = []
        for ranked in self._ranked(body.texts("queries"), body.count("topk")):
            if scores_wanted:
                result.append(ranked.with_scores())
            else:
                result.append(ranked.documents)
        return {"result": result}

    def _search(self, body: RequestBody) -> list[object]:
        """Answer /search, as servers over FlashRAG's retrievers do: the passages of one query.

        [passages, scores] where the request wants the scores.
        """
        (ranked,) = self._ranked([body.text("query")], body.count("top_n"))
        if body.flag("return_score"):
            return [ranked.documents, ranked.scores]
        return [*ranked.documents]

    def _batch_search(self, body: RequestBody) -> list[object]:
        """Answer /batch_search, as servers over FlashRAG's retrievers do: a list of passages a
        query.

        [lists of passages, lists of scores] where the request wants the scores.
        """
        all_ranked = self._ranked(body.texts("query"), body.count("top_n"))
        documents = [ranked.documents for ranked in all_ranked]
        if body.flag("return_score"):
            return [documents, [ranked.scores for ranked in all_ranked]]
        return [*documents]

    def _ranked(self, queries: Sequence[str], top: int) -> list[RankedPassages]:
        """Search for each query; its `top` best passages with their scores."""
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
        """Send what the index is, whatever the path."""
        self._send(HTTPStatus.OK, self.answers.facts())

    def do_POST(self) -> None:
        """Send what the path is answered with; 404 for an unknown path, 400 for a request that
        cannot be read.
        """
        answer = self.answers.paths.get(self.path)
        if answer is None:
            self._send(HTTPStatus.NOT_FOUND, {"error": f"no such path: {self.path}"})
            return
        try:
            self._send(HTTPStatus.OK, answer(self._body()))
        except BadRequest as error:
            self._send(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _body(self) -> RequestBody:
        """Read and parse the JSON object that was sent. Raises BadRequest, also above one
        mebibyte.
        """
        length = int(self.headers.get("Content-Length") or 0)
        if length > _MOST_BYTES:
            raise BadRequest("the request is longer than a mebibyte")
        return RequestBody.parse(self.rfile.read(length))

    def _send(self, status: HTTPStatus, value: object) -> None:
        """Send a value as JSON with its status and length."""
        content = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's name
        """Print nothing for each request."""


def make_server(index: SearchIndex, host: str, port: int) -> ThreadingHTTPServer:
    """Make a server for an index; it listens at once and answers when `serve_forever` is called.

    Args:
        index: What is searched.
        host: The address to listen at.
        port: Its port; 0 for any free one.

    Raises:
        OSError: The address cannot be used.
    """
    handler = type("Handler", (_Handler,), {"answers": Answers(index)})
    return ThreadingHTTPServer((host, port), handler)
