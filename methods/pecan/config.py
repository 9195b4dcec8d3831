"""PECAN's parameters. "point N" is the N-th open point of the papers and its resolution (facts 1.6)."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from harness.method import MethodConfig


class PecanConfig(MethodConfig):
    """Construction (c), search (s); defaults are the recommended resolutions.

    chunk_tokens         c  tokens of a level-1 node at most, by the builder's tokenizer (S000 3.1; point 1)
    chunk_boundaries     c  "tokens": hard cut; "sentences": whole sentences packed up to chunk_tokens (point 1)
    graph                c  "points": a call writes several Information Points; "tree": a call writes one summary, so
                            that every node has one parent (S000 4.4, w/o IP-based Graph; point 26)
    window               cs tokens of one call in all, prompt and output included (the papers' 8K; point 3)
    reserve              c  of these, kept for what is written: points or a summary (points 3 and 25)
    repeated_points      c  "keep": every point of a call is a node; "drop": of points of one call that say the same,
                            capitals aside, the first one is
    batch_tokens         c  tokens of nodes summarised in one call at most; None = what the window leaves
    batch_nodes          c  nodes summarised in one call at most, spread evenly over the calls; None = no limit
    max_levels           c  safety stop (point 11)
    min_ip_levels        c  Information-Point levels at least, though one batch already held everything (point 11)
    token_mean           cs "mean" over a node's tokens, or "sum" (point 10)
    verdict              s  when a probe counts as Yes: "threshold": p_yes > t_p (PECAN); "greedy": Yes is the likeliest
                            of all tokens, whatever t_p is (GARLIC, S001 3.2)
    t_p                  s  a probe counts as Yes above this share of P(Yes) (S000 app. E, per data set)
    t_n                  s  stop after this many Yes, counted cumulatively (S000 3.2, point 20; GARLIC's patience p)
    probe_wording        s  "printed" (S001 table 5), or "plain", the same request in other words; a wording is part of
                            what a model is trained on
    chunk_mark           s  "bullet": a chunk is shown with a bullet in the search prompt, as points are; "none": on a
                            line of its own, as in the construction prompt (docs/methods.md, PECAN and GARLIC)
    position_factor      s  multiply a node's relevance by its rank in the prompt, the question being 1 (S000 app. C)
    attention            s  use attention in the choice of the next node
    similarity           s  use embedding similarity in the choice of the next node
    similarity_scale     s  "all": share of the sum over all nodes; "unvisited": over candidates; "raw" (point 15)
    attention_scale      s  "sum": z as a share of its sum; "raw": as it is (point 15)
    window_full          s  "stop", or "skip" to the next node that fits (point 21)
    max_nodes            s  visit at most this many nodes, the first ones included; None = no limit
    progress_control     s  ask Yes or No after every visit. False: never ask, visit exactly max_nodes nodes, of which
                            max_nodes / levels of the graph at most from the top level at the start, those nearest to
                            the question (S000 4.4, w/o Dynamic Progress Control; point 30)
    yes, no              s  labels of the probe; their first tokens are compared (point 17)
    record_stops         s  search on behind the stop until so many Yes, and record what every probe would have answered
                            (methods/pecan/recording.py); None = do not
    record_t_p           s  the Yes that record_stops counts: probes with p_yes above this, so that every t_p up to it
                            can be replayed; None = the probes that count as Yes in this search
    """

    chunk_tokens: int = Field(default=300, gt=0)
    chunk_boundaries: Literal["tokens", "sentences"] = "tokens"
    graph: Literal["points", "tree"] = "points"
    window: int = Field(default=8192, gt=0)
    reserve: int = Field(default=1536, gt=0)
    repeated_points: Literal["keep", "drop"] = "keep"
    batch_tokens: int | None = Field(default=None, gt=0)
    batch_nodes: int | None = Field(default=None, gt=0)
    max_levels: int = Field(default=6, gt=1)
    min_ip_levels: int = Field(default=1, ge=1)
    token_mean: Literal["mean", "sum"] = "mean"
    verdict: Literal["threshold", "greedy"] = "threshold"
    t_p: float = Field(default=0.5, ge=0, le=1)
    t_n: int = Field(default=1, ge=1)
    probe_wording: Literal["printed", "plain"] = "printed"
    chunk_mark: Literal["bullet", "none"] = "bullet"
    position_factor: bool = True
    attention: bool = True
    similarity: bool = True
    similarity_scale: Literal["all", "unvisited", "raw"] = "all"
    attention_scale: Literal["sum", "raw"] = "sum"
    window_full: Literal["stop", "skip"] = "stop"
    max_nodes: int | None = Field(default=None, gt=0)
    progress_control: bool = True
    yes: str = "Yes"
    no: str = "No"
    record_stops: int | None = Field(default=None, ge=1)
    record_t_p: float | None = Field(default=None, ge=0, le=1)

    # A field's validator sees the fields above it, and its message names the key that is to be changed.

    @field_validator("similarity")
    @classmethod
    def _something_to_choose_by(cls, value: bool, info: ValidationInfo) -> bool:
        if not value and info.data.get("attention") is False:
            raise ValueError("without attention and without similarity no node can be chosen; keep one of the two")
        return value

    @field_validator("progress_control")
    @classmethod
    def _fixed_number(cls, value: bool, info: ValidationInfo) -> bool:
        if not value and info.data.get("max_nodes") is None:
            raise ValueError("without it a fixed number of nodes is visited; say how many with method.max_nodes=N")
        return value

    @field_validator("record_stops")
    @classmethod
    def _something_to_record(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("progress_control") is False:
            raise ValueError("without progress control no probe is made whose answer could be recorded; leave it out")
        return value

    @field_validator("record_t_p")
    @classmethod
    def _of_recorded_stops(cls, value: float | None, info: ValidationInfo) -> float | None:
        if value is not None and info.data.get("record_stops") is None:
            raise ValueError("says up to which t_p stops are recorded; add method.record_stops=N")
        return value


INDEX_FIELDS = (
    "chunk_tokens",
    "chunk_boundaries",
    "graph",
    "window",
    "reserve",
    "repeated_points",
    "batch_tokens",
    "batch_nodes",
    "max_levels",
    "min_ip_levels",
    "token_mean",
)
