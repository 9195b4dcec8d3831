"""A training on disk: checkpoints, replaced atomically, and a log in which no step is twice after a resumption.

out/checkpoint/state.json            step, stage, recent scores, and the name of the tensors' file
out/checkpoint/<step>.safetensors    weights and AdamW's moments: "weight.*", "mean.*", "square.*"
out/log.jsonl                        {"step": 50, ...}; of several tasks with "task" and "task_step"
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.optim import AdamW

from harness.errors import CannotRun, UserError
from harness.storage.files import write_atomic
from harness.storage.home import write_json
from harness.storage.untrusted import read_object, read_plain

_MOMENTS = {"mean": "exp_avg", "square": "exp_avg_sq"}  # our names of AdamW's


@dataclass
class Progress:
    """How far a training is.

    step: steps done; stage, since: the stage and the step it began with; recent: recipe number -> shares of right
    replies in its last batches; seconds, tokens: spent so far; passed: an entry for each finished stage.
    """

    step: int = 0
    stage: int = 0
    since: int = 0
    recent: dict[str, list[float]] = field(default_factory=dict)
    seconds: float = 0.0
    tokens: int = 0
    passed: list[dict[str, Any]] = field(default_factory=list)


class Checkpoint(NamedTuple):
    """A checkpoint that was read; `about`: the identity of its training."""

    progress: Progress
    tensors: dict[str, Tensor]
    about: dict[str, Any]


def tensors_of(weights: Mapping[str, Tensor], optimizer: AdamW) -> dict[str, Tensor]:
    """The tensors of a checkpoint: weights and AdamW's moments, which are zeros before the first step."""
    tensors = {f"weight.{name}": weight for name, weight in weights.items()}
    for name, weight in weights.items():
        state = optimizer.state.get(weight, {})
        for ours, theirs in _MOMENTS.items():
            tensors[f"{ours}.{name}"] = state.get(theirs, torch.zeros_like(weight))
    return tensors


def put_back(state: Checkpoint, weights: Mapping[str, Tensor], optimizer: AdamW) -> None:
    """Restore weights and moments from a checkpoint."""
    with torch.no_grad():
        for name, weight in weights.items():
            weight.copy_(state.tensors[f"weight.{name}"])
            # A fused AdamW wants its step where the weights are, any other one on the CPU.
            where = weight.device if optimizer.defaults.get("fused") else "cpu"
            moments = {theirs: state.tensors[f"{ours}.{name}"].to(weight.device) for ours, theirs in _MOMENTS.items()}
            optimizer.state[weight] = {"step": torch.tensor(float(state.progress.step), device=where), **moments}


def save(folder: Path, progress: Progress, tensors: dict[str, Tensor], about: dict[str, Any]) -> None:
    """Write a checkpoint; the one before stays until the new one is complete. `about`: identity of the training."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{progress.step:07d}.safetensors"
    draft = folder / f".{name}"
    save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, str(draft))
    draft.replace(folder / name)
    write_json(folder / "state.json", {**dataclasses.asdict(progress), "tensors": name, "about": about})
    for old in folder.glob("*.safetensors"):
        if old.name != name:
            old.unlink()


def load(folder: Path, about: dict[str, Any]) -> Checkpoint | None:
    """Read the checkpoint in `folder`; None if there is none. `about`: values that its identity must have.

    Raises UserError if they differ, as for another seed, tokenizer or shape; CannotRun if the checkpoint is damaged.
    """
    if not (folder / "state.json").exists():
        return None
    try:
        state = read_object(folder / "state.json")
        name, theirs = state.pop("tensors"), dict(state.pop("about"))
        progress = Progress(**state)
        tensors = load_file(str(folder / name))
    except (OSError, ValueError, KeyError, TypeError, SafetensorError) as error:
        raise CannotRun(
            f"the checkpoint in {folder} is damaged ({str(error).splitlines()[0]}); delete the folder to begin again"
        ) from error
    wrong = [f"{k} ({theirs.get(k)} there, {v} here)" for k, v in about.items() if theirs.get(k) != v]
    if wrong:
        raise UserError(
            f"the checkpoint in {folder} is of another training: {', '.join(wrong)}; name another folder with --out"
        )
    return Checkpoint(progress, tensors, theirs)


# --- the log ----------------------------------------------------------------------------------------------------------


def append_log(path: Path, line: Mapping[str, Any]) -> None:
    """Add a line. Raises OSError."""
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def cut_log(path: Path, step: int, task: str | None = None) -> None:
    """Remove an incomplete last line and those of steps that will be repeated, of `task` alone by their "task_step".

    The file is replaced atomically. Raises OSError, SaveError.
    """
    if not path.exists():
        return
    lines = read_plain(path).decode().splitlines(keepends=True)
    kept = [line for line in lines if _step(line, task) <= step]
    if kept != lines:
        write_atomic(path, "".join(kept).encode())


def _step(line: str, task: str | None) -> float:
    """The step of a line: infinite for an incomplete line, minus infinity for another task's."""
    if not line.endswith("\n"):
        return math.inf
    try:
        values = json.loads(line)
        if task is not None and values["task"] != task:
            return -math.inf
        return float(values["step" if task is None else "task_step"])
    except (ValueError, KeyError, TypeError):
        return math.inf
