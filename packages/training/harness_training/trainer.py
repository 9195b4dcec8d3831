"""Train one adapter: seeded, saved on the way, and resumed exactly.

    progress = train(base, job, tell, stop)

A step is a function of seed, epoch and its number alone, so a training that was killed ends with
the bytes of an undisturbed one on the same machine.
"""

import itertools
import math
import threading
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from safetensors.torch import load_file
from torch import Tensor

from harness.config.schema import json_sha256
from harness.cost.units import duration_text
from harness.llm.adapters import WEIGHTS
from harness.stats.rng import Dice
from harness_training.loop import Loop, load_checkpoint
from harness_training.lora_model import Base
from harness_training.progress import Progress
from harness_training.settings import Settings, TaskSettings
from harness_training.token_rows import Row, Rows, batches


@dataclass(frozen=True)
class Job:
    """The training of one adapter.

    Args:
        name: Its task.
        out: Folder of the training.
        data: What it learns.
        settings: The settings of the training.
        seed: The seed of weights and order.
        about: What identifies the training in its checkpoint, see `identity`.
        before: Steps of the tasks before this one, for the log.
        last_step: The last step of all tasks together; None for no limit.
        start: Folder of an adapter to initialise from; None for a new one.
        partial: Whether the adapter is also written where `last_step` ends the training.
    """

    name: str
    out: Path
    data: Rows
    settings: Settings
    seed: int
    about: Mapping[str, object] = field(default_factory=dict)
    before: int = 0
    last_step: int | None = None
    start: Path | None = None
    partial: bool = False

    @property
    def task_settings(self) -> TaskSettings:
        """The settings of this adapter's task."""
        return self.settings.tasks[self.name]

    @property
    def steps(self) -> int:
        """How many optimizer steps the training has: those of an epoch, times the epochs."""
        passes_per_epoch = math.ceil(len(self.data.rows) / self.task_settings.batch)
        return self.task_settings.epochs * math.ceil(
            passes_per_epoch / self.task_settings.accumulation
        )


_SETTINGS_WITHOUT_EFFECT_ON_WEIGHTS = {"tasks", "save", "say", "exam", "exam_world", "start"}


def identity(
    base: Base, settings: Settings, task: str, seed: int, **sources: object
) -> dict[str, object]:
    """What identifies a training in its checkpoint: {"seed": 0, "base": "9f86d081...", ...}.

    Args:
        base: The model to train.
        settings: The settings of the training; those without an effect on weights are left out.
        task: The task of the adapter.
        seed: The seed of weights and order.
        **sources: Further values by name. Like base and settings they are hashed.
    """
    task_settings = (
        settings.tasks[task].model_dump(mode="json"),
        settings.model_dump(mode="json", exclude=_SETTINGS_WITHOUT_EFFECT_ON_WEIGHTS),
    )
    values = {"base": base.where, "settings": task_settings, **sources}
    return {"seed": seed} | {name: json_sha256(value)[:16] for name, value in values.items()}


def train(base: Base, job: Job, tell: Callable[[str], None], stop: threading.Event) -> Progress:
    """Train one adapter until all its steps are done, `job.last_step` is reached or `stop` is set,
    and save it if all are done (with `job.partial` also at `job.last_step`, if it was not stopped).

    Args:
        base: The model; it has the adapter only while this runs.
        job: The training.
        tell: Called with each line of progress.
        stop: Ends the training after the step in which it is set.

    Returns:
        How far the training is.

    Raises:
        UserError: The checkpoint is of another training.
        CannotRun: The checkpoint is damaged, or a loss is not finite.
    """
    seed = Dice("adapter", job.seed, job.name).below(2**31)
    base.add(job.name, job.task_settings.rank, job.task_settings.alpha, seed)
    try:
        if job.start is not None:
            base.put(job.name, load_file(str(job.start / WEIGHTS)))
        training = _AdapterTraining(base, job, tell)
        training.run(stop)
        if training.progress.step >= job.steps or (job.partial and not stop.is_set()):
            base.save(job.name, job.out / "adapters" / job.name)
        return training.progress
    finally:
        base.drop(job.name)


