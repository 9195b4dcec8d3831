"""A model behind an OpenAI-compatible server: chat, and probes where the server gives
log-probabilities.

    model = EndpointModel(config, facts)        one look whether a server answers; nothing is loaded
    model.session(meter)                        a conversation, kept here as text and sent again with every request

    user, feed, feed ─► text of the open turn ─► write: POST /chat/completions with all turns so far ─► reply, usage
                                              └► probe: the same with max_tokens 1 and logprobs; the turns stay open

A server keeps nothing that we may count on, so every write and probe reads the whole context again,
and that is booked; what its prefix cache holds is `Event.reused` and not taken off. Tokens are the
server's counts (`usage`), or the local tokenizer's where it sends none or an impossible one
(`Event.recounted`); spans and room are counted here. Where lengths are estimated, the length of a
context is the server's own count from its first reply on.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.config.schema import ModelConfig, Thinking
from harness.cost.flops import Kind
from harness.cost.meter import Meter
from harness.errors import CannotRun, ModelOutputError
from harness.llm.backend import ModelFacts
from harness.llm.cached_replies import with_reply_cache
from harness.llm.endings import KNOWN, endings_pattern, reply_end, split_thinking
from harness.llm.endpoint_batch import Batches, Waiting
from harness.llm.endpoint_http import RetryPolicy, Server, Tries
from harness.llm.endpoint_info import addresses, api_key, endpoint_shape, endpoint_tokenizer
from harness.llm.endpoint_tokens import EstimatedTokens, Tokens
from harness.llm.fleet import Fleet
from harness.models import Decoding, LanguageModel, Probe, Session, Span, WaitsForBatch, Written
from harness.parallel.scheduler import Took, timed

_TOKEN_BYTES = 1024  # more than the longest token of any vocabulary, and than one logged alternative takes as JSON
_REPLY_FRAME = 1 << 20  # of a reply around its tokens
_DEFAULT_TOKENS = 4096  # tokens of a reply where a request names no limit
# A log-probability that stands for 0; JSON may hold whole numbers beyond any float.
_LOGPROB_OF_ZERO = -1e4
_PROMPT_FRAME, _TURN_FRAME = (
    4096,
    64,
)  # tokens that a template may add: a system prompt, and around each turn


@dataclass(frozen=True)
class Reply:
    """One reply of /chat/completions.

    tokens_*: as the server counts them, None where it does not say (tokens_cached: of tokens_in);
    counts_refused: how many of its counts cannot be true and are None; first_token: (token,
    log-probability) of what might have come first;
    ending: whether end markers were cut off; thinking: in front of the answer; unclosed: whether
    that did not end;
    refused: whether the model refuses to answer."""

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
        """The reply, with thinking between `markers` (None: it has none) moved from its text to
        `thinking`."""
        thinking, text, closed = split_thinking(self.text, markers)
        # All of the limit went into thinking, shown or hidden.
        used_up = not text and self.finish == "length"
        return replace(
            self, text=text, thinking=self.thinking + thinking, unclosed=not closed or used_up
        )

    def cut_at_stop(self, stop: Sequence[str], endings: re.Pattern[str] | None) -> Reply:
        """The reply up to the first stop string, without the markers at its end that the pattern
        `endings` finds."""
        end, ending = reply_end(self.text, stop, endings)
        finish = self.finish
        if self.finish == "length" and end < len(self.text):
            finish = "stop"
        return replace(self, text=self.text[:end], finish=finish, ending=ending)


def complete(
    server: Server | Batches, body: Mapping[str, Any], tries: Tries | None = None
) -> Reply:
    """Send a request to /chat/completions and parse its reply. body: of the request; tries: counts
    the sendings.

    A reply without a message is invalid, and the request is repeated. Raises RequestFailed,
    CannotRun, and WaitsForBatch where `server` are batches that have no reply yet.
    """
    max_tokens = int(body.get("max_tokens") or _DEFAULT_TOKENS)
    max_bytes = _REPLY_FRAME + _TOKEN_BYTES * max_tokens * (1 + int(body.get("top_logprobs") or 0))
    parsed = server.post("/chat/completions", body, _reply_problem, max_bytes, tries or Tries())
    choice = parsed["choices"][0]
    message = choice["message"]
    text = server.mask_key(_parts_text(message, "text"))
    usage = _object(parsed.get("usage"))
    messages = body.get("messages") or ()
    sizes = _Sizes(
        sent=sum(len(message["content"].encode("utf-8", "replace")) for message in messages),
        turns=len(messages),
        written=len(text.encode("utf-8", "replace")),
        max_tokens=max_tokens,
    )
    counts = _Counts.of(usage, sizes)
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    if not isinstance(reasoning, str):
        reasoning = _parts_text(message, "thinking")
    finish = server.mask_key(str(choice.get("finish_reason") or "stop"))
    refused = finish.lower() in _REFUSED_REASONS
    if finish.lower() in _CUT_REASONS:
        finish = "length"
    refuses = bool(message.get("refusal") or _parts_text(message, "refusal"))
    first_token = _top_logprobs(choice.get("logprobs"))
    return Reply(
        text=text,
        thinking=server.mask_key(reasoning),
        thinking_tokens=counts.thinking,
        refused=refuses or refused,
        finish=finish,
        tokens_in=counts.read,
        tokens_cached=counts.cached,
        tokens_out=counts.written,
        counts_refused=counts.refused,
        first_token=tuple((server.mask_key(token), p) for token, p in first_token),
    )


@dataclass(frozen=True)
class _Sizes:
    """Bytes of a request's texts (`sent`, in so many `turns`) and of the text that was `written`;
    max_tokens: of the reply."""

    sent: int
    turns: int
    written: int
    max_tokens: int


@dataclass(frozen=True)
class _Counts:
    """Tokens of a reply as the server counts them; None where it does not say, or cannot be true.

    refused: how many of its counts cannot be true.
    """

    read: int | None
    cached: int
    written: int | None
    thinking: int | None
    refused: int

    @classmethod
    def of(cls, usage: Mapping[str, Any], sizes: _Sizes) -> _Counts:
        """The counts in a reply's `usage`."""
        most_read = sizes.sent + _PROMPT_FRAME + _TURN_FRAME * sizes.turns
        read = _token_count(usage.get("prompt_tokens"), sizes.sent, most_read)
        most_written = max(sizes.written, sizes.max_tokens) + _TURN_FRAME
        written = _token_count(usage.get("completion_tokens"), sizes.written, most_written)
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


