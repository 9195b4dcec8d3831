"""A base and a training so small that a step takes milliseconds.

python -m packages.training.tests.small BASE OUT STEP        trains, and is killed while it saves the checkpoint of STEP
"""

import os
import signal
import sys
import threading
from pathlib import Path

from harness_training import loop
from harness_training.course import Course
from harness_training.method_skills import trainings_of
from harness_training.question_sets import QuestionSet
from harness_training.settings import Settings, read_settings

from harness.config.schema import DatasetConfig, ModelConfig
from harness.datasets.base import Dataset
from harness.types import Example, Gold, Question
from methods.longrefiner import LongRefiner
from methods.longrefiner.config import LongRefinerConfig
from tests import random_model

SIZES = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
}
FEW = {
    "scenes": 12,
    "batch": 4,
    "rank": 2,
    "rate": 0.01,
    "say": 2,
    "save": 2,
    "exam": 2,
    "length": 2000,
}


def save(folder, **sizes):
    random_model.save(
        folder, seed=1, num_key_value_heads=1, max_position_embeddings=2048, **{**SIZES, **sizes}
    )
    return folder


def course(base, out, tasks=(), **sets):
    method = LongRefiner(LongRefinerConfig())
    every = [task.name for task in trainings_of(method)]
    settings = read_settings(Settings, "longrefiner", "pocket", every, {**FEW, **sets})
    chosen = [task for task in trainings_of(method) if not tasks or task.name in tasks]
    return Course("longrefiner", method, base, chosen, settings, out, 0, "cpu")


def labelled(documents, mark="a", count=4):
    """A data set "mine" of questions about the document "d", as it is configured and as it is
    loaded."""
    own = {
        "format": "musique",
        "instruction": "Say it.",
        "max_answer_tokens": 4,
        "scorers": ("x",),
        "split": "train",
    }
    questions = [Question(f"q{n}", f"Where is {n}?", ("d",)) for n in range(count)]
    examples = tuple(Example(question, Gold(("never",))) for question in questions)
    config = DatasetConfig.model_validate({"name": "mine", **own})
    return QuestionSet(config), Dataset("mine", examples, documents, mark * 64, "rows")


def train(made, steps=None):
    lines = []
    made.run(lines.append, threading.Event(), steps)
    return lines


def kill_at(step):
    """From now on this process dies where it would write the state of the checkpoint of `step`."""
    write = loop.write_json

    def write_json(path, value):
        if value["step"] == step:
            os.kill(os.getpid(), signal.SIGKILL)
        write(path, value)

    loop.write_json = write_json  # type: ignore[attr-defined]


def main():
    base, out, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    kill_at(last)
    train(course(ModelConfig(name="small", source=str(base)), out, ("analysis", "selection")))


if __name__ == "__main__":
    main()
