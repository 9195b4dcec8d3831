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
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import NamedTuple

from harness.config.schema import ModelConfig, Thinking
from harness.cost.flops import EventKind
from harness.cost.meter import Meter
from harness.cost.usage import Usage
from harness.errors import CannotRun, ModelOutputError
from harness.llm.backend import ModelFacts
from harness.llm.cached_replies import AddedContext, with_reply_cache
from harness.llm.endings import KNOWN, endings_pattern
from harness.llm.endpoint_batch import Batches, Waiting
from harness.llm.endpoint_http import RetryPolicy, Server, Tries, timed_tries
from harness.llm.endpoint_info import addresses, api_key, endpoint_shape, endpoint_tokenizer
from harness.llm.endpoint_reply import Reply, RequestSizes, read_reply
from harness.llm.endpoint_tokens import EstimatedTokens, Tokens
from harness.llm.fleet import Fleet
from harness.models import Decoding, LanguageModel, Probe, Session, Span, WaitsForBatch, Written
from harness.parallel.scheduler import Took

# A log-probability that stands for 0; JSON may hold whole numbers beyond any float.
_LOGPROB_OF_ZERO = -1e4


def complete(
    server: Server | Batches, body: Mapping[str, object], tries: Tries | None = None
) -> Reply:
    """Send a request to /chat/completions and read its reply.

    Args:
        server: Where it is sent.
        body: The fields of the request.
        tries: Counts how often it was sent.

    Raises:
        RequestFailed: No try gave a usable reply.
        CannotRun: No request would have one.
        WaitsForBatch: `server` are batches that have no reply yet.
    """
    sizes = RequestSizes.of(body)
    read = partial(read_reply, sizes=sizes, mask_key=server.mask_key)
    return server.post("/chat/completions", body, read, sizes.most_bytes, tries or Tries())


def _known(count: int | None, otherwise: int) -> int:
    """A count where it is known, else the other number.

    Args:
        count: The count; None where it is unknown.
        otherwise: What is taken for it then.
    """
    if count is None:
        return otherwise
    return count


