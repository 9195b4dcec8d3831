"""Judges: a model that says of each stored answer whether it is right, faithful, relevant, or how
good by a rubric; claim by claim, by its citations, or beside another run's answer.

kinds        what a judge is asked in one request, its prompts, and how its reply is read
model_judge  one judge: a model, a kind and a prompt
published    prompts that the authors of data sets publish for a judge
rubric       a published judge that asks for each item of a rubric, or compares orders of events
calibration  how far the confidence of answers is from how often they are right
stepwise     a judge that asks several requests about an answer: claims, citations, pairwise
make         a judge out of a model and a kind
judge_run    a judge over the answers of a run folder, and its scores in the records
"""
