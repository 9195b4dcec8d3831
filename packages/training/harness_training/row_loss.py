"""The cross-entropy of a decoder at the targets of token rows (token_rows.Row).

    total, right = RowLoss(net)(rows)            summed, weighted, in nats; whether each target was the likeliest token

Rows are padded at the end, which a causal model never attends to, so only rows with branches need a
mask. Logits are computed at targets only, MAX_TARGETS_AT_ONCE at a time, and recomputed for the
gradient: 10,000 over 150,000 tokens take 6 GB.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from harness_training.token_rows import Row

MAX_TARGETS_AT_ONCE = 1024
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
        """Compute the loss at the targets of some rows, from the hidden state of the token before
        each target. Many targets are taken in parts, whose logits are computed again in the
        backward pass, so that those of one part alone are in memory.

        Returns:
            The summed, weighted cross-entropy in nats; and for each target, in the order of rows,
            whether it was the likeliest token [targets].
        """
        padded = _pad_rows(rows)
        device = self.net.device
        positions, mask = self._positions_and_mask(rows)
        # [rows x tokens, width]
        all_hidden_states = self.hidden_states(padded.ids.to(device), positions, mask).flatten(0, 1)
        positions_before = torch.tensor(padded.positions_before_targets, device=device)
        hidden_states = all_hidden_states[positions_before]  # [targets, width]
        targets = torch.tensor(padded.targets, device=device)
        weights = torch.tensor(padded.weights, device=device)
        head = self.net.get_output_embeddings()
        if len(padded.targets) <= MAX_TARGETS_AT_ONCE:
            return _weighted_loss_at_targets(
                hidden_states, targets, weights, head.weight, head.bias
            )
        losses: list[Tensor] = []
        targets_right: list[Tensor] = []
        for start in range(0, len(padded.targets), MAX_TARGETS_AT_ONCE):
            part = slice(start, start + MAX_TARGETS_AT_ONCE)
            arguments = (hidden_states[part], targets[part], weights[part], head.weight, head.bias)
            loss, right = checkpoint(_weighted_loss_at_targets, *arguments, use_reentrant=False)
            losses.append(loss)
            targets_right.append(right)
        return sum(losses[1:], losses[0]), torch.cat(targets_right)

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
        may_attend = causal.repeat(len(rows), 1, 1)  # [rows, tokens, tokens]
        for number, row in enumerate(rows):
            positions[number, : len(row.ids)] = torch.tensor(row.positions())
            for top, bottom, left, right in row.masked_blocks():
                may_attend[number, top:bottom, left:right] = False
        mask = torch.zeros(may_attend.shape, dtype=self.net.dtype)
        mask = mask.masked_fill_(~may_attend, float("-inf"))[:, None]
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
        positions_and_mask: dict[str, Tensor | None] = {}
        if positions is not None:
            positions_and_mask = {"position_ids": positions, "attention_mask": mask}
        output = self.net.get_decoder()(input_ids=ids, use_cache=False, **positions_and_mask)
        hidden: Tensor = output.last_hidden_state
        return hidden


@dataclass(frozen=True)
class _PaddedRows:
    """Rows as one tensor.

    Args:
        ids: Tokens [rows, longest], 0 after the end of a row.
        positions_before_targets: For each target the token before it, counted through all rows.
        targets: The tokens to learn.
        weights: The weight of each target in the loss.
    """

    ids: Tensor
    positions_before_targets: list[int]
    targets: list[int]
    weights: list[float]


def _pad_rows(rows: Sequence[Row]) -> _PaddedRows:
    """Pad rows with 0 to the longest one, and collect their targets, the position before each
    target (row 1 begins at the length of the longest row), and the targets' weights, 1 by
    default."""
    longest = max(len(row.ids) for row in rows)
    padded_ids = torch.zeros(len(rows), longest, dtype=torch.long)
    padded = _PaddedRows(padded_ids, positions_before_targets=[], targets=[], weights=[])
    for row_number, row in enumerate(rows):
        padded.ids[row_number, : len(row.ids)] = torch.tensor(row.ids)
        row_start = row_number * longest
        for target in row.targets:
            padded.positions_before_targets.append(row_start + target - 1)
            padded.targets.append(row.ids[target])
        padded.weights.extend(row.weights or [1.0] * len(row.targets))
    return padded


def _weighted_loss_at_targets(
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
