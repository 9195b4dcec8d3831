"""One request of the walk: the prompt with as much working memory as fits, and replies until one is understood.

    response = asking.ask(Request(model, build, parse, answer_tokens), memory)
    response.found      the parsed reply; None if the walk ends, asking.why has the reason

The first reply is the likeliest one; further ones are sampled (docs/methods/memwalker.md#memwalker-retries), each with
a seed of its own. The prompt is read once, however often it is replied to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from harness.errors import WindowExceeded
from harness.models import MeteredModel
from harness.prompts import Pieces, feed, prompt_tokens
from harness.stats.rng import derived_seed
from methods.graph import Graph
from methods.memwalker.config import MemWalkerConfig
from methods.retry import window_of

EMPTY = "(empty)"  # stands for a summary that was not written
_FORM = "Action: -2\nAnswer:\n"
_REASONS = "Reasoning:\n"
_SPARE = 8  # tokens of a reply beside its form, the reasons and the answer

T = TypeVar("T")


@dataclass(frozen=True)
class Request(Generic[T]):
    """build: the prompt's pieces for a working memory; parse: reads a reply, None if its form is wrong."""

    model: MeteredModel
    build: Callable[[list[str]], Pieces]
    parse: Callable[[str], T | None]
    answer_tokens: int = 0


@dataclass
class ParsedReply(Generic[T]):
    """tokens: of the prompt; memory: nodes shown in it; notes: what did not go as usual."""

    tokens: int
    memory: list[int]
    notes: list[str]
    found: T | None = None


@dataclass
class Asking:
    """Asks for one walk and counts; seed: of the run; name: of the question."""

    graph: Graph
    config: MemWalkerConfig
    seed: int
    name: str
    calls: int = 0
    invalid: int = 0
    why: str = field(default="", init=False)

    def ask(self, request: Request[T], memory: Sequence[int]) -> ParsedReply[T]:
        """Ask until the reply is understood. Raises WindowExceeded where not even an empty memory makes it fit."""
        model, config = request.model, self.config
        limit = model.count(_FORM) + _SPARE + request.answer_tokens
        if config.reasoning:
            limit += model.count(_REASONS) + config.reasoning_tokens
        response, pieces = self._prompt(request, list(memory) if config.working_memory else [], limit)
        with model.session() as s:
            feed(s, pieces)
            for strike in range(config.strikes):
                if self.calls == config.max_calls:
                    self.why = f"the walk took {config.max_calls} replies"
                    return response
                self.calls += 1
                with s.branch():
                    reply = s.write(
                        limit,
                        temperature=config.temperature if strike else 0.0,
                        top_p=config.top_p if strike else 1.0,
                        seed=derived_seed(self.seed, "memwalker", self.name, str(self.calls)),
                    ).text
                response.found = request.parse(reply)
                if response.found is not None:
                    return response
                self.invalid += 1
                response.notes.append(f"invalid reply {reply[:60]!r}")
        self.why = f"{config.strikes} invalid replies"
        return response

    def _prompt(self, request: Request[T], memory: list[int], limit: int) -> tuple[ParsedReply[T], Pieces]:
        """The pieces with as much of the memory as fits beside `limit` tokens of reply: the oldest go first."""
        model, window = request.model, window_of(self.config.window, request.model)
        for dropped in range(len(memory) + 1):
            pieces = request.build([self.graph.text[i] or EMPTY for i in memory[dropped:]])
            tokens = prompt_tokens(pieces, model)
            if tokens + limit <= window:
                notes = [f"{dropped} of {len(memory)} summaries in the working memory did not fit"] if dropped else []
                return ParsedReply(tokens, memory[dropped:], notes), pieces
        raise WindowExceeded(
            f"a request of the walk with its reply takes {tokens + limit} tokens, more than the window of "
            f"{window} of '{model.name}'; raise method.window or model.window, or lower method.segment_tokens, "
            "method.summary_tokens or method.children"
        )
