"""Interface of language models.

A session is one growing context; every token goes through the model once.

    s = llm.session()
    s.system("You are brief.")          a system turn, at the beginning only
    s.user("Question: ")                open a user turn
    q = s.feed(question.text)           -> Span; run lazily, together with what follows
    v = s.feed(node, watch=[q])         -> Span; v.attention[0] = mean attention of its tokens to q
    p = s.probe(["Yes", "No"])          next-token probabilities as if the turn ended here; context unchanged
    s.reply("Yes"); s.user("Now ...")   what the model is taken to have said; the next turn
    a = s.write(max_tokens=32)          -> Written: text, span, per-token attention to watched spans
    a = s.write_plain(fn, max_tokens=32)        -> Written: fn runs the transformers model itself
    w = s.attention_by_head("Who?", v)  [layers, heads, tokens of v]: attention of "Who?" to v; context unchanged
    s.score("text")                     log-probability of each token of text in this context; context unchanged
    with s.branch(): ...                rolled back afterwards
    s.room(); s.close()

Methods see only this file's interface. The back ends are in harness/llm.
"""

from __future__ import annotations

import abc
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.cost.flops import Event, EventKind, ModelShape
from harness.cost.meter import Meter
from harness.cost.usage import Usage
from harness.errors import CannotRun, WindowExceeded
from harness.model_outputs import Decoding, PlainGeneration, Probe, Sampling, Span, Written

if TYPE_CHECKING:
    from harness.storage.reply_cache import ReplyCache

__all__ = [
    "CAPABILITIES", "Decoding", "LanguageModel", "MeteredModel", "PlainGeneration", "Probe", "Sampling", "Session",
    "Span", "Written",
]  # fmt: skip

LANGUAGE_MODEL_ROLES = ("reader", "builder", "searcher", "compressor", "refiner")
ENCODER_ROLES = ("encoder", "reranker")
ROLES = (*LANGUAGE_MODEL_ROLES, *ENCODER_ROLES)
ROLES_WITH_OWN_MODEL = ("builder", "searcher", "compressor", "refiner")
"""Those that a configuration may give a model of their own, by `roles.ROLE`; else it is the reader."""
# What a model may be able to do beyond reading and writing.
CAPABILITIES = (
    "attention",
    "plain_model",
    "probe",
    "score",
    "adapters",
    "sampling",
    "application",
)


