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

from pydantic import TypeAdapter

from harness.apps.formats import FIELDS
from harness.apps.templates import Place, checked_places, described, wrong_field
from harness.errors import ModelOutputError

MAP = "--app-map"


@dataclass(frozen=True)
class AppReply:
    """An answer with what the application says about it.

    Attributes:
        answer: The text.
        sources: Names of the pages that it rests on.
        contexts: Texts that it rests on.
        tokens_in: Tokens read by its models.
        tokens_out: Tokens written by them.
        tokens: Both together, where the reply does not tell them apart.
        cost: Money.
    """

    answer: str
    sources: tuple[str, ...] | None = None
    contexts: tuple[str, ...] | None = None
    tokens_in: int | None = None
    tokens_out: int | None = None
    tokens: int | None = None
    cost: float | None = None


_CACHED = TypeAdapter(AppReply)


def checked_map(places: Mapping[str, str]) -> dict[str, Place]:
    """Check the places of a reply's fields: {"answer": "data.text"} -> {"answer": Place(...)}.

    Raises UserError for an unknown field or a wrong place.
    """
    return checked_places(places, FIELDS, MAP)


def read_reply(value: object, places: Mapping[str, Place]) -> AppReply:
    """Read what an application sent: a text, which is the answer, or
    JSON with its fields at `places`.

        {"answer": "two years", "sources": ["setup.md"]}
            -> AppReply("two years", sources=("setup.md",), contexts=None, ...)

    Args:
        value: The text, or JSON values.
        places: Field -> its place.

    Raises:
        ModelOutputError: There is no text where the answer should be, or a field of another kind.
    """
    if isinstance(value, str):
        return AppReply(value)
    field_values: dict[str, object] = {}
    for name, place in places.items():
        field_values[name] = place.found_in(value)
    answer = field_values.get("answer")
    if not isinstance(answer, str):
        raise ModelOutputError(
            f"the reply has no text at '{places['answer'].path}' ({described(value)}); say "
            "where the answer is: --app-map answer=PATH"
        )
    return AppReply(
        answer=answer,
        sources=_read_texts("sources", field_values.get("sources")),
        contexts=_read_texts("contexts", field_values.get("contexts")),
        tokens_in=_read_count("tokens_in", field_values.get("tokens_in")),
        tokens_out=_read_count("tokens_out", field_values.get("tokens_out")),
        tokens=_read_count("tokens", field_values.get("tokens")),
        cost=_read_money(field_values.get("cost")),
    )


def cached_reply(values: Mapping[str, object]) -> AppReply:
    """Make the reply again of the values of its fields, as the cache of replies holds them."""
    return _CACHED.validate_python(values)


def _read_texts(name: str, value: object) -> tuple[str, ...] | None:
    """Check a field that is a list of texts, or a single one; None
    where the reply does not have it.

    Raises ModelOutputError, which names the field.
    """
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise wrong_field(name, "should be a list of texts", MAP)
    texts: list[str] = []
    for item in value:
        if not isinstance(item, str):
            raise wrong_field(name, "should be a list of texts", MAP)
        texts.append(item)
    return tuple(texts)


def _read_count(name: str, value: object) -> int | None:
    """Check a field that is a number of tokens; None where the reply does not have it.

    Raises ModelOutputError, which names the field.
    """
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise wrong_field(name, "should be a number of tokens", MAP)


def _read_money(value: object) -> float | None:
    """Check the cost in a reply, a number of at least 0; None where the reply does not have it.

    Raises ModelOutputError.
    """
    if value is None:
        return None
    error = wrong_field("cost", "should be an amount of money", MAP)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise error
    if not math.isfinite(value) or value < 0:
        raise error
    return float(value)
