"""What an application replies, read from the JSON or text that it sent.

    read_reply({"answer": "two years", "sources": ["setup.md"]}, compiled_map(FORMATS["json"].map))
    -> AppReply("two years", sources=("setup.md",), contexts=None, ...)

What a reply does not say is None, which is never the same as nothing: an empty list of contexts is
a reply that used none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from harness.apps.formats import FIELDS
from harness.errors import ModelOutputError, UserError, unknown

Places = Mapping[str, Any]
"""Field of a reply -> its compiled place."""
_SHOWN = 200  # characters of the keys of a reply in a message


@dataclass(frozen=True)
class AppReply:
    """An answer with what the application says about it.

    Args:
        answer: The text.
        sources: Names of the pages that it rests on.
        contexts: Texts that it rests on.
        tokens_in: Tokens read by its models.
        tokens_out: Tokens written by them.
        cost: Money.
    """

    answer: str
    sources: tuple[str, ...] | None = None
    contexts: tuple[str, ...] | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    cost: float | None = None


def compiled_map(places: Mapping[str, str]) -> dict[str, Any]:
    """The places of a reply's fields, ready to be searched. Raises UserError for a wrong one."""
    compiled: dict[str, Any] = {}
    for field, place in places.items():
        if field not in FIELDS:
            raise unknown(f"field '{field}' (--app-map)", field, FIELDS)
        try:
            compiled[field] = jmespath.compile(place)
        except JMESPathError as error:
            first_line = str(error).splitlines()[0]
            raise UserError(f"--app-map {field}={place}: no JMESPath ({first_line})") from None
    return compiled


def read_reply(value: Any, places: Places) -> AppReply:
    """The reply in `value`: a text, or JSON with the fields at `places`.

    Raises:
        ModelOutputError: There is no text where the answer should be, or a field of another kind.
    """
    if isinstance(value, str):
        return AppReply(value)
    found: dict[str, Any] = {}
    for name, place in places.items():
        found[name] = _search(name, place, value)
    answer = found.get("answer")
    if not isinstance(answer, str):
        raise ModelOutputError(
            f"the reply has no text at '{places['answer'].expression}' ({_described(value)}); say "
            "where the answer is: --app-map answer=PATH"
        )
    return AppReply(
        answer=answer,
        sources=_texts("sources", found.get("sources")),
        contexts=_texts("contexts", found.get("contexts")),
        tokens_in=_count("tokens_in", found.get("tokens_in")),
        tokens_out=_count("tokens_out", found.get("tokens_out")),
        cost=_money(found.get("cost")),
    )


def _search(name: str, place: Any, value: Any) -> Any:
    """What stands at a place. Raises ModelOutputError where the expression does not fit."""
    try:
        return place.search(value)
    except JMESPathError as error:
        raise _wrong(name, str(error).splitlines()[0]) from None


def _texts(name: str, value: Any) -> tuple[str, ...] | None:
    """A list of texts, or a single one."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise _wrong(name, "should be a list of texts")
    for item in value:
        if not isinstance(item, str):
            raise _wrong(name, "should be a list of texts")
    return tuple(value)


def _count(name: str, value: Any) -> int | None:
    """A number of tokens."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise _wrong(name, "should be a number of tokens")


def _money(value: Any) -> float | None:
    """An amount of money."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and value >= 0:
        return float(value)
    raise _wrong("cost", "should be an amount of money")


def _wrong(name: str, problem: str) -> ModelOutputError:
    """The error for a field that cannot be read."""
    return ModelOutputError(f"{name} of the reply: {problem}; correct --app-map {name}=PATH")


def _described(value: Any) -> str:
    """What a reply is, in words without its texts."""
    if isinstance(value, dict):
        keys = ", ".join(map(str, value))
        return f"it has {keys[:_SHOWN] or 'no keys'}"
    return f"it is a {type(value).__name__}"