def _object(value: Any) -> Mapping[str, Any]:
    """`value` where it is a JSON object, else an empty one."""
    if isinstance(value, dict):
        return value
    return {}


def _parts_text(message: Mapping[str, Any], kind: str) -> str:
    """The text of a message's parts of `kind`: "text", "thinking" or "refusal"; a plain content is
    one text."""
    content = message.get("content")
    parts: list[Any] = [{"text": content}]
    if isinstance(content, list):
        parts = content
    texts: list[str] = []
    for part in parts:
        if isinstance(part, dict):
            texts += _texts_of(part.get(kind))
    return "".join(texts)


def _texts_of(value: Any) -> list[str]:
    """The texts of one part's value: a text, or a list of objects with texts."""
    if isinstance(value, str):
        return [value]
    if not isinstance(value, list):
        return []
    objects = [inner for inner in value if isinstance(inner, dict)]
    return [inner["text"] for inner in objects if isinstance(inner.get("text"), str)]


# Words of Anthropic, Google and Mistral for "length", and of Anthropic and Google for a refusal.
_CUT_REASONS, _REFUSED_REASONS = ("max_tokens", "model_length"), ("refusal", "safety")
# Words of OpenRouter, vLLM, Zhipu and DeepSeek for a reply that an error of the server ended.
_BROKEN_OFF_REASONS = ("error", "abort", "network_error", "insufficient_system_resource")


