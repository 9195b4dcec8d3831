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
from harness.llm.endings import END_MARKERS, endings_pattern
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
    sizes = RequestSizes.of_request(body)
    read = partial(read_reply, sizes=sizes, mask_key=server.mask_key)
    return server.post("/chat/completions", body, read, sizes.max_reply_bytes, tries or Tries())


def _count_or_default(count: int | None, default: int) -> int:
    """A count where it is known, else the default.

    Args:
        count: The count; None where it is unknown.
        default: What is taken for it then.
    """
    if count is None:
        return default
    return count


class EndpointModel(LanguageModel):
    """A chat model that a server runs.

    Attributes:
        n_logprobs: How many log-probabilities a probe asks for; 0 where the server gives none.
        thinking: The markers of a reasoning model; None for another.
        extra: Further fields of every request.
        served_name: The name by which the server knows the model.
        tokens: Counts tokens, by the model's tokenizer or by estimate.
        endings: Finds end markers that a server leaves in a reply; None for none.
        server: The server, or a fleet of several.
        batches: Takes the requests where they go in batches, else None.
    """

    def __init__(self, config: ModelConfig, facts: ModelFacts) -> None:
        """Read the tokenizer, if one is named (downloaded where it is on the hub), and ask whether
        a server answers.

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
        self.n_logprobs = config.logprobs
        self.shape = endpoint_shape(config)
        self.thinking = config.thinking
        self.first_prompts = {}
        self.extra = config.extra
        self.served_name = config.source or config.name
        tokenizer = endpoint_tokenizer(config)
        self.tokens: EstimatedTokens | Tokens = EstimatedTokens()
        if tokenizer is not None:
            self.tokens = Tokens(tokenizer.folder, config.name)
        self.endings = endings_pattern({*END_MARKERS, *self.tokens.markers})
        policy = RetryPolicy(config.timeout, config.retries)
        self.server = self._make_server(config, policy)
        self.server.check_alive()
        self.batches: Batches | None = None

    def _make_server(self, config: ModelConfig, policy: RetryPolicy) -> Server:
        """Make the client of the server at model.base_url; of a fleet where several addresses are
        named. Nothing is sent. Raises CannotRun where the key cannot be read."""
        base_url = config.base_url or ""
        key = api_key(config)
        if len(addresses(base_url)) == 1:
            return Server(base_url, key, policy, config.api_key_env)
        return Fleet(base_url, key, policy, config.api_key_env, model=self.served_name)

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

    def send_in_batches(self, state_file: Path, progress: Waiting) -> Batches:
        """Send requests in batches from now on, none by itself, and return the batches. Also waits
        for those that an earlier process sent.

        Args:
            state_file: Names the batches that were sent, for a later process.
            progress: Shows how far they are.

        Raises LimitReached or CannotRun where batches of an earlier process cannot be read.
        """
        self.batches = Batches(self.server, state_file, progress)
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
        n_broken_markers: How many markers of turns were broken up in their texts.
    """

    messages: list[dict[str, str]]
    n_broken_markers: int


@dataclass(frozen=True)
class _Sending:
    """How a request was sent.

    Attributes:
        took: Its time.
        n_retries: Tries after the first.
        n_broken_markers: Markers of turns that were broken up in its texts.
    """

    took: Took = field(default_factory=Took)
    n_retries: int = 0
    n_broken_markers: int = 0


class _WrittenTokens(NamedTuple):
    """Tokens of a reply.

    Attributes:
        n_thinking: Those of its thinking.
        n_answer: Those of its answer.
    """

    n_thinking: int
    n_answer: int


class _ChatTurn(NamedTuple):
    """A turn of a conversation.

    Attributes:
        role: "system", "user" or "assistant".
        text: Its text.
    """

    role: str
    text: str


