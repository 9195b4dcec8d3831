"""QRMeM (Wang et al. 2024, arXiv 2406.13167): a graph built for the question leads to the segments
that answer it.

config.py       every choice the paper leaves open, with its default
prompts.py      the paper's prompts in this project's words; a prompt is a list of pieces
replies.py      parsers of the replies: entities, relations, a verdict with its reason
build.py        segments, their graphs, the questions that complete them (a pool of new ones, by ROUGE-L)
memory.py       the memory as it is cached: segments, and one graph of theirs: which names are one entity, which
                relations one edge
search.py       one question: which segments fit the window, whether they answer; other maxima of trials; entity trial,
                and graph expansion search
method.py       the Method the registry names; algorithm 1 (reflection; "none" is its start alone); its skills

The paper has no released code; this is written from its description (docs/methods/qrmem.md#qrmem).
"""

from methods.qrmem.method import QRMeM

__all__ = ["QRMeM"]
