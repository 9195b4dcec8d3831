"""The loop of every training: steps, a log, checkpoints, and a resumption that changes no number.

class Training(Loop): ...            says what a batch is, how a step is done and what is logged
training.run(stop)                   to the end, or to the end of the step in which `stop` was set

out/checkpoint/state.json            step, stage, recent scores, and the name of the tensors' file
out/checkpoint/<step>.safetensors    weights and AdamW's moments: "weight.*", "mean.*", "square.*"
out/log.jsonl                        {"step": 50, ...}; of several tasks with "task" and "task_step"

A batch must be a function of the seed and of `progress` alone. Checkpoints are replaced atomically, and no step is
twice in the log after a resumption.
"""

import abc
import contextlib
import dataclasses
import json
import math
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from harness.errors import CannotRun, UserError
from harness.storage.files import write_atomic
from harness.storage.home import write_json
from harness.storage.untrusted import read_object, read_plain

B = TypeVar("B")
_MOMENTS = {"mean": "exp_avg", "square": "exp_avg_sq"}  # our names of AdamW's


def resolve_device(name: str) -> str:
    """Resolve "auto" to the GPU, if there is one, else the CPU. Raises CannotRun for a GPU that is not there."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise CannotRun("no GPU is available; leave --device out or use --device cpu")
    return name


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
    """A checkpoint that was read; tensors: "weight.NAME" and AdamW's moments; about: the identity of its training."""

    progress: Progress
    tensors: dict[str, Tensor]
    about: dict[str, Any]


def save_checkpoint(folder: Path, progress: Progress, tensors: Mapping[str, Tensor], about: dict[str, Any]) -> None:
    """Write a checkpoint; the one before stays until the new one is complete. tensors, about: as in Checkpoint."""
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{progress.step:07d}.safetensors"
    draft = folder / f".{name}"
    save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, str(draft))
    draft.replace(folder / name)
    write_json(folder / "state.json", {**dataclasses.asdict(progress), "tensors": name, "about": about})
    for old in folder.glob("*.safetensors"):
        if old.name != name:
            old.unlink()


def load_checkpoint(folder: Path, about: dict[str, Any]) -> Checkpoint | None:
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
    if wrong := [f"{k} ({theirs.get(k)} there, {v} here)" for k, v in about.items() if theirs.get(k) != v]:
        raise UserError(
            f"the checkpoint in {folder} is of another training: {', '.join(wrong)}; name another folder with --out"
        )
    return Checkpoint(progress, tensors, theirs)


def truncate_log(path: Path, step: int, task: str | None = None) -> None:
    """Remove an incomplete last line and lines after `step` from a log; of several tasks only those of `task`.

    The file is replaced atomically. Raises OSError, SaveError.
    """
    lines = read_plain(path).decode().splitlines(keepends=True) if path.exists() else []
    kept = []
    for line in lines:
        values = json.loads(line) if line.endswith("\n") else {}
        others = task is not None and values.get("task", task) != task
        if values and (others or values["step" if task is None else "task_step"] <= step):
            kept.append(line)
    if kept != lines:
        write_atomic(path, "".join(kept).encode())


class Loop(abc.ABC, Generic[B]):
    """A training, from its first step or its checkpoint.

    out: of the log and the checkpoint; about: what identifies the training there; task: whose lines of the log and
    whose checkpoint these are, where several share the folder; weights: name -> parameter; log_every, save_every:
    steps between two lines of the log, and two checkpoints; log_at: a further step after which to log; owner, advice:
    whose loss is not finite (" of 'analysis'"), and what to do about it, in a message.
    """

    weights: dict[str, Any]
    optimizer: torch.optim.AdamW
    log_every: int
    save_every: int
    log_at = -1
    owner = ""
    advice: str

    def __init__(self, out: Path, about: dict[str, Any], task: str | None = None) -> None:
        self.folder, self.about = out / "checkpoint" / (task or ""), about
        self._file, self._task = out / "log.jsonl", task
        self.progress = Progress()
        self._saved: int | None = None  # step of the last checkpoint that this process wrote

    @abc.abstractmethod
    def _finished(self) -> bool:
        """Whether no step is left."""

    @abc.abstractmethod
    def _batches(self) -> Generator[B]:
        """The batch of each step from the present one on."""

    @abc.abstractmethod
    def _step(self, batch: B) -> float:
        """Update the weights once; return the loss."""

    @abc.abstractmethod
    def _log(self, loss: float) -> None:
        """Write a line of the log; `loss` is the mean since the last line."""

    def _after_step(self) -> None:
        """Do nothing; `run` calls this after a step is counted and logged."""

    def restore(self, state: Checkpoint | None) -> None:
        """Load weights, moments and progress of a checkpoint, if there is one, and cut the log to its step."""
        if state is not None:
            self.progress = state.progress
            for name, weight in self.weights.items():
                weight.data.copy_(state.tensors[f"weight.{name}"])
                # A fused AdamW wants its step where the weights are, any other one on the CPU.
                where = weight.device if self.optimizer.defaults.get("fused") else "cpu"
                moments = {theirs: state.tensors[f"{ours}.{name}"] for ours, theirs in _MOMENTS.items()}
                self.optimizer.state[weight] = {"step": torch.tensor(float(state.progress.step), device=where)}
                self.optimizer.state[weight] |= {name: value.to(weight.device) for name, value in moments.items()}
        truncate_log(self._file, self.progress.step, self._task)

    def log_line(self, line: Mapping[str, Any]) -> None:
        """Add a line to the log. Raises OSError."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def save(self) -> None:
        """Write a checkpoint with AdamW's moments, which are zeros before the first step."""
        tensors = {f"weight.{name}": weight for name, weight in self.weights.items()}
        for (name, weight), (ours, theirs) in product(self.weights.items(), _MOMENTS.items()):
            state = self.optimizer.state.get(weight, {})
            tensors[f"{ours}.{name}"] = state.get(theirs, torch.zeros_like(weight))
        save_checkpoint(self.folder, self.progress, tensors, self.about)
        self._saved = self.progress.step

    def run(self, stop: threading.Event | None = None) -> None:
        """Train until all steps are done or `stop` is set; log and save on the way, and save at the end."""
        p, losses = self.progress, list[float]()
        with contextlib.closing(self._batches()) as batches:
            began = time.perf_counter()
            while not self._finished() and not (stop is not None and stop.is_set()):
                losses.append(self._step(next(batches)))
                p.step += 1
                now = time.perf_counter()
                p.seconds, began = p.seconds + now - began, now
                if p.step % self.log_every == 0 or p.step == self.log_at:
                    self._log(sum(losses) / len(losses))
                    losses = []
                self._after_step()
                if p.step % self.save_every == 0:
                    self.save()
        if p.step != self._saved:
            self.save()

    def _update(self, losses: Iterable[Tensor], rate: float, clip: float = 1.0) -> float:
        """Take one step of the optimizer on the sum of `losses`, its gradient clipped to norm `clip`; return the sum.

        Raises CannotRun for a sum or gradient that is not finite, before the weights change.
        """
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.zero_grad(set_to_none=True)
        total = 0.0
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        norm = float(torch.nn.utils.clip_grad_norm_(self.weights.values(), clip))
        for name, value in (("loss", total), ("gradient", norm)):
            if not math.isfinite(value):
                raise CannotRun(f"the {name}{self.owner} is {value} at step {self.progress.step}; {self.advice}")
        self.optimizer.step()
        return total
