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

_DEFAULT_PASSAGES = 5
_MAX_REQUEST_BYTES = 1 << 20


class BadRequest(Exception):
    """A request that cannot be read; its message says why."""


@dataclass(frozen=True)
class RequestBody:
    """The JSON object of a request. A field that is not as it should be raises BadRequest."""

    fields: Mapping[str, object]

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

    def number_of_passages(self, key: str) -> int:
        """The whole number above 0 in a field; 5 where it is missing, null or 0. Raises
        BadRequest.
        """
        number = self.fields.get(key) or _DEFAULT_PASSAGES
        if isinstance(number, bool) or not isinstance(number, int) or number < 1:
            raise BadRequest(f"{key} should be a whole number above 0")
        return number

    def is_true(self, key: str) -> bool:
        """Whether the value of a field is true; a missing one is not."""
        return bool(self.fields.get(key))

    def text(self, key: str) -> str:
        """The text in a field. Raises BadRequest if it is no text."""
        value = self.fields.get(key)
        if not isinstance(value, str):
            raise BadRequest(f"{key} should be a text")
        return value

    def texts(self, key: str) -> list[str]:
        """The list of texts in a field. Raises BadRequest if it is none."""
        value = self.fields.get(key)
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise BadRequest(f"{key} should be a list of texts")
        return value


def _as_flashrag_document(hit: SearchHit) -> dict[str, str]:
    """A passage as FlashRAG's and Search-R1's servers give it: {"id", "title", "text",
    "contents"}.

    contents is the title, a line end and the text.
    """
    contents = f"{hit.title}\n{hit.text}"
    return {"id": hit.id, "title": hit.title, "text": hit.text, "contents": contents}


@dataclass(frozen=True)
class PassagesOfQuery:
    """The passages of one query, best first, in FlashRAG's form, and the retriever's score of
    each."""

    documents: list[dict[str, str]]
    scores: list[float]

    def with_scores(self) -> list[dict[str, object]]:
        """The passages as Search-R1's server gives them: [{"document": {..}, "score": 7.2},
        ..].
        """
        pairs = zip(self.documents, self.scores, strict=True)
        return [{"document": document, "score": score} for document, score in pairs]


class Answers:
    """What the server answers.

    Attributes:
        answer_by_path: Path of a POST -> what answers it with a JSON value.
    """

    def __init__(self, index: SearchIndex) -> None:
        """Keep the index that is searched."""
        self._index = index
        self.answer_by_path: dict[str, Callable[[RequestBody], object]] = {
            "/hits": self._answer_hits,
            "/retrieve": self._answer_retrieve,
            "/search": self._answer_search,
            "/batch_search": self._answer_batch_search,
        }

    def facts(self) -> dict[str, object]:
        """What the index is, in the form of FactsReply: {"facts": {..}, "identity": {..}}."""
        facts = self._index.facts
        return {"facts": facts.described.to_json(), "identity": facts.identity}

    def _answer_hits(self, body: RequestBody) -> dict[str, object]:
        """Answer /hits: the passages of one query, in the form of HitsReply.

        With the events of encoding the query and the encoder's sizes, so that the run that asked
        can count their cost as its own.
        """
        meter = Meter("search")
        hits = self._index.search(body.text("query"), body.number_of_passages("k"), meter)
        sizes_by_shape_name = meter.shapes
        events: list[ServedEvent] = []
        for event in meter.events:
            model_sizes = sizes_by_shape_name.get(event.shape)
            events.append(ServedEvent(event, model_sizes))
        return HitsReply(list(map(ServedHit.from_hit, hits)), events).to_json()

    def _answer_retrieve(self, body: RequestBody) -> dict[str, object]:
        """Answer /retrieve, as Search-R1's server does: {"result": [the passages of each
        query]}.
        """
        wants_scores = body.is_true("return_scores")
        result: list[object] = []
        for passages in self._search(body.texts("queries"), body.number_of_passages("topk")):
            if wants_scores:
                result.append(passages.with_scores())
            else:
                result.append(passages.documents)
        return {"result": result}

    def _answer_search(self, body: RequestBody) -> list[object]:
        """Answer /search, as servers over FlashRAG's retrievers do: the passages of one query.

        [passages, scores] where the request wants the scores.
        """
        (passages,) = self._search([body.text("query")], body.number_of_passages("top_n"))
        if body.is_true("return_score"):
            return [passages.documents, passages.scores]
        return [*passages.documents]

    def _answer_batch_search(self, body: RequestBody) -> list[object]:
        """Answer /batch_search, as servers over FlashRAG's retrievers do: a list of passages a
        query.

        [lists of passages, lists of scores] where the request wants the scores.
        """
        passages_of_queries = self._search(body.texts("query"), body.number_of_passages("top_n"))
        documents = [passages.documents for passages in passages_of_queries]
        if body.is_true("return_score"):
            return [documents, [passages.scores for passages in passages_of_queries]]
        return [*documents]

    def _search(self, queries: Sequence[str], k: int) -> list[PassagesOfQuery]:
        """Search for each query; its `k` best passages with their scores. No cost is counted."""
        passages_of_queries: list[PassagesOfQuery] = []
        for query in queries:
            hits = self._index.search(query, k, Meter("search"))
            documents = list(map(_as_flashrag_document, hits))
            scores = [hit.score for hit in hits]
            passages_of_queries.append(PassagesOfQuery(documents, scores))
        return passages_of_queries


class _Handler(BaseHTTPRequestHandler):
    """Answers one request; `answers` is set by `make_server`."""

    protocol_version = "HTTP/1.1"
    answers: Answers

    def do_GET(self) -> None:
        """Send what the index is, whatever the path."""
        self._send_json(HTTPStatus.OK, self.answers.facts())

    def do_POST(self) -> None:
        """Send what the path is answered with; 404 for an unknown path, 400 for a request that
        cannot be read.
        """
        answer = self.answers.answer_by_path.get(self.path)
        if answer is None:
            self._send_json(HTTPStatus.NOT_FOUND, {"error": f"no such path: {self.path}"})
            return
        try:
            self._send_json(HTTPStatus.OK, answer(self._read_body()))
        except BadRequest as error:
            self._send_json(HTTPStatus.BAD_REQUEST, {"error": str(error)})

    def _read_body(self) -> RequestBody:
        """Read and parse the JSON object that was sent. Raises BadRequest, also above one
        mebibyte.
        """
        n_bytes = int(self.headers.get("Content-Length") or 0)
        if n_bytes > _MAX_REQUEST_BYTES:
            raise BadRequest("the request is longer than a mebibyte")
        return RequestBody.parse(self.rfile.read(n_bytes))

    def _send_json(self, status: HTTPStatus, value: object) -> None:
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
    # The library makes a handler for each request from its class, so the answers are in the class.
    handler_with_answers = type("Handler", (_Handler,), {"answers": Answers(index)})
    return ThreadingHTTPServer((host, port), handler_with_answers)
