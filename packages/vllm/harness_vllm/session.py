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
from typing import Any

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
from harness_vllm.engine import Ask, Engine, Reply


def pairs_of(new: int, before: int) -> int:
    """The number of (query, key) pairs of `new` tokens after `before` others: (2, 3) -> 9."""
    return new * before + new * (new + 1) // 2


class VLLMSession(TokenContext):
    """One context; see harness.models for what each call means."""

    _model: VLLMModel

    def flush(self) -> None:
        """Record the cost of reading the tokens that are queued; the next request really reads
        them.
        """
        self._book_read(len(self.ids) - self._cached)

    def _save(self) -> int:
        """The length of the context that was read, for `_restore` to come back to."""
        return self._cached

    def _restore(self, state: int) -> None:
        """Cut the context back to the length that `_save` returned."""
        self._truncate(state)

    def _restore_reply(self, added: AddedContext) -> None:
        """Take a reply from the reply cache, and count its tokens as read.

        Args:
            added: What the reply added to the context.
        """
        super()._restore_reply(added)
        self._cached = self._booked_end

    @with_reply_cache
    def _probe(self, labels: Sequence[str], first_tokens: Sequence[int], after: str) -> Probe:
        """The probability of each label's first token after the context; records the cost.

        Args:
            labels: The labels.
            first_tokens: The first token of each.
            after: What the reply begins with, before the label.
        """
        closing = self._closing(after)
        self._check_window(len(closing) + 1)
        self._model.remember_first_prompt(self._role, self.ids)
        sampling = {"max_tokens": 1, "temperature": 0.0, "logprob_token_ids": list(first_tokens)}
        reply, took = self._complete([*self.ids, *closing], sampling)
        queued = len(self.ids) - self._cached
        reused = max(reply.cached - self._cached, 0)
        self._book_read(queued, reused=reused)
        self._book(
            "probe",
            len(closing),
            len(self.ids),
            logits=1,
            pairs=pairs_of(len(closing), len(self.ids)),
            requests=1,
            reused=max(reused - queued, 0),
            seconds=took.seconds,
            queued=took.queued,
        )
        probabilities = [math.exp(reply.logprobs[token].logprob) for token in first_tokens]
        likeliest = None
        if reply.ids[0] in first_tokens:
            likeliest = labels[first_tokens.index(reply.ids[0])]
        return Probe.of(dict(zip(labels, probabilities, strict=True)), likeliest)

    @with_reply_cache
    def _score(self, text: str) -> list[float]:
        """The log-probability of each token of a text after the context; records the cost.

        The engine reads the whole context for it. Raises ValueError for an empty text or context.
        """
        ids = self._model.text.plain(text)
        if not ids or not self.ids:
            raise ValueError("score() needs a context and a text of at least one token")
        self._check_window(len(ids) + 1)
        self.flush()
        before = len(self.ids)
        sampling = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        reply, took = self._complete([*self.ids, *ids], sampling)
        self._book(
            "score",
            len(ids),
            before,
            logits=len(ids),
            pairs=pairs_of(len(ids), before - 1),  # the last token before is run for its logits
            requests=1,
            seconds=took.seconds,
            queued=took.queued,
        )
        rows = reply.prompt_logprobs[before:]
        return [row[token].logprob for row, token in zip(rows, ids, strict=True)]

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
        thinks = not self._answering
        if thinks:
            self.ids += self._model.opens
        thinking = ""
        requests = 1
        if thinks and self._model.thinking:
            thinking = self._think(decoding, self._model.thinking)
            requests = 0  # it was counted with the thinking
        answer_start = len(self.ids)
        written = self._answer(decoding, requests)
        if answer_start == start:
            return written
        # The thinking leaves the context; the answer, which attended to it, is read anew with what
        # follows.
        answer = self.ids[answer_start:]
        self._truncate(start)
        self.ids += answer
        return replace(written, span=Span(start, len(self.ids)), thinking=thinking)

    def _answer(self, decoding: Decoding, requests: int) -> Written:
        """Write an answer after the context and append it to it; records the cost.

        Args:
            decoding: How tokens are drawn, how many, and what ends the answer.
            requests: How many requests its reading counts as: 0 where the thinking was counted
                as one.
        """
        limits = {"max_tokens": decoding.max_tokens, "stop": list(decoding.stop)}
        asked = self._ask(decoding, limits, requests)
        start = len(self.ids)
        self.ids += asked.tokens
        new = len(asked.tokens)
        if not asked.ended:  # the last token is read with what follows
            new = max(new - 1, 0)
        self._cached = start + new
        written = self._written(start, decoding.stop, asked.reply.finish)
        self._book(
            "decode",
            new,
            start,
            logits=new,
            pairs=pairs_of(new, start),
            out=len(asked.tokens),
            endings=int(written.ending),
            seconds=asked.took.seconds,
            queued=asked.took.queued,
        )
        return written

    def _ask(self, decoding: Decoding, limits: Mapping[str, object], requests: int) -> Asked:
        """Have the engine write tokens after the context, and record the cost of reading what is
        queued.

        The tokens are returned, not appended to the context.

        Args:
            decoding: How tokens are drawn.
            limits: Further fields of SamplingParams: most tokens, stop strings.
            requests: How many requests the reading counts as.
        """
        drawn = {
            "temperature": decoding.temperature,
            "top_p": decoding.top_p,
            "seed": decoding.seed or 0,
            "stop_token_ids": sorted(self._model.stop_ids),
        }
        reply, took = self._complete(self.ids, {**drawn, **limits})
        reused = max(reply.cached - self._cached, 0)
        queued = len(self.ids) - self._cached
        self._book_read(queued, requests, reused, logits=int(queued > 0))
        return Asked.of(reply, took, self._model.stop_ids)

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
        thought = Thought(thinking.tokens - len(model.opens) - len(model.closes), bool(model.opens))
        self._write_thinking(decoding, thinking, thought)
        count = len(self.ids) - start
        self._book(
            "decode",
            count,
            start,
            logits=count,
            pairs=pairs_of(count, start),
            out=count * thought.is_opened,
            thinking=count * thought.is_opened,
            unclosed=int(thought.is_opened and not thought.is_closed),
            seconds=thought.seconds,
            queued=thought.queued,
        )
        if not thought.is_opened:
            self._truncate(start)
            return ""
        if not thought.is_closed:
            self.ids += model.closes
        return model.text.context(self.ids[start - len(model.opens) :])

    def _write_thinking(self, decoding: Decoding, thinking: Thinking, thought: Thought) -> None:
        """Write a thinking up to its end or limit, and append it to the context.

        Token by token while it may be no thinking, and while white space follows it.

        Args:
            decoding: How tokens are drawn.
            thinking: The marks of the model's thinking.
            thought: What was written so far; changed.
        """
        text = self._model.text
        start = len(self.ids)
        while thought.room and not thought.is_opened:
            if not self._think_on(decoding, thought, tokens=1, stop=()):
                return
            opened = begins_thinking(text.context(self.ids[start:]), thinking)
            if opened is False:
                self._truncate(len(self.ids) - 1)  # nothing follows this token
                return
            thought.is_opened = bool(opened)
        thought.is_closed = thinking.close in text.context(self.ids[start:])
        if thought.room and not thought.is_closed:
            self._think_on(decoding, thought, tokens=thought.room, stop=[thinking.close])
            thought.is_closed = thinking.close in text.context(self.ids[start:])
        while thought.room and thought.is_closed:
            end = len(self.ids)
            self._think_on(decoding, thought, tokens=1, stop=())
            if text.context(self.ids[end:]).strip() or len(self.ids) == end:
                self._truncate(end)
                return

    def _think_on(
        self, decoding: Decoding, thought: Thought, tokens: int, stop: Sequence[str]
    ) -> bool:
        """Write the next tokens of a thinking, append them to the context, and add them to
        `thought`.

        Args:
            decoding: How tokens are drawn.
            thought: What was written so far; changed.
            tokens: The largest number of tokens.
            stop: Strings that end them, markers included.

        Returns:
            False where the reply ends.
        """
        limits = {"max_tokens": tokens, "stop": list(stop), "skip_special_tokens": False}
        asked = self._ask(decoding, limits, requests=int(not thought.requests))
        self.ids += asked.tokens
        self._cached = len(self.ids)
        thought.add(asked)
        return not asked.ended

    def _complete(self, ids: Sequence[int], sampling: Mapping[str, object]) -> tuple[Reply, Took]:
        """Send tokens to the engine; its reply, and the time that it took.

        Args:
            ids: The tokens of the whole context.
            sampling: Fields of SamplingParams.
        """
        with timed() as took:
            reply = self._model.engine.complete(Ask(ids, sampling))
        return reply, took

    def _book_read(self, new: int, requests: int = 0, reused: int = 0, logits: int = 0) -> None:
        """Record the cost of reading the next `new` tokens of the context, and count them as read.

        Args:
            new: The number of tokens.
            requests: How many requests to the model this is.
            reused: How many of the tokens the engine's prefix cache held.
            logits: 1 where a token is written after them.
        """
        if new or requests:
            self._book(
                "prefill",
                new,
                self._cached,
                logits=logits,
                pairs=pairs_of(new, self._cached),
                requests=requests,
                reused=min(reused, new),
            )
        self._cached += new


