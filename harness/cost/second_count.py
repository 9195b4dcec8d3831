"""The FLOPs of one prefill by the formula (flops.py) beside the operators that fvcore counts in the
same network."""

from pathlib import Path

from harness.cost.flops import Event, flops
from harness.cost.shapes import shape_of
from harness.errors import import_error_as_cannot_run

TOKENS = 512


def prefill_by_both(folder: Path, tokens: int = TOKENS) -> tuple[float, float]:
    """(FLOPs by the convention `executed`, FLOPs of the operators that fvcore traces) of a prefill.

    folder: with config.json; the network is built without weights, so an 8B model takes seconds and
    no memory.
    tokens: of the prompt; logits are computed at each. Raises CannotRun without the extra `flops`.
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
        def __init__(self) -> None:
            super().__init__()
            self.net = net

        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            logits: torch.Tensor = self.net(input_ids=ids, use_cache=False).logits
            return logits

    count = FlopCountAnalysis(Logits(), torch.zeros((1, tokens), dtype=torch.long, device="meta"))
    count.unsupported_ops_warnings(False).uncalled_modules_warnings(False)
    event = Event("reader", "", "answer", "prefill", tokens, logits=tokens, pairs=tokens**2)
    # fvcore counts a multiply-add as one.
    return flops(event, shape_of(config, head=True), "executed"), 2.0 * count.total()
