"""What a server says in an error reply, and which field of the request it refuses.

error = ServerError.parse(b'{"error": {"message": "Unsupported parameter", "param": "seed"}}')
error.message                                                    -> "Unsupported parameter"
refused_field(b'{"model": "m", "seed": 1}', error.message, error) -> "seed"
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

OTHER_NAMES = {"max_tokens": "max_completion_tokens"}
"""Field -> the name that some servers want it under: OpenAI's since 2024."""
_REFUSES_FIELD = re.compile(
    r"unsupported|n[o']t (support|allowed|permitted)|unknown|unrecogni[sz]ed|unexpected|extra_forbidden|deprecated"
    r"|instead of",
    re.I,
)
# Of a field with one value in all requests: a limit of tokens may be too large for one question
# alone.
_REFUSES_VALUE = re.compile(
    rf"{_REFUSES_FIELD.pattern}|n[o']t (available|offer)|fixed at|invalid (parameter|field|argument)"
    r"|only\b.{1,40}\b(allowed|supported|be set)",
    re.I,
)
# Codes of OpenAI and Moonshot, and words of xAI. "Quota" alone may be that of a minute.
_USED_UP = {
    "insufficient_quota",
    "billing_not_active",
    "billing_hard_limit_reached",
    "exceeded_current_quota_error",
}
_NO_CREDITS = re.compile(r"used all available credits|spending limit", re.IGNORECASE)


@dataclass(frozen=True)
class ServerError:
    """The error in a reply.

    Attributes:
        message: Its text; the whole body where it is no JSON.
        code: As text, "" where it has none.
        type: As text, "" where it has none.
        param: OpenAI's name of the field that is wrong; None for none.
        loc: pydantic's place of the value that is wrong, ["body", "seed"]; None for none.
    """

    message: str
    code: str = ""
    type: str = ""
    param: str | None = None
    loc: Sequence[str] | None = None

    @classmethod
    def parse(cls, body: bytes) -> ServerError:
        """Read the body of an error reply, of any form.

        b'{"error": {"message": "Too long", "code": "context"}}' -> ServerError("Too long",
        code="context")
        """
        text = body.decode("utf-8", "replace")
        try:
            error = _error_in(json.loads(text))
            text = _message_of(error)
        except (ValueError, RecursionError):
            return cls(text)
        if isinstance(error, list) and error:  # pydantic lists all problems
            error = error[0]
        if not isinstance(error, dict):
            return cls(text)
        param, loc = error.get("param"), error.get("loc")
        return cls(
            message=text,
            code=str(error.get("code") or ""),
            type=str(error.get("type") or ""),
            param=param if isinstance(param, str) else None,
            loc=list(map(str, loc)) if isinstance(loc, list) else None,
        )

    def says_quota_is_used_up(self, shown_message: str) -> bool:
        """Whether the error says that all of the money or quota of the key is used.

        Args:
            shown_message: The message, as it is shown.
        """
        if self.code in _USED_UP or self.type in _USED_UP:
            return True
        return _NO_CREDITS.search(shown_message) is not None


def _error_in(reply: object) -> object:
    """The error in a parsed error reply: under "error" or "detail", else the whole reply."""
    if not isinstance(reply, dict):
        return reply
    error: object = reply.get("error", reply.get("detail", reply))
    return error


def _message_of(error: object) -> str:
    """The text of a parsed error: its "message", else all of it."""
    if isinstance(error, dict):
        return str(error.get("message", error))
    return str(error)


def refused_field(request_json: bytes, shown_message: str, error: ServerError) -> str | None:
    """The field of a request that the server refuses; None where the error is about something else.

    It is the field that the error names, else the first that its message mentions. max_tokens and
    its other name may be refused for their value too, for this question alone: they are refused
    only where the message says that the field itself is unsupported. Any other field is so where
    the error names it, or the message calls it or its value unsupported.

    Args:
        request_json: The JSON of the request: {"model": "m", "messages": [...], "seed": 1}.
        shown_message: What the server says, shortened.
        error: The same, parsed.
    """
    fields = [name for name in json.loads(request_json) if name not in ("model", "messages")]
    named_field = _named_field(error, fields)
    # An error of pydantic has a place (`loc`). Its message may repeat the document, so only the
    # place is looked at.
    if error.loc is not None and named_field is None:
        return None
    field = named_field or _first_mentioned(fields, shown_message)
    has_other_name = field in (*OTHER_NAMES, *OTHER_NAMES.values())
    if has_other_name:
        is_refused = _REFUSES_FIELD.search(f"{shown_message} {error.code}") is not None
    else:
        is_refused = named_field is not None or _REFUSES_VALUE.search(shown_message) is not None
    if not is_refused:
        return None
    return field


def _named_field(error: ServerError, fields: Sequence[str]) -> str | None:
    """The field that an error names outside of its message (`param`, `loc`); None for none.

    Args:
        error: The error.
        fields: The fields of the request.
    """
    for name in (error.param, *(error.loc or ())):
        if name in fields:
            return name
    return None


def _first_mentioned(fields: Sequence[str], message: str) -> str | None:
    """The field of a request that a message mentions first; None for none.

    Args:
        fields: The names of the fields of the request.
        message: The message.
    """
    start_of_field: dict[str, int] = {}
    for name in fields:
        pattern = rf"\b{re.escape(name)}\b"
        if name == "stop":  # it is a word of other complaints, too
            pattern = rf"(?:['\"`]|: ){name}\b"
        match = re.search(pattern, message)
        if match is not None:
            start_of_field[name] = match.start()
    return min(start_of_field, key=start_of_field.__getitem__, default=None)