def _reply_problem(reply: Any) -> str | None:
    """Why a parsed reply cannot be used, None for one that can."""
    if not isinstance(reply, dict):
        return "the reply is no JSON object"
    if reply.get("error"):
        return "the reply tells of an error instead of an answer"
    choices = reply.get("choices")
    if not isinstance(choices, list) or not choices or not isinstance(choices[0], dict):
        return "the reply has no choices, so it is no chat completion"
    message: Any = choices[0].get("message")
    content = None
    if isinstance(message, dict):
        content = message.get("content") or ""
    parts = []
    if isinstance(content, list):
        parts = content
    if not isinstance(content, str | list) or not all(isinstance(part, dict) for part in parts):
        return "the reply has no message with a text"
    if any("\ud800" <= sign <= "\udfff" for sign in _parts_text(message, "text")):
        return "the reply holds half a character, so it was garbled"
    if message.get("content") is None and message.get("tool_calls"):
        return "the reply calls a tool instead of answering"
    if choices[0].get("finish_reason") in _BROKEN_OFF_REASONS:
        return "the reply broke off with an error of the server"
    logprobs = [p for _, p in _top_logprobs(choices[0].get("logprobs"))]
    if not all(p < 1 for p in logprobs):  # rounding may make it a little more than 0
        return "the reply has a log-probability that is none"
    return None