class _ConversationState(NamedTuple):
    """What a session comes back to after a branch.

    Attributes:
        turns: Its turns.
        n_tokens: Tokens of its context.
    """

    turns: list[_ChatTurn]
    n_tokens: int


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
        self._turns: list[_ChatTurn] = []
        self._n_tokens = 0  # of the context

    def _add_tokens(self, n_tokens: int) -> Span:
        """Count so many tokens more in the context, and return the span that they are. Raises
        WindowExceeded."""
        self._check_window(n_tokens)
        start = self._n_tokens
        self._n_tokens += n_tokens
        return Span(start, self._n_tokens)

    def _open(self, turn: str) -> None:
        """Begin a turn of the chat, and count the tokens that the server's template adds to it."""
        if turn != "reply":  # whose frame is counted with the user turn's
            self._add_tokens(self._model.turn_tokens())
        role = turn
        if turn == "reply":
            role = "assistant"
        self._turns.append(_ChatTurn(role, text=""))

    def _append(self, text: str) -> Span:
        """Append text to the last turn; returns its span, in tokens counted here. Raises
        WindowExceeded."""
        span = self._add_tokens(self._model.tokens.count(text))
        last_turn = self._turns[-1]
        self._turns[-1] = _ChatTurn(last_turn.role, last_turn.text + text)
        return span

    def _save(self) -> _ConversationState:
        """A copy of the turns, and the tokens of the context, to come back to by `_restore`."""
        return _ConversationState(list(self._turns), self._n_tokens)

    def _restore(self, state: _ConversationState) -> None:
        """Bring the context back to what `_save` returned."""
        self._turns = state.turns
        self._n_tokens = state.n_tokens

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
        n_broken_markers = 0
        for role, text in turns:
            harmless_text, n_spaces = self._model.tokens.break_markers(text)
            messages.append({"role": role, "content": harmless_text})
            n_broken_markers += n_spaces
        return _Conversation(messages, n_broken_markers)

    def _ask(self, kind: EventKind, body: Mapping[str, object], stop: Sequence[str] = ()) -> Reply:
        """Send the conversation and return the reply, its thinking moved out of its text, cut at
        stop strings and end markers. Also books the request, even if it fails, and each try that
        got no usable reply.

        Args:
            kind: How it is booked: "prefill" for a reply, "probe" for probabilities.
            body: Fields of the request beside model and messages; model.extra is added, where null
                takes a field out.
            stop: The answer ends at the first of these.

        Raises:
            RequestFailed: No try gave a usable reply.
            CannotRun: No request would have one.
            WaitsForBatch: The request goes with the next batch; it says the most that it may cost.
        """
        messages, n_broken_markers = self._conversation()
        self._model.remember_first_prompt(self._role, messages)
        took = Took()
        reply: Reply | None = None
        tries = Tries(document=self._meter.document)
        all_fields = {
            "model": self._model.served_name,
            "messages": messages,
            **body,
            **self._model.extra,
        }
        request = {name: value for name, value in all_fields.items() if value is not None}
        try:
            with timed_tries(tries) as took:  # filled when the block ends
                reply = complete(self._model.batches or self._model.server, request, tries)
            reply = reply.without_thinking(self._model.thinking)
            reply = reply.cut_at_stop(stop, self._model.endings)
        except WaitsForBatch as waits:
            waits.expected = self._max_usage(kind, RequestSizes.of_request(request).max_tokens)
            raise
        finally:
            self._book_request(kind, reply, _Sending(took, tries.retries, n_broken_markers))
            n_answered = int(reply is not None)
            self._book_unanswered(tries.sent - n_answered)
        return reply

    def _max_usage(self, kind: EventKind, max_tokens: int) -> Usage:
        """The most that a request may cost: what would be booked for a reply of the longest length.
        It is booked on a meter of its own, not on the session's.

        Args:
            kind: "prefill" or "probe".
            max_tokens: The most tokens of the reply.
        """
        session_meter = self._meter
        self._meter = Meter()
        longest_reply = Reply(
            text="", finish="length", tokens_in=self._n_tokens, tokens_out=max_tokens
        )
        self._book_request(kind, longest_reply, _Sending())
        usage = self._meter.usage()
        self._meter = session_meter
        return usage

    def _book_unanswered(self, n_requests: int) -> None:
        """Book so many requests that were sent and got no usable reply: the server read the context
        each time, n(n + 1) / 2 pairs of a query and a key for n tokens, and nothing that it wrote
        is billed."""
        if not n_requests:
            return
        n_read = self._n_tokens
        self._book(
            "prefill",
            n_requests * n_read,
            logits=n_requests,
            pairs=n_requests * (n_read * (n_read + 1) // 2),
            billed=0,
            answered=False,
        )

    def _book_request(self, kind: EventKind, reply: Reply | None, sending: _Sending) -> None:
        """Book one request with the tokens of its reply. Counts that the server does not say are
        taken from the context and from our tokenizer. Where lengths are estimated, also makes the
        server's count the length of the context.

        Args:
            kind: "prefill" or "probe"; the tokens that were written are booked for "prefill" alone.
            reply: The reply; None where the request failed: then nothing was read.
            sending: How it was sent.
        """
        if reply is None:
            self._book_sent(kind, 0, sending)
            return
        n_read = _count_or_default(reply.tokens_in, self._n_tokens)
        written = self._written_tokens(reply)
        # Counts of the server that cannot be true, or that it does not say and we estimate.
        n_recounted = reply.counts_refused
        if self._model.estimates:
            n_recounted += int(reply.tokens_in is None) + int(reply.tokens_out is None)
        self._book_sent(
            kind,
            n_read,
            sending,
            logits=1,
            pairs=n_read * (n_read + 1) // 2,
            reused=min(reply.tokens_cached, n_read),
            billed=written.n_thinking + written.n_answer,
            endings=int(reply.ending),
            recounted=n_recounted,
        )
        if kind == "prefill":
            self._book_writing(written.n_thinking, written.n_answer, n_read, reply.unclosed)
            if self._model.estimates:
                self._n_tokens = n_read

    def _written_tokens(self, reply: Reply) -> _WrittenTokens:
        """The tokens of a reply's thinking and of its answer, as the server counts them, else as
        our tokenizer does."""
        count_tokens = self._model.tokens.count
        n_thinking = reply.thinking_tokens
        if n_thinking is None:
            n_thinking = count_tokens(reply.thinking)
        n_written = reply.tokens_out
        if n_written is None:
            n_written = n_thinking + count_tokens(reply.text)
        n_thinking = min(n_thinking, n_written)  # our count of it may be larger than the server's
        return _WrittenTokens(n_thinking, n_answer=n_written - n_thinking)

    def _book_sent(self, kind: EventKind, n_read: int, sending: _Sending, **counts: int) -> None:
        """Book one request that was sent.

        Args:
            kind: "prefill" or "probe".
            n_read: Tokens that the server read.
            sending: How it was sent.
            counts: Further fields of its Event.
        """
        self._book(
            kind,
            n_read,
            requests=1,
            seconds=sending.took.seconds,
            queued=sending.took.queued,
            retries=sending.n_retries,
            markers=sending.n_broken_markers,
            **counts,
        )

    def _book_writing(
        self, n_thinking: int, n_answer: int, n_before: int, is_unclosed: bool
    ) -> None:
        """Book the tokens of a reply: those of its thinking and those of its answer, an event each.

        Args:
            n_thinking: Tokens of the thinking.
            n_answer: Tokens of the answer.
            n_before: Tokens before them.
            is_unclosed: Whether the thinking did not end.
        """
        n_from_prefill = 1  # the first token of the reply came out of the prefill
        if n_thinking:
            n_run = n_thinking - n_from_prefill
            self._book_decoding(
                n_before, n_run, out=n_thinking, thinking=n_thinking, unclosed=int(is_unclosed)
            )
            n_before += n_run
            n_from_prefill = 0
        if n_answer:
            n_run = n_answer - n_from_prefill
            self._book_decoding(n_before, n_run, out=n_answer, thinking=0, unclosed=0)

    def _book_decoding(self, n_before: int, n_run: int, **counts: int) -> None:
        """Book the writing of `n_run` tokens after a context of `n_before` tokens.

        Args:
            n_before: Tokens before them.
            n_run: Tokens that were run one by one.
            **counts: Further fields of the event.
        """
        pairs = n_run * n_before + n_run * (n_run + 1) // 2
        self._book("decode", n_run, n_before, logits=n_run, pairs=pairs, **counts)

    def _request(self) -> list[object]:
        """What a cached reply depends on beside the model: the server's address, the hash of the
        conversation as it is sent, and its length."""
        messages = json.dumps(self._conversation().messages)
        return [
            self._model.server.base_url,
            hashlib.sha256(messages.encode()).hexdigest(),
            self._n_tokens,
        ]

    def _reply_state(self, n_before: int) -> dict[str, object]:
        """What a cached reply has to restore of the context: its length."""
        return {"length": self._n_tokens}

    def _restore_reply(self, added: AddedContext) -> None:
        """Bring the context to where the reply would have left it; probabilities leave it as it
        is."""
        self._model.remember_first_prompt(self._role, self._conversation().messages)
        if added.text is None:
            return
        self._replace_reply(added.text)
        self._n_tokens = _count_or_default(added.length, self._n_tokens + added.size)

    def _replace_reply(self, text: str) -> None:
        """Make `text` the content of the last turn, which is the model's."""
        self._turns[-1] = _ChatTurn("assistant", text)

    def _first_token(self, label: str) -> str | None:
        """The text of a label's first token, by the model's tokenizer; None for an empty label, or
        without a tokenizer."""
        return self._model.tokens.first_token_text(label) or None

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_tokens: Sequence[str], after: str) -> Probe:
        """The probability that the reply begins with each label's first token, from the likeliest
        tokens that the server lists.

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
            "top_logprobs": self._model.n_logprobs,
        }
        likely_tokens = self._ask("probe", body).first_token
        if not likely_tokens:
            raise CannotRun(
                f"the server of '{self._model.name}' gives no log-probabilities; set "
                "model.logprobs=0 and choose a method that needs no probe"
            )
        by_token: dict[str, float] = {}  # tokens of one text are added up
        for token, logprob in likely_tokens:
            probability = math.exp(max(min(logprob, 0.0), _LOGPROB_OF_ZERO))
            by_token[token] = by_token.get(token, 0.0) + probability
        by_label: dict[str, float] = {}
        for label, first_token in zip(labels, first_tokens, strict=True):
            by_label[label] = by_token.get(first_token, 0.0)
        likeliest_token = max(by_token, key=lambda token: by_token[token])
        likeliest_label = None
        if likeliest_token in first_tokens:
            likeliest_label = labels[first_tokens.index(likeliest_token)]
        return Probe.of(by_label, likeliest_label)

    @with_reply_cache
    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Ask for the reply, put it into the conversation and return it: its text, cut to
        `decoding.max_tokens` where thinking shared the server's limit, and `finish` "length" where
        that or the server cut it, else "stop". Raises RequestFailed where none is usable,
        ModelOutputError where the server withholds it.

        Args:
            decoding: How the reply is written.
            watch: Empty: a server gives no attention.
        """
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
        # The server's limit was that of thinking and answer together.
        if thinking and len(offsets) > decoding.max_tokens:
            end, _ = offsets[decoding.max_tokens]
            text = text[:end]
            finish = "length"
            offsets = self._model.offsets(text)
        self._replace_reply(text)
        span = Span(self._n_tokens, self._n_tokens + len(offsets))
        # What was written is in the context, even where it is a token more than was allowed.
        self._n_tokens = span.end
        return Written(
            text=text,
            span=span,
            finish=finish,
            offsets=tuple(offsets),
            ending=reply.ending,
            thinking=reply.thinking,
            unclosed=reply.unclosed,
            refused=reply.refused,
        )

    def length(self) -> int:
        """Tokens in the context, counted here or by the server (see the module), the frames of its
        turns included."""
        return self._n_tokens


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
        "seed": (decoding.seed or 0) % 2**31,  # servers take 31 bits; 0 where none is given
    }
    if decoding.temperature > 0:
        fields["top_p"] = decoding.top_p
    # A stop string would end the thinking of a reasoning model too; its answer is cut here.
    if decoding.stop and not thinking:
        fields["stop"] = list(decoding.stop)
    if decoding.schema:
        named_schema = {"name": "answer", "schema": json.loads(decoding.schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": named_schema}
    return fields


def conversation_text(messages: Sequence[Mapping[str, str]]) -> str:
    r"""Messages as one text, each below its role in brackets: "[user]\nWho?\n[assistant]\nAnn"."""
    return "\n".join(f"[{message['role']}]\n{message['content']}" for message in messages)
