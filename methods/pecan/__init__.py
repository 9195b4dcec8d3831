"""PECAN (arXiv 2410.04790v2) and GARLIC, its first version: one method in two write-ups.

config.py     every choice the papers leave open, as a named field with the recommended default
prompts.py    the printed prompts
points.py     reads Information Points out of a written summary
build.py      construction: chunks -> levels of Information Points -> weighted edges from attention
search.py     dynamic search: p_yes, relevance, next node, stop rules and their replay, answer
recording.py  the same search, with what every other stop would have answered and cost
method.py     the Method the registry names, and what it asks of a model

The ablations of both papers and the choices they leave open are presets: one field changed
(configs/methods/).
"""

from methods.pecan.method import Pecan

__all__ = ["Pecan"]
