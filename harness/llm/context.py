"""The context of a session with a model on this machine, as token ids: turns of the template,
texts, kept replies.

hf_context.py adds the cache of a network of transformers.
"""

import hashlib
import json
from collections.abc import Sequence

import numpy as np

from harness.cost.meter import Meter
from harness.llm.cached_replies import AddedContext
from harness.llm.endings import reply_end
from harness.llm.template import turn_frame
from harness.llm.tokenized_model import TokenizedModel
from harness.models import Session, Span, Written


class TokenContext(Session):
    """A context as token ids: all that was fed or written, of which the model has run the first
    `_n_cached`."""

    def __init__(self, model: TokenizedModel, meter: Meter, role: str, adapter: str | None) -> None:
        """Begin an empty context.

        Args:
            model: The model with its tokenizer.
            meter: Counts the costs.
            role: The role that they are counted under.
            adapter: The adapter that is switched on; None for none.
        """
        super().__init__(model.name, model.window, meter, role, model.shape)
        self._model, self._adapter = model, adapter
        self.ids: list[int] = []
        self._n_cached = 0  # how many tokens the model has run
        # Tokens before this one were booked with replies from the cache: running them is not booked
        # again.
        self._booked_end = 0
        self._is_past_thinking = False  # whether the reply that is open is past its thinking

    def _queue(self, ids: Sequence[int]) -> Span:
        """Append ids to the context and return their span; the model runs them with the next pass.
        Raises WindowExceeded."""
        self._check_window(len(ids))
        span = Span(len(self.ids), len(self.ids) + len(ids))
        self.ids.extend(ids)
        return span

    def _open(self, turn: str) -> None:
        """Append what the chat template puts in front of a turn; without a chat, BOS in front of an
        empty context. Also notes that a thinking may come first in a reply, where the model has
        any. Raises WindowExceeded, and CannotRun for a system turn that the template lacks."""
        if self.chat:
            self._queue(turn_frame(self._model, self._turn, turn))
        elif not self.ids and self._model.text.bos is not None:
            self._queue([self._model.text.bos])
        may_think = bool(self._model.thinking or self._model.open_thinking_ids)
        self._is_past_thinking = not (self.chat and may_think)

    def _skip_thinking(self) -> None:
        """Append an empty thinking, where the model has one, so that the reply is the answer."""
        if self._model.answer_start_ids:
            self._queue(self._model.answer_start_ids)
            self._is_past_thinking = True

    def _append(self, text: str) -> Span:
        """Append a text as data and return its span. Raises WindowExceeded, and ForgedTurn for a
        control token in it."""
        return self._queue(self._model.text.encode_data(text))

    def _closing_ids(self, reply_start: str) -> list[int]:
        """The tokens that would follow the context if the user turn ended now and the reply began
        with `reply_start`; the context stays as it is."""
        end = len(self.ids)
        try:
            self._open("reply")
            self._skip_thinking()
            self._append(reply_start)
            return self.ids[end:]
        finally:
            del self.ids[end:]

    def _text_if_probed(self, after: str) -> str:
        """The text of the context as a probe would read it; nothing is run for it."""
        return self._model.text.decode_context([*self.ids, *self._closing_ids(after)])

    def _text(self) -> str:
        """The text of the context, markers of the chat template included."""
        return self._model.text.decode_context(self.ids)

    def _require(self, capability: str) -> None:
        """Raise CannotRun where the model lacks a capability."""
        self._model.require(capability)

    def begin_text(self) -> None:
        """Begin the context with BOS, or EOS where the tokenizer has no BOS (GPT-2, Phi-2); with
        nothing where the chat template begins it already. Raises ValueError where the context is
        not empty."""
        if self.ids:
            raise ValueError("begin_text() comes before everything else in a context")
        tokenizer = self._model.text.tokenizer
        first_id = tokenizer.bos_token_id
        if first_id is None:
            first_id = tokenizer.eos_token_id
        template_begins_context = bool(self._model.before_first_user_ids)
        if first_id is not None and not template_begins_context:
            self._queue([first_id])

    def system(self, text: str) -> Span:
        """Begin the context with a system turn. Raises CannotRun if the chat template has no system
        role."""
        if self._model.pieces.trims_contents:
            text = text.strip()
        return super().system(text)

    def user(self, text: str = "") -> Span:
        """Open a user turn, put `text` in it and return the span of `text`, without white space at
        its start where the template strips it."""
        # A template that trims contents would not show white space at the start of a turn either.
        if self.chat and self._model.pieces.trims_contents:
            text = text.lstrip()
        return super().user(text)

    def length(self) -> int:
        """Tokens in the context, queued ones included."""
        return len(self.ids)

    def _request(self) -> list[object]:
        """The part of a cached reply's key that describes the context: a hash of its tokens, how
        many are booked (for the cost), thinking and adapter."""
        hash_of_ids = hashlib.sha256(json.dumps(self.ids).encode()).hexdigest()
        n_booked = max(self._n_cached, self._booked_end)
        return [hash_of_ids, n_booked, self._is_past_thinking, self._adapter]

    def _reply_state(self, n_before: int) -> dict[str, object]:
        """What the cache stores of what a reply added to a context of `n_before` tokens: its token
        ids, and how many of them the model has run."""
        return {"ids": self.ids[n_before:], "ran": self._n_cached - n_before}

    def _restore_reply(self, added: AddedContext) -> None:
        """Append a cached reply to the context. Its tokens count as booked; the model runs them
        when they are needed."""
        self._model.remember_first_prompt(self._role, self.ids)
        self._booked_end = len(self.ids) + added.ran
        self.ids.extend(added.ids)

    def _first_token(self, label: str) -> int | None:
        """The id of a label's first token; None for an empty label."""
        return next(iter(self._model.text.encode_data(label)), None)

    def _truncate(self, n_tokens: int) -> None:
        """Remove all but the first `n_tokens` tokens from the context; the model has run no more
        than these."""
        del self.ids[n_tokens:]
        self._n_cached = min(self._n_cached, n_tokens)

    def _end_reply(
        self, start: int, stop: Sequence[str], finish: str, attention: np.ndarray | None = None
    ) -> Written:
        """Cut the reply, the last tokens of the context, at a stop string or an end marker, and
        return it. The tokens after that leave the context.

        Args:
            start: Tokens of the context before the reply.
            stop: The stop strings.
            finish: Why it ended: "stop" or "length".
            attention: From each token to the watched spans [tokens, spans]; None without any.
        """
        ids = self.ids[start:]
        decoded = self._model.text.decode(ids)
        end = reply_end(decoded.text, stop, self._model.endings)
        n_tokens = len(ids)
        if end.n_characters < len(decoded.text):
            n_tokens = _count_tokens_before(end.n_characters, decoded.offsets)
        if n_tokens < len(ids):
            self._truncate(start + n_tokens)
        if attention is not None:
            attention = attention[:n_tokens]
        return Written(
            text=decoded.text[: end.n_characters],
            span=Span(start, start + n_tokens),
            finish=finish,
            offsets=tuple(decoded.offsets[:n_tokens]),
            attention=attention,
            ending=end.cuts_markers,  # whether an end marker was cut off
        )


def _count_tokens_before(end: int, offsets: Sequence[tuple[int, int]]) -> int:
    """How many tokens are left without the last ones, those that begin at character `end` or after
    it.

    Args:
        end: The number of a character of the text.
        offsets: The characters of the text that each token covers.
    """
    n_tokens = len(offsets)
    while n_tokens and offsets[n_tokens - 1][0] >= end:
        n_tokens -= 1
    return n_tokens
