"""What a session needs of a loaded model, and what it counts of its passes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Protocol

import torch

from harness.config.schema import Thinking
from harness.cost.flops import ModelShape
from harness.llm.batched_forward import Ask, Network
from harness.llm.kv import Arena
from harness.llm.template import Framed, Pieces
from harness.llm.text import Text


class Loaded(Framed, Network, Protocol):
    """What a session needs of a loaded model; `HFModel` has it.

    layers: number of layers; stop_ids: tokens that end a reply; endings: markers that are cut off a reply;
    thinking: of a reasoning model; opens, closes, skips: tokens by which the template opens its thinking, those that
    end it at its limit, and an empty one.
    """

    window: int
    dtype: str
    layers: int
    shape: ModelShape
    pieces: Pieces
    text: Text
    stop_ids: frozenset[int]
    endings: re.Pattern[str] | None
    thinking: Thinking | None
    opens: list[int]
    closes: list[int]
    skips: list[int]

    @property
    def arena(self) -> Arena: ...  # noqa: D102

    def forward(self, ask: Ask, adapter: str | None) -> torch.Tensor | None:
        """Run one forward pass: float32 logits [ask.logits, vocab]."""

    def require(self, capability: str) -> None:
        """Raise CannotRun if the model lacks a capability."""

    def remember_first_prompt(self, role: str, ids: list[int]) -> None:
        """Keep the first context that `role` ran."""


@dataclass
class PassCost:
    """What forward passes did, in the fields of Event that have these names."""

    new: int = 0
    logits: int = 0
    pairs: int = 0
    out: int = 0
    endings: int = 0
    thinking: int = 0
    unclosed: int = 0
