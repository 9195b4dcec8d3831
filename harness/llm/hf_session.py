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
from harness.llm.kv import kept_tail, rewind, slot_of
from harness.llm.passes import Transaction
from harness.llm.plain import PlainPass, PlainReply
from harness.llm.prefix_sharing import block_names
from harness.llm.sampling import Sampler
from harness.llm.writing import Writing
from harness.models import Decoding, PlainGeneration, Probe, Span, Written
from harness.parallel.scheduler import Took, timed


@dataclass(frozen=True)
class WatchedSpan:
    """A span of fed text whose attention the next pass measures.

    Attributes:
        span: The span; gets the attention.
        columns: Ranges [start, end) of the earlier tokens that it may attend to.
    """

    span: Span
    columns: tuple[tuple[int, int], ...]

    @property
    def request(self) -> FeedRequest:
        """The span and its columns as FeedCapture takes them."""
        return FeedRequest(self.span.start, self.span.end, self.columns)


@dataclass
class ThinkingState:
    """How far the thinking of a reply is written.

    Attributes:
        logits: Those of the next token [1, vocab].
        is_opened: Whether its opening marker is written.
        is_closed: Whether its closing marker is written.
    """

    logits: Tensor
    is_opened: bool
    is_closed: bool = False


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
        written into: it gets the attention when that is known.

        Args:
            span: The span of the text that is fed.
            text: Not used: the span has the tokens.
            watch: Earlier spans, which the text may attend to.

        Returns:
            `span`.

        Raises:
            ValueError: A watched span is empty, or does not stand before `span`.
        """
        columns = tuple((column.start, column.end) for column in watch)
        for start, end in columns:
            if start >= end or end > span.start:
                raise ValueError(
                    "a watched span must be non-empty and stand before the text that is fed"
                )
        if len(span):
            span.session = self
            self._watched.append(WatchedSpan(span, columns))
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
        if end > self._cached:
            booked = [watched for watched in self._watched if watched.span.end <= end]
            with Transaction(self, "prefill", is_booked=False) as passes:
                self._read(passes, self.ids[:end], booked)
            self._end_reading(end)

    def _flush(
        self,
        logits: int,
        requests: int = 0,
        closing: Sequence[int] = (),
        labels: Sequence[int] = (),
    ) -> Tensor | None:
        """Run the tokens that are queued, and return the logits of the last ones.

        Args:
            logits: For how many of the last tokens logits are returned.
            requests: How many requests the passes are booked as.
            closing: Tokens that are run after the queued ones and leave the context again, as the
                words that close the turn for a probe.
            labels: For each row of logits, ids of tokens that need exact logits (see
                ForwardRequest).

        Returns:
            The last logits [logits, vocab]; None for 0, and where nothing is queued.
        """
        self._catch_up()
        ids = [*self.ids, *closing]
        if self._cached == len(ids):
            return None
        self._model.remember_first_prompt(self._role, self.ids)
        with Transaction(self, "prefill", requests, len(closing)) as passes:
            rows = self._read(passes, ids, self._watched, logits, labels)
        self._end_reading(len(self.ids))
        return rows

    def _read(
        self,
        passes: Transaction,
        ids: Sequence[int],
        watched: Sequence[WatchedSpan],
        logits: int = 0,
        labels: Sequence[int] = (),
    ) -> Tensor | None:
        """Run the tokens of `ids` that have no keys and values yet, in pieces of prefill_chunk
        tokens. Also gives the watched spans their attention.

        Args:
            passes: Runs the passes and books them.
            ids: The tokens of the whole context.
            watched: Spans of these tokens whose attention is measured.
            logits: For how many of the last tokens logits are returned.
            labels: For each row of logits, ids of tokens that need exact logits (see
                ForwardRequest).

        Returns:
            The last logits [logits, vocab]; None for 0.
        """
        requests = [item.request for item in watched]
        capture = FeedCapture(self._cached, requests)
        rows = None
        for start in range(self._cached, len(ids), self._model.prefill_chunk):
            end = min(start + self._model.prefill_chunk, len(ids))
            piece = ids[start:end]
            wanted = 0
            if end == len(ids):
                wanted = logits
            if watched:  # what is watched cannot be copied from another context
                capture.first = start
                rows = passes.run(piece, wanted, capture, labels=labels)
            else:
                rows = passes.run(piece, wanted, blocks=self._blocks(end), labels=labels)
        if watched:
            results = capture.results(self._model.layers)
            for item, attention in zip(watched, results, strict=True):
                item.span._attention = attention
        return rows

    def _end_reading(self, end: int) -> None:
        """Count the tokens before `end` as run, and drop from the cache what stands after them, as
        the closing words of a probe; spans before `end` are watched no more."""
        self._cached = end
        rewind(self._cache, end)
        self._watched = [watched for watched in self._watched if watched.span.end > end]

    def _blocks(self, end: int) -> list[bytes]:
        """The names of the blocks that the context completes with its first `end` tokens and that
        have none yet, by which other contexts find them (prefix_sharing.py)."""
        return block_names(slot_of(self._cache), self.ids[:end], self._adapter)

    def _by_head(self, text: str, keys: Span) -> np.ndarray:
        """Attention of the queued tokens to each token of `keys`, by layer and head: float32
        [layers, heads, tokens of `keys`]. The passes are booked as a probe.

        Args:
            text: Not used: its tokens are queued.
            keys: The span that is attended to.
        """
        capture = HeadCapture((keys.start, keys.end))
        step = self._model.prefill_chunk
        with Transaction(self, "probe", requests=1) as passes:
            for start in range(self._cached, len(self.ids), step):
                capture.first = start
                passes.run(self.ids[start : start + step], 0, capture)
        return capture.result(self._model.layers).numpy()

    def _save(self) -> int:
        """How many tokens the model has run, to come back to by `_restore`."""
        return self._cached

    def _restore(self, state: int) -> None:
        """Cut the context and its cache to the first `state` tokens, and watch no span."""
        self._cached = state
        del self.ids[self._cached :]
        self._watched = []
        self._booked_end = 0
        rewind(self._cache, self._cached)

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_tokens: Sequence[int], after: str) -> Probe:
        """Probabilities that the next token is the first one of each label, after closing words
        that are read with what is queued.

        Args:
            labels: What the reply may be.
            first_tokens: The first token of each label.
            after: How the reply begins before the label.
        """
        if self._model.fixed_rows is not None:
            self.flush()
        logits = self._flush(1, 1, self._closing(after), first_tokens)
        assert logits is not None
        indices = torch.tensor(first_tokens, device=logits.device)
        probabilities = logits[-1].softmax(-1)[indices].tolist()
        best = int(logits[-1].argmax())
        likeliest = None
        if best in first_tokens:
            likeliest = labels[first_tokens.index(best)]
        return Probe.of(dict(zip(labels, probabilities, strict=True)), likeliest)

    @with_reply_cache
    def _score(self, text: str) -> list[float]:
        """Log-probability of each token of a text after the context, from passes in pieces that are
        rolled back."""
        ids = self._model.text.plain(text)
        if not ids or not self.ids:
            raise ValueError("score() needs a context and a text of at least one token")
        scores: list[float] = []
        step = self._model.prefill_chunk
        with (
            self.branch(),
            kept_tail(self._cache),
            Transaction(self, "score", requests=1) as passes,
        ):
            cached = self._cached
            # The last cached token is run again for its logits: that one position is booked, and
            # put back afterwards.
            rewind(self._cache, cached - 1)
            self._queue(ids)
            context = self.ids[cached - 1 : -1]
            for start in range(0, len(context), step):
                piece = context[start : start + step]
                logits = passes.run(piece, len(piece))
                assert logits is not None
                scores += _scores_of(logits, ids[start : start + len(piece)])
        return scores

    @with_reply_cache
    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Run the queued tokens, let a reasoning model think, write the answer and append it to the
        context. The thinking leaves the context again."""
        start = len(self.ids)
        thinks = not self._answering
        if thinks:
            self.ids += self._model.opens
        logits = self._flush(1, requests=1)
        sampler = Sampler(decoding.temperature, decoding.top_p, decoding.seed or 0)
        thinking = ""
        if thinks and logits is not None and self._model.thinking:
            logits, thinking = self._think(logits, sampler, self._model.thinking)
        answer_start = len(self.ids)
        spans = tuple((span.start, span.end) for span in watch)
        written = self._decode(logits, sampler, decoding, spans)
        if answer_start == start:
            return written
        # The thinking leaves the context; the answer, which attended to it, is read anew with what
        # follows.
        answer = self.ids[answer_start:]
        self._truncate(start)
        self.ids += answer
        return replace(written, span=Span(start, len(self.ids)), thinking=thinking)

    def _think(self, first: Tensor, sampler: Sampler, thinking: Thinking) -> tuple[Tensor, str]:
        """Write the thinking of a reply and append it to the context. Where it reaches its limit,
        or the model ends its reply inside it, the thinking is closed for the model.

        Args:
            first: The logits where the reply begins [1, vocab].
            sampler: Picks the tokens.
            thinking: Its markers and its limit.

        Returns:
            The logits of the answer's first token, and the thinking as text; (`first`, "") for a
            reply that begins with the answer.
        """
        model = self._model
        start = len(self.ids)
        with Transaction(self, "decode") as passes:
            state = self._write_thinking(passes, first, sampler, thinking)
            passes.cost.thinking = passes.cost.out
        if not state.is_opened:
            self._truncate(start)
            return first, ""
        logits = state.logits
        if not state.is_closed:
            self.ids += model.closes
            rows = self._flush(1)
            assert rows is not None
            logits = rows
        return logits, model.text.context(self.ids[start - len(model.opens) :])

    def _write_thinking(
        self, passes: Transaction, first: Tensor, sampler: Sampler, thinking: Thinking
    ) -> ThinkingState:
        """Append tokens of a thinking to the context, up to its end or limit. Also counts them in
        the cost of `passes`.

        Args:
            passes: Runs and books them.
            first: The logits where the reply begins [1, vocab].
            sampler: Picks the tokens.
            thinking: Its markers and its limit.

        Returns:
            How far it is written, with the logits of the next token.
        """
        model = self._model
        start = len(self.ids)
        cost = passes.cost
        state = ThinkingState(first, is_opened=bool(model.opens))
        limit = thinking.tokens - len(model.opens) - len(model.closes)
        while cost.out < limit:
            token = sampler.pick(state.logits[-1])
            answer_begins = state.is_closed and model.text.context([token]).strip()
            if token in model.stop_ids or answer_begins:
                break
            self.ids.append(token)
            cost.out += 1
            if not state.is_opened:
                opened = begins_thinking(model.text.context(self.ids[start:]), thinking)
                if opened is False:
                    break
                state.is_opened = bool(opened)
            elif not state.is_closed:
                recent_start = max(start, len(self.ids) - 4 * len(thinking.close) - 4)
                recent = model.text.context(self.ids[recent_start:])
                state.is_closed = thinking.close in recent
            rows = passes.run([token])
            assert rows is not None
            state.logits = rows
            self._cached += 1
        if not state.is_opened:
            cost.out = 0
        cost.unclosed = int(state.is_opened and not state.is_closed)
        return state

    def _decode(
        self,
        logits: Tensor | None,
        sampler: Sampler,
        decoding: Decoding,
        spans: tuple[tuple[int, int], ...],
    ) -> Written:
        """Write the answer, token by token; returns it with the attention to the watched spans.

        Args:
            logits: The logits of its first token [1, vocab]; None where nothing was run.
            sampler: Picks the tokens.
            decoding: How long it may be, and where it stops.
            spans: Ranges of the context whose attention is measured.
        """
        start = len(self.ids)
        capture = None
        if spans:
            capture = WriteCapture(start, spans, self._cache)
        with Transaction(self, "decode") as passes:
            state = Writing(
                ids=self.ids,
                cache=self._cache,
                cached=self._cached,
                sampler=sampler,
                decoding=decoding,
                stop_ids=self._model.stop_ids,
                text=self._text_of,
                cost=passes.cost,
                capture=capture,
            )
            if logits is not None and decoding.max_tokens:
                self._write_tokens(state, sampler.pick(logits[-1]))
            attention = None
            if capture:
                attention = capture.result()
            written = self._written(start, decoding.stop, state.finish, attention)
            passes.cost.endings = int(written.ending)
        return written

    def _write_tokens(self, state: Writing, first: int) -> None:
        """Write the reply after its first token, in passes that it shares with other contexts.

        Args:
            state: The reply; its tokens are appended to it.
            first: Its first token.
        """
        if not state.takes(first):
            return
        ask = ForwardRequest([first], self._cache, 1, state.capture, writing=state)
        try:
            self._model.forward(ask, self._adapter)
        finally:
            self._cached = state.cached

    def _text_of(self, ids: Sequence[int]) -> str:
        """The text of some tokens, control tokens left out."""
        return self._model.text.decode(ids).text

    def _write_plain(
        self, generate: Callable[[PlainGeneration], None], decoding: Decoding
    ) -> Written:
        """Let the method's own loop `generate` write the reply, and append it to the context.

        The cost of its passes is booked also where it fails.
        """
        # A plain pass has no KV cache of ours to start from.
        if self._cached:
            raise ValueError("write_plain() reads the whole context; a part of it was read before")
        self._model.remember_first_prompt(self._role, self.ids)
        start = len(self.ids)
        reply = PlainReply(self._model, self.ids, decoding)
        try:
            with timed() as took:
                self._model.run_plain(lambda: _generate(generate, reply), self._adapter)
            self.ids += reply.state.ids[start:]
            written = self._written(start, decoding.stop, reply.state.finish, None)
        except BaseException:
            self._book_plain(reply, took, endings=0)
            raise
        self._book_plain(reply, took, int(written.ending))
        return written

    def _book_plain(self, reply: PlainReply, took: Took, endings: int) -> None:
        """Book the passes of a plain reply; each has the share of the time that its tokens are.

        Args:
            reply: With its passes.
            took: The time of all passes.
            endings: 1 where markers were cut off the reply's end.
        """
        total = reply.tokens_run()
        for number, made in enumerate(reply.passes):
            self._book_plain_pass(made, took, made.new / total, requests=int(number == 0))
        if reply.decoding is not None:
            share = reply.decoding.new / total
            out = reply.state.cost.out
            self._book_plain_pass(reply.decoding, took, share, out=out, endings=endings)

    def _book_plain_pass(self, made: PlainPass, took: Took, share: float, **counts: int) -> None:
        """Book one pass of a plain reply.

        Args:
            made: The pass.
            took: The time of all passes.
            share: The pass's share of that time, 0 to 1.
            counts: Further fields of its Event.
        """
        self._book(
            made.kind,
            made.new,
            made.cached,
            logits=made.logits,
            pairs=made.pairs,
            ranking_pairs=made.ranking_pairs,
            seconds=took.seconds * share,
            queued=took.queued * share,
            **counts,
        )

    def close(self) -> None:
        """Free the context's keys and values; the pool keeps whole blocks of them for later
        contexts that begin alike, while there is room."""
        super().close()
        if self._cache.layers:
            self._model.pool.keep(slot_of(self._cache))
        self._cache = Cache(layers=[])


def _scores_of(logits: Tensor, ids: Sequence[int]) -> list[float]:
    """Log-probability of each of some tokens.

    Args:
        logits: The logits from which each token was to be picked [tokens, vocab].
        ids: The tokens.
    """
    target = torch.tensor(ids, device=logits.device)
    scores: list[float] = logits.log_softmax(-1).gather(1, target[:, None])[:, 0].tolist()
    return scores


def _generate(generate: Callable[[PlainGeneration], None], reply: PlainReply) -> None:
    """Call `generate`; every pass of the network is counted in `reply`."""
    with reply.counted():
        generate(reply)


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
