"""PECAN (arXiv 2410.04790v2) and GARLIC, its first version: one method in two write-ups.

config.py     every choice the papers leave open, as a named field with the recommended default
prompts.py    the printed prompts
points.py     a written summary -> Information Points (bullets)
graph.py      construction: chunks -> levels of Information Points -> weighted edges from attention
search.py     dynamic search: p_yes, relevance, next node, stop rules, answer
method.py     the Method the registry names
"""

from methods.pecan.method import Pecan

__all__ = ["Pecan"]
