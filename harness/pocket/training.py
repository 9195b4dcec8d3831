"""Training of the pocket model: seeded, resumable, by mastery.

    settings = Settings(out=Path("trained"), steps=2000)
    train(settings, tell=print)          -> the folder with weights, tokenizer and log.jsonl

A batch is a function of seed, stage and step alone, so a training that is killed and started again goes on with the
same numbers. The texts come from training seeds only, each is seen once: what is right in a batch is right on fresh
texts.
"""

from __future__ import annotations

import ctypes
import json
import shutil
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.errors import CannotRun, UserError
from harness.pocket import card, checkpoint, network, tokenizer
from harness.pocket.checkpoint import Progress
from harness.pocket.curriculum import Curriculum, RecipeModel, Stage, curriculum, skills
from harness.pocket.dice import Dice
from harness.pocket.lessons import IGNORED, Batch, Tree, fill, grow
from harness.pocket.network import Shape
from harness.pocket.recall import Drill, drill
from harness.pocket.recall import scenes as drills_of
from harness.pocket.scenes import stage as scenes
from harness.pocket.teacher import Teacher

__all__ = ["Settings", "Trainer", "make_batch", "train"]

_SAY = 50  # steps between lines of the log
_TARGETS = 8  # a place for one target to so many tokens of a batch
_LONG = ("pecan points", "pecan points of points", "summary")  # replies nearly as long as their texts
_CLIP = 1.0


@dataclass(frozen=True)
class Settings:
    """out: the folder; course: what is learnt; begin: a model folder to go on from; steps: stop after so many in all
    (None: when the curriculum ends); save: steps between checkpoints; compile: one graph a row size, None = on where a
    compiler is found.
    """

    out: Path
    course: Path | None = None
    begin: Path | None = None
    seed: int = 0
    steps: int | None = None
    save: int = 100
    device: str = "auto"
    compile: bool | None = None
    shape: Shape | None = None


def _trees(recipe: RecipeModel, dice: Dice, teacher: Teacher, drills: Drill) -> Iterator[Tree]:
    """Trees of a recipe without end."""
    if recipe.skill == "recall":
        assert recipe.pairs is not None  # the curriculum checks that
        while True:
            yield drill(drills, dice, recipe.pairs, recipe.between)
    made, skill = recipe.recipe(), skills()[recipe.skill]
    number = 0
    while True:
        inner = Dice("text", dice.between(0, 2**31), number)
        if recipe.pairs is not None:
            told = [teacher.play(skill, scene) for scene in drills_of(drills, inner, recipe.pairs, recipe.between)]
        else:
            told = [teacher.play(skill, scene) for scene in scenes(made, skill.scene, inner)]
        number += 1
        if told:
            yield from grow(told)
        elif number > 10_000:
            raise UserError(f"the recipe of '{recipe.skill}' makes no scene: no text allows what it asks")


