"""The transformers session: what is fed is queued, and runs in one forward pass when something must
be known.

    queue ──flush──► cache (keys, values) ──score──► logits, then rewound
      └──probe───┘                          └─write──► one token at a time

A probe's closing words are read in the pass of what is queued and are an event of their own
(passes.py); in deterministic mode they are a pass of their own.

Every token of the context goes through the model once; `probe` and `score` are rewound by moving
the cache's end mark.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from harness.config.schema import Thinking
from harness.cost.meter import Meter
from harness.llm.batched_forward import ForwardRequest
from harness.llm.cached_replies import with_reply_cache
from harness.llm.capture import FeedCapture, FeedRequest, HeadCapture, WriteCapture
from harness.llm.endings import begins_thinking
from harness.llm.hf_context import Context
from harness.llm.hf_model import LoadedModel
from harness.llm.kv import last_token_restored, rewind, slot_of
from harness.llm.passes import Transaction
from harness.llm.plain import PlainPass, PlainReply
from harness.llm.prefix_sharing import names_of_new_blocks
from harness.llm.sampling import Sampler
from harness.llm.writing import Writing
from harness.models import Decoding, PlainGeneration, Probe, Span, Written
from harness.parallel.scheduler import Took, timed


@dataclass(frozen=True)
class WatchedSpan:
    """A span of fed text whose attention the next pass measures.

    Attributes:
        span: The span; gets the attention.
        earlier: Ranges [start, end) of the earlier tokens that it may attend to.
    """

    span: Span
    earlier: tuple[tuple[int, int], ...]

    @property
    def request(self) -> FeedRequest:
        """The span and the earlier ranges as FeedCapture takes them."""
        return FeedRequest(self.span.start, self.span.end, self.earlier)


@dataclass
class ThinkingState:
    """How far the thinking of a reply is written.

    Attributes:
        next_logits: The logits of the next token [1, vocab].
        is_opened: Whether its opening marker is written.
        is_closed: Whether its closing marker is written.
    """

    next_logits: Tensor
    is_opened: bool
    is_closed: bool = False


class Thought(NamedTuple):
    """The thinking of a reply.

    Attributes:
        text: The thinking with its markers; "" for a reply that begins with the answer.
        answer_logits: The logits of the answer's first token [1, vocab].
    """

    text: str
    answer_logits: Tensor


class HFSession(Context):
    """One context on a transformers model; see harness.models for what each call means."""

    def __init__(
        self, model: LoadedModel, meter: Meter, role: str, adapter: str | None = None
    ) -> None:
        """Begin an empty context, in which no span is watched.

        Args:
            model: The model.
            meter: Counts the costs.
            role: The role that they are counted under.
            adapter: The adapter that is switched on; None for none.
        """
        super().__init__(model, meter, role, adapter)
        self._watched: list[WatchedSpan] = []

    def _watch(self, span: Span, text: str, watch: Sequence[Span]) -> Span:
        """Let the next pass measure the attention that a span pays to earlier ones. The span is
        written into: it gets the attention when that is known, an empty span 0 at once.

        Args:
            span: The span of the text that is fed.
            text: Not used: the span has the tokens.
            watch: Earlier spans, which the text may attend to.

        Returns:
            `span`.

        Raises:
            ValueError: A watched span is empty, or does not stand before `span`.
        """
        for earlier in watch:
            if earlier.start >= earlier.end or earlier.end > span.start:
                raise ValueError(
                    "a watched span must be non-empty and stand before the text that is fed"
                )
        if len(span):
            span.session = self
            ranges = tuple((earlier.start, earlier.end) for earlier in watch)
            self._watched.append(WatchedSpan(span, ranges))
        else:
            span._attention = (0.0,) * len(watch)
        return span

    def flush(self) -> None:
        """Run the tokens that are queued, in pieces of the model's prefill_chunk tokens."""
        self._flush(0)

    def _catch_up(self) -> None:
        """Run the tokens that replies from the cache have booked (up to `_booked_end`), without
        booking them again."""
        end = self._booked_end
        self._booked_end = 0
        if end > self._n_cached:
            watched_in_replies = [each for each in self._watched if each.span.end <= end]
            with Transaction(self, "prefill", is_booked=False) as passes:
                self._read(passes, self.ids[:end], watched_in_replies)
            self._end_reading(end)

    def _flush(
        self,
        n_logits: int,
        n_requests: int = 0,
        closing_ids: Sequence[int] = (),
        label_ids: Sequence[int] = (),
    ) -> Tensor | None:
        """Run the tokens of the context that have no keys and values yet, and return the logits of
        the last ones. Those that a reply from the cache has booked already run first, unbooked.

        Args:
            n_logits: For how many of the last tokens logits are returned.
            n_requests: How many requests the passes are booked as.
            closing_ids: Tokens that are run after the queued ones and leave the context again, as
                the words that close the turn for a probe.
            label_ids: Ids of a probe's labels, which need exact logits (see ForwardRequest).

        Returns:
            The last logits [n_logits, vocab]; None for 0, and where nothing is queued.
        """
        self._catch_up()
        ids = [*self.ids, *closing_ids]
        if self._n_cached == len(ids):
            return None
        self._model.remember_first_prompt(self._role, self.ids)
        with Transaction(self, "prefill", n_requests, n_closing=len(closing_ids)) as passes:
            logits = self._read(passes, ids, self._watched, n_logits, label_ids)
        self._end_reading(len(self.ids))
        return logits

    def _read(
        self,
        passes: Transaction,
        ids: Sequence[int],
        watched: Sequence[WatchedSpan],
        n_logits: int = 0,
        label_ids: Sequence[int] = (),
    ) -> Tensor | None:
        """Run the tokens of `ids` that have no keys and values yet, in pieces of prefill_chunk
        tokens. Also gives the watched spans their attention.

        Args:
            passes: Runs the passes and books them.
            ids: The token ids of the whole context.
            watched: Spans of these tokens whose attention is measured.
            n_logits: For how many of the last tokens logits are returned.
            label_ids: Ids of a probe's labels, which need exact logits (see ForwardRequest).

        Returns:
            The last logits [n_logits, vocab]; None for 0.
        """
        capture = FeedCapture(self._n_cached, [each.request for each in watched])
        logits = None
        for start in range(self._n_cached, len(ids), self._model.prefill_chunk):
            end = min(start + self._model.prefill_chunk, len(ids))
            piece = ids[start:end]
            n_wanted = 0
            if end == len(ids):
                n_wanted = n_logits
            if watched:  # measured passes run whole: no block is copied from another context
                capture.pass_start = start
                logits = passes.run(piece, n_wanted, capture, label_ids=label_ids)
            else:
                block_names = self._names_of_new_blocks(end)
                logits = passes.run(piece, n_wanted, block_names=block_names, label_ids=label_ids)
        if watched:
            attentions = capture.mean_attention(self._model.n_layers)
            for each, attention in zip(watched, attentions, strict=True):
                each.span._attention = attention
        return logits

    def _end_reading(self, end: int) -> None:
        """Count the tokens before `end` as run, and drop from the cache what stands after them, as
        the closing words of a probe; spans before `end` are watched no more."""
        self._n_cached = end
        rewind(self._cache, end)
        self._watched = [watched for watched in self._watched if watched.span.end > end]

    def _names_of_new_blocks(self, end: int) -> list[bytes]:
        """The names of the blocks that the context completes with its first `end` tokens and that
        have none yet, by which other contexts find them (prefix_sharing.py)."""
        return names_of_new_blocks(slot_of(self._cache), self.ids[:end], self._adapter)

    def _by_head(self, text: str, keys: Span) -> np.ndarray:
        """Attention of the queued tokens to each token of `keys`, by layer and head: float32
        [layers, heads, tokens of `keys`]. The passes are booked as a probe.

        Args:
            text: Not used: its tokens are queued.
            keys: The span that is attended to.
        """
        capture = HeadCapture((keys.start, keys.end))
        piece_tokens = self._model.prefill_chunk
        with Transaction(self, "probe", n_requests=1) as passes:
            for start in range(self._n_cached, len(self.ids), piece_tokens):
                capture.pass_start = start
                passes.run(self.ids[start : start + piece_tokens], n_logits=0, capture=capture)
        return capture.mean_attention(self._model.n_layers).numpy()

    def _save(self) -> int:
        """How many tokens the model has run, to come back to by `_restore`."""
        return self._n_cached

    def _restore(self, state: int) -> None:
        """Cut the context and its cache to the first `state` tokens, and watch no span."""
        n_run = state
        self._n_cached = n_run
        del self.ids[n_run:]
        self._watched = []
        self._booked_end = 0
        rewind(self._cache, n_run)

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_ids: Sequence[int], after: str) -> Probe:
        """Probabilities that the next token is the first one of each label, after closing words
        that are read with what is queued.

        Args:
            labels: What the reply may be.
            first_ids: The id of the first token of each label.
            after: How the reply begins before the label.
        """
        # In deterministic mode what is queued runs first by itself, so that its keys and values are
        # the same with and without a probe.
        if self._model.fixed_rows is not None:
            self.flush()
        logits = self._flush(
            n_logits=1,
            n_requests=1,
            closing_ids=self._closing_ids(after),
            label_ids=first_ids,
        )
        assert logits is not None
        last_logits = logits[-1]
        probabilities = last_logits.softmax(-1)[torch.tensor(first_ids, device=logits.device)]
        likeliest_id = int(last_logits.argmax())
        likeliest_label = None
        if likeliest_id in first_ids:
            likeliest_label = labels[first_ids.index(likeliest_id)]
        return Probe.of(dict(zip(labels, probabilities.tolist(), strict=True)), likeliest_label)

    @with_reply_cache
    def _score(self, text: str) -> list[float]:
        """Log-probability of each token of a text after the context, from passes in pieces that are
        rolled back and booked as one request. Raises ValueError for an empty context or text."""
        ids = self._model.text.encode_data(text)
        if not ids or not self.ids:
            raise ValueError("score() needs a context and a text of at least one token")
        scores: list[float] = []
        piece_tokens = self._model.prefill_chunk
        with (
            self.branch(),
            last_token_restored(self._cache),
            Transaction(self, "score", n_requests=1) as passes,
        ):
            n_cached = self._n_cached
            # The last cached token is run again for its logits: that one position is booked, and
            # put back afterwards.
            rewind(self._cache, n_cached - 1)
            self._queue(ids)
            # Each of these is followed by a token of the text, which its logits score.
            run_ids = self.ids[n_cached - 1 : -1]
            for start in range(0, len(run_ids), piece_tokens):
                piece = run_ids[start : start + piece_tokens]
                logits = passes.run(piece, n_logits=len(piece))
                assert logits is not None
                scores += _log_probabilities(logits, ids[start : start + len(piece)])
        return scores

    @with_reply_cache
    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Run the queued tokens, let a reasoning model think, write the answer and append it to the
        context. The thinking leaves the context again."""
        start = len(self.ids)
        may_think = not self._is_past_thinking
        if may_think:
            self.ids += self._model.open_thinking_ids
        logits = self._flush(n_logits=1, n_requests=1)
        sampler = Sampler(decoding.temperature, decoding.top_p, decoding.seed or 0)
        thinking_text = ""
        if may_think and logits is not None and self._model.thinking:
            thought = self._think(logits, sampler, self._model.thinking)
            logits = thought.answer_logits
            thinking_text = thought.text
        answer_start = len(self.ids)
        watched_ranges = tuple((span.start, span.end) for span in watch)
        written = self._write_answer(logits, sampler, decoding, watched_ranges)
        if answer_start == start:
            return written
        # The thinking leaves the context; the answer, which attended to it, is read anew with what
        # follows.
        answer_ids = self.ids[answer_start:]
        self._truncate(start)
        self.ids += answer_ids
        return replace(written, span=Span(start, len(self.ids)), thinking=thinking_text)

    def _think(self, first_logits: Tensor, sampler: Sampler, thinking: Thinking) -> Thought:
        """Write the thinking of a reply and append it to the context. Where it reaches its limit,
        or the model ends its reply inside it, the thinking is closed for the model. Nothing is
        appended for a reply that begins with the answer.

        Args:
            first_logits: The logits where the reply begins [1, vocab].
            sampler: Picks the tokens.
            thinking: Its markers and its limit.

        Returns:
            The text of the thinking, with the logits where the answer begins.
        """
        model = self._model
        start = len(self.ids)
        with Transaction(self, "decode") as passes:
            state = self._write_thinking(passes, first_logits, sampler, thinking)
            passes.cost.thinking = passes.cost.out
        if not state.is_opened:
            self._truncate(start)
            return Thought(text="", answer_logits=first_logits)
        answer_logits = state.next_logits
        if not state.is_closed:
            self.ids += model.close_thinking_ids
            logits_after_close = self._flush(n_logits=1)
            assert logits_after_close is not None
            answer_logits = logits_after_close
        opening_start = start - len(model.open_thinking_ids)
        return Thought(model.text.decode_context(self.ids[opening_start:]), answer_logits)

    def _write_thinking(
        self, passes: Transaction, first_logits: Tensor, sampler: Sampler, thinking: Thinking
    ) -> ThinkingState:
        """Append tokens of a thinking to the context, up to its end or limit, and run them. Also
        counts them in the cost of `passes`: none where the reply begins with the answer.

        Args:
            passes: Runs and books them.
            first_logits: The logits where the reply begins [1, vocab].
            sampler: Picks the tokens.
            thinking: Its markers and its limit.

        Returns:
            How far it is written, with the logits of the next token.
        """
        model = self._model
        start = len(self.ids)
        cost = passes.cost
        state = ThinkingState(first_logits, is_opened=bool(model.open_thinking_ids))
        # The limit counts the markers, which are not written here.
        marker_tokens = len(model.open_thinking_ids) + len(model.close_thinking_ids)
        max_tokens = thinking.tokens - marker_tokens
        while cost.out < max_tokens:
            token_id = sampler.pick(state.next_logits[-1])
            answer_begins = state.is_closed and model.text.decode_context([token_id]).strip()
            if token_id in model.stop_ids or answer_begins:
                break
            self.ids.append(token_id)
            cost.out += 1
            if not state.is_opened:
                opened = begins_thinking(model.text.decode_context(self.ids[start:]), thinking)
                if opened is False:
                    break
                state.is_opened = bool(opened)  # None: too few characters to tell
            elif not state.is_closed:
                state.is_closed = self._ends_with_marker(start, thinking.close)
            next_logits = passes.run([token_id])
            assert next_logits is not None
            state.next_logits = next_logits
            self._n_cached += 1
        if not state.is_opened:
            cost.out = 0
        cost.unclosed = int(state.is_opened and not state.is_closed)
        return state

    def _ends_with_marker(self, start: int, marker: str) -> bool:
        """Whether a marker is in the text of the last tokens of the context, as many of them as the
        marker may have.

        Args:
            start: The first token that may be part of it.
            marker: "</think>".
        """
        # A token carries at least a part of a character (4 bytes at most).
        max_marker_tokens = 4 * len(marker) + 4
        recent_start = max(start, len(self.ids) - max_marker_tokens)
        return marker in self._model.text.decode_context(self.ids[recent_start:])

    def _write_answer(
        self,
        first_logits: Tensor | None,
        sampler: Sampler,
        decoding: Decoding,
        watched_ranges: tuple[tuple[int, int], ...],
    ) -> Written:
        """Write the answer, token by token, and append it to the context, cut at a stop string or
        an end marker; returns it with its attention to the watched ranges. Also books its passes,
        and whether an end marker was cut off.

        Args:
            first_logits: The logits of its first token [1, vocab]; None where nothing was run.
            sampler: Picks the tokens.
            decoding: How long it may be, and where it stops.
            watched_ranges: Ranges [start, end) of the context to which attention is measured.
        """
        start = len(self.ids)
        capture = None
        if watched_ranges:
            capture = WriteCapture(start, watched_ranges, self._cache)
        with Transaction(self, "decode") as passes:
            writing = Writing(
                ids=self.ids,
                cache=self._cache,
                n_cached=self._n_cached,
                sampler=sampler,
                decoding=decoding,
                stop_ids=self._model.stop_ids,
                decode=self._text_of,
                cost=passes.cost,
                capture=capture,
            )
            if first_logits is not None and decoding.max_tokens:
                self._write_tokens(writing, sampler.pick(first_logits[-1]))
            attention = None
            if capture:
                attention = capture.attention_of_tokens()
            written = self._end_reply(start, decoding.stop, writing.finish, attention)
            passes.cost.endings = int(written.ending)
        return written

    def _write_tokens(self, writing: Writing, first_id: int) -> None:
        """Write the reply from its first token on, in passes that it shares with other contexts.

        Args:
            writing: The reply; its tokens are appended to it.
            first_id: The id of its first token.
        """
        must_run = writing.add_token(first_id)
        if not must_run:
            return
        request = ForwardRequest(
            [first_id], self._cache, n_logits=1, capture=writing.capture, writing=writing
        )
        try:
            self._model.forward(request, self._adapter)
        finally:
            self._n_cached = writing.n_cached

    def _text_of(self, ids: Sequence[int]) -> str:
        """The text of some tokens, control tokens left out."""
        return self._model.text.decode(ids).text

    def _write_plain(
        self, generate: Callable[[PlainGeneration], None], decoding: Decoding
    ) -> Written:
        """Let the method's own loop `generate` write the reply, and append it to the context.

        The cost of its passes is booked also where it fails. Raises ValueError where a part of the
        context was run before.
        """
        # A plain pass has no KV cache of ours to start from.
        if self._n_cached:
            raise ValueError("write_plain() reads the whole context; a part of it was read before")
        self._model.remember_first_prompt(self._role, self.ids)
        start = len(self.ids)
        reply = PlainReply(self._model, self.ids, decoding)

        def generate_and_count() -> None:
            """Let the method's loop write `reply`; each pass of the network is added to its
            `passes`."""
            with reply.counted():
                generate(reply)

        try:
            with timed() as took:
                self._model.run_plain(generate_and_count, self._adapter)
            self.ids += reply.state.ids[start:]
            written = self._end_reply(start, decoding.stop, reply.state.finish, attention=None)
        except BaseException:
            self._book_plain(reply, took, n_endings=0)
            raise
        self._book_plain(reply, took, n_endings=int(written.ending))
        return written

    def _book_plain(self, reply: PlainReply, took: Took, n_endings: int) -> None:
        """Book the passes of a plain reply: an event for each that read, and one for all that
        wrote. Each has a share of the time: its share of the tokens that were run.

        Args:
            reply: The reply, with its passes.
            took: The time of all passes.
            n_endings: 1 where markers were cut off the reply's end, else 0.
        """
        tokens_run = reply.tokens_run()
        for number, reading in enumerate(reply.passes):
            is_first = number == 0  # the reply is one request
            self._book_plain_pass(reading, took, reading.new / tokens_run, requests=int(is_first))
        if reply.decoding is not None:
            self._book_plain_pass(
                reply.decoding,
                took,
                reply.decoding.new / tokens_run,
                out=reply.state.cost.out,
                endings=n_endings,
            )

    def _book_plain_pass(
        self, plain_pass: PlainPass, took: Took, time_share: float, **counts: int
    ) -> None:
        """Book one pass of a plain reply.

        Args:
            plain_pass: The pass.
            took: The time of all passes.
            time_share: The pass's share of that time, 0 to 1.
            counts: Further fields of its Event.
        """
        self._book(
            plain_pass.kind,
            plain_pass.new,
            plain_pass.cached,
            logits=plain_pass.logits,
            pairs=plain_pass.pairs,
            ranking_pairs=plain_pass.ranking_pairs,
            seconds=took.seconds * time_share,
            queued=took.queued * time_share,
            **counts,
        )

    def close(self) -> None:
        """Free the context's keys and values; the pool keeps whole blocks of them for later
        contexts that begin alike, while there is room."""
        super().close()
        is_open = bool(self._cache.layers)
        if is_open:
            self._model.pool.keep_ended(slot_of(self._cache))
        self._cache = Cache(layers=[])


def _log_probabilities(logits: Tensor, ids: Sequence[int]) -> list[float]:
    """Log-probability of each of some tokens.

    Args:
        logits: The logits from which each token was to be picked [tokens, vocab].
        ids: The ids of the tokens.
    """
    columns = torch.tensor(ids, device=logits.device)[:, None]
    log_probabilities: list[float] = logits.log_softmax(-1).gather(1, columns)[:, 0].tolist()
    return log_probabilities


class HFModel(LoadedModel):
    """A loaded model that opens sessions."""

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> HFSession:
        """Open an empty context.

        Args:
            meter: Counts its costs.
            role: The role that they are counted under.
            adapter: The adapter to switch on; None for none.
        """
        return HFSession(self, meter, role, adapter)
