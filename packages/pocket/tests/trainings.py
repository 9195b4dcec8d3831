"""A tiny model, the small course that trainings are tested with, and how their folders are read."""

import json
import shutil

import pytest
from pocket.tasks.recipes import Recipe, Stage
from pocket.train import llama, trainer
from pocket.train.curriculum import read_curriculum
from pocket.train.trainer import Settings, Trainer
from safetensors.torch import load_file

from tests import random_model

RECALL = "{skill: recall, pairs: [2, 3], size: 64}"
# The first stages are left after their steps, the last one is not left at all.
COURSE = f"""
stages:
  - {{name: easy, gate: 1.01, over: 2, steps: 10, rate: 3.0e-3, tokens: 256, recipes: [{RECALL}]}}
  - {{name: short, gate: 1.01, over: 5, steps: 30, rate: 3.0e-3, tokens: 256, recipes: [{RECALL}]}}
  - {{name: mixed, gate: 1.01, over: 10, steps: 1000, rate: 3.0e-3, end_rate: 1.0e-3, tokens: 512,
      recipes: [{RECALL}, {{skill: answer, facts: [1, 2], questions: 2, size: 128}}]}}
"""


def make_tiny(folder, seed=0, texts=None):
    """Weights of the tiny shape with a tokenizer trained on `texts` (default: some of the
    world)."""
    from transformers import AutoTokenizer

    random_model.save(folder, texts, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    llama.save_weights(
        llama.new_network(
            len(tokenizer), seed, (tokenizer.bos_token_id, tokenizer.eos_token_id), **TINY
        ),
        folder,
    )
    (folder / "generation_config.json").unlink()
    return folder


def begun(tokenizer_folder, out):
    """An output folder with the tokenizer in it, so that none is built."""
    shutil.copytree(tokenizer_folder, out / "model")
    return out


def lines(out):
    """Step -> line of the log; the last one of a step counts."""
    return {
        line["step"]: line for line in map(json.loads, (out / "log.jsonl").read_text().splitlines())
    }


def steady(line):
    return {k: v for k, v in line.items() if k not in ("minutes", "stage_minutes", "tokens_per_s")}


def state_of(out):
    """The progress in the last checkpoint, and the identity of the training."""
    newest = max(
        (out / "checkpoint").glob("*/progress.json"),
        key=lambda path: int(path.parent.name.split("-")[1]),
    )
    return json.loads(newest.read_text())


def weights(out):
    return load_file(out / "model" / "model.safetensors")


def stage(gate, *gates, steps=100, over=3):
    recipes = tuple(Recipe(skill="recall", pairs=(1, 1), gate=g) for g in gates)
    return Stage(name="s", recipes=recipes, gate=gate, over=over, steps=steps)


TINY = {
    "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2,
    "max_position_embeddings": 1024,
}  # fmt: skip
SIZES = {**TINY, "intermediate_size": 48, "max_position_embeddings": 256}


def settings(out, course, **more):
    """One thread's work of a second or two."""
    return Settings(
        **{
            "out": out,
            "course": read_curriculum(course),
            "save": 25,
            "device": "cpu",
            "sizes": SIZES,
        }
        | more
    )


def train(settings, tell):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trainer, "_STEPS_PER_LOG_LINE", 25)
        Trainer(settings, tell).run()
