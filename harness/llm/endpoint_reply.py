"""The reply of POST /chat/completions: what is used of it, parsed and checked in this one place.

    read_reply({"choices": [{"message": {"content": "Paris"}, "finish_reason": "stop"}],
                "usage": {"prompt_tokens": 9, "completion_tokens": 1}}, sizes, mask_key)
    -> Reply(text="Paris", finish="stop", tokens_in=9, tokens_out=1)

Servers differ in what they leave out and how they name it; each difference has its line here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.config.schema import Thinking
from harness.llm.endings import reply_end, split_thinking
from harness.llm.endpoint_http import UnusableReply

DEFAULT_TOKENS = 4096
"""Tokens of a reply where a request names no limit."""
_TOKEN_BYTES = 1024  # more than the longest token of any vocabulary, and than one logged alternative takes as JSON
_REPLY_FRAME = 1 << 20  # bytes of a reply around its tokens
# Tokens that a template may add: a system prompt, and around each turn.
_PROMPT_FRAME, _TURN_FRAME = 4096, 64
# Words of Anthropic, Google and Mistral for "length", and of Anthropic and Google for a refusal.
_CUT_REASONS, _REFUSED_REASONS = ("max_tokens", "model_length"), ("refusal", "safety")
# Words of OpenRouter, vLLM, Zhipu and DeepSeek for a reply that an error of the server ended.
_BROKEN_OFF_REASONS = ("error", "abort", "network_error", "insufficient_system_resource")


@dataclass(frozen=True)
class Reply:
    """One reply of /chat/completions.

    Attributes:
        text: The text of the answer.
        finish: Why it ended: "stop", "length", "content_filter" or another word of the server.
        tokens_in: Read, as the server counts them; None where it does not say.
        tokens_cached: Those of them that were in its prefix cache.
        tokens_out: Written, as the server counts them; None where it does not say.
        counts_refused: How many of its counts cannot be true and are None.
        first_token: (token, log-probability) of what might have come first.
        ending: Whether end markers were cut off.
        thinking: In front of the answer.
        thinking_tokens: Its tokens, as the server counts them; None where it does not say.
        unclosed: Whether the thinking did not end.
        refused: Whether the model refuses to answer.
    """

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
    refused: bool = False

    def answer(self, markers: Thinking | None) -> Reply:
        """A copy of the reply with its thinking moved from `text` to `thinking`; `unclosed` where
        it did not end, or used up the whole limit.

        Args:
            markers: What the thinking stands between; None for a model without such markers.
        """
        thinking, text, closed = split_thinking(self.text, markers)
        # All of the limit went into thinking, shown or hidden.
        used_up = not text and self.finish == "length"
        return replace(
            self, text=text, thinking=self.thinking + thinking, unclosed=not closed or used_up
        )

    def cut_at_stop(self, stop: Sequence[str], endings: re.Pattern[str] | None) -> Reply:
        """A copy of the reply up to the first stop string, without end markers.

        Args:
            stop: The stop strings.
            endings: Finds markers at the end (endings.endings_pattern); None for no markers.
        """
        end, ending = reply_end(self.text, stop, endings)
        finish = self.finish
        if self.finish == "length" and end < len(self.text):
            finish = "stop"
        return replace(self, text=self.text[:end], finish=finish, ending=ending)


@dataclass(frozen=True)
class RequestSizes:
    """What a request may cause a reply to hold.

    Attributes:
        sent: Bytes of its texts.
        turns: How many texts these are.
        max_tokens: The most tokens of the reply.
        alternatives: How many log-probabilities of each token it asks for.
    """

    sent: int
    turns: int
    max_tokens: int
    alternatives: int

    @classmethod
    def of(cls, body: Mapping[str, object]) -> RequestSizes:
        """The sizes of a request.

        Args:
            body: The fields of the request: "messages", "max_tokens", "top_logprobs".
        """
        messages = body.get("messages")
        texts: list[str] = []
        if isinstance(messages, Sequence):
            texts = [message["content"] for message in messages]
        return cls(
            sent=sum(len(text.encode("utf-8", "replace")) for text in texts),
            turns=len(texts),
            max_tokens=_number(body.get("max_tokens")) or DEFAULT_TOKENS,
            alternatives=_number(body.get("top_logprobs")),
        )

    @property
    def most_bytes(self) -> int:
        """The most bytes that a sound reply to the request may have."""
        return _REPLY_FRAME + _TOKEN_BYTES * self.max_tokens * (1 + self.alternatives)


def _number(value: object) -> int:
    """A whole number that a request names: 5 for 5, 5.0 or "5"; 0 where it names none."""
    if isinstance(value, int | float | str):
        return int(value or 0)
    return 0


def read_reply(reply: object, sizes: RequestSizes, mask_key: Callable[[str], str]) -> Reply:
    """Read the parsed reply of a server, whose forms differ.

    Args:
        reply: JSON values of any kind.
        sizes: The sizes of the request.
        mask_key: Takes the key out of a text.

    Raises:
        UnusableReply: It has no message with a text, or tells of an error.
    """
    if not isinstance(reply, dict):
        raise UnusableReply("the reply is no JSON object")
    if reply.get("error"):
        raise UnusableReply("the reply tells of an error instead of an answer")
    choice = _first_choice(reply)
    message = _message(choice)
    text = mask_key(_parts_text(message, "text"))
    first_token = [(mask_key(token), p) for token, p in _top_logprobs(choice.get("logprobs"))]
    if not all(p < 1 for _, p in first_token):  # rounding may make it a little more than 0
        raise UnusableReply("the reply has a log-probability that is none")
    counts = _Counts.of(_object(reply.get("usage")), sizes, len(text.encode("utf-8", "replace")))
    finish = mask_key(str(choice.get("finish_reason") or "stop"))
    refused = finish.lower() in _REFUSED_REASONS
    if finish.lower() in _CUT_REASONS:
        finish = "length"
    refuses = bool(message.get("refusal") or _parts_text(message, "refusal"))
    return Reply(
        text=text,
        thinking=mask_key(_reasoning(message)),
        thinking_tokens=counts.thinking,
        refused=refuses or refused,
        finish=finish,
        tokens_in=counts.read,
        tokens_cached=counts.cached,
        tokens_out=counts.written,
        counts_refused=counts.refused,
        first_token=tuple(first_token),
    )


def _first_choice(reply: Mapping[str, object]) -> Mapping[str, object]:
    """The first choice of a reply, a JSON object. Raises UnusableReply where there is none."""
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UnusableReply("the reply has no choices, so it is no chat completion")
    return choices[0]


def _message(choice: Mapping[str, object]) -> Mapping[str, object]:
    """The message of a choice, whose content is a text or a list of objects. Raises UnusableReply
    for any other, for a call of a tool, and for a reply that broke off."""
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnusableReply("the reply has no message with a text")
    content = message.get("content") or ""
    parts: list[object] = []
    if isinstance(content, list):
        parts = content
    if not isinstance(content, str | list) or not all(isinstance(part, dict) for part in parts):
        raise UnusableReply("the reply has no message with a text")
    if any("\ud800" <= sign <= "\udfff" for sign in _parts_text(message, "text")):
        raise UnusableReply("the reply holds half a character, so it was garbled")
    if message.get("content") is None and message.get("tool_calls"):
        raise UnusableReply("the reply calls a tool instead of answering")
    if choice.get("finish_reason") in _BROKEN_OFF_REASONS:
        raise UnusableReply("the reply broke off with an error of the server")
    return message


def _reasoning(message: Mapping[str, object]) -> str:
    """The thinking that a message has beside its text; "" for none."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if isinstance(reasoning, str):
        return reasoning
    return _parts_text(message, "thinking")


