"""A conversation with a server: kept here as text, and sent again whenever the model must speak.

    user, feed, feed ─► text of the open turn ─► write: POST /chat/completions with all turns so far ─► reply, usage
                                              └► probe: the same with max_tokens 1 and logprobs; the turns stay open

A server keeps nothing that we may count on, so every write and probe reads the whole context again: that is what it
costs, and what is booked. What a server finds in its prefix cache depends on the order of the questions, on what runs
beside them and on earlier runs, so it is told apart (`Event.reused`) and taken off no cost. Token counts are the
server's own (`usage`), and the local tokenizer's where it sends none, or one that cannot be true (`Event.recounted`).
Spans, room and budgets are counted with the local tokenizer.
"""

from __future__ import annotations

import contextlib
import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from harness.cost.events import Event, Kind
from harness.cost.flops import ModelShape
from harness.cost.meter import Meter
from harness.errors import CannotRun, ModelOutputError, WindowExceeded
from harness.llm.endpoint_http import Server, Tries
from harness.llm.endpoint_reply import Reply, complete
from harness.llm.endpoint_tokens import Tokens
from harness.models import Probe, Session, Span, Written

if TYPE_CHECKING:
    pass


@dataclass(frozen=True)
class _Turn:
    """One turn of the conversation: who speaks, and what was said."""

    role: str
    text: str


class Served(Protocol):
    """What a session needs of a model behind a server; `EndpointModel` has it.

    served: the model's name there; logprobs: most alternatives a reply may list.
    """

    name: str
    window: int
    served: str
    logprobs: int
    capabilities: frozenset[str]
    shape: ModelShape | None
    server: Server
    tokens: Tokens
    endings: re.Pattern[str] | None

    def turn_tokens(self) -> int:
        """Tokens of the template around one user turn and the head of its reply."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range of every token of `text`."""

    def remember_first_prompt(self, role: str, messages: list[dict[str, str]]) -> None:
        """Keep the first context that `role` ran."""


