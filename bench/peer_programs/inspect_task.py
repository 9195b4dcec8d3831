"""The questions of a file of MuSiQue's rows as a task of inspect_ai with two scorers."""

from inspect_ai import Task, task
from inspect_ai.dataset import Sample, json_dataset
from inspect_ai.scorer import exact, f1
from inspect_ai.solver import generate


def sample(row):
    """A row as inspect_ai's sample."""
    return Sample(id=row["id"], input=row["question"], target=row["answer"])


@task
def questions(rows: str):
    """rows: the file."""
    return Task(dataset=json_dataset(rows, sample), solver=generate(), scorer=[exact(), f1()])
