"""Every choice of the compression methods, by default the released code's
(docs/methods/compression.md#compression)."""

from __future__ import annotations

import re
from typing import Literal

from pydantic import field_validator, model_validator

from harness.method import MethodConfig
from harness.method.settings import index_setting, setting

Condition = Literal[
    "none", "before", "after", "none_condition", "before_condition", "after_condition"
]
_BUDGET = re.compile(r"[-+*/]\d+(\.\d+)?")
_DIVISION_BY_ZERO = re.compile(r"/0+(\.0+)?")


class LinguaConfig(MethodConfig):
    """LLMLingua's and LongLLMLingua's arguments under the released names, and three more:
    `contexts`, `chunk_tokens`, `window` (docs/methods/compression.md#lingua-arguments).

    Not there: `concate_question` (the reading prompt has the question), `instruction` (likewise),
    the sentence level, `keep_split`, segments with rates of their own, and rankers that are a
    service.
    """

    contexts: Literal["tokens", "packed", "lines", "titled-lines"] = index_setting(
        "tokens",
        help=(
            "What is ranked: a hard cut every chunk_tokens; whole sentences up to so many "
            "(packed); every line, a longer one cut; or every line whole, a title with the line "
            "after it, as FlashRAG (titled-lines)."
        ),
    )
    chunk_tokens: int = index_setting(
        300, gt=0, help="Most tokens of a context, by the compressor's tokenizer."
    )
    rate: float = index_setting(0.5, gt=0, le=1, help="Tokens kept / tokens of the text.")
    target_tokens: int | None = index_setting(
        None, gt=0, help="Tokens kept, instead of rate (released: target_token)."
    )
    iterative_size: int = index_setting(200, ge=2, help="Tokens of a window of the token level.")
    use_context_level_filter: bool = index_setting(True, help="Whether contexts are left out.")
    use_token_level_filter: bool = index_setting(True, help="Whether tokens are left out.")
    context_budget: str = index_setting(
        "+100", help='Tokens that the context level keeps, from the target: "+100", "*2".'
    )
    condition_in_question: Condition = index_setting(
        "none",
        help=(
            "How a context is ranked: by the question after it (after), or by itself after the "
            'question (before); with "_condition" the token level reads the question first, too.'
        ),
    )
    reorder_context: Literal["original", "sort", "two_stage"] = index_setting(
        "original", help="Order of contexts: as in the text, best first, or best at both ends."
    )
    dynamic_context_compression_ratio: float = index_setting(
        0.0, ge=0, le=1, help="Keep ratios from plus this (best context) to minus this (worst)."
    )
    condition_compare: bool = index_setting(
        False, help="Rank tokens by the surprise without the question less that after it."
    )
    rank_method: Literal["llmlingua", "longllmlingua", "bm25"] = index_setting(
        "llmlingua", help="What ranks contexts."
    )
    force_context_ids: tuple[int, ...] = index_setting(
        (), help="Numbers of contexts that are kept in any case."
    )
    window: int | None = setting(
        None,
        gt=0,
        help="Tokens of the reader's request, answer included; null: the reader's window.",
    )

    @field_validator("context_budget")
    @classmethod
    def _check_budget(cls, value: str) -> str:
        """Raise ValueError for all but an operator and a number, as the package evaluates it as
        Python."""
        written = value.replace(" ", "")
        if _BUDGET.fullmatch(written) is None or _DIVISION_BY_ZERO.fullmatch(written):
            raise ValueError("should be an operator and a number, such as '+100' or '*2'")
        return value

    @model_validator(mode="after")
    def _check_chunk_tokens(self) -> LinguaConfig:
        """Raise ValueError where `chunk_tokens` is set although contexts=titled-lines does not use
        it."""
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
        """Raise ValueError for settings with which the question would be read."""
        uses_question = self.condition_compare or self.condition_in_question != "none"
        if self.rank_method != "llmlingua" or uses_question:
            raise ValueError(
                "this compresses without the question; for one that reads it use method "
                "longllmlingua"
            )
        return self


class LongLLMLinguaConfig(LinguaConfig):
    """The README's setting (docs/methods/compression.md#lingua-arguments)."""

    rate: float = index_setting(0.55, gt=0, le=1, help="Tokens kept / tokens of the text.")
    condition_in_question: Condition = index_setting(
        "after_condition",
        help=(
            "How a context is ranked: by the question after it (after), or by itself after the "
            'question (before); with "_condition" the token level reads the question first, too.'
        ),
    )
    reorder_context: Literal["original", "sort", "two_stage"] = index_setting(
        "sort", help="Order of contexts: as in the text, best first, or best at both ends."
    )
    dynamic_context_compression_ratio: float = index_setting(
        0.3, ge=0, le=1, help="Keep ratios from plus this (best context) to minus this (worst)."
    )
    condition_compare: bool = index_setting(
        True, help="Rank tokens by the surprise without the question less that after it."
    )
    rank_method: Literal["llmlingua", "longllmlingua", "bm25"] = index_setting(
        "longllmlingua", help="What ranks contexts."
    )


class SelectiveConfig(MethodConfig):
    """Selective-Context (docs/methods/compression.md#selective-context)."""

    reduce_ratio: float = index_setting(
        0.35,
        ge=0,
        lt=1,
        help="Share of units that is dropped: those below this percentile of the whole text.",
    )
    target_tokens: int | None = index_setting(
        None,
        gt=0,
        help="Most tokens of the compressed text; the share dropped is chosen for it.",
    )
    level: Literal["token", "sentence"] = index_setting(
        "token", help="Units that are dropped: tokens, or sentences by the mean of their tokens."
    )
    max_sentence_tokens: int = index_setting(
        1024, ge=2, help="A longer sentence is scored in parts (FlashRAG: cut off)."
    )
