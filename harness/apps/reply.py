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

from harness.apps.formats import FIELDS
from harness.apps.templates import compiled, described, found_at, wrong_field
from harness.errors import ModelOutputError

Places = Mapping[str, Any]
"""Field of a reply -> its compiled place."""
MAP = "--app-map"


@dataclass(frozen=True)
class AppReply:
    """An answer with what the application says about it.

    Args:
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


def compiled_map(places: Mapping[str, str]) -> dict[str, Any]:
    """The places of a reply's fields, ready to be searched. Raises UserError for a wrong one."""
    return compiled(places, FIELDS, MAP)


def read_reply(value: Any, places: Places) -> AppReply:
    """The reply in `value`: a text, or JSON with the fields at `places`.

    Raises:
        ModelOutputError: There is no text where the answer should be, or a field of another kind.
    """
    if isinstance(value, str):
        return AppReply(value)
    found: dict[str, Any] = {}
    for name, place in places.items():
        found[name] = found_at(place, value, name, MAP)
    answer = found.get("answer")
    if not isinstance(answer, str):
        raise ModelOutputError(
            f"the reply has no text at '{places['answer'].expression}' ({described(value)}); say "
            "where the answer is: --app-map answer=PATH"
        )
    return AppReply(
        answer=answer,
        sources=_texts("sources", found.get("sources")),
        contexts=_texts("contexts", found.get("contexts")),
        tokens_in=_count("tokens_in", found.get("tokens_in")),
        tokens_out=_count("tokens_out", found.get("tokens_out")),
        tokens=_count("tokens", found.get("tokens")),
        cost=_money(found.get("cost")),
    )


def _texts(name: str, value: Any) -> tuple[str, ...] | None:
    """A list of texts, or a single one."""
    if value is None:
        return None
    if isinstance(value, str):
        return (value,)
    if not isinstance(value, list):
        raise wrong_field(name, "should be a list of texts", MAP)
    for item in value:
        if not isinstance(item, str):
            raise wrong_field(name, "should be a list of texts", MAP)
    return tuple(value)


def _count(name: str, value: Any) -> int | None:
    """A number of tokens."""
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise wrong_field(name, "should be a number of tokens", MAP)


def _money(value: Any) -> float | None:
    """An amount of money."""
    if value is None:
        return None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if is_number and math.isfinite(value) and value >= 0:
        return float(value)
    raise wrong_field("cost", "should be an amount of money", MAP)
