"""RAPTOR's parameters; the defaults are those of the released code
(docs/methods/raptor.md#raptor-defaults)."""

from importlib.util import find_spec
from typing import Literal

from pydantic import Field, field_validator

from harness.method import MethodConfig

NEEDS_UMAP = (
    "'umap' needs the package umap-learn, which is not installed; run: pip install "
    "'longdoc-harness[raptor]', or "
    "choose pca, which is not what the papers ran"
)


class RaptorConfig(MethodConfig):
    """Construction (c), retrieval (r).

    chunk_tokens     c  tokens of a chunk at most, by the builder's tokenizer (released: by cl100k_base)
    summary_tokens   c  tokens of a summary at most; a longer one is cut there
    layers           c  layers of summaries at most
    reduction        c  how embeddings are reduced before they are clustered: "umap" (the paper), or "pca", this
                        project's, which needs no further package
    dimensions       c  what they are reduced to; a layer of `dimensions` + 1 nodes or fewer is the last one
    neighbours       c  UMAP's neighbours in the local step; in the global one they are the root of the nodes' number
    threshold        c  a node belongs to every component whose posterior is above this
    components       c  the mixtures tried have fewer components than this, and fewer than there are nodes
    cluster_tokens   c  a cluster with more tokens is clustered again
    seed             c  of UMAP and of the choice of the number of components, whatever the run's seed: a document has
                        one tree (released: UMAP unseeded). The mixture that is used has seed 0, as
                        there
    retrieval        r  "collapsed": all layers ranked together (CT); "traversal": layer by layer from the top (TT)
    top_k            r  nodes shown: in total (CT), or of each layer (TT)
    max_tokens       r  tokens of nodes shown at most; None = what the window holds
    """

    chunk_tokens: int = Field(default=100, gt=0)
    summary_tokens: int = Field(default=100, gt=0)
    layers: int = Field(default=5, ge=0)
    reduction: Literal["umap", "pca"] = "umap"
    dimensions: int = Field(default=10, ge=1)
    neighbours: int = Field(default=10, ge=2)
    threshold: float = Field(default=0.1, ge=0, lt=1)
    components: int = Field(default=50, ge=2)
    cluster_tokens: int = Field(default=3500, gt=0)
    seed: int = Field(default=224, ge=0, lt=2**32)
    retrieval: Literal["collapsed", "traversal"] = "collapsed"
    top_k: int = Field(default=10, gt=0)
    max_tokens: int | None = Field(default=3500, gt=0)

    @field_validator("reduction")
    @classmethod
    def _check_umap(cls, value: str) -> str:
        """Raise ValueError for "umap" where the package is not installed."""
        # The presets set the reduction, so the plan reports this. Pydantic does not check a
        # default: the skills of the method can be listed without the package.
        if value == "umap" and find_spec("umap") is None:
            raise ValueError(NEEDS_UMAP)
        return value


INDEX_FIELDS = (
    "chunk_tokens",
    "summary_tokens",
    "layers",
    "reduction",
    "dimensions",
    "neighbours",
    "threshold",
    "components",
    "cluster_tokens",
    "seed",
)
