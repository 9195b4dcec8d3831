"""PECAN (arXiv 2410.04790v2) and GARLIC, its first version: one method in two write-ups.

config.py     every choice the papers leave open, as a named field with the recommended default
prompts.py    the printed prompts
points.py     a written summary -> Information Points (bullets)
graph.py      the graph: nodes, weighted edges, what is stored
build.py      construction: chunks -> levels of Information Points -> weighted edges from attention
search.py     dynamic search: p_yes, relevance, next node, stop rules, answer
stops.py      when a probe counts as Yes, and the replay of other stop rules
recording.py  the same search, with what every other stop would have answered and cost
skills.py     what all this asks of a model
method.py     the Method the registry names

The ablations of both papers and the choices they leave open are presets: one field changed (configs/methods/).
"""

from methods.pecan.method import Pecan

__all__ = ["Pecan"]