class EndpointSession(Session):
    """One conversation; see harness.models for what each call means."""

    def __init__(self, model: Served, meter: Meter, role: str) -> None:
        self._model, self._meter, self._role = model, meter, role
        self._turns: list[_Turn] = []
        self._length = 0
        self._turn = "start"

    # -- the conversation ----------------------------------------------------------------------------------------------

    def _need(self, turn: str, verb: str) -> None:
        if self._turn != turn:
            raise ValueError(f"{verb}() needs an open {turn} turn, but the context is at '{self._turn}'")

    def _grow(self, tokens: int) -> Span:
        if self._length + tokens > self._model.window:
            raise WindowExceeded(
                f"{self._length + tokens} tokens do not fit the window of {self._model.window} of "
                f"'{self._model.name}'; shorten the input or raise model.window"
            )
        self._length += tokens
        return Span(self._length - tokens, self._length)

    def _say(self, role: str, text: str) -> Span:
        """Put text behind what `role` has said in the turn that is open."""
        span = self._grow(self._model.tokens.count(text))
        last = self._turns[-1]
        self._turns[-1] = _Turn(role, last.text + text)
        return span

    def system(self, text: str) -> Span:
        """Begin the conversation with a system turn."""
        if self._turns:
            raise ValueError("system() comes before everything else in a context")
        self._grow(self._model.turn_tokens())
        self._turns.append(_Turn("system", ""))
        return self._say("system", text)

    def user(self, text: str = "") -> Span:
        """Open a user turn and put `text` in it."""
        if self._turn == "user":
            raise ValueError("user() inside an open user turn: call reply() or write() first")
        self._grow(self._model.turn_tokens())
        self._turns.append(_Turn("user", ""))
        self._turn = "user"
        return self._say("user", text)

    def feed(self, text: str, watch: Sequence[Span] = ()) -> Span:
        """Append `text` to the open user turn. Raises CannotRun for `watch`: a server shows no attention."""
        self._need("user", "feed")
        self._refuse(bool(watch), "attention")
        return self._say("user", text)

    def flush(self) -> None:
        """Nothing is queued: a server reads the context when it is asked."""

    def reply(self, text: str) -> Span:
        """Close the user turn; `text` is what the model is taken to have said."""
        self._need("user", "reply")
        self._turns.append(_Turn("assistant", ""))
        self._turn = "reply"
        return self._say("assistant", text)

    @contextlib.contextmanager
    def branch(self) -> Iterator[None]:
        """Everything inside is rolled back afterwards."""
        turns, length, turn = list(self._turns), self._length, self._turn
        try:
            yield
        finally:
            self._turns, self._length, self._turn = turns, length, turn

    def _refuse(self, asked: bool, capability: str) -> None:
        if asked:
            raise CannotRun(
                f"'{self._model.name}' runs behind a server and has no capability '{capability}'; use a model that is "
                "loaded here"
            )

    # -- asking --------------------------------------------------------------------------------------------------------

    def _messages(self) -> tuple[list[dict[str, str]], int]:
        """The conversation as a server gets it, and the number of markers of turns that were broken up in it."""
        turns = [(turn.role, *self._model.tokens.broken(turn.text)) for turn in self._turns]
        return [{"role": role, "content": text} for role, text, _ in turns], sum(count for *_, count in turns)

    def _ask(self, kind: Kind, body: dict[str, Any]) -> Reply:
        """Send the conversation; book what it cost, a failure too."""
        messages, markers = self._messages()
        self._model.remember_first_prompt(self._role, messages)
        began, reply, tries = time.perf_counter(), None, Tries()
        try:
            reply = complete(self._model.server, {"model": self._model.served, "messages": messages, **body}, tries)
            reply = reply.cut(body.get("stop", ()), self._model.endings)
        finally:
            self._book(kind, reply, time.perf_counter() - began, tries.again, markers)
        return reply

    def _book(self, kind: Kind, reply: Reply | None, seconds: float, retries: int, markers: int) -> None:
        """One request, however often it was sent; for a reply also its tokens, whose first came out of the prefill."""
        role, name, phase = self._role, self._model.name, self._meter.current_phase
        spent: dict[str, Any] = {"requests": 1, "seconds": seconds, "retries": retries, "markers": markers}
        if reply is None:
            self._meter.record(Event(role, name, phase, kind, 0, **spent), self._model.shape)
            return
        read = self._length if reply.tokens_in is None else reply.tokens_in
        reused = min(reply.tokens_cached, read)
        spent |= {"reused": reused, "endings": int(reply.ending), "recounted": reply.counts_refused}
        asked = Event(role, name, phase, kind, read, logits=1, pairs=read * read, **spent)
        self._meter.record(asked, self._model.shape)
        out = self._model.tokens.count(reply.text) if reply.tokens_out is None else reply.tokens_out
        if kind == "prefill" and out:
            more = out - 1
            pairs = more * read + more * (more + 1) // 2
            wrote = Event(role, name, phase, "decode", more, read, logits=more, pairs=pairs, out=out)
            self._meter.record(wrote, self._model.shape)

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        """Next-token probabilities of `labels` as if the turn ended here; 0 for one that is not among those listed.

        Raises CannotRun where the server gives no log-probabilities, and for `after`, which a chat cannot put into a
        model's mouth.
        """
        self._need("user", "probe")
        self._refuse("probe" not in self._model.capabilities, "probe")
        self._refuse(bool(after), "probe behind a begun reply")
        firsts = [self._model.tokens.first(label) for label in labels]
        if not all(firsts) or len(set(firsts)) < len(firsts):
            raise ValueError(f"labels {list(labels)} do not have distinct first tokens for '{self._model.name}'")
        body = {"max_tokens": 1, "temperature": 0.0, "logprobs": True, "top_logprobs": self._model.logprobs}
        listed = self._ask("probe", body).first_token
        if not listed:
            raise CannotRun(
                f"the server of '{self._model.name}' gives no log-probabilities; set model.logprobs=0 and choose a "
                "method that needs no probe"
            )
        return _shares(labels, firsts, listed)

    def score(self, text: str) -> list[float]:
        """Raises CannotRun: a chat server tells no probabilities of a given text."""
        raise CannotRun(f"'{self._model.name}' runs behind a server and has no capability 'score'")

    def write(
        self,
        max_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int = 0,
        watch: Sequence[Span] = (),
        begin: str = "",
    ) -> Written:
        """Close the user turn and let the model reply; see Session.write.

        Raises RequestFailed where the server gives no usable reply, CannotRun for `watch` and for `begin`.
        """
        self._need("user", "write")
        if max_tokens < 1:
            raise ValueError(f"write() needs max_tokens >= 1, got {max_tokens}")
        self._refuse(bool(watch), "attention")
        self._refuse(bool(begin), "begin a reply")
        if self.room() < max_tokens:
            raise WindowExceeded(
                f"{self._length} tokens of context and {max_tokens} to write do not fit the window of "
                f"{self._model.window} of '{self._model.name}'"
            )
        body: dict[str, Any] = {"max_tokens": max_tokens, "temperature": temperature, "seed": seed % 2**31}
        if temperature > 0:
            body["top_p"] = top_p
        if stop:
            body["stop"] = list(stop)
        reply = self._ask("prefill", body)
        if reply.finish == "content_filter":
            raise ModelOutputError(f"the server of '{self._model.name}' withheld the reply (content_filter)")
        text = reply.text
        self._turns.append(_Turn("assistant", text))
        self._turn = "reply"
        offsets = tuple(self._model.offsets(text))
        span = Span(self._length, self._length + len(offsets))
        self._length = span.end  # what was written is in the context, even where it is a token more than was allowed
        return Written(text, span, "length" if reply.finish == "length" else "stop", offsets, ending=reply.ending)

    # -- bookkeeping ---------------------------------------------------------------------------------------------------

    def length(self) -> int:
        """Tokens in the context, by the local tokenizer, the frames of its turns included."""
        return self._length

    def room(self) -> int:
        """Tokens left in the window."""
        return self._model.window - self._length

    def close(self) -> None:
        """Nothing is kept open."""
        self._turn = "closed"


def _shares(labels: Sequence[str], firsts: Sequence[str], listed: Sequence[tuple[str, float]]) -> Probe:
    """The labels' part of the listed tokens; where none is listed every label has the same share, and a mass of 0."""
    weights: dict[str, float] = {}
    for token, logprob in listed:
        weights[token] = weights.get(token, 0.0) + math.exp(min(logprob, 0.0))
    mass = {label: weights.get(first, 0.0) for label, first in zip(labels, firsts, strict=True)}
    total = sum(mass.values())
    shares = {label: m / total if total > 0 else 1 / len(mass) for label, m in mass.items()}
    best = max(weights, key=lambda token: weights[token])
    return Probe(shares, mass, labels[firsts.index(best)] if best in firsts else None)
