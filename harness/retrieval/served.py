"""A retriever of the user's own, over HTTP or as a function.

    served = ServedRetriever(RetrieverConfig(name="wiki", base_url="http://localhost:9000/search"))
    served.check()                              CannotRun where no server answers
    served.search("How long is the warranty?", 5)  -> [Hit("setup.md", "The warranty ...", 7.2), ...]

It knows nothing of gold answers, methods or meters: the engine books what a search costs. Any
thread may search. A function is called with the query and k, and may be async.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.apps.calls import Address, FunctionCall, HttpCall, import_own_function
from harness.apps.templates import (
    check_no_secret,
    checked_places,
    described,
    header_values,
    rendered_json,
    variables_of,
    wrong_field,
)
from harness.config.schema import ModelConfig, RetrieverConfig
from harness.errors import (
    HarnessError,
    ModelOutputError,
    UserError,
    call_noting_problem,
    unknown_name_error,
)
from harness.llm.endpoint_http import RetryPolicy, Tries
from harness.llm.endpoint_info import api_key, one_address_problems
from harness.method import Hit
from harness.retrieval.served_formats import FIELDS, FORMATS
from harness.storage.own_code_hash import own_code

OPTION = "--retriever"
_MAP = "--retriever-map"
_BODY = "--retriever-body"


class ServedRetriever:
    """A retriever that can be asked."""

    def __init__(self, config: RetrieverConfig) -> None:
        """Prepare the requests to a server, or the calls of a function, as the settings say.

        Raises UserError or CannotRun for wrong settings.
        """
        self.name = config.name
        self.needs_vector = needs_vector(config)
        self._body_template = body_template(config)  # in jinja2
        # Field of a hit, "score", or "hits" for the list of them -> its place in a reply.
        self._path_by_field = checked_places(_path_by_field(config), FIELDS, _MAP)
        # One of the two is None.
        self._server: HttpCall | None = None
        self._function: FunctionCall | None = None
        if config.function is None:
            self._server = HttpCall(_address(config), OPTION)
        else:
            self._function = FunctionCall(config.function, config.timeout, OPTION)

    def check(self) -> None:
        """Raise CannotRun where no server answers at the address; a function is not called."""
        if self._server is not None:
            self._server.check()

    def search(
        self,
        query: str,
        k: int,
        vector: Sequence[float] | None = None,
        tries: Tries | None = None,
    ) -> list[Hit]:
        """Ask the retriever for passages.

        Args:
            query: The text to search for.
            k: The largest number of passages.
            vector: The query's vector, where the body has that variable (`needs_vector`).
            tries: Counts how often the request was sent.

        Returns:
            The passages in the order of the reply, k at most.

        Raises:
            RequestFailed, ModelOutputError: This query has no usable reply.
            CannotRun: No query would have one.
        """
        tries = tries or Tries()
        if self._function is not None:
            reply = self._function.reply_to(tries, query, k)
        else:
            assert self._server is not None  # one of the two is there
            body = self._fill_body(query, k, vector)
            reply = self._server.reply_to(body, tries)
        return self._parse_hits(reply)[:k]

    def _fill_body(self, query: str, k: int, vector: Sequence[float] | None) -> str:
        """Fill in the template of a request's body.

        Args:
            query: The text to search for.
            k: The largest number of passages.
            vector: The query's vector; None where the body has no such variable.
        """
        variables: dict[str, object] = {"query": query, "k": k}
        if vector is not None:
            variables["vector"] = [float(number) for number in vector]
        return rendered_json(self._body_template, variables, _BODY)

    def _parse_hits(self, reply: object) -> list[Hit]:
        """Parse the passages of a reply. Raises ModelOutputError where it has no list of them."""
        path_to_hits = self._path_by_field["hits"]
        entries = path_to_hits.found_in(reply)
        if not isinstance(entries, list):
            raise ModelOutputError(
                f"the retriever's reply has no list at '{path_to_hits.path}' ({described(reply)}); "
                f"say where its hits are: {_MAP} hits=PATH"
            )
        return [self._parse_hit(entry) for entry in entries]

    def _parse_hit(self, entry: object) -> Hit:
        """Parse one passage of a reply: an object, or a text alone.

        Raises ModelOutputError where it has neither a text nor a page, or a field of another type.
        """
        if isinstance(entry, str):
            return Hit(text=entry)
        hit = Hit(
            page=_page_name(self._path_by_field["page"].found_in(entry)),
            text=_text_or_none(self._path_by_field["text"].found_in(entry)),
            score=_score_or_none(self._path_by_field["score"].found_in(entry)),
        )
        if not hit.page and hit.text is None:
            raise ModelOutputError(
                f"a hit of the retriever has neither a text nor a page ({described(entry)}); say "
                f"where they are: {_MAP} text=PATH page=PATH"
            )
        return hit


def _page_name(value: object) -> str:
    """The name of a page as text: "setup.md" -> "setup.md", 7 -> "7", None -> "".

    Raises ModelOutputError for any other value.
    """
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise wrong_field("page", "should be a text or a number", _MAP)
    return str(value)


def _text_or_none(value: object) -> str | None:
    """The text of a passage; None where the reply has none. Raises ModelOutputError if it is no
    text.
    """
    if value is None or isinstance(value, str):
        return value
    raise wrong_field("text", "should be a text", _MAP)


def _score_or_none(value: object) -> float | None:
    """The score of a passage; None where the reply has none.

    Raises ModelOutputError if it is no finite number.
    """
    if value is None:
        return None
    is_boolean = isinstance(value, bool)  # which is an int in Python
    if isinstance(value, int | float) and not is_boolean and math.isfinite(value):
        return float(value)
    raise wrong_field("score", "should be a number", _MAP)


def _path_by_field(config: RetrieverConfig) -> dict[str, str]:
    """Map each field of a hit to its place in a reply, in JMESPath.

    {"hits": "hits.hits", "score": "_score", ..}: those of the format, or the user's own.
    """
    return {**FORMATS[config.format].map, **config.map}


def body_template(config: RetrieverConfig) -> str:
    """The jinja2 template of a request's body: the user's own, else that of the format."""
    if config.body is not None:
        return config.body
    return FORMATS[config.format].body


def needs_vector(config: RetrieverConfig) -> bool:
    """Whether requests hold the vector of the query, which the run's encoder makes."""
    return config.function is None and "vector" in variables_of(body_template(config))


