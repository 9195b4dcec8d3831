"""Every choice of the compression methods, by default the released code's
(docs/methods/compression.md#compression)."""

from __future__ import annotations

import operator
import re
from typing import Literal

from pydantic import Field, field_validator, model_validator

from harness.method import MethodConfig

Condition = Literal[
    "none", "before", "after", "none_condition", "before_condition", "after_condition"
]
_BUDGET = re.compile(r"([-+*/])(\d+(?:\.\d+)?)")
_OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


class LinguaConfig(MethodConfig):
    """LLMLingua's and LongLLMLingua's arguments under the released names, and what this project
    adds (+).

    Source: docs/methods/compression.md#lingua-arguments.

    contexts                   + what is ranked: "tokens" = hard cut every chunk_tokens, "packed" = whole sentences up
                                 to so many, "lines" = every line, a longer one cut; "titled-lines"
                                 = every line whole, a title with the line behind it (FlashRAG), cut
                                 where the compressor's window ends
    chunk_tokens               + by the compressor's tokenizer
    rate                         tokens kept / tokens of the text
    target_tokens                tokens kept, instead of `rate` (released: target_token)
    iterative_size               tokens of a window of the token level
    use_..._level_filter         which levels run
    keep_first_sentence, keep_last_sentence   sentences at both ends of the text that come before all others; with
    keep_sentence_number         the same for so many of the best of each context (released: by a bonus of +100, which
                                 does the contrary where low is good)
    keep_split                   keep the blank lines between contexts
    context_budget               what the budget of contexts is beside the target: "+100", "*2", ...
    token_budget_ratio           the budget of sentences, in targets
    condition_in_question        "after": a context by the question behind it; "before": by itself behind the question;
                                 with "_condition" the token level reads behind the question too
    reorder_context              "original", "sort" (best first) or "two_stage" (best at both ends)
    dynamic_context_compression_ratio   keep ratios from +this (best context) to -this (worst)
    condition_compare            token score = surprise without the question less surprise behind it
    add_instruction              add the data set's instruction after that question
    rank_method                  "longllmlingua", "llmlingua", "bm25"
    force_context_ids            contexts that are kept in any case, by number
    force_context_number         contexts kept at most, one more than this (released: has no effect)
    credit                     + whose surprise decides about a token: "next" = that of the token behind it, as in the
                                 released code, whose index is off by one; "own" = its own, as the
                                 paper's formula says
    last_window                + a rest shorter than a window: "kept" as in the released code, or "compressed"
    window                     + tokens of the reader's request, answer included; None = the reader's window
    engine                     + "own", or "library": the package llmlingua chooses, with scores of the same sessions

    Not there: `concate_question` (the reading prompt has the question), `instruction` (likewise),
    segments with rates of their own in structured prompts, and rankers that are a service.
    """

    contexts: Literal["tokens", "packed", "lines", "titled-lines"] = "tokens"
    chunk_tokens: int = Field(default=300, gt=0)
    rate: float = Field(default=0.5, gt=0, le=1)
    target_tokens: int | None = Field(default=None, gt=0)
    iterative_size: int = Field(default=200, ge=2)
    use_context_level_filter: bool = True
    use_sentence_level_filter: bool = False
    use_token_level_filter: bool = True
    keep_first_sentence: int = Field(default=0, ge=0)
    keep_last_sentence: int = Field(default=0, ge=0)
    keep_sentence_number: int = Field(default=0, ge=0)
    keep_split: bool = False
    context_budget: str = "+100"
    token_budget_ratio: float = Field(default=1.4, gt=0)
    condition_in_question: Condition = "none"
    reorder_context: Literal["original", "sort", "two_stage"] = "original"
    dynamic_context_compression_ratio: float = Field(default=0.0, ge=0, le=1)
    condition_compare: bool = False
    add_instruction: bool = False
    rank_method: Literal["llmlingua", "longllmlingua", "bm25"] = "llmlingua"
    force_context_ids: tuple[int, ...] = ()
    force_context_number: int | None = Field(default=None, ge=0)
    credit: Literal["next", "own"] = "next"
    last_window: Literal["kept", "compressed"] = "kept"
    window: int | None = Field(default=None, gt=0)
    engine: Literal["own", "library"] = "own"

    @field_validator("context_budget")
    @classmethod
    def _check_budget(cls, value: str) -> str:
        if _BUDGET.fullmatch(value.replace(" ", "")) is None or re.fullmatch(
            r"/\s*0+(\.0+)?", value.strip()
        ):
            raise ValueError("should be an operator and a number, such as '+100' or '*2'")
        return value

    @model_validator(mode="after")
    def _check_combination(self) -> LinguaConfig:
        """Raise ValueError for settings that would change nothing, or that the package has not."""
        ours_only = {
            "credit",
            "last_window",
            "keep_split",
            "use_sentence_level_filter",
            "add_instruction",
        }
        ours_only = (ours_only | {"force_context_number"}) & self.model_fields_set
        if self.engine == "library" and ours_only:
            raise ValueError(
                f"engine=library does not offer {', '.join(sorted(ours_only))}; leave them out, or "
                "use engine=own"
            )
        if (
            self.contexts == "titled-lines"
            and self.chunk_tokens != LinguaConfig.model_fields["chunk_tokens"].default
        ):
            raise ValueError(
                "chunk_tokens cuts nothing with contexts=titled-lines; leave it out, or set "
                "contexts=lines"
            )
        if self.add_instruction and not self.prefixed:
            raise ValueError(
                "add_instruction changes nothing unless the token level reads behind the question; "
                "set "
                "condition_in_question=after_condition or condition_compare=true"
            )
        return self

    @property
    def prefixed(self) -> bool:
        """Whether the token level reads behind the question."""
        return self.condition_compare or self.condition_in_question.endswith("_condition")

    @property
    def condition(self) -> str:
        """What ranks contexts, sentences: "none", "before"/"after"
        (docs/methods/compression.md#lingua-contexts)."""
        if self.rank_method == "llmlingua":
            return "none"
        condition = self.condition_in_question.removesuffix("_condition")
        return "after" if self.rank_method == "longllmlingua" and condition == "none" else condition

    def budget(self, target: float) -> float:
        """Tokens of contexts that the context level lets through; a target below 0 counts as 100,
        as released."""
        match = _BUDGET.fullmatch(self.context_budget.replace(" ", ""))
        assert match is not None
        budget: float = _OPERATORS[match[1]](100.0 if target < 0 else target, float(match[2]))
        return budget


class LLMLinguaConfig(LinguaConfig):
    """Without the question: a document is compressed once."""

    @model_validator(mode="after")
    def _no_question(self) -> LLMLinguaConfig:
        if self.rank_method != "llmlingua" or self.prefixed or self.condition_in_question != "none":
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
