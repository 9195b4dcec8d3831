"""MemWalker's parameters (docs/methods/memwalker.md#memwalker)."""

from pydantic import Field

from harness.method import MethodConfig


class MemWalkerConfig(MethodConfig):
    """Tree (t), walk (w).

    segment_tokens     t  tokens of a segment at most, by the builder's tokenizer; it ends where a sentence ends
    children           t  summaries under one node at most
    summary_tokens     t  tokens of a summary at most; None = those of a segment, as the paper names no limit
    window             tw tokens of a request, reply included; None = the model's window
    reasoning          w  ask for reasons before the action: helps large models and hurts small ones
    reasoning_tokens   w  tokens for these
    working_memory     w  show the summaries of the nodes visited before; the oldest go where the window is short
    inner_revert       w  allow -1 at a node between root and segments (the paper's list of actions has it, its prompt
                          has not)
    strikes            w  invalid replies to one request that end the walk; all but the first are sampled
    temperature        w  of these repetitions
    top_p              w  of these repetitions
    max_calls          w  total replies, repetitions included, after which the walk ends
    fallback           w  where the walk finds no answer, answer from the working memory instead of with ""
    """

    segment_tokens: int = Field(default=1000, gt=0)
    children: int = Field(default=8, ge=2)
    summary_tokens: int | None = Field(default=None, gt=0)
    window: int | None = Field(default=None, gt=0)
    reasoning: bool = True
    reasoning_tokens: int = Field(default=300, gt=0)
    working_memory: bool = True
    inner_revert: bool = False
    strikes: int = Field(default=3, ge=1)
    temperature: float = Field(default=0.7, gt=0)
    top_p: float = Field(default=0.9, gt=0, le=1)
    max_calls: int = Field(default=30, ge=1)
    fallback: bool = False

    def summary_limit(self) -> int:
        """Tokens of a summary at most."""
        return self.segment_tokens if self.summary_tokens is None else self.summary_tokens


INDEX_FIELDS = ("segment_tokens", "children", "summary_tokens", "window")
