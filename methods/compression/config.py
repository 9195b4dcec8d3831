"""Every choice of the compression methods, by default the released code's
(docs/methods/compression.md#compression)."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from harness.method import MethodConfig

Condition = Literal[
    "none", "before", "after", "none_condition", "before_condition", "after_condition"
]
_BUDGET = re.compile(r"[-+*/]\d+(\.\d+)?")
_DIVISION_BY_ZERO = re.compile(r"/0+(\.0+)?")


class LinguaConfig(MethodConfig):
    """LLMLingua's and LongLLMLingua's arguments under the released names, and what this project
    adds (+).

    Source: docs/methods/compression.md#lingua-arguments.

    contexts                   + what is ranked: "tokens" = hard cut every chunk_tokens, "packed" = whole sentences up
                                 to so many, "lines" = every line, a longer one cut; "titled-lines"
                                 = every line whole, a title with the line after it (FlashRAG), cut
                                 where the compressor's window ends
    chunk_tokens               + by the compressor's tokenizer
    rate                         tokens kept / tokens of the text
    target_tokens                tokens kept, instead of `rate` (released: target_token)
    iterative_size               tokens of a window of the token level
    use_..._level_filter         which levels run
    context_budget               tokens that the context level keeps, from the target: "+100", "*2", ...
    condition_in_question        "after": a context by the question after it; "before": by itself after the question;
                                 with "_condition" the token level reads the question first, too
    reorder_context              "original", "sort" (best first) or "two_stage" (best at both ends)
    dynamic_context_compression_ratio   keep ratios from +this (best context) to -this (worst)
    condition_compare            token score = surprise without the question less surprise after it
    rank_method                  "longllmlingua", "llmlingua", "bm25"
    force_context_ids            contexts that are kept in any case, by number
    window                     + tokens of the reader's request, answer included; None = the reader's window

    Not there: `concate_question` (the reading prompt has the question), `instruction` (likewise),
    the sentence level, `keep_split`, segments with rates of their own, and rankers that are a
    service.
    """

    contexts: Literal["tokens", "packed", "lines", "titled-lines"] = "tokens"
    chunk_tokens: int = Field(default=300, gt=0)
    rate: float = Field(default=0.5, gt=0, le=1)
    target_tokens: int | None = Field(default=None, gt=0)
    iterative_size: int = Field(default=200, ge=2)
    use_context_level_filter: bool = True
    use_token_level_filter: bool = True
    context_budget: str = "+100"
    condition_in_question: Condition = "none"
    reorder_context: Literal["original", "sort", "two_stage"] = "original"
    dynamic_context_compression_ratio: float = Field(default=0.0, ge=0, le=1)
    condition_compare: bool = False
    rank_method: Literal["llmlingua", "longllmlingua", "bm25"] = "llmlingua"
    force_context_ids: tuple[int, ...] = ()
    window: int | None = Field(default=None, gt=0)

    @field_validator("context_budget")
    @classmethod
    def _check_budget(cls, value: str) -> str:
        """Refuse all but an operator and a number: the package evaluates it as Python."""
        written = value.replace(" ", "")
        if _BUDGET.fullmatch(written) is None or _DIVISION_BY_ZERO.fullmatch(written):
            raise ValueError("should be an operator and a number, such as '+100' or '*2'")
        return value

    @model_validator(mode="after")
    def _check_chunk_tokens(self) -> LinguaConfig:
        """Raise ValueError for a `chunk_tokens` that would change nothing."""
        default = LinguaConfig.model_fields["chunk_tokens"].default
        if self.contexts == "titled-lines" and self.chunk_tokens != default:
            raise ValueError(
                "chunk_tokens cuts nothing with contexts=titled-lines; leave it out, or set "
                "contexts=lines"
            )
        return self

    @property
    def reads_question_first(self) -> bool:
        """Whether the token level reads the question before the text."""
        return self.condition_compare or self.condition_in_question.endswith("_condition")


class LLMLinguaConfig(LinguaConfig):
    """Without the question: a document is compressed once."""

    @model_validator(mode="after")
    def _check_no_question(self) -> LLMLinguaConfig:
        uses_question = self.condition_compare or self.condition_in_question != "none"
        if self.rank_method != "llmlingua" or uses_question:
            raise ValueError(
                "this compresses without the question; for one that reads it use method "
                "longllmlingua"
            )
        return self


class LongLLMLinguaConfig(LinguaConfig):
    """The README's setting (docs/methods/compression.md#lingua-arguments)."""

    rate: float = Field(default=0.55, gt=0, le=1)
    condition_in_question: Condition = "after_condition"
    reorder_context: Literal["original", "sort", "two_stage"] = "sort"
    dynamic_context_compression_ratio: float = Field(default=0.3, ge=0, le=1)
    condition_compare: bool = True
    rank_method: Literal["llmlingua", "longllmlingua", "bm25"] = "longllmlingua"


class SelectiveConfig(MethodConfig):
    """Selective-Context (docs/methods/compression.md#selective-context).

    reduce_ratio         share of units that is dropped: those below this percentile of the whole text
    target_tokens        tokens of the compressed text at most, instead of `reduce_ratio`; the ratio is chosen for it
    level                "token" or "sentence" (the mean of its tokens); phrases need a parser and are not offered
    max_sentence_tokens  a longer sentence is scored in parts (FlashRAG: cut off)
    """

    reduce_ratio: float = Field(default=0.35, ge=0, lt=1)
    target_tokens: int | None = Field(default=None, gt=0)
    level: Literal["token", "sentence"] = "token"
    max_sentence_tokens: int = Field(default=1024, ge=2)