def make_batch(stage: Stage, dice: Dice, teacher: Teacher, drills: Drill) -> tuple[int, Batch]:
    """The number of the recipe that was drawn, and a batch of it."""
    left = dice.random() * sum(r.weight for r in stage.recipes)
    number = 0
    for number, recipe in enumerate(stage.recipes):  # noqa: B007 - the last one takes what rounding leaves
        left -= recipe.weight
        if left < 0:
            break
    recipe = stage.recipes[number]
    rows = max(1, stage.tokens // recipe.size)
    most = rows * recipe.size // (3 if recipe.skill == "recall" or recipe.skill in _LONG else _TARGETS)
    return number, fill(_trees(recipe, dice, teacher, drills), rows, recipe.size, most)


def _share_right(right: np.ndarray, batch: Batch) -> float:
    """Share of replies all of whose tokens were the likeliest."""
    told = batch.targets != IGNORED
    groups = batch.group[told]
    wrong = np.bincount(groups, weights=~right[told], minlength=1)
    there = np.bincount(groups, minlength=1) > 0
    return float((wrong[there] == 0).mean()) if there.any() else 0.0


class Trainer:
    """Everything a training holds; `run` does steps until the curriculum ends."""

    def __init__(self, settings: Settings, tell: Callable[[str], None]) -> None:
        self.settings, self.tell = settings, tell
        self.course: Curriculum = curriculum(settings.course)
        self.device = _device(settings.device)
        folder = settings.out / "model"
        self.tokenizer = _tokenizer(folder, settings)
        self.shape = settings.shape or Shape(vocabulary=len(self.tokenizer))
        self.teacher = Teacher(self.tokenizer, "pocket-llama", self.shape.window)
        self.drills = Drill(self.teacher)
        self.about = {
            "seed": settings.seed,
            "tokenizer": checkpoint.tokenizer_hash(folder)[:16],
            "shape": vars(self.shape),
        }
        self.progress = Progress()
        self.weights = self._first_weights()
        self.optimizer = torch.optim.AdamW(
            [
                {"params": [w for n, w in self.weights.items() if _decays(n)], "weight_decay": 0.05},
                {"params": [w for n, w in self.weights.items() if not _decays(n)], "weight_decay": 0.0},
            ],
            betas=(0.9, 0.98),
            fused=True,
        )
        self._resume()
        self._losses = _compiled(settings, self.device)

    def _first_weights(self) -> dict[str, Tensor]:
        weights = network.start(self.shape, self.settings.seed)
        if self.settings.begin is not None:
            weights = network.load(self.settings.begin, self.shape)
        return {k: w.to(self.device).requires_grad_() for k, w in weights.items()}

    # --- checkpoints --------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        found = checkpoint.load(self.settings.out / "checkpoint", self.about)
        if found is None:
            return
        self.progress, tensors = found
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(tensors[f"weight.{name}"])
                self.optimizer.state[weight] = {
                    "step": torch.tensor(float(self.progress.step)),
                    "exp_avg": tensors[f"mean.{name}"].to(self.device),
                    "exp_avg_sq": tensors[f"square.{name}"].to(self.device),
                }
        self.tell(f"going on from step {self.progress.step}, stage '{self._stage().name}'")

    def save(self) -> None:
        """Write a checkpoint and the model as it is now."""
        tensors = {f"weight.{name}": weight for name, weight in self.weights.items()}
        for name, weight in self.weights.items():
            state = self.optimizer.state[weight]
            tensors |= {f"mean.{name}": state["exp_avg"], f"square.{name}": state["exp_avg_sq"]}
        checkpoint.save(self.settings.out / "checkpoint", self.progress, tensors, self.about)
        ends = (self.tokenizer.bos_token_id, self.tokenizer.eos_token_id)
        card.forget(self.settings.out / "model")
        network.save(self.weights, self.shape, self.settings.out / "model", ends)
        card.begin(self.settings.out / "model", self.course, self.progress, self.settings.seed, self.device)

    # --- steps --------------------------------------------------------------------------------------------------------

    def _stage(self) -> Stage:
        return self.course.stages[min(self.progress.stage, len(self.course.stages) - 1)]

    def done(self) -> bool:
        """Whether the curriculum, or the number of steps asked for, is at its end."""
        over = self.settings.steps is not None and self.progress.step >= self.settings.steps
        return over or self.progress.stage >= len(self.course.stages)

    def _batch(self, stage: int, step: int) -> tuple[int, Batch]:
        dice = Dice("training", self.settings.seed, stage, step)
        return make_batch(self.course.stages[stage], dice, self.teacher, self.drills)

    def _rate(self, stage: Stage) -> float:
        p = self.progress
        rate = stage.rate
        if stage.end_rate is not None:
            rate += (stage.end_rate - stage.rate) * min(1.0, (p.step - p.since) / stage.steps)
        return rate * min(1.0, (p.step + 1) / 100)

    def run(self) -> None:
        """Train, saving and logging on the way; what is interrupted goes on from the last checkpoint."""
        p = self.progress
        with ThreadPoolExecutor(1) as pool:
            coming: Future[tuple[int, Batch]] | None = None
            planned = (-1, -1)
            began = time.perf_counter()
            mean: list[float] = []
            while not self.done():
                if coming is None or planned != (p.stage, p.step):
                    coming = pool.submit(self._batch, p.stage, p.step)
                number, batch = coming.result()
                planned = (p.stage, p.step + 1)
                coming = pool.submit(self._batch, *planned)
                mean.append(self._step(number, batch))
                p.seconds += time.perf_counter() - began
                began = time.perf_counter()
                if p.step % _SAY == 0:
                    self._log(float(np.mean(mean)))
                    mean = []
                self._go_on()
                if p.step % self.settings.save == 0:
                    self.save()
            coming = None
        self.save()

    def _step(self, number: int, batch: Batch) -> float:
        p, stage = self.progress, self._stage()
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(stage)
        told = network.tensors(batch, self.device)
        loss, right = self._losses(self.weights, self.shape, told)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.weights.values(), _CLIP)
        self.optimizer.step()
        value = float(loss.item())
        if not np.isfinite(value):
            raise CannotRun(
                f"the loss is {value} at step {p.step}; start again from the last checkpoint with a lower rate"
            )
        recent = p.recent.setdefault(str(number), [])
        recent.append(round(_share_right(right.cpu().numpy(), batch), 4))
        del recent[: -stage.over]
        p.step += 1
        p.tokens += int((batch.own >= 0).sum())
        return value

    def _go_on(self) -> None:
        """To the next stage, when every recipe stands above the gate or the stage's steps are used up."""
        p, stage = self.progress, self._stage()
        enough = [p.recent.get(str(i), []) for i in range(len(stage.recipes))]
        gates = [stage.gate if r.gate is None else r.gate for r in stage.recipes]
        mastered = all(g == 0 or (len(r) >= stage.over and np.mean(r) >= g) for g, r in zip(gates, enough, strict=True))
        if not mastered and p.step - p.since < stage.steps:
            return
        shares = {
            f"{i} {r.skill}": round(float(np.mean(s)), 4)
            for i, (r, s) in enumerate(zip(stage.recipes, enough, strict=True))
            if s
        }
        p.passed.append(
            {
                "stage": stage.name,
                "steps": p.step - p.since,
                "mastered": mastered,
                "right": shares,
                "minutes": round(p.seconds / 60, 1),
            }
        )
        self.tell(f"stage '{stage.name}' {'mastered' if mastered else 'ended'} at step {p.step}: {shares}")
        p.stage, p.since, p.recent = p.stage + 1, p.step, {}

    def _log(self, loss: float) -> None:
        p, stage = self.progress, self._stage()
        right = {f"{i} {stage.recipes[int(i)].skill}": round(float(np.mean(s)), 3) for i, s in sorted(p.recent.items())}
        line = {
            "step": p.step,
            "stage": stage.name,
            "loss": round(loss, 5),
            "right": right,
            "minutes": round(p.seconds / 60, 2),
        }
        line["tokens_per_s"] = round(p.tokens / max(p.seconds, 1e-9))
        with (self.settings.out / "log.jsonl").open("a", encoding="utf-8") as f:
            f.write(json.dumps(line) + "\n")
        self.tell(
            f"step {p.step}  {stage.name}  loss {loss:.4f}  right {right}  "
            f"{line['minutes']} min  {line['tokens_per_s']} tokens/s"
        )


