"""MemWalker's parameters (docs/methods/memwalker.md#memwalker)."""

from harness.method import MethodConfig
from harness.method.settings import index_setting, setting


class MemWalkerConfig(MethodConfig):
    """Defaults are those of docs/methods/memwalker.md#memwalker."""

    # Tree: a change builds a new index.
    segment_tokens: int = index_setting(
        1000,
        gt=0,
        help=(
            "Most tokens of a segment, by the builder's tokenizer; it ends where a sentence ends."
        ),
    )
    children: int = index_setting(8, ge=2, help="Most summaries under one node.")
    summary_tokens: int | None = index_setting(
        None,
        gt=0,
        help="Most tokens of a summary; None = those of a segment, as the paper names no limit.",
    )
    window: int | None = index_setting(
        None,
        gt=0,
        help=(
            "Most tokens of a request of tree and walk, reply included; None = the model's window."
        ),
    )
    # Walk
    reasoning: bool = setting(
        True, help=("Ask for reasons before the action: helps large models and hurts small ones.")
    )
    reasoning_tokens: int = setting(300, gt=0, help="Tokens of a reply for its reasons.")
    working_memory: bool = setting(
        True,
        help=(
            "Show the summaries of the nodes visited before; the oldest are left out where "
            "the window is short."
        ),
    )
    inner_revert: bool = setting(
        False,
        help=(
            "Allow -1 at a node between root and segments (the paper's list of actions has "
            "it, its prompt has not)."
        ),
    )
    strikes: int = setting(
        3,
        ge=1,
        help="Invalid replies to one request that end the walk; all but the first are sampled.",
    )
    temperature: float = setting(0.7, gt=0, help="Temperature of these repetitions.")
    top_p: float = setting(0.9, gt=0, le=1, help="Nucleus of these repetitions.")
    max_calls: int = setting(
        30, ge=1, help="Replies in all, repetitions included, after which the walk ends."
    )
    fallback: bool = setting(
        False,
        help='Where the walk finds no answer, answer from the working memory instead of with "".',
    )

    def summary_limit(self) -> int:
        """Most tokens of a summary: `summary_tokens`, or those of a segment where it is None."""
        if self.summary_tokens is None:
            return self.segment_tokens
        return self.summary_tokens