class Session(AbstractContextManager["Session"], abc.ABC):
    """One growing context; see the module's docstring. Used as a context manager it closes itself.

    The public methods keep the order of turns and check window and capabilities. A back end
    implements `length` and the methods that begin with an underscore; `_turn` is the turn that is
    open: start, system, user, reply or closed.
    """

    can_begin_replies = True
    """Whether a reply may be begun for the model (`begin` of `write`, `after` of `probe`)."""

    chat = True
    """Whether turns stand in the chat template; False: their texts alone, after BOS. A server
    always uses its own."""

    keep_thinking = False
    """Whether what a reply has between the markers of a known reasoning model stays in it."""

    sampling: Sampling | None = None
    replies: ReplyCache | None = None
    """How to draw replies that are asked for greedily; the cache of replies
    (harness/llm/cached_replies.py)."""

    def __init__(
        self, name: str, window: int, meter: Meter, role: str, shape: ModelShape | None = None
    ) -> None:
        """Open an empty context.

        Args:
            name: The model's name, for messages and for its costs.
            window: The most tokens of the context, output included.
            meter: Counts the costs.
            role: The role that the costs are counted under: "reader".
            shape: The model's sizes, for FLOPs; None where they are unknown.
        """
        self._name = name
        self._window = window
        self._meter = meter
        self._role = role
        self._shape = shape
        self._turn = "start"

    # -- the context
    # ---------------------------------------------------------------------------------------------------

    def begin_text(self) -> None:
        """Put BOS (else EOS) before the first turn, where neither chat template nor tokenizer
        begins a context with it. Does nothing for a model behind a server."""

    def system(self, text: str) -> Span:
        """Begin the context with a system turn, return its text's span. Raises CannotRun where the
        model takes none."""
        if self._turn != "start" or self.length():
            raise ValueError("system() comes before everything else in a context")
        return self._begin_turn("system", text)

    def user(self, text: str = "") -> Span:
        """Open a user turn, put `text` in it and return the span of `text`. Raises ValueError where
        a user turn is open already."""
        if self._turn == "user":
            raise ValueError("user() inside an open user turn: call reply() or write() first")
        return self._begin_turn("user", text)

    def feed(self, text: str, watch: Sequence[Span] = ()) -> Span:
        """Append `text` to the open user turn, and return its span. It is encoded on its own:
        markers of the chat template in it stay plain text.

        Args:
            text: The text.
            watch: Earlier spans; the attention that the text's tokens pay them is measured, and is
                in the span that is returned.

        Raises:
            WindowExceeded: The text does not fit.
            ForgedTurn: It has a control token.
            CannotRun: `watch` is given, and the model gives no attention.
        """
        self._need_user_turn("feed")
        self._check_watch(watch)
        span = self._append(text)
        if not watch:
            return span
        return self._watch(span, text, watch)

    def reply(self, text: str) -> Span:
        """Close the user turn, put `text` into the context as the model's reply and return the span
        of `text`."""
        self._need_user_turn("reply")
        return self._begin_turn("reply", text)

    def flush(self) -> None:
        """Run the model now on the tokens that are queued; without it they run with the next
        request. Does nothing where a back end queues none."""

    @contextmanager
    def branch(self) -> Iterator[None]:
        """Context manager: runs the block on this context, then brings the context back to where it
        was."""
        self.flush()
        turn, state = self._turn, self._save()
        try:
            yield
        finally:
            self._turn = turn
            self._restore(state)

    # -- the model's part
    # ----------------------------------------------------------------------------------------------

    def probe(self, labels: Sequence[str], after: str = "") -> Probe:
        """Probabilities that the next token is the first one of each label, as if the user turn
        ended here and the reply began with `after`. The context stays as it is.

        Args:
            labels: What the reply may be: ["Yes", "No"].
            after: How the reply begins before the label; "" for nothing.

        Raises:
            ValueError: Two labels share their first token, or one is empty.
            CannotRun: The model gives no probabilities, or takes no `after`.
        """
        self._need_user_turn("probe", after)
        self._require("probe")
        first_tokens = self._first_tokens(labels)
        # The meter keeps the request's prompt and reply where requests are recorded.
        with self._meter.request(
            self._role, "probe", lambda: self._text_if_probed(after)
        ) as replies:
            probe = self._probe(labels, first_tokens, after)
            replies.append(json.dumps(probe.mass))
        return probe

    def score(self, text: str) -> list[float]:
        """Log-probability (nats) of each token of `text`, were it to follow the context, which
        stays as it is. Raises CannotRun where the model cannot say."""
        self._require("score")
        with self._meter.request(self._role, "score", lambda: self._text() + text) as replies:
            scores = self._score(text)
            replies.append(json.dumps(sum(scores)))
        return scores

    def attention_by_head(self, text: str, keys: Span) -> np.ndarray:
        """Attention that a text, if it ended the user turn here, pays to each token of `keys`; the
        context stays as it is.

        Args:
            text: The text.
            keys: An earlier span.

        Returns:
            Float32 [layers, heads, len(keys)]: the mean over the tokens of `text` and those of the
            template between it and the reply. Heads are those of the queries.

        Raises:
            WindowExceeded: The text does not fit.
            ValueError: `keys` is empty.
            CannotRun: The model gives no attention.
        """
        self._need_user_turn("attention_by_head")
        self._require("attention")
        if not len(keys):
            raise ValueError("attention_by_head() needs a span of at least one token")
        with self.branch():
            self._append(text)
            self._open("reply")
            return self._by_head(text, keys)

    def write(
        self,
        max_tokens: int,
        stop: Sequence[str] = (),
        *,
        temperature: float = 0.0,
        top_p: float = 1.0,
        seed: int | None = None,
        watch: Sequence[Span] = (),
        begin: str = "",
        schema: str = "",
    ) -> Written:
        """Close the user turn, let the model reply and return the reply, which is in the context
        from then on.

        The thinking of a known reasoning model is taken out of the reply's text (`keep_thinking`
        leaves it in), and a reply with a problem (`Written.problem`) is counted as such.

        Args:
            max_tokens: Most tokens of the reply.
            stop: The reply ends before the first of these texts.
            temperature: 0 is greedy.
            top_p: Of a sampled reply, the share of probability that it is drawn from.
            seed: Of a sampled reply, the seed of its draws.
            watch: Earlier spans, as for `feed`.
            begin: The reply begins with it, without thinking; it is not returned.
            schema: JSON text of a JSON schema that a server is asked to hold the reply to; "" for
                none.

        Raises:
            WindowExceeded: Context and `max_tokens` exceed the window.
            CannotRun: The model takes no `watch` or `begin`.
        """
        self._need_user_turn("write", begin)
        if max_tokens < 1:
            raise ValueError(f"write() needs max_tokens >= 1, got {max_tokens}")
        self._check_watch(watch)
        self._open("reply")
        if begin:
            self._skip_thinking()
            self._append(begin)
        decoding = self._sampled(
            Decoding(
                max_tokens=max_tokens,
                stop=tuple(stop),
                temperature=temperature,
                top_p=top_p,
                seed=seed,
                schema=schema,
            )
        )
        self._check_window(decoding.max_tokens)
        self._turn = "reply"
        with self._meter.request(self._role, "write", self._text) as replies:
            written = self._write(decoding, watch)
            replies.append(written.thinking + written.text)
        if not self.keep_thinking and not written.thinking:
            written = self._without_thinking(written)
        if written.problem:
            self._book("decode", 0, reply=written.problem)
        return written

    def write_plain(self, generate: Callable[[PlainGeneration], None], max_tokens: int) -> Written:
        """Close the user turn and let `generate` write the reply on the transformers model itself.

        The whole context is given to it as tokens; it reads them and writes (`PlainGeneration`),
        and may put hooks on the network meanwhile. A reasoning model answers without thinking.

        Args:
            generate: Reads the context and writes the reply.
            max_tokens: Most tokens of the reply.

        Raises:
            CannotRun: The model has no "plain_model": a server's, for example.
            ValueError: The model has read a part of the context already.
            WindowExceeded: Context and `max_tokens` exceed the window.
        """
        self._need_user_turn("write_plain")
        self._require("plain_model")
        self._open("reply")
        self._skip_thinking()
        decoding = self._sampled(Decoding(max_tokens))
        self._check_window(decoding.max_tokens)
        self._turn = "reply"
        with self._meter.request(self._role, "write", self._text) as replies:
            written = self._write_plain(generate, decoding)
            replies.append(written.text)
        if written.problem:
            self._book("decode", 0, reply=written.problem)
        return written

    def _without_thinking(self, written: Written) -> Written:
        """The reply without the thinking of a known reasoning model, as it is where it has none.
        Also counts the reply as one that reasoned, and takes the thinking out of the context."""
        answer = written.without_thinking()
        if answer is written:
            return written
        if not answer.unclosed:
            self._book("decode", 0, reply="reasoned")
        self._replace_reply(answer.text)
        return answer

    def _replace_reply(self, text: str) -> None:
        """Replace the text of the last reply where the context is a conversation; tokens stay."""

    def count_reply(self, written: Written, kind: str = "unread") -> None:
        """Count a reply as one of this kind. One that is empty, refused or all thinking is counted
        as that already, and not again.

        Args:
            written: The reply.
            kind: "unread" (the method could not read it) or "unsearched" (the method let the model
                search, and it did not).
        """
        if written.problem in ("", "unfinished"):
            self._book("decode", 0, reply=kind)

    # -- bookkeeping
    # ---------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def length(self) -> int:
        """Tokens in the context, queued ones included."""

    def room(self) -> int:
        """Tokens left in the window."""
        return self._window - self.length()

    def close(self) -> None:
        """Free the context; it takes no further turn."""
        self._turn = "closed"

    # -- for back ends
    # -------------------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _open(self, turn: str) -> None:
        """Append what the chat template puts between the turn that is open (`self._turn`) and the
        next one.

        Args:
            turn: The next turn: "system", "user" or "reply".
        """

    @abc.abstractmethod
    def _append(self, text: str) -> Span:
        """Append a text to the open turn and return its span. Text from data cannot forge a
        turn."""

    def _watch(self, span: Span, text: str, watch: Sequence[Span]) -> Span:
        """Measure the attention that a text pays to earlier spans; for back ends that have
        "attention".

        Args:
            span: The text's span, which ends the context.
            text: The text.
            watch: The earlier spans.

        Returns:
            The span with its attention to each of them.
        """
        raise NotImplementedError

    def _by_head(self, text: str, keys: Span) -> np.ndarray:
        """The result of `attention_by_head` where `text` is queued already; for back ends that have
        "attention"."""
        raise NotImplementedError

    def _write_plain(
        self, generate: Callable[[PlainGeneration], None], decoding: Decoding
    ) -> Written:
        """Let `generate` write the reply, as `write_plain`; for back ends that have
        "plain_model"."""
        raise NotImplementedError

    @abc.abstractmethod
    def _first_token(self, label: str) -> Any:
        """The first token of a label, as a text or an id that can be compared with others; None for
        an empty label."""

    @abc.abstractmethod
    def _probe(self, labels: Sequence[str], first_tokens: Sequence[Any], after: str) -> Probe:
        """Probabilities of the labels as the next token, for `probe`.

        Args:
            labels: The labels.
            first_tokens: The first token of each label.
            after: How the reply begins before the label; "" for nothing.
        """

    def _score(self, text: str) -> list[float]:
        """Log-probability of each token of `text`, as `score`; for back ends that have "score"."""
        raise NotImplementedError

    @abc.abstractmethod
    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Let the model write the reply whose turn is open, and append it to the context.

        Args:
            decoding: How the reply is written.
            watch: Earlier spans; the reply has the attention of its tokens to them.
        """

    def _skip_thinking(self) -> None:
        """Begin a reasoning model's reply with an empty thinking, so that what follows is the
        answer."""

    def _text(self) -> str:
        """The whole context as text, markers of the chat template included."""
        raise NotImplementedError

    @abc.abstractmethod
    def _save(self) -> Any:
        """What `_restore` needs to bring the context back to where it is now. Nothing is queued
        when it is called."""

    @abc.abstractmethod
    def _restore(self, state: Any) -> None:
        """Bring the context back to where it was when `_save` returned `state`."""

    def _book(self, kind: EventKind, new: int, cached: int = 0, **counts: Any) -> None:
        """Record one call of the model on the meter.

        Args:
            kind: What was done: "prefill", "decode", "probe".
            new: Tokens that the model read or wrote.
            cached: Tokens before them whose keys were there already.
            **counts: Further fields of the event (harness/cost/flops.py).
        """
        event = Event(
            role=self._role,
            model=self._name,
            phase=self._meter.current_phase,
            kind=kind,
            new=new,
            cached=cached,
            **counts,
        )
        self._meter.record(event, self._shape)

    def _require(self, capability: str) -> None:
        """Raise CannotRun where the model lacks a capability. Here: it has all; a back end says
        otherwise."""

    def _text_if_probed(self, after: str) -> str:
        """The context as text if the user turn ended here and the reply began with `after`."""
        with self.branch():
            self._begin_turn("reply", "")
            self._skip_thinking()
            self._append(after)
            return self._text()

    def _check_watch(self, watch: Sequence[Span]) -> None:
        """Raise CannotRun where spans are to be watched and the model gives no attention."""
        if watch:
            self._require("attention")

    def _sampled(self, decoding: Decoding) -> Decoding:
        """How the next reply is written: as asked, or, where the run draws replies (`sampling`),
        drawn as that says."""
        if self.sampling is None:
            return decoding
        return self.sampling.applied_to(decoding, self._text)

    def _begin_turn(self, turn: str, text: str) -> Span:
        """Open a turn ("system", "user" or "reply"), put a text in it and return its span."""
        self._open(turn)
        self._turn = turn
        return self._append(text)

    def _need_user_turn(self, verb: str, begin: str = "") -> None:
        """Raise ValueError where no user turn is open, CannotRun where replies cannot be begun.

        Args:
            verb: The method that needs it, for the message.
            begin: The text that the reply is to begin with.
        """
        if self._turn != "user":
            raise ValueError(
                f"{verb}() needs an open user turn, but the context is at '{self._turn}'"
            )
        if begin and not self.can_begin_replies:
            raise CannotRun(
                f"a reply of '{self._name}' cannot be begun for it; use a model that is loaded here"
            )

    def _check_window(self, new_tokens: int) -> None:
        """Raise WindowExceeded where so many new tokens do not fit into the window beside the
        context's.
        """
        if new_tokens > self.room():
            raise WindowExceeded(
                f"{self.length()} tokens of context and {new_tokens} more do not fit the window of "
                f"{self._window} of "
                f"'{self._name}'; shorten the input or raise model.window"
            )

    def _first_tokens(self, labels: Sequence[str]) -> list[Any]:
        """The first token of each label. Raises ValueError when two labels share it or one is
        empty."""
        first_tokens = [self._first_token(label) for label in labels]
        is_a_label_empty = None in first_tokens
        are_distinct = len(set(first_tokens)) == len(first_tokens)
        if is_a_label_empty or not are_distinct:
            raise ValueError(
                f"labels {list(labels)} do not have distinct first tokens for '{self._name}'"
            )
        return first_tokens

    def __exit__(
        self,
        error_class: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the session at the end of its `with` block."""
        self.close()


