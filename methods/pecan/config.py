"""PECAN's parameters. "point N" is the N-th open point of the papers and its resolution (facts 1.6)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from harness.method import MethodConfig

__all__ = ["PecanConfig"]


class PecanConfig(MethodConfig):
    """Construction (c), search (s); defaults are the recommended resolutions.

    chunk_tokens         c  tokens of a level-1 node, by the builder's tokenizer, hard cut (S000 3.1; point 1)
    window               cs tokens of one call in all, prompt and output included (the papers' 8K; point 3)
    reserve              c  of these, kept for the written summary (points 3 and 25)
    batch_tokens         c  tokens of nodes summarised in one call at most; None = what the window leaves
    max_levels           c  safety stop (point 11)
    min_ip_levels        c  Information-Point levels at least, though one batch already held everything (point 11)
    token_mean           cs "mean" over a node's tokens, or "sum" (point 10)
    t_p                  s  a probe counts as Yes above this share of P(Yes) (S000 app. E, per data set)
    t_n                  s  stop after this many Yes, counted cumulatively (S000 3.2; point 20)
    position_factor      s  multiply a node's relevance by its rank in the prompt, the question being 1 (S000 app. C)
    attention            s  use attention in the choice of the next node
    similarity           s  use embedding similarity in the choice of the next node
    similarity_scale     s  "all": share of the sum over all nodes; "unvisited": over candidates; "raw" (point 15)
    attention_scale      s  "sum": z as a share of its sum; "raw": as it is (point 15)
    window_full          s  "stop", or "skip" to the next node that fits (point 21)
    max_nodes            s  visit at most this many nodes, the first ones included; None = no limit
    yes, no              s  labels of the probe; their first tokens are compared (point 17)
    """

    chunk_tokens: int = Field(default=300, gt=0)
    window: int = Field(default=8192, gt=0)
    reserve: int = Field(default=1536, gt=0)
    batch_tokens: int | None = Field(default=None, gt=0)
    max_levels: int = Field(default=6, gt=1)
    min_ip_levels: int = Field(default=1, ge=1)
    token_mean: Literal["mean", "sum"] = "mean"
    t_p: float = Field(default=0.5, ge=0, le=1)
    t_n: int = Field(default=1, ge=1)
    position_factor: bool = True
    attention: bool = True
    similarity: bool = True
    similarity_scale: Literal["all", "unvisited", "raw"] = "all"
    attention_scale: Literal["sum", "raw"] = "sum"
    window_full: Literal["stop", "skip"] = "stop"
    max_nodes: int | None = Field(default=None, gt=0)
    yes: str = "Yes"
    no: str = "No"


INDEX_FIELDS = ("chunk_tokens", "window", "reserve", "batch_tokens", "max_levels", "min_ip_levels", "token_mean")
