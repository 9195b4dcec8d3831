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
# More than the longest token of any vocabulary, and than one logged alternative takes as JSON.
_MAX_TOKEN_BYTES = 1024
_REPLY_FRAME_BYTES = 1 << 20  # of a reply around its tokens
# Tokens that a template may add: a system prompt, and around each turn.
_PROMPT_FRAME_TOKENS, _TURN_FRAME_TOKENS = 4096, 64
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

    def without_thinking(self, markers: Thinking | None) -> Reply:
        """A copy of the reply with its thinking moved from `text` to `thinking`; `unclosed` where
        it did not end, or used up the whole limit.

        Args:
            markers: What the thinking stands between; None for a model without such markers.
        """
        split = split_thinking(self.text, markers)
        # All of the limit went into thinking, shown or hidden.
        used_up_limit = not split.answer and self.finish == "length"
        return replace(
            self,
            text=split.answer,
            thinking=self.thinking + split.thinking,
            unclosed=not split.is_closed or used_up_limit,
        )

    def cut_at_stop(self, stop: Sequence[str], endings: re.Pattern[str] | None) -> Reply:
        """A copy of the reply up to the first stop string, without end markers. What was cut short
        by its limit of tokens counts as stopped where the cut leaves less than that.

        Args:
            stop: The stop strings.
            endings: Finds markers at the end (endings.endings_pattern); None for no markers.
        """
        end = reply_end(self.text, stop, endings)
        is_cut_here = end.n_characters < len(self.text)
        finish = self.finish
        if self.finish == "length" and is_cut_here:
            finish = "stop"
        return replace(
            self, text=self.text[: end.n_characters], finish=finish, ending=end.cuts_markers
        )


@dataclass(frozen=True)
class RequestSizes:
    """What a request may cause a reply to hold.

    Attributes:
        n_bytes: Bytes of its texts.
        n_turns: How many texts these are.
        max_tokens: The most tokens of the reply.
        n_logprobs: How many log-probabilities of each token it asks for.
    """

    n_bytes: int
    n_turns: int
    max_tokens: int
    n_logprobs: int

    @classmethod
    def of_request(cls, body: Mapping[str, object]) -> RequestSizes:
        """The sizes of a request: bytes and number of its turns, and its limits.

        Args:
            body: The fields of the request: "messages" ([{"role": "user", "content": "Who?"}]),
                "max_tokens" (DEFAULT_TOKENS where it is missing), "top_logprobs" (likewise 0).
        """
        messages = body.get("messages")
        texts: list[str] = []
        if isinstance(messages, Sequence):
            texts = [message["content"] for message in messages]
        return cls(
            n_bytes=sum(len(text.encode("utf-8", "replace")) for text in texts),
            n_turns=len(texts),
            max_tokens=_whole_number(body.get("max_tokens")) or DEFAULT_TOKENS,
            n_logprobs=_whole_number(body.get("top_logprobs")),
        )

    @property
    def max_reply_bytes(self) -> int:
        """The most bytes that a sound reply to the request may have."""
        max_token_bytes = _MAX_TOKEN_BYTES * (1 + self.n_logprobs)
        return _REPLY_FRAME_BYTES + max_token_bytes * self.max_tokens


def _whole_number(value: object) -> int:
    """A whole number that a request names: 5 for 5, 5.0 or "5"; 0 where it names none."""
    if isinstance(value, int | float | str):
        return int(value or 0)
    return 0


