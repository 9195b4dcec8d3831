"""The loop of every training: steps, a log, checkpoints, and a resumption that changes no number.

class Training(Loop): ...            says what a batch is, how a step is done and what is logged
training.run(stop)                   to the end, or to the end of the step in which `stop` was set

A batch must be a function of the seed and of `progress` alone.
"""

from __future__ import annotations

import abc
import contextlib
import math
import threading
import time
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor

from harness.errors import CannotRun
from harness.training import checkpoint
from harness.training.checkpoint import Checkpoint, Progress

B = TypeVar("B")


def device_of(name: str) -> str:
    """Resolve "auto" to the GPU, if there is one, else the CPU. Raises CannotRun for a GPU that is not there."""
    if name == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if name.startswith("cuda") and not torch.cuda.is_available():
        raise CannotRun("no GPU is available; leave --device out or use --device cpu")
    return name


class Loop(abc.ABC, Generic[B]):
    """A training, from its first step or its checkpoint.

    out: of the log and, unless `folder` is given, of the checkpoint; about: what identifies the training there;
    task: whose lines of the log these are, where several share it; weights: name -> parameter; log_every, save_every:
    steps between two lines of the log, and two checkpoints; log_at: a further step after which to log; of, advice:
    whose loss is not finite, and what to do about it, in a message.
    """

    weights: dict[str, Any]
    optimizer: torch.optim.AdamW
    log_every: int
    save_every: int
    log_at = -1
    of = ""
    advice: str

    def __init__(self, out: Path, about: dict[str, Any], folder: Path | None = None, task: str | None = None) -> None:
        self.folder, self.about = folder or out / "checkpoint", about
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
        """Report; `loss` is the mean since the last report."""

    def _after_step(self) -> None:
        """Called when a step is counted and reported."""

    def restore(self, state: Checkpoint | None) -> None:
        """Continue from a checkpoint, if there is one; the log goes on where that ended."""
        if state is not None:
            self.progress = state.progress
            checkpoint.put_back(state, self.weights, self.optimizer)
        checkpoint.cut_log(self._file, self.progress.step, self._task)

    def note(self, line: Mapping[str, Any]) -> None:
        """Add a line to the log. Raises OSError."""
        checkpoint.append_log(self._file, line)

    def save(self) -> None:
        """Write a checkpoint."""
        tensors = checkpoint.tensors_of(self.weights, self.optimizer)
        checkpoint.save(self.folder, self.progress, tensors, self.about)
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

    def _descend(self, losses: Iterable[Tensor], rate: float, clip: float = 1.0) -> float:
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
                raise CannotRun(f"the {name}{self.of} is {value} at step {self.progress.step}; {self.advice}")
        self.optimizer.step()
        return total
