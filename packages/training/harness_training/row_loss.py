"""The cross-entropy of a decoder at the targets of token rows (token_rows.Row).

    total, right = RowLoss(net)(rows)            summed, weighted, in nats; whether each target was the likeliest token

Rows are padded at the end, which a causal model never attends to, so only rows with branches need a
mask. Logits are computed at targets only, TARGETS at a time, and recomputed for the gradient:
10,000 over 150,000 tokens take 6 GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
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
        """Keep the network, a causal language model of transformers."""
        super().__init__()
        self.net = net

    def forward(self, rows: Sequence[Row]) -> tuple[Tensor, Tensor]:
        """Compute the loss at the targets of some rows.

        Returns:
            The summed, weighted cross-entropy in nats; and for each target, in the order of rows,
            whether it was the likeliest token [targets].
        """
        batch = _batch_of(rows)
        device = self.net.device
        positions, mask = self._positions_and_mask(rows)
        hidden = self.hidden_states(batch.ids.to(device), positions, mask).flatten(0, 1)
        hidden = hidden[torch.tensor(batch.places, device=device)]  # [targets, width]
        targets = torch.tensor(batch.targets, device=device)
        weights = torch.tensor(batch.weights, device=device)
        head = self.net.get_output_embeddings()
        if len(batch.targets) <= TARGETS:
            return _loss(hidden, targets, weights, head.weight, head.bias)
        losses: list[Tensor] = []
        hits: list[Tensor] = []
        for start in range(0, len(batch.targets), TARGETS):
            part = slice(start, start + TARGETS)
            values = (hidden[part], targets[part], weights[part], head.weight, head.bias)
            loss, hit = checkpoint(_loss, *values, use_reentrant=False)
            losses.append(loss)
            hits.append(hit)
        return sum(losses[1:], losses[0]), torch.cat(hits)

    def _positions_and_mask(self, rows: Sequence[Row]) -> tuple[Tensor | None, Tensor | None]:
        """What a decoder needs beside the tokens of rows with branches.

        Returns:
            Positions, [rows, tokens]; and what is added to the attention of each pair of tokens, 0
            or minus infinity, [rows, 1, tokens, tokens]. Both None where no row has a branch.
        """
        if not any(row.branches for row in rows):
            return None, None
        longest = max(len(row.ids) for row in rows)
        positions = torch.arange(longest).repeat(len(rows), 1)
        causal = torch.ones(longest, longest, dtype=torch.bool).tril()
        seen = causal.repeat(len(rows), 1, 1)  # [rows, tokens, tokens]
        for number, row in enumerate(rows):
            positions[number, : len(row.ids)] = torch.tensor(row.positions())
            for top, bottom, left, right in row.masked_blocks():
                seen[number, top:bottom, left:right] = False
        mask = torch.zeros(seen.shape, dtype=self.net.dtype)
        mask = mask.masked_fill_(~seen, float("-inf"))[:, None]
        return positions.to(self.net.device), mask.to(self.net.device)

    def hidden_states(
        self, ids: Tensor, positions: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The last hidden states of the network, normed, [rows, tokens, width].

        Args:
            ids: Tokens, [rows, tokens].
            positions: The position of each token, [rows, tokens]; counted from 0 by default.
            mask: What is added to attention, [rows, 1, tokens, tokens], with `positions` only;
                causal by default.
        """
        places: dict[str, Tensor | None] = {}
        if positions is not None:
            places = {"position_ids": positions, "attention_mask": mask}
        output = self.net.get_decoder()(input_ids=ids, use_cache=False, **places)
        hidden: Tensor = output.last_hidden_state
        return hidden


@dataclass(frozen=True)
class _Batch:
    """Rows as one tensor.

    Args:
        ids: Tokens [rows, longest], 0 after the end of a row.
        places: For each target the token before it, counted through all rows.
        targets: The tokens to learn.
        weights: The weight of each target in the loss.
    """

    ids: Tensor
    places: list[int]
    targets: list[int]
    weights: list[float]


def _batch_of(rows: Sequence[Row]) -> _Batch:
    """Pad rows to the longest one, and collect their targets and weights."""
    longest = max(len(row.ids) for row in rows)
    batch = _Batch(torch.zeros(len(rows), longest, dtype=torch.long), [], [], [])
    for number, row in enumerate(rows):
        batch.ids[number, : len(row.ids)] = torch.tensor(row.ids)
        batch.places.extend(number * longest + place - 1 for place in row.targets)
        batch.targets.extend(row.ids[place] for place in row.targets)
        batch.weights.extend(row.weights or [1.0] * len(row.targets))
    return batch


def _loss(
    hidden: Tensor, targets: Tensor, weights: Tensor, head: Tensor, bias: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Compute the loss of predicting target tokens.

    Args:
        hidden: For each target, the last hidden state of the token before it, [targets, width].
        targets: Ids of the target tokens, [targets].
        weights: The weight of each target in the loss, [targets].
        head: Output embeddings, [vocabulary, width].
        bias: Bias of the logits, [vocabulary]; None without one.

    Returns:
        The weighted sum of the cross-entropies in nats; and for each target whether it was the
        likeliest token, [targets].
    """
    dtype = hidden.dtype
    if hidden.device.type == "cpu":  # some processors multiply half-precision numbers slowly
        dtype = torch.float32
    if bias is not None:
        bias = bias.to(dtype)
    logits = F.linear(hidden.to(dtype), head.to(dtype), bias).float()
    loss = F.cross_entropy(logits, targets, reduction="none") @ weights
    return loss, logits.argmax(-1) == targets
