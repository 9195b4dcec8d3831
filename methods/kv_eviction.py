"""StreamingLLM, H2O and SnapKV: the whole document in the window, with a cache of keys and values
of fixed size.

Source: docs/methods/attention.md#bounded-cache. The tokens are chosen in
harness/llm/cache_eviction.py.

    recent     the first 4 tokens and the newest ones; cut while the text is read       (StreamingLLM)
    summed     the tokens that all tokens attended to most, and the newest half          (H2O)
    observed   the tokens that the last 32 attended to most, and these 32                (SnapKV)

    asked behind     | text, question | cut | answer          the question ranks what stays
    asked before     | question, text | cut | answer
    asked after      | text | cut | question, answer          what stays is chosen without the question
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Literal

from pydantic import Field, model_validator

from harness.errors import QuestionError
from harness.method import Needs, Tools
from harness.models import CacheLimit
from harness.prompts import Prompt, feed, prompt_tokens
from harness.types import Question, Step
from methods.long_context import FullContext
from methods.reading import Reading, options

BEFORE = Prompt(
    "answer, question first",
    "Read the text below to answer a question about it. {instruction}\n\nQuestion: "
    "{question}{options}\n\n"
    "Text:\n{text}\n\nThe text ends here.\nAnswer:",
)


_OBSERVING = 32  # SnapKV's window in its LongBench runs


class BoundedCacheConfig(FullContext.Config):
    """What stays in the cache, in tokens of each layer and key/value head.

    budget: all; first: those of the prompt's beginning that always stay; last: the last ones that
    always stay, None = all beside `first` (recent), half of the budget (summed), 32 (observed);
    width: of the maximum over neighbours that smooths the ranks; step: tokens read between two cuts
    of `recent`; choice: of what stays, once for a key/value head, or for each query head, for which
    the keys and values are then repeated. asked: where the question stands.
    """

    rule: Literal["recent", "summed", "observed"] = "observed"
    budget: int = Field(default=1024, gt=0)
    first: int = Field(default=0, ge=0)
    last: int | None = Field(default=None, gt=0)
    width: int = Field(default=1, gt=0)
    step: int = Field(default=64, gt=0)
    choice: Literal["key_head", "query_head"] = "key_head"
    asked: Literal["behind", "before", "after"] = "behind"

    @model_validator(mode="after")
    def _check_budget(self) -> BoundedCacheConfig:
        """Raise ValueError for an even `width`, and where `first` and `last` together exceed the
        budget."""
        if self.width % 2 == 0:
            raise ValueError(
                "width is a number of neighbours around a token and itself: set an odd one"
            )
        limit = self.limit()
        if limit.last < 1 or limit.first + limit.last > limit.budget:
            raise ValueError("first and last together are more than budget: raise method.budget")
        return self

    def limit(self) -> CacheLimit:
        """The rule as the CacheLimit that a session takes."""
        if self.rule == "recent":
            return CacheLimit(
                self.budget, self.first, self.last or self.budget - self.first, 0, step=self.step
            )
        if self.rule == "summed":
            last, rows = self.last or self.budget // 2, None
        else:
            last = rows = self.last or _OBSERVING
        return CacheLimit(
            self.budget,
            self.first,
            last,
            rows,
            self.width,
            by_query_head=self.choice == "query_head",
        )


class BoundedCache(FullContext):
    """The whole document with a bounded cache."""

    Config = BoundedCacheConfig
    summary = "the whole document in the window, with a cache of fixed size"
    draws = False
    needs: ClassVar[Needs] = {"reader": frozenset({"cache"})}
    own_prompts = (BEFORE,)

    def model_problems(self, role: str, window: int, sizes: Mapping[str, Any]) -> list[str]:
        """A sentence where the budget is not below `window`, the model's, so that nothing would be
        dropped; else []."""
        if window and self.config.budget >= window:
            sentence = (
                f"its budget of {self.config.budget} tokens is not below the window of {window}, "
                "so nothing would ever "
                "be dropped; set a smaller method.budget, or run full-context"
            )
            return [sentence]
        return []

    def _ask(
        self, question: Question, texts: Sequence[str], tools: Tools, reading: Reading
    ) -> tuple[str, tuple[Step, ...]]:
        """Feed text and question, cut the cache, write: the reply, and a step with tokens read,
        kept, and megabytes."""
        model, task = tools.model(), tools.task
        values = {
            "instruction": task.instruction,
            "question": question.text,
            "options": options(question),
        }
        pieces = reading.pieces(question, texts)
        if self.config.asked == "before":
            pieces = BEFORE.of(self.config).fill(text=list(texts), **values)
            pieces[0] = question.example + pieces[0]
        if (
            question.begins
        ):  # the cache is cut where the reply begins, so this stands in front of it
            pieces[-1] += f" {question.begins}"
        bare = prompt_tokens(reading.pieces(question, [""]), model)
        if bare > self.config.budget:
            raise QuestionError(
                f"the question with its prompt takes {bare} tokens, more than the cache's budget "
                "of "
                f"{self.config.budget}; raise method.budget"
            )
        with model.session(chat=task.chat) as s:
            if self.config.asked == "after" and len(pieces) > 1:
                feed(s, pieces[:-1])
                kept = s.bound(self.config.limit())
                s.feed(pieces[-1])
            else:
                feed(s, pieces)
                kept = s.bound(self.config.limit(), close=True)
            reply = task.answer_in(s.write(task.max_answer_tokens).text)
        scores = {
            "read": float(kept.read),
            "kept": float(kept.tokens),
            "megabytes": kept.size / 1e6,
        }
        return reply, (Step("cut", scores=scores, tokens=kept.tokens, flops=tools.meter.flops()),)


class PrintedCacheConfig(BoundedCacheConfig):
    """As BoundedCacheConfig, for `recent` and `summed`; `step` is 1. A class of its own, as run
    hashes have fields."""

    rule: Literal["recent", "summed", "observed"] = "recent"

    @model_validator(mode="after")
    def _check_rule(self) -> PrintedCacheConfig:
        """Raise ValueError for what cannot go on token by token."""
        if self.rule == "observed" or self.choice == "query_head" or self.asked == "after":
            raise ValueError(
                "one by one needs rule recent or summed, choice key_head, and asked behind or "
                "before"
            )
        return self

    def limit(self) -> CacheLimit:
        """The rule as the CacheLimit that a session takes."""
        return replace(super().limit(), step=1, written=True)


class PrintedCache(BoundedCache):
    """A token is dropped for each that is read or written, as StreamingLLM and H2O print it."""

    Config = PrintedCacheConfig
    summary = "the whole document, a token dropped from the cache for each that is read or written"
    draws = False