def _address(config: RetrieverConfig) -> Address:
    """The address that requests are sent to, with its key, headers and rules for repeated
    tries.
    """
    model = _as_model(config)
    return Address(
        url=str(config.base_url),
        key=api_key(model),
        key_env=config.api_key_env,
        headers=header_values(config.headers, "retriever"),
        policy=RetryPolicy(config.timeout, config.retries),
    )


def _as_model(config: RetrieverConfig) -> ModelConfig:
    """The address as the settings of a model's server, which the checks of servers take."""
    return ModelConfig(name=config.name, base_url=config.base_url, api_key_env=config.api_key_env)


def find_problems(config: RetrieverConfig) -> list[HarnessError]:
    """What is wrong with the settings of a retriever, found without asking it; [] for nothing. Of
    an unknown format only that, as other settings depend on it."""
    problems: list[HarnessError] = []
    if config.format not in FORMATS:
        what = f"format '{config.format}' ({OPTION}-format)"
        return [unknown_name_error(what, config.format, FORMATS)]
    # Each of these calls adds the error that its function raises to the problems.
    call_noting_problem(problems, checked_places, _path_by_field(config), FIELDS, _MAP)
    if config.function is not None:
        call_noting_problem(problems, import_own_function, config.function, OPTION)
        has_settings_of_address = config.body is not None or bool(config.headers)
        if has_settings_of_address:
            sentence = f"{_BODY} and {OPTION}-header are for an address; a function takes none"
            problems.append(UserError(sentence))
        return problems
    for sentence in one_address_problems(_as_model(config)):
        problems.append(UserError(sentence.replace("model.base_url", OPTION)))  # noqa: PERF401
    call_noting_problem(problems, check_no_secret, config.headers, f"{OPTION}-header")
    example_variables = {"query": "Is this JSON?", "k": 5, "vector": [0.0]}
    template = body_template(config)
    call_noting_problem(problems, rendered_json, template, example_variables, _BODY)
    call_noting_problem(problems, _address, config)
    return problems


def retriever_identity(config: RetrieverConfig) -> Mapping[str, object]:
    """All settings that can change a retriever's results, for the hash of a run.

    For a server its address, body and headers; for a function its name and a hash of its code.
    """
    identity: dict[str, object] = {"retriever": config.name, "map": _path_by_field(config)}
    if config.function is None:
        identity["address"] = config.base_url
        identity["body"] = body_template(config)
        identity["headers"] = dict(config.headers)
    else:
        identity["function"] = config.function
        identity["code"] = own_code(import_own_function(config.function, OPTION))
    return identity
