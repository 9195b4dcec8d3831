"""Judges: a model that says of each stored answer whether it is right, faithful, relevant, or how good
by a rubric.

kinds        what a judge is asked, its prompts, and how its reply is read
model_judge  one judge: a model, a kind and a prompt
judge_run    a judge over the answers of a run folder, and its scores in the records
"""
