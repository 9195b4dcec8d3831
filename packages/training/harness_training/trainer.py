"""Train one adapter: seeded, saved on the way, and resumed exactly.

    progress = train(base, job, tell, stop)

A step is a function of seed, epoch and its number alone, so a training that was killed ends with
the bytes of an undisturbed one on the same machine.
"""

import math
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from harness.config.schema import digest
from harness.cost.units import duration
from harness.llm.adapters import WEIGHTS
from harness.stats.rng import Dice
from harness_training.loop import Loop, Progress, load_checkpoint
from harness_training.lora_model import Base
from harness_training.settings import Settings, TaskSettings
from harness_training.token_rows import Row, Rows, batches


@dataclass(frozen=True)
class Job:
    """The training of one adapter. name: its task.

    out: folder of the training; about: what identifies it in its checkpoint, see `identity`;
    before: steps of the tasks before this one, for the log; last_step: of all tasks together, None
    for no limit; start: folder of an adapter to initialise from, None for a new one; partial: write
    the adapter also where `last_step` ends the training.
    """

    name: str
    out: Path
    data: Rows
    settings: Settings
    seed: int
    about: dict[str, Any] = field(default_factory=dict)
    before: int = 0
    last_step: int | None = None
    start: Path | None = None
    partial: bool = False

    @property
    def task_settings(self) -> TaskSettings:
        """The settings of this task."""
        return self.settings.tasks[self.name]

    @property
    def steps(self) -> int:
        """Total optimizer steps."""
        passes = math.ceil(len(self.data.rows) / self.task_settings.batch)
        return self.task_settings.epochs * math.ceil(passes / self.task_settings.accumulation)


_NO_EFFECT = {"tasks", "save", "say", "exam", "exam_world", "start"}  # on weights


def identity(
    base: Base, settings: Settings, task: str, seed: int, **sources: Any
) -> dict[str, Any]:
    """What identifies a training in its checkpoint: its seed, and name -> hash of base, settings
    and `sources`."""
    task_settings = (
        settings.tasks[task].model_dump(mode="json"),
        settings.model_dump(mode="json", exclude=_NO_EFFECT),
    )
    values = {"base": base.where, "settings": task_settings, **sources}
    return {"seed": seed} | {name: digest(value)[:16] for name, value in values.items()}


def train(base: Base, job: Job, tell: Callable[[str], None], stop: threading.Event) -> Progress:
    """Train until the steps are done, `job.last_step` or `stop`; save the adapter if done
    (`job.partial`: not stopped).

    Raises UserError where the checkpoint is of another training, CannotRun for a damaged one or a
    loss not finite.
    """
    base.add(
        job.name,
        job.task_settings.rank,
        job.task_settings.alpha,
        Dice("adapter", job.seed, job.name).below(2**31),
    )
    try:
        if job.start is not None:
            base.put(job.name, load_file(str(job.start / WEIGHTS)))
        run = _Run(base, job, tell)
        run.run(stop)
        if run.progress.step >= job.steps or (job.partial and not stop.is_set()):
            base.save(job.name, job.out / "adapters" / job.name)
        return run.progress
    finally:
        base.drop(job.name)


class _Run(Loop[list[list[Row]]]):
    """The optimizer and the position while one adapter is trained."""

    def __init__(self, base: Base, job: Job, tell: Callable[[str], None]) -> None:
        settings, saved = (
            job.settings,
            load_checkpoint(job.out / "checkpoint" / job.name, job.about),
        )
        super().__init__(
            base.adapted,
            job.out,
            job.about,
            saved,
            task=job.name,
            max_steps=job.steps,
            save_steps=settings.save,
            logging_steps=settings.say,
            use_cpu=base.device == "cpu",
            optim="adamw_torch",
            learning_rate=job.task_settings.rate,
            max_grad_norm=settings.clip,
            lr_scheduler_type="constant_with_warmup"
            if settings.schedule == "constant"
            else settings.schedule,
            warmup_steps=math.ceil(settings.warmup * job.steps),
        )
        self.base, self.job, self.tell = base, job, tell
        self.owner, self.advice = (
            f" of '{job.name}'",
            f"begin again with a lower --set {job.name}.rate",
        )
        self.last = (
            job.steps
            if job.last_step is None
            else min(job.steps, max(0, job.last_step - job.before))
        )
        self._right = [
            0,
            0,
        ]  # targets whose likeliest token is right, and all, since the last report
        if 0 < self.progress.step < job.steps:
            tell(f"{job.name}: going on from step {self.progress.step} of {job.steps}")

    def _finished(self) -> bool:
        return self.progress.step >= self.last

    def _batches(self) -> Generator[list[list[Row]]]:
        """Yield the batch of each step that is left: its forward passes, each a list of rows."""
        task_settings, rows, done = self.job.task_settings, self.job.data.rows, self.progress.step
        number = 0
        for epoch in range(task_settings.epochs):
            order = batches(
                rows, task_settings.batch, Dice("order", self.job.seed, self.job.name, epoch)
            )
            for start in range(0, len(order), task_settings.accumulation):
                if number >= done:
                    yield [
                        [rows[i] for i in numbers]
                        for numbers in order[start : start + task_settings.accumulation]
                    ]
                number += 1

    def _step(self, batch: list[list[Row]]) -> float:
        """Compute the gradients of the passes of `batch`; return the mean loss of a target, by
        weight."""
        p = self.progress
        rows = [row for rows_of_pass in batch for row in rows_of_pass]
        weight = sum(sum(row.weights) or len(row.targets) for row in rows)

        def losses() -> Iterator[Tensor]:
            for rows_of_pass in batch:
                loss, right = self.base.loss(rows_of_pass)
                self._right[0] += int(right.sum())
                yield loss / weight

        loss = self.backward(losses())
        self._right[1] += sum(len(row.targets) for row in rows)
        p.tokens += sum(len(row.ids) for row in rows)
        return loss

    def _log(self, loss: float) -> None:
        """Log and tell the step, the mean loss, the share of targets right and the speed; tell the
        time left too."""
        p, job = self.progress, self.job
        right = self._right[0] / max(1, self._right[1])
        speed = p.tokens / max(p.seconds, 1e-9)
        line: dict[str, Any] = {"step": job.before + p.step, "task": job.name, "task_step": p.step}
        line |= {"loss": {job.name: round(loss, 5)}, "right": {job.name: round(right, 4)}}
        self.log_line(line | {"tokens_per_s": round(speed)})
        left = p.seconds / p.step * (job.steps - p.step)
        self.tell(
            f"{job.name}: step {p.step} of {job.steps}  loss {loss:.4f}  targets right "
            f"{100 * right:.1f} %  "
            f"{speed:.0f} tokens/s  {duration(left)} left"
        )
        self._right = [0, 0]
