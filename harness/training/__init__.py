"""Training of a method's adapters: several LoRA adapters, one for each thing a method asks of a model, on one base.

task.py        TrainingTask: what a method says of one adapter: its skill, how it is measured, how a teacher labels
settings.py    rank, lengths, rates ... out of configs/training/<method>-<profile>.yaml
data.py        scenes as JSON lines: of the synthetic world, or labelled by a teacher; kept, and gone on with
rows.py        scenes as token rows, in batches that are a function of seed and epoch
base.py        the frozen base with its adapters; the loss on targets alone
course.py      all of it in order
need.py        the memory it takes, before anything is loaded
sources.py     a data set's questions and documents as items to label
trainer.py     steps, checkpoints, the log; goes on exactly where a killed one stopped
measures.py    before and after, on scenes that no training saw
cards.py       what is known of an adapter, beside it

The command is harness/cli/train.py. harness/ knows no method by name: a method's `training()` says what there is.
"""
