"""RAPTOR (Sarthi et al. 2024): a tree of summaries over clusters of chunks, searched by similarity.

config.py     every choice, with the released code's default
tree.py       construction: chunks -> clusters (UMAP, Gaussian mixtures, BIC) -> summaries -> clusters ...
method.py     the Method the registry names; which nodes are shown: layer by layer (TT), or all layers together (CT)

Read from the released code and meant as its authors meant it: where that code has a defect, the
docstring of the place says what is done instead.
"""

from methods.raptor.method import Raptor

__all__ = ["Raptor"]
