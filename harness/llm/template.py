"""A chat template cut into the pieces that stand between contents, by rendering it with sentinels.

    begin  content  mid  content  next  content  mid ...
    |               |             |
    BOS + user head end of user   end of reply
                    + reply head  + user head

Contents are encoded on their own, so what a document says can never become part of a piece.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness.errors import CannotRun

__all__ = ["PLAIN", "Pieces", "cut"]

_USER, _REPLY, _AGAIN = "qXuserXq", "qXreplyXq", "qXagainXq"
# What a document may look like inside: a template that changes any of it would make feeding piece by piece a lie.
_ROUGH = "qXa  b\n\n\n* C <x> </think> {{ d }} #Xq"


@dataclass(frozen=True)
class Pieces:
    """The text between contents. trims: the template strips white space around a content (Llama-3.1's does)."""

    begin: str
    mid: str
    next: str
    trims: bool = False


PLAIN = Pieces(begin="", mid="\n", next="\n\n")


def _date(when: str) -> Callable[[str], str]:
    day = datetime.datetime.strptime(when, "%d %b %Y")
    return lambda form: day.strftime(form)


def cut(render: Callable[..., str], name: str, date: str) -> Pieces:
    """Cut the template that `render(messages, **variables)` applies; `date` ("26 Jul 2024") is shown where it asks.

    Raises CannotRun, naming the template, when it drops, repeats or rewrites a content.
    """
    variables: dict[str, Any] = {"date_string": date, "strftime_now": _date(date)}

    def rendered(*contents: str) -> str:
        roles = ("user", "assistant", "user")
        messages = [{"role": r, "content": c} for r, c in zip(roles, contents, strict=False)]
        try:
            return render(messages, add_generation_prompt=True, tokenize=False, **variables)
        except Exception as error:  # a template is a program of the model's maker
            why = " ".join(str(error).split()) or type(error).__name__
            raise CannotRun(
                f"the chat template of '{name}' cannot be applied ({why}); set model.template=none or give a template "
                "file with model.template=FILE"
            ) from error

    once, thrice = rendered(_USER), rendered(_USER, _REPLY, _AGAIN)
    begin, mid = _split(once, [_USER], name)
    parts = _split(thrice, [_USER, _REPLY, _AGAIN], name)
    if parts[0] != begin or parts[3] != mid or parts[1] != mid:
        raise CannotRun(
            f"the chat template of '{name}' changes earlier turns when the conversation grows, so tokens would have to "
            "go through the model twice; set model.template=none or give a template file with model.template=FILE"
        )
    if _ROUGH not in rendered(_ROUGH):
        raise CannotRun(
            f"the chat template of '{name}' rewrites what a user turn says; set model.template=none or a template file"
        )
    trims = f" {_USER} " not in rendered(f" {_USER} ")
    return Pieces(begin=begin, mid=mid, next=parts[2], trims=trims)


def _split(text: str, sentinels: list[str], name: str) -> list[str]:
    parts = []
    for s in sentinels:
        if text.count(s) != 1:
            raise CannotRun(
                f"the chat template of '{name}' shows a content {text.count(s)} times instead of once; "
                "set model.template=none or give a template file with model.template=FILE"
            )
        before, text = text.split(s, 1)
        parts.append(before)
    return [*parts, text]
