"""The small course that trainings are tested with, how their folders are read, and one that is killed on the way.

python -m tests.pocket.trainings OUT COURSE STEP       trains, and is killed while it saves the checkpoint of STEP
"""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from pocket.tasks.recipes import Recipe, Stage
from pocket.train.curriculum import read_curriculum
from pocket.train.trainer import Settings, Trainer
from tests.kills import kill_at
from tests.pocket import tiny_model

RECALL = "{skill: recall, pairs: [2, 3], size: 64}"
# The first stages are left after their steps, the last one is not left at all.
COURSE = f"""
stages:
  - {{name: easy, gate: 1.01, over: 2, steps: 20, rate: 3.0e-3, tokens: 256, recipes: [{RECALL}]}}
  - {{name: short, gate: 1.01, over: 5, steps: 60, rate: 3.0e-3, tokens: 256, recipes: [{RECALL}]}}
  - {{name: mixed, gate: 1.01, over: 20, steps: 1000, rate: 3.0e-3, end_rate: 1.0e-3, tokens: 512,
      recipes: [{RECALL}, {{skill: answer, facts: [1, 2], questions: 2, size: 128}}]}}
"""


def begun(tokenizer_folder: Path, out: Path) -> Path:
    """An output folder with the tokenizer in it, so that none is built."""
    shutil.copytree(tokenizer_folder, out / "model")
    return out


def lines(out: Path) -> dict[int, dict[str, Any]]:
    """Step -> line of the log; the last one of a step counts."""
    return {line["step"]: line for line in map(json.loads, (out / "log.jsonl").read_text().splitlines())}


def steady(line: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in line.items() if k not in ("minutes", "stage_minutes", "tokens_per_s")}


def weights(out: Path) -> dict[str, torch.Tensor]:
    return load_file(out / "model" / "model.safetensors")


def stage(gate: float, *gates: float | None, steps: int = 100, over: int = 3) -> Stage:
    recipes = tuple(Recipe(skill="recall", pairs=(1, 1), gate=g) for g in gates)
    return Stage(name="s", recipes=recipes, gate=gate, over=over, steps=steps)


SIZES = {**tiny_model.SIZES, "intermediate_size": 48, "max_position_embeddings": 256}


def settings(out: Path, course: Path, **more: Any) -> Settings:
    """One thread's work of a second or two."""
    return Settings(
        **{"out": out, "course": read_curriculum(course), "save": 50, "device": "cpu", "sizes": SIZES} | more
    )


def train(settings: Settings, tell: Callable[[str], None]) -> None:
    Trainer(settings, tell).run()


def main() -> None:
    out, course, last = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
    kill_at(last)
    train(settings(out, course, steps=200), print)


if __name__ == "__main__":
    main()
