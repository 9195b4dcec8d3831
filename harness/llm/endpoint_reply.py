"""What a chat server says: one reply, read out of the JSON of /chat/completions.

    reply = complete(server, {"model": ..., "messages": [...], "max_tokens": 32})
    reply.text, reply.finish, reply.tokens_in, reply.tokens_out, reply.first_token

A reply without a message is invalid: the request is repeated (see endpoint_http).
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.config.schema import Thinking
from harness.llm.endings import reply_end
from harness.llm.endpoint_http import Server, Tries
from harness.llm.thinking import split

_TOKEN_BYTES = 1024  # more than the longest token of any vocabulary, and than one logged alternative takes as JSON
_FRAME = 1 << 20  # of a reply around its tokens
_UNSAID = 4096  # tokens of a reply where a request names no limit
_PROMPT_FRAME, _TURN_FRAME = 4096, 64  # tokens that a template may add: a system prompt, and around each turn


@dataclass(frozen=True)
class Reply:
    """One reply. tokens_*: as the server counts them, None where it does not say (tokens_cached: of tokens_in);
    counts_refused: how many of the server's counts cannot be true and are None for that reason; first_token: (token,
    log-probability) of what might have come first, () where the server lists none; ending: whether markers of the end
    of a turn were cut off the end of the text; thinking: what a reasoning model wrote before its answer, apart from the
    text or taken off it by `answer`; thinking_tokens: as the server counts them; unclosed: whether it did not end."""

    text: str
    finish: str
    tokens_in: int | None = None
    tokens_cached: int = 0
    tokens_out: int | None = None
    counts_refused: int = 0
    first_token: tuple[tuple[str, float], ...] = ()
    ending: bool = False
    thinking: str = ""
    thinking_tokens: int | None = None
    unclosed: bool = False

    def answer(self, how: Thinking | None) -> Reply:
        """The reply without the thinking that stands in its text. A server may send it apart, as `thinking`."""
        if how is None:
            return self
        thinking, text, closed = split(self.text, how)
        apart = bool(self.thinking) and not text and self.finish == "length"  # all of the limit went into thinking
        return replace(self, text=text, thinking=self.thinking + thinking, unclosed=not closed or apart)

    def cut(self, stop: Sequence[str], endings: re.Pattern[str] | None) -> Reply:
        """The reply up to the first stop string, without markers at its end."""
        end, ending = reply_end(self.text, stop, endings)
        finish = "stop" if self.finish == "length" and end < len(self.text) else self.finish
        return replace(self, text=self.text[:end], finish=finish, ending=ending)


def complete(server: Server, body: Mapping[str, Any], tries: Tries | None = None) -> Reply:
    """Ask for one reply; tries: counts how often. Raises RequestFailed and CannotRun as `Server.post` does."""
    max_tokens = int(body.get("max_tokens") or _UNSAID)
    most = _FRAME + _TOKEN_BYTES * max_tokens * (1 + int(body.get("top_logprobs") or 0))
    parsed = server.post("/chat/completions", body, _problem, most, tries)
    choice = parsed["choices"][0]
    text = server.mask_key(choice["message"].get("content") or "")
    usage_sent = parsed.get("usage")
    usage: dict[str, Any] = usage_sent if isinstance(usage_sent, dict) else {}
    details = usage.get("prompt_tokens_details")
    cached = details.get("cached_tokens") if isinstance(details, dict) else None
    messages = body.get("messages") or ()
    sent = sum(len(m["content"].encode("utf-8", "replace")) for m in messages)
    written = len(text.encode("utf-8", "replace"))
    tokens_in = _count(usage.get("prompt_tokens"), sent, sent + _PROMPT_FRAME + _TURN_FRAME * len(messages))
    tokens_out = _count(usage.get("completion_tokens"), written, max(written, max_tokens) + _TURN_FRAME)
    refused = (usage.get("prompt_tokens") is not None and tokens_in is None) + (
        usage.get("completion_tokens") is not None and tokens_out is None
    )
    more = usage.get("completion_tokens_details")
    apart = choice["message"].get("reasoning_content") or choice["message"].get("reasoning")
    return Reply(
        text=text,
        thinking=server.mask_key(apart) if isinstance(apart, str) else "",
        thinking_tokens=_count(more.get("reasoning_tokens") if isinstance(more, dict) else None, 0, tokens_out or 0),
        finish=server.mask_key(str(choice.get("finish_reason") or "stop")),
        tokens_in=tokens_in,
        tokens_cached=_count(cached, 0, tokens_in or 0) or 0,
        tokens_out=tokens_out,
        counts_refused=refused,
        first_token=tuple((server.mask_key(token), p) for token, p in _listed(choice.get("logprobs"))),
    )


def _problem(reply: Any) -> str | None:
    """The problem of a parsed reply, None for one with a message."""
    if not isinstance(reply, dict):
        return "the reply is no JSON object"
    if reply.get("error"):
        return "the reply tells of an error instead of an answer"
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return "the reply has no choices, so it is no chat completion"
    message = choices[0].get("message")
    if not isinstance(message, dict) or not isinstance(message.get("content") or "", str):
        return "the reply has no message with a text"
    if any("\ud800" <= sign <= "\udfff" for sign in message.get("content") or ""):
        return "the reply holds half a character, so it was garbled"
    if message.get("content") is None and message.get("tool_calls"):
        return "the reply calls a tool instead of answering"
    if not all(p < 1 for _, p in _listed(choices[0].get("logprobs"))):  # rounding may make it a little more than 0
        return "the reply has a log-probability that is none"
    return None


def _count(value: Any, size: int, most: int) -> int | None:
    """A server's count of the tokens in `size` bytes of text, None for one that is no count or cannot be true."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    return value if whole and -(-size // _TOKEN_BYTES) <= value <= most else None


def _listed(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """The alternatives to the first token; SentencePiece's mark for a space is one."""
    content = logprobs.get("content") if isinstance(logprobs, dict) else None
    if not isinstance(content, list) or not content or not isinstance(content[0], dict):
        return ()
    rows = content[0].get("top_logprobs")
    return tuple(
        (row["token"].replace("▁", " "), _number(row["logprob"]))
        for row in (rows if isinstance(rows, list) else ())
        if isinstance(row, dict) and isinstance(row.get("token"), str) and isinstance(row.get("logprob"), int | float)
    )


def _number(value: float) -> float:
    """`value` as a float, NaN for a whole number that has too many digits for one."""
    try:
        return float(value)
    except OverflowError:
        return math.nan