def _decays(name: str) -> bool:
    """Matrices decay; norms and embeddings, whose sizes set how sharp the logits can be, do not."""
    return "norm" not in name and name not in ("embed", "head")


def _device(name: str) -> str:
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise CannotRun("no GPU is available; leave --device out or say --device cpu")
    return name


def _tokenizer(folder: Path, settings: Settings) -> Any:
    from transformers import AutoTokenizer

    source = settings.begin
    if source is not None and not (folder / "tokenizer.json").exists():
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
            shutil.copyfile(source / name, folder / name)
    if (folder / "tokenizer.json").exists():
        return AutoTokenizer.from_pretrained(str(folder))
    return tokenizer.build(folder, settings.seed)


def _compiled(settings: Settings, device: str) -> Callable[..., Any]:
    wanted = settings.compile if settings.compile is not None else bool(shutil.which("g++"))
    if device == "cpu":
        _keep_memory()
    return torch.compile(network.losses, dynamic=False) if wanted else network.losses


def _keep_memory() -> None:
    """Let glibc keep what is freed: giving each step's 200 MB back and asking anew cost a third of the time."""
    try:
        libc = ctypes.CDLL(None)
        trim, pad, maps = -1, -2, -4
        libc.mallopt(maps, 0)
        libc.mallopt(trim, 2**31 - 1)
        libc.mallopt(pad, 2**28)
    except (OSError, AttributeError):
        return  # another C library; only slower


def train(settings: Settings, tell: Callable[[str], None]) -> Path:
    """Run the curriculum and return the model's folder. Raises UserError, CannotRun, ConfigError as its parts do."""
    trainer = Trainer(settings, tell)
    trainer.run()
    return settings.out / "model"
