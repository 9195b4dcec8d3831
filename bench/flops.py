"""The FLOPs of one prefill by the formula (harness/cost/flops.py) beside the operators that fvcore
counts in the same network.

    python -m bench.flops MODEL
"""

import sys
from pathlib import Path

from harness.config.layers import Choices
from harness.config.resolve import resolve_model
from harness.cost.flops import Event, flops
from harness.cost.shapes import shape_of
from harness.errors import import_error_as_cannot_run
from harness.llm.model_info import find_or_download

TOKENS = 512


def prefill_by_both(folder: Path, tokens: int = TOKENS) -> tuple[float, float]:
    """Count the FLOPs of one prefill in two ways.

    Args:
        folder: With config.json; the network is built without weights, so an 8B model takes seconds
            and no memory.
        tokens: How long the prompt is; logits are computed at each token.

    Returns:
        (FLOPs by the convention `executed`, FLOPs of the operators that fvcore traces).

    Raises:
        CannotRun: The extra `flops` is not installed.
    """
    with import_error_as_cannot_run():
        import torch
        from fvcore.nn import FlopCountAnalysis
        from transformers import AutoConfig, AutoModelForCausalLM

    config = AutoConfig.from_pretrained(folder)
    # fvcore counts nothing for fused attention; `eager` multiplies the full square of queries and
    # keys.
    with torch.device("meta"):
        net = AutoModelForCausalLM.from_config(config, attn_implementation="eager")

    class Logits(torch.nn.Module):
        """The network as a module that returns logits alone, as fvcore needs it."""

        def __init__(self) -> None:
            """Keep the network."""
            super().__init__()
            self.net = net

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            """The logits of token ids [1, tokens]."""
            logits: torch.Tensor = self.net(input_ids=ids, use_cache=False).logits
            return logits

    count = FlopCountAnalysis(Logits(), torch.zeros((1, tokens), dtype=torch.long, device="meta"))
    count.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    event = Event("reader", "", "answer", "prefill", tokens, logits=tokens, pairs=tokens**2)
    # fvcore counts a multiply-add as one.
    return flops(event, shape_of(config, head=True), "executed"), 2.0 * count.total()


def main(model: str) -> None:
    """Print both counts and their difference."""
    folder = find_or_download(resolve_model(Choices(model=model)).value).folder
    formula, traced = prefill_by_both(folder)
    print(f"a prefill of {TOKENS} tokens by {model}: {formula / 1e9:,.3f} GFLOPs by the formula,")
    print(f"{traced / 1e9:,.3f} by fvcore, {formula / traced - 1:+.2%}")


if __name__ == "__main__":
    main(sys.argv[1])