def _token_count(value: Any, size: int, most: int) -> int | None:
    """`value` where it can be the number of tokens in `size` bytes of text and is at most `most`,
    else None."""
    if not isinstance(value, int) or isinstance(value, bool):
        return None
    least = -(-size // _TOKEN_BYTES)
    if not least <= value <= most:
        return None
    return value


def _top_logprobs(logprobs: Any) -> tuple[tuple[str, float], ...]:
    """(Token, log-probability) of the alternatives to the first token, from a choice's `logprobs`;
    () for none."""
    content = _object(logprobs).get("content")
    if not isinstance(content, list) or not content or not isinstance(content[0], dict):
        return ()
    rows = content[0].get("top_logprobs")
    if not isinstance(rows, list):
        return ()
    usable = filter(_is_logprob, rows)
    return tuple((row["token"].replace("▁", " "), row["logprob"]) for row in usable)


def _is_logprob(row: Any) -> bool:
    """Whether `row` has a token and its log-probability."""
    if not isinstance(row, dict) or not isinstance(row.get("token"), str):
        return False
    return isinstance(row.get("logprob"), int | float)


def _known(count: int | None, otherwise: int) -> int:
    """`count`, or the other number where it is None."""
    if count is None:
        return otherwise
    return count


class EndpointModel(LanguageModel):
    """A chat model that a server runs. Raises CannotRun where no server answers, or it refuses the
    key."""

    def __init__(self, config: ModelConfig, facts: ModelFacts) -> None:
        assert config.base_url is not None  # endpoint_facts refuses it otherwise
        self.name, self.identity, self.capabilities = facts.name, facts.identity, facts.capabilities
        self.window, self.logprobs = facts.window, config.logprobs
        self.shape, self.thinking = endpoint_shape(config), config.thinking
        self.first_prompts, self.extra = {}, config.extra
        self.served = config.source or config.name
        tokenizer = endpoint_tokenizer(config)
        self.tokens: EstimatedTokens | Tokens = EstimatedTokens()
        if tokenizer is not None:
            self.tokens = Tokens(tokenizer[0], config.name)
        self.endings = endings_pattern({*KNOWN, *self.tokens.markers})
        policy = RetryPolicy(config.timeout, config.retries)
        self.server = self._server(config, policy)
        self.server.check_alive()
        self.batches: Batches | None = None

    def _server(self, config: ModelConfig, policy: RetryPolicy) -> Server:
        """The server, or the fleet of several. Raises CannotRun."""
        base_url = config.base_url or ""
        key = api_key(config)
        if len(addresses(base_url)) == 1:
            return Server(base_url, key, policy, config.api_key_env)
        return Fleet(base_url, key, policy, config.api_key_env, model=self.served)

    def tell(self, note: Callable[[str], None]) -> None:
        """As LanguageModel.tell."""
        if isinstance(self.server, Fleet):
            self.server.tell(note)

    def figures(self) -> list[str]:
        """As LanguageModel.figures."""
        if isinstance(self.server, Fleet):
            return self.server.figures()
        return []

    def in_batches(self, state: Path, progress: Waiting) -> Batches:
        """Send requests in batches from now on, none by itself. state, progress: as of Batches."""
        self.batches = Batches(self.server, state, progress)
        return self.batches

    def session(
        self, meter: Meter, role: str = "reader", adapter: str | None = None
    ) -> EndpointSession:
        """Open an empty conversation. Raises CannotRun for an adapter: a server has its own names
        for those."""
        if adapter is not None:
            raise CannotRun(f"'{self.name}' runs behind a server and takes no adapter '{adapter}'")
        return EndpointSession(self, meter, role)

    @property
    def estimates(self) -> bool:
        """Whether lengths are estimated, as no tokenizer is at hand."""
        return isinstance(self.tokens, EstimatedTokens)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`, by the local tokenizer or by estimate."""
        return self.tokens.offsets(text)

    def turn_tokens(self) -> int:
        """Tokens of one user turn's frame, BOS included; endpoint_tokens.ALLOWANCE without a chat
        template."""
        return self.tokens.turn_tokens

    def system_turn_tokens(self, text: str) -> int:
        """Tokens of the text and of a user turn's frame; a system turn's own frame is unknown and
        may be shorter."""
        return self.turn_tokens() + self.count(text)

    def remember_first_prompt(self, role: str, messages: list[dict[str, str]]) -> None:
        """Keep the first conversation that `role` sent, for the manifest; its token ids are the
        server's affair."""
        if role not in self.first_prompts:
            self.first_prompts[role] = {"text": conversation_text(messages), "ids": []}


class EndpointSession(Session):
    """One conversation; see harness.models for what each call means."""

    can_begin_replies = False  # a chat has no way to begin a reply for the model

    def __init__(self, model: EndpointModel, meter: Meter, role: str) -> None:
        super().__init__(model.name, model.window, meter, role, model.shape)
        self._model = model
        self._turns: list[tuple[str, str]] = []  # role and text
        self._length = 0

    def _add_tokens(self, tokens: int) -> Span:
        """Count `tokens` more in the context. Raises WindowExceeded."""
        self._check_window(tokens)
        self._length += tokens
        return Span(self._length - tokens, self._length)

    def _open(self, turn: str) -> None:
        """Begin a turn of the chat, and count the tokens that the server's template adds to it."""
        if turn != "reply":  # whose frame is counted with the user turn's
            self._add_tokens(self._model.turn_tokens())
        role = turn
        if turn == "reply":
            role = "assistant"
        self._turns.append((role, ""))

    def _append(self, text: str) -> Span:
        """Append text to the last turn; returns its span, in tokens counted here."""
        span = self._add_tokens(self._model.tokens.count(text))
        role, before = self._turns[-1]
        self._turns[-1] = role, before + text
        return span

    def _save(self) -> tuple[list[tuple[str, str]], int]:
        return list(self._turns), self._length

    def _restore(self, state: tuple[list[tuple[str, str]], int]) -> None:
        self._turns, self._length = state

    def _require(self, capability: str) -> None:
        """Raise CannotRun where the model behind the server lacks `capability`."""
        if capability not in self._model.capabilities:
            raise CannotRun(
                f"'{self._model.name}' runs behind a server and has no capability '{capability}'; "
                "use a model that is "
                "loaded here"
            )

    def _text(self) -> str:
        return conversation_text(self._messages()[0])

    def _messages(self) -> tuple[list[dict[str, str]], int]:
        """The conversation as a server gets it, and the number of markers of turns that were broken
        up in it."""
        turns = self._turns
        if self._turn == "reply":
            turns = self._turns[:-1]  # the reply's turn is still to be filled
        broken = [(role, *self._model.tokens.break_markers(text)) for role, text in turns]
        return [{"role": role, "content": text} for role, text, _ in broken], sum(
            count for *_, count in broken
        )

    def _ask(self, kind: Kind, body: dict[str, Any], stop: Sequence[str] = ()) -> Reply:
        """Send the conversation with the fields `body`, booked as `kind` even if it fails; the
        answer, up to `stop`."""
        messages, markers = self._messages()
        self._model.remember_first_prompt(self._role, messages)
        took, reply = Took(), None
        tries = Tries(document=self._meter.document)
        try:
            fields = {
                "model": self._model.served,
                "messages": messages,
                **body,
                **self._model.extra,
            }
            sent = {name: value for name, value in fields.items() if value is not None}
            with timed() as took:
                reply = complete(self._model.batches or self._model.server, sent, tries)
            reply = reply.answer(self._model.thinking).cut_at_stop(stop, self._model.endings)
        except WaitsForBatch as request:
            meter, self._meter = self._meter, Meter()
            max_tokens = int(sent.get("max_tokens") or _DEFAULT_TOKENS)
            self._book_request(kind, Reply("", "length", self._length, tokens_out=max_tokens), {})
            request.expected, self._meter = self._meter.usage(), meter
            raise
        finally:
            self._book_request(
                kind, reply, {**vars(took), "retries": tries.retries, "markers": markers}
            )
            read = self._length
            unanswered = tries.sent - (reply is not None)
            if unanswered:
                pairs = unanswered * (read * (read + 1) // 2)
                self._book(
                    "prefill",
                    unanswered * read,
                    logits=unanswered,
                    pairs=pairs,
                    billed=0,
                    answered=False,
                )
        return reply

    def _book_request(self, kind: Kind, reply: Reply | None, fields: dict[str, Any]) -> None:
        """Book one request with the tokens of its reply (None: it failed); fields: further fields
        of Event."""
        if reply is None:
            self._book(kind, 0, requests=1, **fields)
            return
        count = self._model.tokens.count
        read = _known(reply.tokens_in, self._length)
        reused = min(reply.tokens_cached, read)
        thought = reply.thinking_tokens
        if thought is None:
            thought = count(reply.thinking)
        out = reply.tokens_out
        if out is None:
            out = thought + count(reply.text)
        counts = {"logits": 1, "pairs": read * (read + 1) // 2, "reused": reused, "billed": out}
        estimated = reply.counts_refused
        if self._model.estimates:
            estimated += (reply.tokens_in, reply.tokens_out).count(None)
        self._book(
            kind,
            read,
            requests=1,
            endings=int(reply.ending),
            recounted=estimated,
            **counts,
            **fields,
        )
        if kind == "prefill":
            self._book_writing(min(thought, out), out, read, reply.unclosed)
            if self._model.estimates:
                self._length = read

    def _book_writing(self, thought: int, out: int, read: int, unclosed: bool) -> None:
        """Book the `out` tokens of a reply after `read` others: the `thought` ones and the answer
        as an event each."""
        first = 1  # the first token came out of the prefill
        for part, thinking in ((thought, thought), (out - thought, 0)):
            if part:
                new = part - first
                pairs, cut = new * read + new * (new + 1) // 2, int(unclosed and thinking > 0)
                self._book(
                    "decode",
                    new,
                    read,
                    logits=new,
                    pairs=pairs,
                    out=part,
                    thinking=thinking,
                    unclosed=cut,
                )
                read, first = read + new, 0

    def _request(self) -> Any:
        """The server's address, the hash of the conversation as it is sent, and its length."""
        messages = json.dumps(self._messages()[0])
        return [
            self._model.server.base_url,
            hashlib.sha256(messages.encode()).hexdigest(),
            self._length,
        ]

    def _reply_state(self, before: int) -> dict[str, Any]:
        return {"length": self._length}

    def _restore_reply(self, values: Mapping[str, Any]) -> None:
        """Set the context as the cached reply `values` left it."""
        self._model.remember_first_prompt(self._role, self._messages()[0])
        if "text" in values:
            self._turns[-1] = "assistant", values["text"]
            self._length = values.get("length", self._length + values["size"])

    def _replace_reply(self, text: str) -> None:
        self._turns[-1] = "assistant", text

    def _first_token(self, label: str) -> str | None:
        return self._model.tokens.first_token_text(label) or None

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_tokens: Sequence[str], after: str) -> Probe:
        """Probabilities of the labels among the tokens that the server lists; 0 for a label that is
        not listed."""
        body = {
            "max_tokens": 1,
            "temperature": 0.0,
            "logprobs": True,
            "top_logprobs": self._model.logprobs,
        }
        listed = self._ask("probe", body).first_token
        if not listed:
            raise CannotRun(
                f"the server of '{self._model.name}' gives no log-probabilities; set "
                "model.logprobs=0 and choose a method that needs no probe"
            )
        probabilities: dict[str, float] = {}
        for token, logprob in listed:
            probability = math.exp(max(min(logprob, 0.0), _LOGPROB_OF_ZERO))
            probabilities[token] = probabilities.get(token, 0.0) + probability
        of_labels: dict[str, float] = {}
        for label, first in zip(labels, first_tokens, strict=True):
            of_labels[label] = probabilities.get(first, 0.0)
        likeliest = max(probabilities, key=lambda token: probabilities[token])
        top = None
        if likeliest in first_tokens:
            top = labels[first_tokens.index(likeliest)]
        return Probe.of(of_labels, top)

    @with_reply_cache
    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Ask for the reply. Raises RequestFailed where none is usable, ModelOutputError where it
        is withheld."""
        thinking = self._model.thinking
        body: dict[str, Any] = {
            "max_tokens": decoding.max_tokens,
            "temperature": decoding.temperature,
            "seed": (decoding.seed or 0) % 2**31,
        }
        if thinking:
            body["max_tokens"] += thinking.tokens
        if decoding.temperature > 0:
            body["top_p"] = decoding.top_p
        # A stop string would end the thinking of a reasoning model too; its answer is cut here.
        if decoding.stop and not thinking:
            body["stop"] = list(decoding.stop)
        if decoding.schema:
            form = {"name": "answer", "schema": json.loads(decoding.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": form}
        reply = self._ask("prefill", body, decoding.stop)
        if reply.finish == "content_filter":
            raise ModelOutputError(
                f"the server of '{self._model.name}' withheld the reply (content_filter)"
            )
        text = reply.text
        finish = "stop"
        if reply.finish == "length":
            finish = "length"
        offsets = self._model.offsets(text)
        if thinking and len(offsets) > decoding.max_tokens:
            end, _ = offsets[decoding.max_tokens]
            text = text[:end]
            finish = "length"
            offsets = self._model.offsets(text)
        self._turns[-1] = "assistant", text
        span = Span(self._length, self._length + len(offsets))
        # What was written is in the context, even where it is a token more than was allowed.
        self._length = span.end
        return Written(
            text,
            span,
            finish,
            tuple(offsets),
            ending=reply.ending,
            thinking=reply.thinking,
            unclosed=reply.unclosed,
            refused=reply.refused,
        )

    def length(self) -> int:
        """Tokens in the context, counted here or by the server (see the module), the frames of its
        turns included."""
        return self._length


def conversation_text(messages: Sequence[Mapping[str, str]]) -> str:
    """Messages as one text, each below its role in brackets."""
    return "\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)
