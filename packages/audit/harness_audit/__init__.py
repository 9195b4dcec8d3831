"""Runs checked by others and against themselves: bundles, foreign logs, answer keys, copies,
sequential tests.

bundle.py             runs as one file, without texts of the data set
verify.py             what of a bundle can be recomputed, and whether it is equal
hub_push.py           a bundle as a data set repository of the hub
foreign_tools.py      logs and tables of other harnesses; import_runs.py makes run folders of them
answer_keys.py        gold answers that are probably wrong or ambiguous
autopsy.py            why each lost question was lost (autopsy_figure.py)
score_bands.py        stored answers under every scorer; stability.py under every choice at once
entity_swap.py        a copy of a data set with other names and numbers (dataset.swap)
memory.py             runs beside the same runs over such a copy
position.py, length.py, trials.py, requests.py      the figures of `harness study`
duel.py               methods run in step until the comparison is settled (pair_races.py, sequential.py)

The commands are in cli/. Autopsy and stability are sections of the page too.
"""
