"""PECAN's parameters; "#name" is an open choice of the papers: docs/methods/pecan.md#pecan-name."""

from typing import Literal

from pydantic import ValidationInfo, field_validator

from harness.method import MethodConfig
from harness.method.settings import index_setting, recording_setting, setting


class PecanConfig(MethodConfig):
    """Defaults are those of docs/methods/pecan.md#pecan-open-choices."""

    # Construction: a change builds a new index.
    chunk_tokens: int = index_setting(
        300,
        gt=0,
        help="Most tokens of a level-1 node, by the builder's tokenizer (PECAN 3.1; #chunks).",
    )
    chunk_boundaries: Literal["tokens", "sentences"] = index_setting(
        "tokens",
        help=(
            '"tokens": hard cut; "sentences": whole sentences packed up to chunk_tokens (#chunks).'
        ),
    )
    graph: Literal["points", "tree"] = index_setting(
        "points",
        help=(
            '"points": a call writes several Information Points; "tree": a call writes one '
            "summary, so that every node has one parent (PECAN 4.4, w/o IP-based Graph; "
            "#tree)."
        ),
    )
    window: int = index_setting(
        8192,
        gt=0,
        help=(
            "Tokens of one call in construction and search, prompt and output together (the "
            "papers' 8K; #window)."
        ),
    )
    reserve: int = index_setting(
        2048,
        gt=0,
        help="Tokens of the window reserved for what is written: points or a summary (#window).",
    )
    repeated_points: Literal["keep", "drop"] = index_setting(
        "keep",
        help=(
            '"keep": every point of a call is a node; "drop": of points of one call that '
            "are equal but for capitals, only the first one."
        ),
    )
    batch_tokens: int | None = index_setting(
        None,
        gt=0,
        help="Most tokens of nodes summarised in one call; None = what the window leaves.",
    )
    batch_nodes: int | None = index_setting(
        None,
        gt=0,
        help="Most nodes summarised in one call, spread evenly over the calls; None = no limit.",
    )
    max_levels: int = index_setting(
        6, gt=1, help="Most levels of the graph, a safety stop (#levels)."
    )
    min_ip_levels: int = index_setting(
        2,
        ge=1,
        help=(
            "Fewest levels of Information Points, even if one batch already held everything "
            "(#levels)."
        ),
    )
    token_mean: Literal["mean", "sum"] = index_setting(
        "mean",
        help=(
            'A node\'s attention is the "mean" over its tokens, or their "sum", in '
            "construction and search (#token-mean)."
        ),
    )
    # Search
    verdict: Literal["threshold", "greedy"] = setting(
        "threshold",
        help=(
            'When a probe counts as Yes: "threshold": p_yes > t_p (PECAN); "greedy": Yes is '
            "the likeliest of all tokens, whatever t_p is (GARLIC 3.2)."
        ),
    )
    t_p: float = setting(
        0.5,
        ge=0,
        le=1,
        help="A probe counts as Yes above this share of P(Yes) (PECAN app. E, per data set).",
    )
    t_n: int = setting(
        1,
        ge=1,
        help=(
            "Stop after this many Yes, counted cumulatively (PECAN 3.2; #patience; GARLIC's "
            "patience p)."
        ),
    )
    probe_wording: Literal["printed", "plain"] = setting(
        "printed",
        help=(
            '"printed" (GARLIC table 5), or "plain", the same request in other words; a '
            "model is trained on one wording."
        ),
    )
    chunk_mark: Literal["bullet", "none"] = setting(
        "bullet",
        help=(
            '"bullet": a chunk is shown with a bullet in the search prompt, as points are; '
            '"none": on a line of its own, as in the construction prompt (#bullets).'
        ),
    )
    position_factor: bool = setting(
        True,
        help=(
            "Multiply a node's relevance by its rank in the prompt, the question's being 1 "
            "(#position)."
        ),
    )
    attention: bool = setting(True, help="Use attention in the choice of the next node.")
    similarity: bool = setting(
        True, help="Use embedding similarity in the choice of the next node."
    )
    similarity_scale: Literal["all", "unvisited", "raw"] = setting(
        "all",
        help=(
            '"all": share of the sum over all nodes; "unvisited": over candidates; "raw": '
            "as it is (#similarity)."
        ),
    )
    attention_scale: Literal["sum", "raw"] = setting(
        "sum", help='"sum": z as a share of its sum; "raw": as it is (#similarity).'
    )
    window_full: Literal["stop", "skip"] = setting(
        "stop",
        help=(
            'Where the next node does not fit: "stop", or "skip" to the next node that fits '
            "(#window-full)."
        ),
    )
    max_nodes: int | None = setting(
        None, gt=0, help="Most nodes visited, the first ones included; None = no limit."
    )
    progress_control: bool = setting(
        True,
        help=(
            "Ask Yes or No after every visit. False: never ask, and visit exactly max_nodes "
            "nodes, of which at most max_nodes / levels of the graph from the top level at "
            "the start, then answer (#fixed-nodes)."
        ),
    )
    yes: str = setting(
        "Yes", help=("Label of the probe; the first tokens of both labels are compared (#labels).")
    )
    no: str = setting("No", help="The other label of the probe (#labels).")
    # Recording: a change keeps the run's predictions.
    record_stops: int | None = recording_setting(
        None,
        ge=1,
        help=(
            "Continue past the stop, up to this many positive probes, and record the answer "
            "at each (methods/pecan/recording.py); None = do not."
        ),
    )
    record_t_p: float | None = recording_setting(
        None,
        ge=0,
        le=1,
        help=(
            "record_stops counts probes with p_yes above this, so that stops for every t_p "
            "up to it can be replayed; None = the probes that count as Yes in this search."
        ),
    )

    @property
    def threshold(self) -> float | None:
        """The t_p that a probe must be above; None where the verdict is greedy and looks at no
        threshold."""
        if self.verdict == "greedy":
            return None
        return self.t_p

    # A field's validator sees the fields above it, and its message names the key that is to be
    # changed.

    @field_validator("similarity")
    @classmethod
    def _check_similarity(cls, value: bool, info: ValidationInfo) -> bool:
        """Return the value; raise ValueError for a search with neither attention nor similarity."""
        if not value and info.data.get("attention") is False:
            raise ValueError(
                "without attention and without similarity no node can be chosen; keep one of the "
                "two"
            )
        return value

    @field_validator("progress_control")
    @classmethod
    def _check_progress_control(cls, value: bool, info: ValidationInfo) -> bool:
        """Return the value; raise ValueError for a search without probes that has no fixed number
        of nodes."""
        if not value and info.data.get("max_nodes") is None:
            raise ValueError(
                "without it a fixed number of nodes is visited; say how many with "
                "method.max_nodes=N"
            )
        return value

    @field_validator("record_stops")
    @classmethod
    def _check_record_stops(cls, value: int | None, info: ValidationInfo) -> int | None:
        """Return the value; raise ValueError where stops are recorded but no probes are made."""
        if value is not None and info.data.get("progress_control") is False:
            raise ValueError(
                "without progress control no probe is made whose answer could be recorded; leave "
                "it out"
            )
        return value

    @field_validator("record_t_p")
    @classmethod
    def _check_record_t_p(cls, value: float | None, info: ValidationInfo) -> float | None:
        """Return the value; raise ValueError where a threshold of recorded stops is set but none
        are recorded."""
        if value is not None and info.data.get("record_stops") is None:
            raise ValueError("says up to which t_p stops are recorded; add method.record_stops=N")
        return value