class EndpointModel(LanguageModel):
    """A chat model that a server runs.

    Attributes:
        logprobs: How many log-probabilities a probe asks for; 0 where the server gives none.
        thinking: The markers of a reasoning model; None for another.
        extra: Further fields of every request.
        served: The name by which the server knows the model.
        tokens: Counts tokens, by the model's tokenizer or by estimate.
        endings: Finds end markers that a server leaves in a reply; None for none.
        server: The server, or a fleet of several.
        batches: Takes the requests where they go in batches, else None.
    """

    def __init__(self, config: ModelConfig, facts: ModelFacts) -> None:
        """Read the tokenizer, if one is named, and ask whether a server answers.

        Args:
            config: The settings of the model.
            facts: What is known of it: name, identity, window.

        Raises:
            CannotRun: No server answers, or it refuses the key.
        """
        assert config.base_url is not None  # endpoint_facts refuses it otherwise
        self.name = facts.name
        self.identity = facts.identity
        self.capabilities = facts.capabilities
        self.window = facts.window
        self.logprobs = config.logprobs
        self.shape = endpoint_shape(config)
        self.thinking = config.thinking
        self.first_prompts = {}
        self.extra = config.extra
        self.served = config.source or config.name  # what the server calls the model
        tokenizer = endpoint_tokenizer(config)
        self.tokens: EstimatedTokens | Tokens = EstimatedTokens()
        if tokenizer is not None:
            self.tokens = Tokens(tokenizer.folder, config.name)
        self.endings = endings_pattern({*KNOWN, *self.tokens.markers})
        policy = RetryPolicy(config.timeout, config.retries)
        self.server = self._server(config, policy)
        self.server.check_alive()
        self.batches: Batches | None = None

    def _server(self, config: ModelConfig, policy: RetryPolicy) -> Server:
        """The server at model.base_url; a fleet where several addresses are named. Raises CannotRun
        where the key cannot be read."""
        base_url = config.base_url or ""
        key = api_key(config)
        if len(addresses(base_url)) == 1:
            return Server(base_url, key, policy, config.api_key_env)
        return Fleet(base_url, key, policy, config.api_key_env, model=self.served)

    def report_events_to(self, note: Callable[[str], None]) -> None:
        """Take a function that gets a sentence when a server of a fleet goes away or comes back; a
        single server never calls it."""
        if isinstance(self.server, Fleet):
            self.server.report_events_to(note)

    def server_reports(self) -> list[str]:
        """What each server of a fleet did, a sentence each; [] for a single server."""
        if isinstance(self.server, Fleet):
            return self.server.server_reports()
        return []

    def in_batches(self, state: Path, progress: Waiting) -> Batches:
        """Send requests in batches from now on, none by itself, and return the batches.

        Args:
            state: The file that names the batches that were sent, for a later process.
            progress: Shows how far they are.

        Raises LimitReached or CannotRun where batches of an earlier process cannot be read.
        """
        self.batches = Batches(self.server, state, progress)
        return self.batches

    def session(
        self, meter: Meter, role: str = "reader", adapter: str | None = None
    ) -> EndpointSession:
        """Open an empty conversation.

        Args:
            meter: Counts what it costs.
            role: The role that its costs are counted under.
            adapter: Has to be None, as a server has its own names for adapters.

        Raises:
            CannotRun: An adapter is named.
        """
        if adapter is not None:
            raise CannotRun(f"'{self.name}' runs behind a server and takes no adapter '{adapter}'")
        return EndpointSession(self, meter, role)

    @property
    def estimates(self) -> bool:
        """Whether lengths are estimated, as no tokenizer is at hand."""
        return isinstance(self.tokens, EstimatedTokens)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of a text, by the model's tokenizer here, or by
        estimate."""
        return self.tokens.offsets(text)

    def turn_tokens(self) -> int:
        """Tokens of one user turn's frame, BOS included; an allowance of 16 where no chat template
        is at hand."""
        return self.tokens.turn_tokens

    def system_turn_tokens(self, text: str) -> int:
        """Tokens of the text and of a user turn's frame; a system turn's own frame is unknown and
        may be shorter."""
        return self.turn_tokens() + self.count(text)

    def remember_first_prompt(self, role: str, messages: list[dict[str, str]]) -> None:
        """Keep the first conversation that `role` sent, for the manifest, with no token ids: the
        server alone knows them. Later ones are not kept."""
        if role not in self.first_prompts:
            self.first_prompts[role] = {"text": conversation_text(messages), "ids": []}


class _Conversation(NamedTuple):
    """A conversation as it is sent.

    Attributes:
        messages: {"role", "content"} of each turn.
        markers: How many markers of turns were broken up in their texts.
    """

    messages: list[dict[str, str]]
    markers: int


@dataclass(frozen=True)
class _Sending:
    """How a request was sent.

    Attributes:
        took: Its time.
        retries: Tries after the first.
        markers: Markers of turns that were broken up in its texts.
    """

    took: Took = field(default_factory=Took)
    retries: int = 0
    markers: int = 0


class EndpointSession(Session):
    """One conversation; see harness.models for what each call means."""

    can_begin_replies = False  # a chat has no way to begin a reply for the model

    def __init__(self, model: EndpointModel, meter: Meter, role: str) -> None:
        """Begin an empty conversation.

        Args:
            model: The model behind the server.
            meter: Counts what it costs.
            role: The role that its costs are counted under.
        """
        super().__init__(model.name, model.window, meter, role, model.shape)
        self._model = model
        self._turns: list[tuple[str, str]] = []  # role and text
        self._length = 0

    def _add_tokens(self, tokens: int) -> Span:
        """Count so many tokens more in the context, and return the span that they are. Raises
        WindowExceeded."""
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
        """Append text to the last turn; returns its span, in tokens counted here. Raises
        WindowExceeded."""
        span = self._add_tokens(self._model.tokens.count(text))
        role, before = self._turns[-1]
        self._turns[-1] = role, before + text
        return span

    def _save(self) -> tuple[list[tuple[str, str]], int]:
        """(A copy of the turns, tokens of the context), to come back to by `_restore`."""
        return list(self._turns), self._length

    def _restore(self, state: tuple[list[tuple[str, str]], int]) -> None:
        """Bring the context back to what `_save` returned."""
        self._turns, self._length = state

    def _require(self, capability: str) -> None:
        """Raise CannotRun where the model behind the server lacks a capability (one of
        CAPABILITIES)."""
        if capability not in self._model.capabilities:
            raise CannotRun(
                f"'{self._model.name}' runs behind a server and has no capability '{capability}'; "
                "use a model that is "
                "loaded here"
            )

    def _text(self) -> str:
        """The conversation as one text, each turn below its role."""
        return conversation_text(self._conversation().messages)

    def _conversation(self) -> _Conversation:
        """The conversation as a server gets it: without a turn that is still to be filled, and with
        a space in every turn marker that a text spells."""
        turns = self._turns
        if self._turn == "reply":
            turns = self._turns[:-1]  # the reply's turn is still to be filled
        messages: list[dict[str, str]] = []
        markers = 0
        for role, text in turns:
            harmless_text, count = self._model.tokens.break_markers(text)
            messages.append({"role": role, "content": harmless_text})
            markers += count
        return _Conversation(messages, markers)

    def _ask(self, kind: EventKind, body: Mapping[str, object], stop: Sequence[str] = ()) -> Reply:
        """Send the conversation and return the reply without its thinking, cut at stop strings.
        Also books the request, even if it fails.

        Args:
            kind: How it is booked: "prefill" for a reply, "probe" for probabilities.
            body: Fields of the request beside model and messages.
            stop: The answer ends at the first of these.

        Raises:
            RequestFailed: No try gave a usable reply.
            CannotRun: No request would have one.
            WaitsForBatch: The request goes with the next batch; it says the most that it may cost.
        """
        messages, markers = self._conversation()
        self._model.remember_first_prompt(self._role, messages)
        took = Took()
        reply: Reply | None = None
        tries = Tries(document=self._meter.document)
        fields = {
            "model": self._model.served,
            "messages": messages,
            **body,
            **self._model.extra,
        }
        sent = {name: value for name, value in fields.items() if value is not None}
        try:
            with timed_tries(tries) as took:
                reply = complete(self._model.batches or self._model.server, sent, tries)
            reply = reply.answer(self._model.thinking).cut_at_stop(stop, self._model.endings)
        except WaitsForBatch as request:
            request.expected = self._most_usage(kind, RequestSizes.of(sent).max_tokens)
            raise
        finally:
            self._book_request(kind, reply, _Sending(took, tries.retries, markers))
            self._book_unanswered(tries.sent - int(reply is not None))
        return reply

    def _most_usage(self, kind: EventKind, max_tokens: int) -> Usage:
        """The most that a request may cost: what would be booked for a reply of the longest length.
        It is booked on a meter of its own, not on the session's.

        Args:
            kind: "prefill" or "probe".
            max_tokens: The most tokens of the reply.
        """
        meter = self._meter
        self._meter = Meter()
        longest = Reply("", "length", self._length, tokens_out=max_tokens)
        self._book_request(kind, longest, _Sending())
        usage = self._meter.usage()
        self._meter = meter
        return usage

    def _book_unanswered(self, requests: int) -> None:
        """Book so many requests that were sent and got no usable reply: the server read the context
        each time."""
        if not requests:
            return
        read = self._length
        self._book(
            "prefill",
            requests * read,
            logits=requests,
            pairs=requests * (read * (read + 1) // 2),
            billed=0,
            answered=False,
        )

    def _book_request(self, kind: EventKind, reply: Reply | None, sending: _Sending) -> None:
        """Book one request with the tokens of its reply. Where lengths are estimated, also makes
        the server's count the length of the context.

        Args:
            kind: "prefill" or "probe".
            reply: The reply; None where the request failed.
            sending: How it was sent.
        """
        if reply is None:
            self._book_sent(kind, 0, sending)
            return
        count = self._model.tokens.count
        read = _known(reply.tokens_in, self._length)
        thought = reply.thinking_tokens
        if thought is None:
            thought = count(reply.thinking)
        out = reply.tokens_out
        if out is None:
            out = thought + count(reply.text)
        estimated = reply.counts_refused
        if self._model.estimates:
            estimated += (reply.tokens_in, reply.tokens_out).count(None)
        self._book_sent(
            kind,
            read,
            sending,
            logits=1,
            pairs=read * (read + 1) // 2,
            reused=min(reply.tokens_cached, read),
            billed=out,
            endings=int(reply.ending),
            recounted=estimated,
        )
        if kind == "prefill":
            self._book_writing(min(thought, out), out, read, reply.unclosed)
            if self._model.estimates:
                self._length = read

    def _book_sent(self, kind: EventKind, read: int, sending: _Sending, **counts: int) -> None:
        """Book one request that was sent.

        Args:
            kind: "prefill" or "probe".
            read: Tokens that the server read.
            sending: How it was sent.
            counts: Further fields of its Event.
        """
        self._book(
            kind,
            read,
            requests=1,
            seconds=sending.took.seconds,
            queued=sending.took.queued,
            retries=sending.retries,
            markers=sending.markers,
            **counts,
        )

    def _book_writing(self, thought: int, out: int, read: int, unclosed: bool) -> None:
        """Book the tokens of a reply: those of its thinking and those of its answer, an event each.

        Args:
            thought: Tokens of the thinking.
            out: Tokens of both.
            read: Tokens before them.
            unclosed: Whether the thinking did not end.
        """
        answer = out - thought
        from_prefill = 1  # the first token of the reply came out of the prefill
        if thought:
            new = thought - from_prefill
            self._book_written(read, new, out=thought, thinking=thought, unclosed=int(unclosed))
            read += new
            from_prefill = 0
        if answer:
            self._book_written(read, answer - from_prefill, out=answer, thinking=0, unclosed=0)

    def _book_written(self, read: int, new: int, **counts: int) -> None:
        """Book the writing of `new` tokens after a context of `read` tokens.

        Args:
            read: Tokens before them.
            new: Tokens that were run one by one.
            **counts: Further fields of the event.
        """
        pairs = new * read + new * (new + 1) // 2
        self._book("decode", new, read, logits=new, pairs=pairs, **counts)

    def _request(self) -> list[object]:
        """What a cached reply depends on beside the model: the server's address, the hash of the
        conversation as it is sent, and its length."""
        messages = json.dumps(self._conversation().messages)
        return [
            self._model.server.base_url,
            hashlib.sha256(messages.encode()).hexdigest(),
            self._length,
        ]

    def _reply_state(self, before: int) -> dict[str, object]:
        """What a cached reply has to restore of the context: its length."""
        return {"length": self._length}

    def _restore_reply(self, added: AddedContext) -> None:
        """Bring the context to where the reply would have left it; probabilities leave it as it
        is."""
        self._model.remember_first_prompt(self._role, self._conversation().messages)
        if added.text is None:
            return
        self._turns[-1] = "assistant", added.text
        self._length = _known(added.length, self._length + added.size)

    def _replace_reply(self, text: str) -> None:
        """Make `text` the content of the last turn, which is the model's."""
        self._turns[-1] = "assistant", text

    def _first_token(self, label: str) -> str | None:
        """The text of a label's first token, by the model's tokenizer; None for an empty label, or
        without a tokenizer."""
        return self._model.tokens.first_token_text(label) or None

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_tokens: Sequence[str], after: str) -> Probe:
        """Probabilities of the labels among the tokens that the server lists.

        Args:
            labels: What may come next.
            first_tokens: The first token of each label, as text.
            after: "": a chat has no way to begin a reply.

        Returns:
            The probabilities; 0 for a label that is not listed.

        Raises:
            CannotRun: The server gives no log-probabilities.
        """
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
        """Ask for the reply and put it into the conversation. Raises RequestFailed where none is
        usable, ModelOutputError where the server withholds it."""
        thinking = self._model.thinking
        reply = self._ask("prefill", _writing_fields(decoding, thinking), decoding.stop)
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


def _writing_fields(decoding: Decoding, thinking: Thinking | None) -> dict[str, object]:
    """The fields of a request for a reply, beside model and messages.

    Args:
        decoding: How the reply is written.
        thinking: The markers of a reasoning model, which may write so many tokens more; None for
            another.
    """
    max_tokens = decoding.max_tokens
    if thinking:
        max_tokens += thinking.tokens
    fields: dict[str, object] = {
        "max_tokens": max_tokens,
        "temperature": decoding.temperature,
        "seed": (decoding.seed or 0) % 2**31,
    }
    if decoding.temperature > 0:
        fields["top_p"] = decoding.top_p
    # A stop string would end the thinking of a reasoning model too; its answer is cut here.
    if decoding.stop and not thinking:
        fields["stop"] = list(decoding.stop)
    if decoding.schema:
        form = {"name": "answer", "schema": json.loads(decoding.schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": form}
    return fields


def conversation_text(messages: Sequence[Mapping[str, str]]) -> str:
    r"""Messages as one text, each below its role in brackets: "[user]\nWho?\n[assistant]\nAnn"."""
    return "\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)
