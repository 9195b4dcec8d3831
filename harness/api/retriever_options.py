"""The options of a retriever of the user's own (--retriever)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

from harness.api.application_runs import parse_pairs
from harness.api.option import choice, setting


def _parse_map(texts: Sequence[str]) -> Mapping[str, str]:
    """Parse the values of --retriever-map, ("hits=items",), to a mapping. Raises UserError."""
    return parse_pairs("--retriever-map", texts)


def _parse_headers(texts: Sequence[str]) -> Mapping[str, str]:
    """Parse the values of --retriever-header, ("X-Key=$KEY",), to a mapping. Raises UserError."""
    return parse_pairs("--retriever-header", texts)


Retriever = Annotated[
    str | None,
    choice(
        "--retriever NAME=URL",
        "A retriever of your own, or a function (NAME=module:function), in place of the ranking of "
        "methods that retrieve.",
    ),
]
RetrieverFormat = Annotated[
    str | None,
    setting(
        "--retriever-format NAME",
        "How --retriever is asked and replies: json, elasticsearch (OpenSearch too) or qdrant.",
        "json",
    ),
]
RetrieverMap = Annotated[
    Mapping[str, str],
    setting(
        "--retriever-map FIELD=PATH ...",
        "Where a reply has hits, and each hit page, text and score (JMESPath).",
        typed=list[str],
        read=_parse_map,
    ),
]
RetrieverBody = Annotated[
    str | None,
    setting(
        "--retriever-body FILE",
        "jinja2 template of the JSON that is sent: {{ query | tojson }}, {{ k }}, {{ vector }}.",
    ),
]
RetrieverHeader = Annotated[
    Mapping[str, str],
    setting(
        "--retriever-header NAME=VALUE",
        "A header of every search; $NAME is an environment variable's value.",
        typed=list[str],
        read=_parse_headers,
    ),
]
RetrieverKey = Annotated[
    str | None,
    setting("--retriever-key NAME", "Environment variable that holds the key of --retriever."),
]