class _AdapterTraining(Loop[list[list[Row]]]):
    """The optimizer and the position while one adapter is trained."""

    def __init__(self, base: Base, job: Job, tell: Callable[[str], None]) -> None:
        """Prepare the training from its checkpoint, if there is one; say so where steps of it are
        done. The last step is the job's last, or that at which `job.last_step`, counted over all
        tasks, ends it."""
        settings = job.settings
        checkpoint = load_checkpoint(job.out / "checkpoint" / job.name, job.about)
        schedule: str = settings.schedule
        if schedule == "constant":
            schedule = "constant_with_warmup"
        super().__init__(
            base.adapted,
            job.out,
            job.about,
            checkpoint,
            task=job.name,
            max_steps=job.steps,
            save_steps=settings.save,
            logging_steps=settings.say,
            use_cpu=base.device == "cpu",
            optim="adamw_torch",
            learning_rate=job.task_settings.rate,
            max_grad_norm=settings.clip,
            lr_scheduler_type=schedule,
            warmup_steps=math.ceil(settings.warmup * job.steps),
        )
        self.base = base
        self.job = job
        self.tell = tell
        self.owner = f" of '{job.name}'"
        self.advice = f"begin again with a lower --set {job.name}.rate"
        self.last = job.steps
        if job.last_step is not None:
            self.last = min(job.steps, max(0, job.last_step - job.before))
        # Targets since the last report, and those of them whose likeliest token is right.
        self._n_targets = 0
        self._n_right = 0
        if 0 < self.progress.step < job.steps:
            tell(f"{job.name}: going on from step {self.progress.step} of {job.steps}")

    def _finished(self) -> bool:
        """Whether no step is left before the end or `job.last_step`."""
        return self.progress.step >= self.last

    def _batches(self) -> Generator[list[list[Row]]]:
        """Yield the batch of each step that is left: its forward passes, each a list of rows."""
        steps_to_skip = self.progress.step
        for epoch in range(self.job.task_settings.epochs):
            for passes in self._steps_of_epoch(epoch):
                if steps_to_skip > 0:
                    steps_to_skip -= 1
                    continue
                yield [self._rows_of_indices(indices) for indices in passes]

    def _steps_of_epoch(self, epoch: int) -> Iterator[list[list[int]]]:
        """Yield the forward passes of each step of an epoch, each pass as the numbers of its
        rows."""
        settings = self.job.task_settings
        dice = Dice("order", self.job.seed, self.job.name, epoch)
        passes = batches(self.job.data.rows, settings.batch, dice)
        for start in range(0, len(passes), settings.accumulation):
            yield passes[start : start + settings.accumulation]

    def _rows_of_indices(self, indices: list[int]) -> list[Row]:
        """The rows with these numbers."""
        return [self.job.data.rows[index] for index in indices]

    def _step(self, batch: list[list[Row]]) -> float:
        """Add the gradients of the passes of a batch to the weights' gradients; returns the mean
        loss of a target, by weight. Also counts targets, right ones and tokens.

        Args:
            batch: The rows of each forward pass.
        """
        rows = list(itertools.chain.from_iterable(batch))
        # The weight of all targets; in a row without weights each has the weight 1.
        weight_of_all_targets = sum(sum(row.weights) or len(row.targets) for row in rows)

        def compute_losses_in_turn() -> Iterator[Tensor]:
            """Yield the loss of each pass; also counts the right targets."""
            for rows_of_pass in batch:
                loss, is_right = self.base.loss(rows_of_pass)
                self._n_right += int(is_right.sum())
                yield loss / weight_of_all_targets

        # A generator, as `backward` wants the gradient of a pass before the next one is computed:
        # then one graph alone is in memory. The right targets are counted meanwhile.
        mean_loss = self.backward(compute_losses_in_turn())
        self._n_targets += sum(len(row.targets) for row in rows)
        self.progress.tokens += sum(len(row.ids) for row in rows)
        return mean_loss

    def _log(self, loss: float) -> None:
        """Write a line of the log and of progress: the step, the loss, the share of right targets
        and the speed.

        Args:
            loss: The mean loss of the steps since the last line.
        """
        progress = self.progress
        job = self.job
        share_right = self._n_right / max(1, self._n_targets)
        tokens_per_second = progress.tokens / max(progress.seconds, 1e-9)
        self.log_line(
            {
                "step": job.before + progress.step,
                "task": job.name,
                "task_step": progress.step,
                "loss": {job.name: round(loss, 5)},
                "right": {job.name: round(share_right, 4)},
                "tokens_per_s": round(tokens_per_second),
            }
        )
        seconds_left = progress.seconds / progress.step * (job.steps - progress.step)
        self.tell(
            f"{job.name}: step {progress.step} of {job.steps}  loss {loss:.4f}  targets right "
            f"{100 * share_right:.1f} %  "
            f"{tokens_per_second:.0f} tokens/s  {duration_text(seconds_left)} left"
        )
        self._n_right = 0
        self._n_targets = 0
