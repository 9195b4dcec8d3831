"""A session with a model that vLLM runs: every request has the whole context, of which the engine's
prefix cache holds what was sent before.

Costs are those of the transformers session (harness/llm/hf_session.py): a token of a context is
counted once. `reused` says how many of the counted ones another context had put into the cache.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from transformers import AutoConfig, GenerationConfig

from harness.config.schema import ModelConfig, Thinking
from harness.cost.flops import ModelShape
from harness.cost.meter import Meter
from harness.cost.shapes import shape_of
from harness.llm.backend import ModelFacts
from harness.llm.cached_replies import AddedContext, with_reply_cache
from harness.llm.context import TokenContext
from harness.llm.endings import begins_thinking
from harness.llm.tokenized_model import NetworkEnds, TokenizedModel
from harness.models import Decoding, Probe, Span, Written
from harness.parallel.scheduler import Took, timed
from harness_vllm.engine import Engine, EngineReply, EngineRequest


def count_pairs(n_new: int, n_before: int) -> int:
    """The number of (query, key) pairs of `n_new` tokens after `n_before` others: each attends to
    all before it and to itself. (2, 3) -> 9."""
    return n_new * n_before + n_new * (n_new + 1) // 2


class VLLMSession(TokenContext):
    """One context; see harness.models for what each call means."""

    _model: VLLMModel

    def flush(self) -> None:
        """Record the cost of reading the tokens that are queued; the next request really reads
        them.
        """
        self._book_read(len(self.ids) - self._n_cached)

    def _save(self) -> int:
        """The length of the context that was read, for `_restore` to come back to."""
        return self._n_cached

    def _restore(self, state: int) -> None:
        """Cut the context back to the length that `_save` returned."""
        self._truncate(state)

    def _restore_reply(self, added: AddedContext) -> None:
        """Take a reply from the reply cache, and count its tokens as read.

        Args:
            added: What the reply added to the context.
        """
        super()._restore_reply(added)
        self._n_cached = self._booked_end

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_ids: Sequence[int], after: str) -> Probe:
        """The probability of each label's first token after the context, and which label the
        likeliest token of all begins (None for none). Records the cost: a read of the tokens that
        were queued, and the probe.

        Args:
            labels: The labels.
            first_ids: The id of the first token of each.
            after: What the reply begins with, before the label.
        """
        closing_ids = self._closing_ids(after)
        self._check_window(len(closing_ids) + 1)
        self._model.remember_first_prompt(self._role, self.ids)
        sampling = {"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": list(first_ids)}
        completed = self._complete([*self.ids, *closing_ids], sampling)
        n_queued = len(self.ids) - self._n_cached  # tokens of the context not counted as read yet
        # Tokens beyond those that the engine's prefix cache held.
        n_reused = max(completed.reply.n_cached - self._n_cached, 0)
        self._book_read(n_queued, n_reused=n_reused)
        self._book(
            "probe",
            len(closing_ids),
            len(self.ids),
            logits=1,
            pairs=count_pairs(len(closing_ids), len(self.ids)),
            requests=1,
            reused=max(n_reused - n_queued, 0),
            seconds=completed.took.seconds,
            queued=completed.took.queued,
        )
        logprobs = completed.reply.logprobs
        probabilities = [math.exp(logprobs[first_id].logprob) for first_id in first_ids]
        likeliest_id = completed.reply.ids[0]
        likeliest_label = None
        if likeliest_id in first_ids:
            likeliest_label = labels[first_ids.index(likeliest_id)]
        return Probe.of(dict(zip(labels, probabilities, strict=True)), likeliest_label)

    @with_reply_cache
    def _score(self, text: str) -> list[float]:
        """The log-probability of each token of a text after the context; records the cost, first
        that of queued tokens. The text does not stay in the context.

        The engine reads the whole context for it. Raises ValueError for an empty text or context.
        """
        ids = self._model.text.encode_data(text)
        if not ids or not self.ids:
            raise ValueError("score() needs a context and a text of at least one token")
        self._check_window(len(ids) + 1)
        self.flush()
        n_before = len(self.ids)
        sampling = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        completed = self._complete([*self.ids, *ids], sampling)
        self._book(
            "score",
            len(ids),
            n_before,
            logits=len(ids),
            # Read are the last token of the context, for its logits, and the text but its last one.
            pairs=count_pairs(len(ids), n_before - 1),
            requests=1,
            seconds=completed.took.seconds,
            queued=completed.took.queued,
        )
        logprobs_of_text = completed.reply.prompt_logprobs[n_before:]
        return [
            logprobs[token_id].logprob
            for logprobs, token_id in zip(logprobs_of_text, ids, strict=True)
        ]

    @with_reply_cache
    def _write(self, decoding: Decoding, watch: Sequence[Span]) -> Written:
        """Write an answer after the context; a reasoning model thinks first. Records the cost.

        The thinking does not stay in the context, the answer does.

        Args:
            decoding: How tokens are drawn, how many, and what ends the answer.
            watch: Not used, as vLLM gives no attention.
        """
        self._model.remember_first_prompt(self._role, self.ids)
        start = len(self.ids)
        may_think = not self._is_past_thinking
        if may_think:
            self.ids += self._model.open_thinking_ids  # () where the model writes them itself
        thinking_text = ""
        n_requests = 1
        if may_think and self._model.thinking:
            thinking_text = self._think(decoding, self._model.thinking)
            n_requests = 0  # it was counted with the thinking
        answer_start = len(self.ids)
        written = self._write_answer(decoding, n_requests)
        if answer_start == start:  # there is no thinking, nor an opening of one
            return written
        # The thinking leaves the context; the answer, which attended to it, is read anew with what
        # follows.
        answer_ids = self.ids[answer_start:]
        self._truncate(start)
        self.ids += answer_ids
        return replace(written, span=Span(start, len(self.ids)), thinking=thinking_text)

    def _write_answer(self, decoding: Decoding, n_requests: int) -> Written:
        """Write an answer after the context and append it to it; records the cost.

        Args:
            decoding: How tokens are drawn, how many, and what ends the answer.
            n_requests: How many requests its reading counts as: 0 where the thinking was counted
                as one.
        """
        limits = {"max_tokens": decoding.max_tokens, "stop": list(decoding.stop)}
        new_tokens = self._generate(decoding, limits, n_requests)
        start = len(self.ids)
        self.ids += new_tokens.ids
        n_read = len(new_tokens.ids)
        if not new_tokens.is_ended:  # the last token is read with what follows
            n_read = max(n_read - 1, 0)
        self._n_cached = start + n_read
        written = self._end_reply(start, decoding.stop, new_tokens.finish)
        self._book(
            "decode",
            n_read,
            start,
            logits=n_read,
            pairs=count_pairs(n_read, start),
            out=len(new_tokens.ids),
            endings=int(written.ending),
            seconds=new_tokens.took.seconds,
            queued=new_tokens.took.queued,
        )
        return written

    def _generate(
        self, decoding: Decoding, limits: Mapping[str, object], n_requests: int
    ) -> NewTokens:
        """Have the engine write tokens after the context, and record the cost of reading what is
        queued.

        The tokens are returned, not appended to the context.

        Args:
            decoding: How tokens are drawn.
            limits: Further fields of SamplingParams: most tokens, stop strings.
            n_requests: How many requests the reading counts as.
        """
        drawing = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "seed": decoding.seed or 0,
            "stop_token_ids": sorted(self._model.stop_ids),
        }
        completed = self._complete(self.ids, {**drawing, **limits})
        n_queued = len(self.ids) - self._n_cached  # tokens of the context not counted as read yet
        n_reused = max(completed.reply.n_cached - self._n_cached, 0)
        self._book_read(
            n_queued, n_requests=n_requests, n_reused=n_reused, n_logits=int(n_queued > 0)
        )
        return NewTokens.of_completed(completed, self._model.stop_ids)

    def _think(self, decoding: Decoding, thinking: Thinking) -> str:
        """Write the thinking of a reply after the context; records the cost.

        A thinking that reaches its limit, or ends the reply, is closed with the model's marker.

        Args:
            decoding: How tokens are drawn.
            thinking: The marks of the model's thinking, and its limit in tokens.

        Returns:
            The text of the thinking; "" for a reply that begins with the answer, which is then
            taken off the context again.
        """
        model = self._model
        start = len(self.ids)
        marker_tokens = len(model.open_thinking_ids) + len(model.close_thinking_ids)
        state = ThinkingState(
            tokens_left=thinking.tokens - marker_tokens, is_opened=bool(model.open_thinking_ids)
        )
        self._write_thinking(decoding, thinking, state)
        n_written = len(self.ids) - start
        n_thinking = 0
        if state.is_opened:
            n_thinking = n_written
        self._book(
            "decode",
            n_written,
            start,
            logits=n_written,
            pairs=count_pairs(n_written, start),
            out=n_thinking,
            thinking=n_thinking,
            unclosed=int(state.is_opened and not state.is_closed),
            seconds=state.seconds,
            queued=state.queued_seconds,
        )
        if not state.is_opened:
            self._truncate(start)
            return ""
        if not state.is_closed:
            self.ids += model.close_thinking_ids
        opening_start = start - len(model.open_thinking_ids)
        return model.text.decode_context(self.ids[opening_start:])

    def _write_thinking(self, decoding: Decoding, thinking: Thinking, state: ThinkingState) -> None:
        """Write a thinking up to its end or limit, and append it to the context, with the white
        space that follows it. Nothing but the opening is written where the reply turns out to be no
        thinking.

        Args:
            decoding: How tokens are drawn.
            thinking: The markers of the model's thinking.
            state: How far it is written; changed.
        """
        text = self._model.text
        start = len(self.ids)
        may_go_on = self._write_thinking_opening(decoding, thinking, state)
        if not may_go_on:
            return
        state.is_closed = thinking.close in text.decode_context(self.ids[start:])
        if state.tokens_left and not state.is_closed:
            self._continue_thinking(decoding, state, state.tokens_left, stop=[thinking.close])
            state.is_closed = thinking.close in text.decode_context(self.ids[start:])
        if state.is_closed:
            self._write_space_after_thinking(decoding, state)

    def _write_thinking_opening(
        self, decoding: Decoding, thinking: Thinking, state: ThinkingState
    ) -> bool:
        """Write token by token until the text is the opening marker, cannot become it any more, or
        the limit is reached; append it to the context, and set `state.is_opened`.

        Args:
            decoding: How tokens are drawn.
            thinking: The markers of the model's thinking.
            state: How far it is written; changed.

        Returns:
            False where the reply has ended or is no thinking.
        """
        start = len(self.ids)
        while state.tokens_left and not state.is_opened:
            goes_on = self._continue_thinking(decoding, state, max_tokens=1, stop=())
            if not goes_on:
                return False
            # True, False, or None while the text may still become the opening marker.
            opened = begins_thinking(self._model.text.decode_context(self.ids[start:]), thinking)
            if opened is False:
                self._truncate(len(self.ids) - 1)  # nothing was run after this token
                return False
            state.is_opened = bool(opened)
        return True

    def _write_space_after_thinking(self, decoding: Decoding, state: ThinkingState) -> None:
        """Write token by token while only white space comes, up to the limit, and append it to the
        context; the first token of the answer is taken off again.

        Args:
            decoding: How tokens are drawn.
            state: How far the thinking is written; changed.
        """
        while state.tokens_left:
            end = len(self.ids)
            self._continue_thinking(decoding, state, max_tokens=1, stop=())
            answer_begins = bool(self._model.text.decode_context(self.ids[end:]).strip())
            is_ended = len(self.ids) == end
            if answer_begins or is_ended:
                self._truncate(end)
                return

    def _continue_thinking(
        self, decoding: Decoding, state: ThinkingState, max_tokens: int, stop: Sequence[str]
    ) -> bool:
        """Write the next tokens of a thinking, append them to the context, and count them in
        `state`.

        Args:
            decoding: How tokens are drawn.
            state: How far it is written; changed.
            max_tokens: The largest number of tokens.
            stop: Strings that end them, markers included.

        Returns:
            False where the reply ends.
        """
        limits = {"max_tokens": max_tokens, "stop": list(stop), "skip_special_tokens": False}
        is_first_request = state.n_requests == 0
        new_tokens = self._generate(decoding, limits, n_requests=int(is_first_request))
        self.ids += new_tokens.ids
        self._n_cached = len(self.ids)
        state.add(new_tokens)
        return not new_tokens.is_ended

    def _complete(self, ids: Sequence[int], sampling: Mapping[str, object]) -> Completed:
        """Send tokens to the engine, and wait for its reply.

        Args:
            ids: The token ids of the whole context.
            sampling: Fields of SamplingParams.
        """
        with timed() as took:
            reply = self._model.engine.complete(EngineRequest(ids, sampling))
        return Completed(reply, took)

    def _book_read(
        self, n_new: int, n_requests: int = 0, n_reused: int = 0, n_logits: int = 0
    ) -> None:
        """Record the cost of reading the next `n_new` tokens of the context, and count them as
        read.

        Args:
            n_new: The number of tokens.
            n_requests: How many requests to the model this is.
            n_reused: How many of the tokens the engine's prefix cache held.
            n_logits: 1 where a token is written after them.
        """
        if n_new or n_requests:
            self._book(
                "prefill",
                n_new,
                self._n_cached,
                logits=n_logits,
                pairs=count_pairs(n_new, self._n_cached),
                requests=n_requests,
                reused=min(n_reused, n_new),
            )
        self._n_cached += n_new


class Completed(NamedTuple):
    """A request that the engine has answered.

    Attributes:
        reply: The engine's reply.
        took: The time of the request.
    """

    reply: EngineReply
    took: Took


@dataclass(frozen=True)
class NewTokens:
    """Tokens that the engine wrote.

    Attributes:
        ids: Their ids, without one that ends a reply.
        is_ended: Whether there was such a token.
        finish: Why the engine stopped: "stop" or "length".
        took: The time of the request.
    """

    ids: tuple[int, ...]
    is_ended: bool
    finish: str
    took: Took

    @classmethod
    def of_completed(cls, completed: Completed, stop_ids: frozenset[int]) -> NewTokens:
        """Split a reply into its tokens and the token that ended it, if there is one.

        Args:
            completed: The request with the engine's reply.
            stop_ids: Ids of tokens that end a reply.
        """
        ids = completed.reply.ids
        is_ended = bool(ids) and ids[-1] in stop_ids
        if is_ended:
            ids = ids[:-1]
        return cls(ids, is_ended, completed.reply.finish, completed.took)


@dataclass
class ThinkingState:
    """A thinking while it is written.

    Attributes:
        tokens_left: How many tokens it may still have.
        is_opened: Whether its opening marker was written.
        is_closed: Whether its closing marker was written.
        n_requests: The number of requests to the engine.
        seconds: The time that they took.
        queued_seconds: The time that they waited.
    """

    tokens_left: int
    is_opened: bool
    is_closed: bool = False
    n_requests: int = 0
    seconds: float = 0.0
    queued_seconds: float = 0.0

    def add(self, new_tokens: NewTokens) -> None:
        """Count a request: its time, and the tokens that it wrote, which are taken off
        `tokens_left`."""
        self.tokens_left -= len(new_tokens.ids)
        self.n_requests += 1
        self.seconds += new_tokens.took.seconds
        self.queued_seconds += new_tokens.took.queued


class VLLMModel(TokenizedModel):
    """A model that vLLM runs."""

    shape: ModelShape

    def __init__(
        self, config: ModelConfig, facts: ModelFacts, folder: Path, engine: Engine
    ) -> None:
        """Load the model's tokenizer and read its sizes; the engine runs already.

        Args:
            config: The model's settings.
            facts: What is known of the model.
            folder: The folder with its files.
            engine: The engine that runs it.

        Raises:
            CannotRun: Its tokenizer or chat template cannot be used.
        """
        self._set_facts(facts)
        self.engine = engine
        network_config = AutoConfig.from_pretrained(
            folder, trust_remote_code=config.trust_remote_code
        )
        self.shape = shape_of(network_config, head=True)
        ends = NetworkEnds.from_configs(network_config, _read_generation_config(folder))
        self._load_tokenizer(config, str(folder), ends)

    def session(
        self, meter: Meter, role: str = "reader", adapter: str | None = None
    ) -> VLLMSession:
        """Open an empty context on this model.

        Args:
            meter: Counts what its requests cost.
            role: The role under which they count.
            adapter: The name of an adapter; None for none.
        """
        return VLLMSession(self, meter, role, adapter)


def _read_generation_config(folder: Path) -> Any:
    """The generation config in a model's folder; None where it has none."""
    if not (folder / "generation_config.json").exists():
        return None
    return GenerationConfig.from_pretrained(folder)
