"""Runs checked by others and against themselves: bundles, foreign logs, answer keys, copies, sequential tests.

bundle.py             runs as one file, without texts of the data set
verify.py             what of a bundle can be recomputed, and whether it is equal
hub_push.py           a bundle as a data set repository of the hub
foreign_tools.py      logs and tables of other harnesses; import_runs.py makes run folders of them
inspect_logs.py       runs as logs of Inspect; lm_eval_samples.py as samples of lm-eval
answer_keys.py        gold answers that are probably wrong or ambiguous
memory.py             runs beside the same runs over an entity-swapped copy of the data set
duel.py               methods run in step until the comparison is settled (pair_races.py, sequential.py)

The commands are in cli/. Autopsy, bands and stability are computed in reports/, where the page shows them too.
"""
