"""MemWalker (Chen et al. 2023, arXiv 2310.05029): a model walks down a tree of summaries to the
part that answers.

config.py    every choice the paper leaves open, with the recommended default
prompts.py   this project's words for what the paper's prompts ask; a prompt is a list of pieces
replies.py   what a reply says, strictly: a number, or -1, or -2 with an answer
walk.py      the walk: choose a part, read it, answer or go back; a request is repeated until its reply is understood
method.py    the Method the registry names, its tree of summaries, and what it asks of a model

No code was released; the walk is written from the paper's description
(docs/methods/memwalker.md#memwalker).
"""

from methods.memwalker.method import MemWalker

__all__ = ["MemWalker"]
