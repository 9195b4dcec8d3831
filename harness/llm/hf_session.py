"""The transformers session: what is fed is queued, and runs in one forward pass when something must
be known.

    queue ──flush──► cache (keys, values) ──score──► logits, then rewound
      └──probe───┘                          └─write──► one token at a time

A probe's closing words are read in the pass of what is queued and booked apart; deterministic: in a
pass behind it.

Every token of the context goes through the model once; `probe` and `score` are rewound by moving
the cache's end mark.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers.cache_utils import Cache

from harness.config.schema import Thinking
from harness.cost.flops import Kind
from harness.cost.meter import Meter
from harness.llm.batched_forward import Ask
from harness.llm.capture import FeedCapture, HeadCapture, WriteCapture
from harness.llm.context import Context
from harness.llm.endings import begins_thinking, reply_end
from harness.llm.hf_model import LoadedModel
from harness.llm.kept_replies import with_reply_cache
from harness.llm.kv import kept_tail, rewind, slot_of
from harness.llm.plain import PlainReply
from harness.llm.prefix_sharing import block_names
from harness.llm.sampling import Sampler
from harness.llm.writing import PassCost, Writing
from harness.models import Decoding, PlainGeneration, Probe, Span, Written
from harness.parallel.scheduler import Took, timed


class HFSession(Context):
    """One context on a transformers model; see harness.models for what each call means."""

    def __init__(
        self, model: LoadedModel, meter: Meter, role: str, adapter: str | None = None
    ) -> None:
        super().__init__(model, meter, role, adapter)
        self._cache = model.pool.cache()
        self._watched: list[tuple[Span, tuple[tuple[int, int], ...]]] = []

    def _watch(self, span: Span, text: str, watch: Sequence[Span]) -> Span:
        """Return `span`, whose attention to `watch` the next pass measures."""
        columns = tuple((w.start, w.end) for w in watch)
        if any(a >= b for a, b in columns) or any(b > span.start for _, b in columns):
            raise ValueError(
                "a watched span must be non-empty and stand before the text that is fed"
            )
        if len(span):
            span.session = self
            self._watched.append((span, columns))
        else:
            span._attention = (0.0,) * len(watch)
        return span

    def _forward(
        self, cost: PassCost, ids: Sequence[int], logits: int = 1, **more: Any
    ) -> Tensor | None:
        """Run `ids` behind what is cached, adding to `cost`; returns the last `logits` rows
        [logits, vocab], or None.

        more: further fields of Ask. Raises ModelOutputError for logits that are NaN or infinite.
        """
        out = self._model.forward(Ask(ids, self._cache, logits, **more), self._adapter)
        tokens_before = self._cache.get_seq_length() - len(ids)
        cost.new += len(ids)
        cost.logits += logits
        # (query, key) pairs: each new token attends to all before it and to itself.
        pairs = len(ids) * tokens_before + len(ids) * (len(ids) + 1) // 2
        cost.pairs += pairs
        # A HeadCapture multiplies queries and keys a second time.
        cost.ranking_pairs += pairs * isinstance(more.get("capture"), HeadCapture)
        if out is not None and not bool(out.amax(-1).isfinite().all()):
            raise self._model.bad_logits(tokens_before + len(ids))
        return out

    @contextlib.contextmanager
    def _booked(self, kind: Kind, requests: int = 0, closing: int = 0) -> Iterator[PassCost]:
        """Context manager: give a PassCost, and book it as one event, even after an error, which is
        rolled back.

        closing: of a probe, so many tokens behind all others; they are an event of their own, with
        its share of time.
        """
        cost, cached, took = PassCost(), self._cache.get_seq_length(), Took()
        try:
            with timed() as took:
                yield cost
        except BaseException:  # an interrupt, too: pieces may have been read or copied
            rewind(self._cache, self._cached)
            raise
        finally:
            if closing and cost.logits:  # the last pass, which holds them, was run
                before, share = cached + cost.new - closing, closing / cost.new
                probe = PassCost(closing, 1, closing * before + closing * (closing + 1) // 2)
                queued = PassCost(cost.new - closing, 0, cost.pairs - probe.pairs)
                if queued.new:
                    times = {k: v * (1 - share) for k, v in vars(took).items()}
                    self._book(kind, cached=cached, **times, **vars(queued))
                kind, cost, cached, took = (
                    "probe",
                    probe,
                    before,
                    Took(took.seconds * share, took.queued * share),
                )
            self._book(kind, cached=cached, requests=requests, **vars(took), **vars(cost))

    def flush(self) -> None:
        """Run what is queued, in pieces of the model's prefill_chunk tokens."""
        self._flush(0)

    def _catch_up(self) -> None:
        """Run the tokens that replies from the cache have booked (`_booked_end`), without booking
        them again."""
        end, self._booked_end = self._booked_end, 0
        if end > self._cached:
            later = [watched for watched in self._watched if watched[0].end > end]
            kept = self.ids, self._meter
            self._watched = [watched for watched in self._watched if watched not in later]
            self.ids, self._meter = self.ids[:end], Meter()
            try:
                self._flush(0)
            finally:
                (self.ids, self._meter), self._watched = kept, later

    def _flush(
        self,
        logits: int,
        requests: int = 0,
        closing: Sequence[int] = (),
        labels: Sequence[int] = (),
    ) -> Tensor | None:
        """Run what is queued, booked with `requests`; returns the last `logits` rows, None for 0 or
        nothing queued.

        closing: a probe's last tokens, which leave the context again; labels: as of Ask.
        """
        self._catch_up()
        start, rows, step, ids = (
            self._cached,
            None,
            self._model.prefill_chunk,
            [*self.ids, *closing],
        )
        if start == len(ids):
            return None
        self._model.remember_first_prompt(self._role, self.ids)
        capture = FeedCapture(start, [((s.start, s.end), spans) for s, spans in self._watched])
        with self._booked("prefill", requests, len(closing)) as cost:
            for capture.first in range(start, len(ids), step):
                end = capture.first + step
                options: dict[str, Any] = {
                    "capture": capture
                }  # what is watched cannot be copied from another context
                if not self._watched:
                    options = {"blocks": self._blocks(end)}
                part = ids[capture.first : end]
                rows = self._forward(
                    cost, part, logits * (end >= len(ids)), labels=labels, **options
                )
        self._cached = len(self.ids)
        rewind(self._cache, self._cached)
        if self._watched:
            for (span, _), values in zip(
                self._watched, capture.results(self._model.layers), strict=True
            ):
                span._attention = values
            self._watched = []
        return rows

    def _blocks(self, end: int) -> list[bytes]:
        """Names of blocks that tokens up to `end` complete (prefix_sharing.py)."""
        return block_names(slot_of(self._cache), self.ids[:end], self._adapter)

    def _by_head(self, text: str, keys: Span) -> np.ndarray:
        """As in Session: float32 [layers, heads, tokens of `keys`], from passes that are booked as
        a probe."""
        capture, step = HeadCapture((keys.start, keys.end)), self._model.prefill_chunk
        with self._booked("probe", requests=1) as cost:
            for capture.first in range(self._cached, len(self.ids), step):
                self._forward(
                    cost, self.ids[capture.first : capture.first + step], 0, capture=capture
                )
        return capture.result(self._model.layers).numpy()

    def _save(self) -> int:
        return self._cached

    def _restore(self, state: int) -> None:
        self._cached = state
        del self.ids[self._cached :]
        self._watched, self._booked_end = [], 0
        rewind(self._cache, self._cached)

    def _first_token(self, label: str) -> int | None:
        return next(iter(self._model.text.plain(label)), None)

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_tokens: Sequence[int], after: str) -> Probe:
        """Probabilities of the labels' first tokens, behind closing words that are read with what
        is queued."""
        if self._model.fixed_rows is not None:
            self.flush()
        logits = self._flush(1, 1, self._closing(after), first_tokens)
        assert logits is not None
        mass = logits[-1].softmax(-1)[torch.tensor(first_tokens, device=logits.device)].tolist()
        best = int(logits[-1].argmax())
        likeliest = labels[first_tokens.index(best)] if best in first_tokens else None
        return Probe.of(dict(zip(labels, mass, strict=True)), likeliest)

    @with_reply_cache
    def _score(self, text: str) -> list[float]:
        """Log-probability of each token of `text`, from passes in pieces that are rolled back."""
        ids = self._model.text.plain(text)
        if not ids or not self.ids:
            raise ValueError("score() needs a context and a text of at least one token")
        scores: list[float] = []
        with self.branch(), kept_tail(self._cache), self._booked("score", requests=1) as cost:
            cached = self._cached
            # The last cached token is run again for its logits: that one position is booked, and
            # put back afterwards.
            rewind(self._cache, cached - 1)
            self._queue(ids)
            whole = self.ids[cached - 1 : -1]
            for i in range(0, len(whole), self._model.prefill_chunk):
                piece = whole[i : i + self._model.prefill_chunk]
                logits = self._forward(cost, piece, len(piece))
                assert logits is not None
                target = torch.tensor(ids[i : i + len(piece)], device=logits.device)
                scores += logits.log_softmax(-1).gather(1, target[:, None])[:, 0].tolist()
        return scores

    @with_reply_cache
    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Run what is queued, let a reasoning model think, and write the answer."""
        start, thinks = len(self.ids), not self._answering
        if thinks:
            self.ids += self._model.opens
        logits = self._flush(1, requests=1)
        sampler, thinking = Sampler(decoding.temperature, decoding.top_p, decoding.seed or 0), ""
        if thinks and logits is not None and self._model.thinking:
            logits, thinking = self._think(logits, sampler, self._model.thinking)
        answer = len(self.ids)
        written = self._decode(logits, sampler, decoding, tuple((w.start, w.end) for w in watch))
        if answer == start:
            return written
        # The thinking leaves the context; the answer, which attended to it, is read anew with what
        # follows.
        kept = self.ids[answer:]
        self._truncate(start)
        self.ids += kept
        return replace(written, span=Span(start, len(self.ids)), thinking=thinking)

    def _truncate(self, length: int) -> None:
        """Remove all but the first `length` tokens from the context."""
        del self.ids[length:]
        self._cached = min(self._cached, length)
        rewind(self._cache, self._cached)

    def _think(self, first: Tensor, sampler: Sampler, thinking: Thinking) -> tuple[Tensor, str]:
        """Write the thinking of a reply. Returns the logits of the answer's first token, and the
        thinking as text.

        first: the logits where the reply begins; returned with "" for a reply that begins with the
        answer. A thinking that reaches its limit, or ends the reply, is closed for the model.
        """
        model, start, logits = self._model, len(self.ids), first
        opened: bool | None = True if model.opens else None
        closed = False
        with self._booked("decode") as cost:
            while cost.out < thinking.tokens - len(model.opens) - len(model.closes):
                token = sampler.pick(logits[-1])
                if token in model.stop_ids or (closed and model.text.context([token]).strip()):
                    break
                self.ids.append(token)
                cost.out += 1
                if not opened:
                    opened = begins_thinking(model.text.context(self.ids[start:]), thinking)
                    if opened is False:
                        break
                elif not closed:
                    recent = self.ids[max(start, len(self.ids) - 4 * len(thinking.close) - 4) :]
                    closed = thinking.close in model.text.context(recent)
                rows = self._forward(cost, [token])
                assert rows is not None
                logits, self._cached = rows, self._cached + 1
            cost.thinking = cost.out = cost.out if opened else 0
            cost.unclosed = int(bool(opened) and not closed)
        if not opened:
            self._truncate(start)
            return first, ""
        if not closed:
            self.ids += model.closes
            rows = self._flush(1)
            assert rows is not None
            logits = rows
        return logits, model.text.context(self.ids[start - len(model.opens) :])

    def _decode(
        self,
        logits: Tensor | None,
        sampler: Sampler,
        decoding: Decoding,
        spans: tuple[tuple[int, int], ...],
    ) -> Written:
        """Write the answer, token by token. logits: of its first token; spans: ranges whose
        attention is measured."""
        start = len(self.ids)
        capture = WriteCapture(start, spans, self._cache) if spans else None
        with self._booked("decode") as cost:
            text = self._model.text
            state = Writing(
                self.ids,
                self._cache,
                self._cached,
                sampler,
                decoding,
                self._model.stop_ids,
                lambda ids: text.decode(ids)[0],
                cost,
                capture,
            )
            if (
                logits is not None
                and decoding.max_tokens
                and state.takes(token := sampler.pick(logits[-1]))
            ):
                try:
                    self._model.forward(
                        Ask([token], self._cache, 1, capture, writing=state), self._adapter
                    )
                finally:
                    self._cached = state.cached
            attention = capture.result() if capture else None
            written = self._written(start, decoding.stop, state.finish, attention)
            cost.endings = int(written.ending)
        return written

    def _write_plain(
        self, generate: Callable[[PlainGeneration], None], decoding: Decoding
    ) -> Written:
        """Let `generate` write the reply on the network, and book its passes, even after an
        error."""
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
        """Book the passes of a plain reply; each has the share of the time that its tokens are."""
        cost = reply.state.cost
        passes = [*reply.passes, reply.decoding] if reply.decoding else reply.passes
        total = sum(made.new for made in passes) or 1
        for number, made in enumerate(passes):
            wrote = made is reply.decoding
            share = made.new / total
            self._book(
                "decode" if wrote else "prefill",
                made.new,
                made.cached,
                logits=made.logits,
                pairs=made.pairs,
                ranking_pairs=made.ranking_pairs,
                requests=int(number == 0),
                out=cost.out * wrote,
                endings=endings * wrote,
                seconds=took.seconds * share,
                queued=took.queued * share,
            )

    def _written(
        self, start: int, stop: Sequence[str], finish: str, attention: np.ndarray | None
    ) -> Written:
        """The reply from token `start` on, up to a stop string; tokens behind that are removed from
        the context."""
        ids = self.ids[start:]
        text, offsets = self._model.text.decode(ids)
        cut, ending = reply_end(text, stop, self._model.endings)
        kept = len(ids)
        while kept and offsets[kept - 1][0] >= cut and cut < len(text):
            kept -= 1
        if kept < len(ids):
            self._truncate(start + kept)
        return Written(
            text=text[:cut],
            span=Span(start, start + kept),
            finish=finish,
            offsets=tuple(offsets[:kept]),
            attention=attention[:kept] if attention is not None else None,
            ending=ending,
        )

    def close(self) -> None:
        """Free keys and values, but for the blocks that the pool keeps for later contexts."""
        super().close()
        if self._cache.layers:
            self._model.pool.keep(slot_of(self._cache))
        self._cache = Cache(layers=[])


def _generate(generate: Callable[[PlainGeneration], None], reply: PlainReply) -> None:
    """Call `generate`; every pass of the network is counted in `reply`."""
    with reply.counted():
        generate(reply)


class HFModel(LoadedModel):
    """A loaded model that opens sessions."""

    def session(self, meter: Meter, role: str = "reader", adapter: str | None = None) -> HFSession:
        """Open an empty context."""
        return HFSession(self, meter, role, adapter)
