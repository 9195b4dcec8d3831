"""RAPTOR's parameters; the defaults are those of the released code
(docs/methods/raptor.md#raptor-defaults)."""

from importlib.util import find_spec
from typing import Literal

from pydantic import field_validator

from harness.method import MethodConfig
from harness.method.settings import index_setting, setting

NEEDS_UMAP = (
    "'umap' needs the package umap-learn, which is not installed; run: pip install "
    "'longdoc-harness[raptor]', or choose pca, which is not what the papers ran"
)


class RaptorConfig(MethodConfig):
    """Defaults are those of the released code (docs/methods/raptor.md#raptor-defaults)."""

    # Construction: a change builds a new index.
    chunk_tokens: int = index_setting(
        100,
        gt=0,
        help="Most tokens of a chunk, by the builder's tokenizer (released: by cl100k_base).",
    )
    summary_tokens: int = index_setting(
        100, gt=0, help="Most tokens of a summary; a longer one is cut there."
    )
    layers: int = index_setting(5, ge=0, help="Most layers of summaries.")
    reduction: Literal["umap", "pca"] = index_setting(
        "umap",
        help=(
            'How embeddings are reduced before they are clustered: "umap" (the paper), or '
            '"pca", this project\'s, which needs no further package.'
        ),
    )
    dimensions: int = index_setting(
        10,
        ge=1,
        help=(
            "Dimensions that they are reduced to; a layer of `dimensions` + 1 nodes or "
            "fewer is the last one."
        ),
    )
    neighbours: int = index_setting(
        10,
        ge=2,
        help=(
            "UMAP's neighbours in the local step; in the global one they are the root of "
            "the number of nodes."
        ),
    )
    threshold: float = index_setting(
        0.1, ge=0, lt=1, help="A node belongs to every component whose posterior is above this."
    )
    components: int = index_setting(
        50,
        ge=2,
        help=(
            "The mixtures tried have fewer components than this, and fewer than there are nodes."
        ),
    )
    cluster_tokens: int = index_setting(
        3500, gt=0, help="A cluster with more tokens is clustered again."
    )
    seed: int = index_setting(
        224,
        ge=0,
        lt=2**32,
        help=(
            "Seed of UMAP and of the choice of the number of components, whatever the run's "
            "seed: a document has one tree (released: UMAP unseeded). The mixture that is "
            "used has seed 0, as there."
        ),
    )
    # Retrieval
    retrieval: Literal["collapsed", "traversal"] = setting(
        "collapsed",
        help=(
            '"collapsed": all layers ranked together (CT); "traversal": layer by layer from '
            "the top (TT)."
        ),
    )
    top_k: int = setting(10, gt=0, help="Nodes shown: in total (CT), or of each layer (TT).")
    max_tokens: int | None = setting(
        3500, gt=0, help="Most tokens of nodes shown; None = what the window holds."
    )

    @field_validator("reduction")
    @classmethod
    def _check_umap(cls, value: str) -> str:
        """Return the value. Raises ValueError for "umap" where the package is not installed."""
        # The presets set the reduction, so the plan reports this. Pydantic does not check a
        # default: the skills of the method can be listed without the package.
        if value == "umap" and find_spec("umap") is None:
            raise ValueError(NEEDS_UMAP)
        return value
