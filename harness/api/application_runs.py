"""Applications of the user's own among the runs of a command (--app).

In a command with both, settings of methods and models are for the methods alone, and "app.timeout"
is a setting of the applications.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, TypeVar

from harness.api.option import choice, setting, split_names
from harness.errors import UserError

METHOD_SETTINGS = (
    "method",
    "methods",
    "model",
    "roles",
    "encoder",
    "reranker",
    "retriever",
    "system_prompt",
)
"""Settings of the methods of a command, which its applications do not have."""
APPLICATION_SETTINGS = "app"
"""Settings of the applications of a command."""


def _split_applications(texts: Sequence[str]) -> tuple[str, ...]:
    """Split applications at commas: ("old=URL,new=URL",) -> ("old=URL", "new=URL")."""
    return tuple(split_names(texts))


def _parse_map(texts: Sequence[str]) -> Mapping[str, str]:
    """Parse the values of --app-map, ("answer=data.text",), to a mapping. Raises UserError."""
    return parse_pairs("--app-map", texts)


def _parse_headers(texts: Sequence[str]) -> Mapping[str, str]:
    """Parse the values of --app-header, ("X-Key=$KEY",), to a mapping. Raises UserError."""
    return parse_pairs("--app-header", texts)


def parse_pairs(flag: str, texts: Sequence[str]) -> dict[str, str]:
    """Parse NAME=VALUE pairs of an option: ["answer=data.text"] -> {"answer": "data.text"}.

    Args:
        flag: The option, for messages.
        texts: What was typed after it, each time.

    Raises:
        UserError: A text that is no such pair, or a name that is given twice.
    """
    pairs: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise UserError(f"{flag} {text}: should be NAME=VALUE")
        if name in pairs:
            raise UserError(f"{flag} {name}=... is given twice; keep one")
        pairs[name] = value
    return pairs


App = Annotated[
    Sequence[str],
    choice(
        "--app NAME=URL,...",
        "Applications of your own, or functions (NAME=module:function), each in place of a method.",
        typed=list[str],
        read=_split_applications,
    ),
]
AppFormat = Annotated[
    str | None,
    setting(
        "--app-format NAME",
        "How --app is asked and replies: json, openai-chat, openai-responses or langserve.",
        "json",
    ),
]
AppMap = Annotated[
    Mapping[str, str],
    setting(
        "--app-map FIELD=PATH ...",
        "Where a reply has answer, sources, contexts, tokens, tokens_in, tokens_out, cost "
        "(JMESPath).",
        typed=list[str],
        read=_parse_map,
    ),
]
AppBody = Annotated[
    str | None,
    setting(
        "--app-body FILE", "jinja2 template of the JSON that is sent: {{ question | tojson }}."
    ),
]
AppHeader = Annotated[
    Mapping[str, str],
    setting(
        "--app-header NAME=VALUE",
        "A header of every request; $NAME is an environment variable's value.",
        typed=list[str],
        read=_parse_headers,
    ),
]
AppKey = Annotated[
    str | None,
    setting("--app-key NAME", "Environment variable that holds the key of --app."),
]


T = TypeVar("T")


def without_settings(settings: Mapping[str, T], *parts: str) -> dict[str, T]:
    """Leave out the settings whose key begins with one of these parts.

    ({"method.k": 3, "seed": 1}, "method") -> {"seed": 1}
    """
    return {key: value for key, value in settings.items() if key.partition(".")[0] not in parts}


def as_model_settings(settings: Mapping[str, object]) -> dict[str, object]:
    """Turn settings of applications into those of their back end, by which a run has them.

    {"app.timeout": 9, "seed": 1} -> {"model.timeout": 9, "seed": 1}
    """
    prefix = f"{APPLICATION_SETTINGS}."
    model_settings: dict[str, object] = {}
    for key, value in settings.items():
        name = key
        if key.startswith(prefix):
            name = f"model.{key.removeprefix(prefix)}"
        model_settings[name] = value
    return model_settings