def read_reply(reply: object, sizes: RequestSizes, mask_key: Callable[[str], str]) -> Reply:
    """Read the parsed reply of a server, whose forms differ. `finish` becomes "length" for each
    word by which servers say that the reply was cut; a reply that says nothing has "stop".

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
    message = _message_with_text(choice)
    text = mask_key(_parts_text(message, "text"))
    n_text_bytes = len(text.encode("utf-8", "replace"))
    counts = _Counts.of_reply(_object(reply.get("usage")), sizes, n_text_bytes)
    finish = mask_key(str(choice.get("finish_reason") or "stop"))
    ended_with_refusal = finish.lower() in _REFUSED_REASONS
    if finish.lower() in _CUT_REASONS:
        finish = "length"
    has_refusal = bool(message.get("refusal") or _parts_text(message, "refusal"))
    return Reply(
        text=text,
        thinking=mask_key(_reasoning(message)),
        thinking_tokens=counts.thinking,
        refused=has_refusal or ended_with_refusal,
        finish=finish,
        tokens_in=counts.read,
        tokens_cached=counts.cached,
        tokens_out=counts.written,
        counts_refused=counts.refused,
        first_token=_likely_first_tokens(choice, mask_key),
    )


def _first_choice(reply: Mapping[str, object]) -> Mapping[str, object]:
    """The first choice of a reply, a JSON object. Raises UnusableReply where there is none."""
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        raise UnusableReply("the reply has no choices, so it is no chat completion")
    return choices[0]


def _likely_first_tokens(
    choice: Mapping[str, object], mask_key: Callable[[str], str]
) -> tuple[tuple[str, float], ...]:
    """(token, log-probability) of what might have come first in the reply; () where the choice does
    not say. Raises UnusableReply for a number that is no log-probability.

    Args:
        choice: The choice of a reply.
        mask_key: Takes the key out of a text.
    """
    likely_tokens: list[tuple[str, float]] = []
    for token, logprob in _top_logprobs(choice.get("logprobs")):
        if not logprob < 1:  # rounding may make it a little more than 0
            raise UnusableReply("the reply has a log-probability that is none")
        likely_tokens.append((mask_key(token), logprob))
    return tuple(likely_tokens)


def _message_with_text(choice: Mapping[str, object]) -> Mapping[str, object]:
    """The message of a choice, whose content is a text or a list of objects. Raises UnusableReply
    for any other, for a call of a tool, and for a reply that broke off."""
    message = choice.get("message")
    if not isinstance(message, dict):
        raise UnusableReply("the reply has no message with a text")
    content = message.get("content") or ""
    parts: list[object] = []
    if isinstance(content, list):
        parts = content
    has_only_objects = all(isinstance(part, dict) for part in parts)
    if not isinstance(content, str | list) or not has_only_objects:
        raise UnusableReply("the reply has no message with a text")
    # Halves of a UTF-16 pair.
    if any("\ud800" <= character <= "\udfff" for character in _parts_text(message, "text")):
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
    def of_reply(
        cls, usage: Mapping[str, object], sizes: RequestSizes, n_text_bytes: int
    ) -> _Counts:
        """Read the counts of a reply. One that cannot be true counts as not said; `refused` is how
        many such counts of all tokens read and written there are.

        A token has at most _MAX_TOKEN_BYTES bytes and at least one, beside what a template puts
        around each turn; a reply may have hidden thinking, up to the request's limit.

        Args:
            usage: The reply's field "usage": {"prompt_tokens": 9, "completion_tokens": 1}.
            sizes: The sizes of the request.
            n_text_bytes: The bytes of the reply's text.
        """
        said_read = usage.get("prompt_tokens")
        said_written = usage.get("completion_tokens")
        said_cached = _object(usage.get("prompt_tokens_details")).get("cached_tokens")
        said_thinking = _object(usage.get("completion_tokens_details")).get("reasoning_tokens")
        max_read = sizes.n_bytes + _PROMPT_FRAME_TOKENS + _TURN_FRAME_TOKENS * sizes.n_turns
        max_written = max(n_text_bytes, sizes.max_tokens) + _TURN_FRAME_TOKENS
        read = _possible_count(said_read, sizes.n_bytes, max_read)
        written = _possible_count(said_written, n_text_bytes, max_written)
        n_refused = int(said_read is not None and read is None)
        n_refused += int(said_written is not None and written is None)
        return cls(
            read=read,
            cached=_possible_count(said_cached, 0, read or 0) or 0,
            written=written,
            thinking=_possible_count(said_thinking, 0, written or 0),
            refused=n_refused,
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
            texts += _texts_in_part(part.get(kind))
    return "".join(texts)


def _texts_in_part(value: object) -> list[str]:
    """The texts in one part's value: "a" -> ["a"]; [{"text": "a"}, {"text": "b"}] -> ["a", "b"];
    else []."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    texts = [_object(inner).get("text") for inner in value]
    return [text for text in texts if isinstance(text, str)]


def _possible_count(said: object, n_text_bytes: int, max_tokens: int) -> int | None:
    """A count of tokens as the server says it; None where it cannot be true.

    Args:
        said: What the server says.
        n_text_bytes: Bytes of the text whose tokens it counts.
        max_tokens: The most tokens that the text may have.
    """
    if not isinstance(said, int) or isinstance(said, bool):
        return None
    min_tokens = -(-n_text_bytes // _MAX_TOKEN_BYTES)  # rounded up
    if not min_tokens <= said <= max_tokens:
        return None
    return said


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