@dataclass(frozen=True)
class _Counts:
    """Tokens of a reply as the server counts them; None where it does not say, or cannot be true.

    Attributes:
        read: Tokens of the request.
        cached: Those of them that were in the server's prefix cache; 0 where it does not say.
        written: Tokens of the reply.
        thinking: Those of them that are thinking.
        refused: How many of its counts cannot be true.
    """

    read: int | None
    cached: int
    written: int | None
    thinking: int | None
    refused: int

    @classmethod
    def of(cls, usage: Mapping[str, object], sizes: RequestSizes, written_bytes: int) -> _Counts:
        """Read the counts of a reply.

        Args:
            usage: The reply's field "usage".
            sizes: The sizes of the request.
            written_bytes: The bytes of the reply's text.
        """
        most_read = sizes.sent + _PROMPT_FRAME + _TURN_FRAME * sizes.turns
        read = _token_count(usage.get("prompt_tokens"), sizes.sent, most_read)
        most_written = max(written_bytes, sizes.max_tokens) + _TURN_FRAME
        written = _token_count(usage.get("completion_tokens"), written_bytes, most_written)
        cached = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
        reasoning = _object(usage.get("completion_tokens_details")).get("reasoning_tokens")
        refused = int(usage.get("prompt_tokens") is not None and read is None)
        refused += int(usage.get("completion_tokens") is not None and written is None)
        return cls(
            read=read,
            cached=_token_count(cached, 0, read or 0) or 0,
            written=written,
            thinking=_token_count(reasoning, 0, written or 0),
            refused=refused,
        )


def _object(value: object) -> Mapping[str, object]:
    """`value` where it is a JSON object, else an empty one."""
    if isinstance(value, dict):
        return value
    return {}


def _parts_text(message: Mapping[str, object], kind: str) -> str:
    """The text of a message's parts of one kind, joined; a content that is a plain text counts as a
    part of the kind "text".

    Args:
        message: {"content": "Paris"}, or {"content": [{"text": "Par"}, {"text": "is"}]}.
        kind: "text", "thinking" or "refusal".
    """
    content = message.get("content")
    parts: list[object] = [{"text": content}]
    if isinstance(content, list):
        parts = content
    texts: list[str] = []
    for part in parts:
        if isinstance(part, dict):
            texts += _texts_of(part.get(kind))
    return "".join(texts)


def _texts_of(value: object) -> list[str]:
    """The texts in one part's value: "a" -> ["a"]; [{"text": "a"}, {"text": "b"}] -> ["a", "b"];
    else []."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    texts = [_object(inner).get("text") for inner in value]
    return [text for text in texts if isinstance(text, str)]


def _token_count(value: object, size: int, most: int) -> int | None:
    """A count of tokens; None where it cannot be true.

    Args:
        value: What the server says.
        size: Bytes of the text whose tokens it counts.
        most: The most tokens that it may have.
    """
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    least = -(-size // _TOKEN_BYTES)
    if not least <= value <= most:
        return None
    return value


def _top_logprobs(logprobs: object) -> Iterable[tuple[str, float]]:
    """Yield (token, log-probability) of what might have come first in the reply; nothing where the
    reply does not say. "▁" in a token, SentencePiece's sign of a space, becomes a space.

    Args:
        logprobs: The field of a choice, {"content": [{"top_logprobs": [{"token": "Yes", "logprob":
            -0.1}, ...]}, ...]}.
    """
    content = _object(logprobs).get("content")
    if not isinstance(content, list) or not content:
        return
    rows = _object(content[0]).get("top_logprobs")
    if not isinstance(rows, list):
        return
    for row in rows:
        token, logprob = _object(row).get("token"), _object(row).get("logprob")
        if isinstance(token, str) and isinstance(logprob, int | float):
            yield token.replace("▁", " "), logprob