@dataclass(frozen=True)
class Asked:
    """Tokens that the engine wrote.

    Attributes:
        reply: The engine's reply.
        tokens: Its tokens, without one that ends a reply.
        ended: Whether there was such a token.
        took: The time of the request.
    """

    reply: Reply
    tokens: tuple[int, ...]
    ended: bool
    took: Took

    @classmethod
    def of(cls, reply: Reply, took: Took, stop_ids: frozenset[int]) -> Asked:
        """Split a reply into its tokens and the token that ended it, if there is one.

        Args:
            reply: The engine's.
            took: The time of the request.
            stop_ids: Tokens that end a reply.
        """
        ended = bool(reply.ids) and reply.ids[-1] in stop_ids
        tokens = reply.ids
        if ended:
            tokens = reply.ids[:-1]
        return cls(reply, tokens, ended, took)


@dataclass
class Thought:
    """A thinking while it is written.

    Attributes:
        room: How many tokens it may still have.
        is_opened: Whether its opening marker was written.
        is_closed: Whether its closing marker was written.
        requests: The number of requests to the engine.
        seconds: The time that they took.
        queued: The time that they waited.
    """

    room: int
    is_opened: bool
    is_closed: bool = False
    requests: int = 0
    seconds: float = 0.0
    queued: float = 0.0

    def add(self, asked: Asked) -> None:
        """Count a request: its time, and the tokens that it wrote, which are taken off `room`."""
        self.room -= len(asked.tokens)
        self.requests += 1
        self.seconds += asked.took.seconds
        self.queued += asked.took.queued


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
        self._take_facts(facts)
        self.engine = engine
        sizes = AutoConfig.from_pretrained(folder, trust_remote_code=config.trust_remote_code)
        self.shape = shape_of(sizes, head=True)
        self._load_tokenizer(config, str(folder), NetworkEnds.of(sizes, _generation(folder)))

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


def _generation(folder: Path) -> Any:
    """The generation config in a model's folder; None where it has none."""
    if not (folder / "generation_config.json").exists():
        return None
    return GenerationConfig.from_pretrained(folder)
