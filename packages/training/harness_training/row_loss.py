"""The cross-entropy of a decoder at the targets of token rows (token_rows.Row).

    total, right = RowLoss(net)(rows)            summed, weighted, in nats; whether each target was the likeliest token

Rows are padded at the end, which a causal model never attends to, so only rows with branches need a
mask. Logits are computed at targets only, TARGETS at a time, and recomputed for the gradient:
10,000 over 150,000 tokens take 6 GB.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from harness_training.token_rows import Row

TARGETS = 1024
"""The most targets whose logits, [targets, vocabulary], are in memory at once; more are done in
parts."""


class RowLoss(torch.nn.Module):
    """The loss of `net` on token rows; a module, so that torch.func.functional_call can put in
    other weights."""

    def __init__(self, net: Any) -> None:
        super().__init__()
        self.net = net

    def forward(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Return (summed weighted cross-entropy in nats, for each target whether it was the
        likeliest token)."""
        longest = max(len(row.ids) for row in rows)
        ids = torch.zeros(len(rows), longest, dtype=torch.long)
        places: list[int] = []
        target_ids: list[int] = []
        weighted: list[float] = []
        for number, row in enumerate(rows):
            ids[number, : len(row.ids)] = torch.tensor(row.ids)
            places += [number * longest + place - 1 for place in row.targets]
            target_ids += [row.ids[place] for place in row.targets]
            weighted += row.weights or [1.0] * len(row.targets)
        device, positions, mask = self.net.device, None, None
        if any(row.branches for row in rows):
            positions = torch.arange(longest).repeat(len(rows), 1)
            seen = torch.ones(longest, longest, dtype=torch.bool).tril().repeat(len(rows), 1, 1)
            for number, row in enumerate(rows):
                positions[number, : len(row.ids)] = torch.tensor(row.positions())
                for top, bottom, left, right in row.masked_blocks():
                    seen[number, top:bottom, left:right] = False
            mask = (
                torch.zeros(seen.shape, dtype=self.net.dtype)
                .masked_fill_(~seen, float("-inf"))[:, None]
                .to(device)
            )
            positions = positions.to(device)
        hidden = self.hidden_states(ids.to(device), positions, mask).flatten(0, 1)
        hidden = hidden[torch.tensor(places, device=device)]
        targets = torch.tensor(target_ids, device=device)
        weights = torch.tensor(weighted, device=device)
        head = self.net.get_output_embeddings()
        if len(target_ids) <= TARGETS:
            return _loss(hidden, targets, weights, head.weight, head.bias)
        parts = zip(
            *(torch.split(values, TARGETS) for values in (hidden, targets, weights)), strict=True
        )
        part_losses = [
            checkpoint(_loss, *part, head.weight, head.bias, use_reentrant=False) for part in parts
        ]
        losses, hits = zip(*part_losses, strict=True)
        return sum(losses[1:], losses[0]), torch.cat(hits)

    def hidden_states(
        self, ids: Tensor, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The last hidden states, normed, [rows, tokens, width].

        positions: [rows, tokens], as counted by default; mask: [rows, 1, tokens, tokens], with
        `positions` only.
        """
        more = {} if positions is None else {"position_ids": positions, "attention_mask": mask}
        hidden: Tensor = self.net.get_decoder()(
            input_ids=ids, use_cache=False, **more
        ).last_hidden_state
        return hidden


def _loss(
    hidden: Tensor, targets: Tensor, weights: Tensor, head: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    kind = (
        torch.float32 if hidden.device.type == "cpu" else hidden.dtype
    )  # some CPUs multiply others slowly
    logits = F.linear(
        hidden.to(kind), head.to(kind), None if bias is None else bias.to(kind)
    ).float()
    loss = F.cross_entropy(logits, targets, reduction="none") @ weights
    return loss, logits.argmax(-1) == targets
