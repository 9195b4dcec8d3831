"""A reply on the plain transformers model: a method runs the network itself, on a cache of its own.

    session: context as token ids ──► PlainReply ──► method: cache, hooks, read(...), write(...)
                                          │ counts every pass
                                          ▼
                                  events of the meter, the reply's tokens

No pass of a session runs meanwhile.
"""

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from harness.cost.flops import EventKind
from harness.errors import ModelOutputError
from harness.llm.hf_model import LoadedModel
from harness.llm.sampling import Sampler
from harness.llm.writing import PassCost, Writing
from harness.models import Decoding


@dataclass
class PlainPass:
    """What one pass of a method's own did.

    Attributes:
        new: Tokens that it read.
        cached: Tokens of the cache before them.
        logits: Rows of logits.
        ranking_pairs: (query, key) pairs that were multiplied beside those of attention.
        kind: How it is booked: "prefill" or "decode".
    """

    new: int
    cached: int
    logits: int = 0
    ranking_pairs: int = 0
    kind: EventKind = "prefill"

    @property
    def pairs(self) -> int:
        """(query, key) pairs: each new token attends to all before it and to itself."""
        return self.new * self.cached + self.new * (self.new + 1) // 2


class PlainReply:
    """A reply that a method writes by running the network itself; implements
    harness.models.PlainGeneration.

    Attributes:
        net: The network, of transformers.
        ids: The tokens of the context.
        passes: The passes that read.
        decoding: The passes that wrote, as one; None before `write`.
        state: The reply as far as it is written.
    """

    def __init__(self, model: LoadedModel, ids: Sequence[int], decoding: Decoding) -> None:
        """Begin with the whole context unread.

        Args:
            model: The model whose network is run.
            ids: Tokens of the context.
            decoding: How long the reply may be, and where it stops.
        """
        self.net = model.net
        self.ids = tuple(ids)
        self.passes: list[PlainPass] = []
        self.decoding: PlainPass | None = None
        self._model = model
        self._n_masked = 0  # tokens that a cache holds and that are not attended to
        self.state = Writing(
            ids=list(ids),
            cache=None,
            n_cached=0,
            sampler=Sampler(decoding.temperature, decoding.top_p, decoding.seed or 0),
            decoding=decoding,
            stop_ids=model.stop_ids,
            decode=lambda written_ids: model.text.decode(written_ids).text,
            cost=PassCost(),
        )

    def read(self, ids: Sequence[int], cache: Any, position: int) -> Tensor:
        """Run tokens of the context, and return the logits after them.

        Args:
            ids: The tokens.
            cache: Keys and values of those before, of transformers; it grows.
            position: The position of the first token.

        Returns:
            The last logits, float32 [vocab].

        Raises:
            ModelOutputError: They are NaN or infinite.
        """
        device = self._model.device
        positions = torch.arange(position, position + len(ids), device=device)
        with torch.inference_mode():
            output = self.net(
                input_ids=torch.tensor([list(ids)], device=device),
                past_key_values=cache,
                position_ids=positions[None],
                cache_position=positions,  # kvpress looks here for the first pass
                use_cache=True,
                logits_to_keep=1,
            )
        last_logits: Tensor = output.logits[0, -1].float()
        if not bool(last_logits.isfinite().all()):
            raise self._bad_logits_error(position + len(ids))
        return last_logits

    def _bad_logits_error(self, n_tokens: int) -> ModelOutputError:
        """The error for logits that are NaN or infinite after `n_tokens` tokens."""
        return self._model.bad_logits_error(n_tokens)

    def write(self, row: Tensor, cache: Any, position: int) -> None:
        """Write the reply into `state`, token by token. Its passes become one, `decoding`.

        Args:
            row: The logits of its first token [vocab].
            cache: Keys and values of the context, of transformers; it grows.
            position: The position of the first token.
        """
        n_passes_before = len(self.passes)
        token_id = self.state.sampler.pick(row)
        while self.state.add_token(token_id):
            next_logits = self.read([token_id], cache, position)
            position += 1
            token_id = self.state.sampler.pick(next_logits)
        steps = self.passes[n_passes_before:]
        del self.passes[n_passes_before:]
        n_cached = self._attended_length(cache)
        if steps:  # the cache held fewer tokens when they began
            n_cached = steps[0].cached
        self.decoding = PlainPass(new=len(steps), cached=n_cached, logits=len(steps), kind="decode")

    def tokens_run(self) -> int:
        """How many tokens all passes ran, those that read and those that wrote; at least 1."""
        total = sum(reading.new for reading in self.passes)
        if self.decoding is not None:
            total += self.decoding.new
        return max(total, 1)

    def drop(self, cache: Any, kept: int) -> None:
        """Note that of what a cache holds only `kept` tokens are attended to from now on: the
        others are masked, and not counted."""
        n_held = self._attended_length(cache) + self._n_masked
        self._n_masked = n_held - kept

    def rank(self, pairs: int) -> None:
        """Count so many products of a query and a key, beside those of attention, in the pass that
        was made last."""
        self.passes[-1].ranking_pairs += pairs

    def _attended_length(self, cache: Any) -> int:
        """How many tokens of a cache are attended to, as the mean of its layers."""
        lengths = [int(layer.get_seq_length()) for layer in cache.layers]
        if not lengths:
            return 0
        return round(sum(lengths) / len(lengths)) - self._n_masked

    @contextlib.contextmanager
    def counted(self) -> Iterator[None]:
        """Context manager: each pass of the network inside the block is counted in `passes`."""

        def add_pass(_module: Any, _args: Any, arguments: dict[str, object]) -> None:
            """Append a pass, with the tokens that it reads, and those in its KV cache."""
            cache = arguments.get("past_key_values")
            n_cached = 0
            if cache is not None:
                n_cached = self._attended_length(cache)
            ids = arguments["input_ids"]
            assert isinstance(ids, Tensor)
            self.passes.append(PlainPass(new=ids.shape[1], cached=n_cached))

        def add_logits(_module: Any, _args: Any, logits: Tensor) -> None:
            """Count the rows of logits [1, rows, vocab] in the pass that was appended last."""
            self.passes[-1].logits += logits.shape[1]

        hooks = [
            self.net.get_decoder().register_forward_pre_hook(add_pass, with_kwargs=True),
            self.net.get_output_embeddings().register_forward_hook(add_logits),
        ]
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
