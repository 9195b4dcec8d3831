"""Training of LoRA adapters for methods: one adapter for each kind of request that a method makes
of its model.

tasks.py             scenes, skills and the training tasks of adapters
method_skills/       the skills and training tasks of each method, by its class
settings.py          rank, lengths, rates ... from packages/training/harness_training/profiles/<method>-<profile>.yaml
example_files.py     scenes as JSON lines, from the synthetic world
labelling.py         scenes labelled by a teacher, many at a time
question_sets.py     training questions of several data sets, without evaluation questions
teacher.py           runs a method's own code to lay out its prompts with the right replies
token_rows.py        scenes as token rows and trees, in batches that are a function of seed and epoch
row_loss.py          the loss of a decoder on target tokens
lora_model.py        the frozen base model with one adapter
mlflow_run.py        its numbers in MLflow
loop.py              transformers' Trainer with our batches and log; a stopped training resumes exactly
trainer.py           the training of one adapter
course.py            the training of all adapters of a method
exam.py              scores with and without the adapter, on scenes that were not trained on
cards.py             the model card of an adapter
reader.py            one adapter for all methods, from real training rows (real_rows.py, reader_examples.py)

The command is packages/training/harness_training/cli/train.py.
"""