class WaitsForBatch(BaseException):
    """Raised for a request that waits for a batch: its question is asked again once the reply is
    there.

    Not an Exception, so that no method takes it for a failure.

    Attributes:
        expected: The most that the request may cost, as `usage_of` says.
    """

    expected: Usage


class LanguageModel(abc.ABC):
    """A model with its tokenizer.

    Attributes:
        name: The name that tables show.
        capabilities: What it can do beyond reading and writing: some of CAPABILITIES.
        window: The most tokens of a context, output included.
        shape: Its sizes, for FLOPs; None where unknown.
        identity: Everything that changes its output (hash of weights or revision, dtype, attention
            kernel, hashes of tokenizer and template), for cache keys and the manifest.
        first_prompts: Role -> {"text", "ids"} of the first context that it ran since loading, where
            the back end knows it.
    """

    name: str
    capabilities: frozenset[str]
    window: int
    shape: ModelShape | None
    identity: dict[str, object]
    first_prompts: dict[str, dict[str, object]]

    @abc.abstractmethod
    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> Session:
        """Open an empty context.

        Args:
            meter: Counts its costs.
            role: The role that they are counted under.
            adapter: The name of the adapter to switch on; None for the model without one.
        """

    @abc.abstractmethod
    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character range [start, end) of every token of `text`, encoded on its own without special
        tokens."""

    @abc.abstractmethod
    def turn_tokens(self) -> int:
        """Tokens that the chat template adds for one user turn and the beginning of its reply, BOS
        included."""

    def report_events_to(self, note: Callable[[str], None]) -> None:  # noqa: B027
        """Take a function that from now on is called with a sentence when something happens to the
        model: when one of its servers goes away. Most models never call it."""

    def server_reports(self) -> list[str]:
        """What each of its servers did, a sentence each; [] for a model without several servers."""
        return []

    def system_turn_tokens(self, text: str) -> int:
        """Tokens that a system turn with this text adds to a context, beside those of
        `turn_tokens`. Raises CannotRun where the model takes no system turn."""
        return self.count(text)

    def count(self, text: str) -> int:
        """Number of tokens of `text`, encoded on its own without special tokens."""
        return len(self.offsets(text))


class MeteredModel:
    """A LanguageModel bound to a meter and a role, as `tools.model(role)` returns it."""

    def __init__(
        self,
        model: LanguageModel,
        meter: Meter,
        role: str,
        adapter: str | None = None,
        sampling: Sampling | None = None,
        replies: ReplyCache | None = None,
        keep_thinking: bool = False,
    ) -> None:
        """Bind a model. What a method may ask of the model is taken over as attributes: name,
        window, counts of tokens.

        Args:
            model: The model.
            meter: Counts its costs.
            role: The role that they are counted under.
            adapter: The adapter switched on in sessions that name none; None for none.
            sampling: How replies are drawn that a method leaves greedy; None: greedily.
            replies: The cache of replies; None for none.
            keep_thinking: Whether thinking between markers of known models stays in replies.
        """
        self.role = role
        self.name = model.name
        self.window = model.window
        self.identity = model.identity
        self.capabilities = model.capabilities
        self.shape = model.shape
        self.offsets = model.offsets
        self.count = model.count
        self.turn_tokens = model.turn_tokens
        self.system_turn_tokens = model.system_turn_tokens
        self._model = model
        self._meter = meter
        self._adapter = adapter
        self._sampling = sampling
        self._replies = replies
        self._keep_thinking = keep_thinking

    def session(self, adapter: str | None = None, chat: bool = True) -> Session:
        """Open an empty context whose costs the meter counts.

        Args:
            adapter: The adapter to switch on; None for the base model.
            chat: Whether turns are framed by the chat template, as in Session.
        """
        session = self._model.session(self._meter, self.role, adapter or self._adapter)
        session.sampling = self._sampling
        session.replies = self._replies
        session.chat = chat
        session.keep_thinking = self._keep_thinking
        return session
