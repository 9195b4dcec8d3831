"""PECAN's parameters; "#name" is an open choice of the papers: docs/methods/pecan.md#pecan-name."""

from typing import Literal

from pydantic import Field, ValidationInfo, field_validator

from harness.method import MethodConfig


class PecanConfig(MethodConfig):
    """Construction (c), search (s); defaults are those of docs/methods/pecan.md#pecan-open-choices.

    chunk_tokens         c  tokens of a level-1 node at most, by the builder's tokenizer (PECAN 3.1; #chunks)
    chunk_boundaries     c  "tokens": hard cut; "sentences": whole sentences packed up to chunk_tokens (#chunks)
    graph                c  "points": a call writes several Information Points; "tree": a call writes one summary, so
                            that every node has one parent (PECAN 4.4, w/o IP-based Graph; #tree)
    window               cs tokens of one call, prompt and output together (the papers' 8K; #window)
    reserve              c  of these, kept for what is written: points or a summary (#window)
    repeated_points      c  "keep": every point of a call is a node; "drop": of points of one call that say the same,
                            capitals aside, the first one is
    batch_tokens         c  tokens of nodes summarised in one call at most; None = what the window leaves
    batch_nodes          c  nodes summarised in one call at most, spread evenly over the calls; None = no limit
    max_levels           c  safety stop (#levels)
    min_ip_levels        c  Information-Point levels at least, though one batch already held everything (#levels)
    token_mean           cs "mean" over a node's tokens, or "sum" (#token-mean)
    verdict              s  when a probe counts as Yes: "threshold": p_yes > t_p (PECAN); "greedy": Yes is the likeliest
                            of all tokens, whatever t_p is (GARLIC 3.2)
    t_p                  s  a probe counts as Yes above this share of P(Yes) (PECAN app. E, per data set)
    t_n                  s  stop after this many Yes, counted cumulatively (PECAN 3.2; #patience; GARLIC's patience p)
    probe_wording        s  "printed" (GARLIC table 5), or "plain", the same request in other words; a wording is part
                            of what a model is trained on
    chunk_mark           s  "bullet": a chunk is shown with a bullet in the search prompt, as points are; "none": on a
                            line of its own, as in the construction prompt (#bullets)
    position_factor      s  multiply a node's relevance by its rank in the prompt, the question's being 1 (#position)
    attention            s  use attention in the choice of the next node
    similarity           s  use embedding similarity in the choice of the next node
    similarity_scale     s  "all": share of the sum over all nodes; "unvisited": over candidates; "raw" (#similarity)
    attention_scale      s  "sum": z as a share of its sum; "raw": as it is (#similarity)
    window_full          s  "stop", or "skip" to the next node that fits (#window-full)
    max_nodes            s  visit at most this many nodes, the first ones included; None = no limit
    progress_control     s  ask Yes or No after every visit. False: never ask, visit exactly max_nodes nodes, of which
                            max_nodes / levels of the graph at most from the top level at the start,
                            those nearest to the question (PECAN 4.4, w/o Dynamic Progress Control;
                            #fixed-nodes)
    yes, no              s  labels of the probe; their first tokens are compared (#labels)
    record_stops         s  continue past the stop, up to this many positive probes, and record the answer at each
                            (methods/pecan/recording.py); None = do not
    record_t_p           s  record_stops counts probes with p_yes above this, so that stops for every t_p up to it can
                            be replayed; None = the probes that count as Yes in this search
    """

    chunk_tokens: int = Field(default=300, gt=0)
    chunk_boundaries: Literal["tokens", "sentences"] = "tokens"
    graph: Literal["points", "tree"] = "points"
    window: int = Field(default=8192, gt=0)
    reserve: int = Field(default=2048, gt=0)
    repeated_points: Literal["keep", "drop"] = "keep"
    batch_tokens: int | None = Field(default=None, gt=0)
    batch_nodes: int | None = Field(default=None, gt=0)
    max_levels: int = Field(default=6, gt=1)
    min_ip_levels: int = Field(default=2, ge=1)
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

    @property
    def threshold(self) -> float | None:
        """The t_p that a probe must be above; None where the verdict is greedy and looks at no
        threshold."""
        return None if self.verdict == "greedy" else self.t_p

    # A field's validator sees the fields above it, and its message names the key that is to be
    # changed.

    @field_validator("similarity")
    @classmethod
    def _check_similarity(cls, value: bool, info: ValidationInfo) -> bool:
        if not value and info.data.get("attention") is False:
            raise ValueError(
                "without attention and without similarity no node can be chosen; keep one of the "
                "two"
            )
        return value

    @field_validator("progress_control")
    @classmethod
    def _check_progress_control(cls, value: bool, info: ValidationInfo) -> bool:
        if not value and info.data.get("max_nodes") is None:
            raise ValueError(
                "without it a fixed number of nodes is visited; say how many with "
                "method.max_nodes=N"
            )
        return value

    @field_validator("record_stops")
    @classmethod
    def _check_record_stops(cls, value: int | None, info: ValidationInfo) -> int | None:
        if value is not None and info.data.get("progress_control") is False:
            raise ValueError(
                "without progress control no probe is made whose answer could be recorded; leave "
                "it out"
            )
        return value

    @field_validator("record_t_p")
    @classmethod
    def _check_record_t_p(cls, value: float | None, info: ValidationInfo) -> float | None:
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
