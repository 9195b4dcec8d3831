"""transformers' Trainer for every training here: batches that are made step by step, a log, an
exact resumption.

class Training(Loop): ...            says what a batch is, what its losses are and what is logged
training.run(stop)                   to the end, or to the end of the step in which `stop` was set

out/checkpoint/checkpoint-50/        weights, optimizer and schedule as transformers writes them, and progress.json
out/log.jsonl                        {"step": 50, ...}; of several tasks with "task" and "task_step"

A batch must be a function of the seed and of `progress` alone. progress.json is written last, so a
checkpoint without it is not whole and is passed over; no step is twice in the log after a
resumption.
"""

import abc
import json
import math
import platform
import threading
import time
from collections.abc import Generator, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
from pydantic import TypeAdapter
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset
from transformers import PrinterCallback, Trainer, TrainerCallback, TrainingArguments, logging

from harness.errors import CannotRun, UserError
from harness.storage.files import write_atomic, write_json
from harness_training.example_files import differing_values
from harness_training.mlflow_run import log_numbers
from harness_training.progress import Hardware, Progress

B = TypeVar("B")
PROGRESS_FILE = "progress.json"
_PROGRESS = TypeAdapter(Progress)


def resolve_device(name: str) -> str:
    """The device that a name means: "auto" is "cuda" if there is a GPU, else "cpu". Raises
    CannotRun for "cuda" without a GPU."""
    if name == "auto" and torch.cuda.is_available():
        return "cuda"
    if name == "auto":
        return "cpu"
    if name == "cuda" and not torch.cuda.is_available():
        raise CannotRun("no GPU is available; leave --device out or use --device cpu")
    return name


def hardware_of(device: str) -> Hardware:
    """The hardware behind a torch device, "cpu" or "cuda"."""
    name = platform.processor() or platform.machine()
    if device.startswith("cuda"):
        name = str(torch.cuda.get_device_name(device))
    return Hardware(name, torch.get_num_threads())


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint on disk.

    Args:
        progress: How far the training was.
        folder: The folder that transformers wrote.
        about: What identifies the training, as JSON values.
    """

    progress: Progress
    folder: Path
    about: dict[str, object]


def load_checkpoint(folder: Path, identity: Mapping[str, object]) -> Checkpoint | None:
    """Find the last whole checkpoint in a folder; None if there is none.

    Args:
        folder: Holds folders such as "checkpoint-50".
        identity: Values that the identity of the training must have; it may have others too.

    Returns:
        The checkpoint; the weights are loaded later.

    Raises:
        UserError: The checkpoint has other values, as for another seed, tokenizer or shape.
    """
    progress_files = list(folder.glob(f"checkpoint-*/{PROGRESS_FILE}"))
    if not progress_files:
        return None
    last_progress_file = max(progress_files, key=_step_of_checkpoint)
    progress_values = json.loads(last_progress_file.read_text(encoding="utf-8"))
    saved_identity = progress_values.pop("about")
    differences = differing_values(saved_identity, identity)  # names of values, in words
    if differences:
        raise UserError(
            f"the checkpoint in {folder} is of another training: {', '.join(differences)}; name "
            "another folder with --out"
        )
    return Checkpoint(
        progress=_PROGRESS.validate_python(progress_values),
        folder=last_progress_file.parent,
        about=saved_identity,
    )


def _step_of_checkpoint(state: Path) -> int:
    """The step of a checkpoint, from the path of its state: ".../checkpoint-50/progress.json" ->
    50."""
    return int(state.parent.name.rpartition("-")[2])


def truncate_log(path: Path, step: int, task: str | None = None) -> None:
    """Remove an incomplete last line and the lines of later steps from a log.

    Args:
        path: The log.
        step: The last step whose line stays.
        task: The task whose lines are removed, where several tasks share the log; `step` is of this
            task.
    """
    if not path.exists():
        return
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    lines_that_stay = [line for line in lines if _line_stays(line, step, task)]
    if lines_that_stay != lines:
        write_atomic(path, "".join(lines_that_stay).encode())


def _line_stays(line: str, step: int, task: str | None) -> bool:
    """Whether a line of a log stays: it is complete, and of another task or not after `step`.

    Args:
        line: The line, with its line feed where it is complete.
        step: The last step whose line stays.
        task: The task whose lines are removed; None where the log has one training.
    """
    if not line.endswith("\n"):
        return False
    values = json.loads(line)
    if task is None:
        return bool(values["step"] <= step)
    is_of_other_task = values.get("task", task) != task
    return is_of_other_task or bool(values["task_step"] <= step)


class Loop(Trainer, Generic[B]):  # type: ignore[misc]
    """A training of the weights of a network, from its first step or from a checkpoint."""

    owner = ""
    """Whose loss is not finite, in a message: " of 'analysis'"."""
    advice: str
    """What to do about that, in a message."""

    def __init__(
        self,
        net: Any,
        out: Path,
        about: Mapping[str, object],
        saved: Checkpoint | None,
        *,
        task: str | None = None,
        optimizer: torch.optim.Optimizer | None = None,
        **arguments: Any,
    ) -> None:
        """Prepare the training, with the weights and the progress of the checkpoint. Lines of the
        log after the checkpoint's step are removed.

        Args:
            net: The network, of transformers or peft.
            out: Folder of the log and the checkpoints.
            about: What identifies the training there, as JSON values.
            saved: The checkpoint to go on from; None to begin.
            task: The task whose lines of the log and checkpoints these are, where several trainings
                share the folder.
            optimizer: The optimizer; None for AdamW as `arguments` set it.
            **arguments: Arguments of transformers' TrainingArguments (max_steps, save_steps,
                logging_steps).
        """
        folder = out / "checkpoint" / (task or "")
        args = TrainingArguments(
            output_dir=str(folder),
            save_total_limit=2,
            logging_strategy="no",
            logging_nan_inf_filter=False,
            report_to="none",
            disable_tqdm=True,
            ignore_data_skip=True,
            **arguments,
        )
        args._n_gpu = min(args.n_gpu, 1)  # never several by torch's DataParallel
        super().__init__(net, args, callbacks=[_StepHooks(self)], optimizers=(optimizer, None))
        self.remove_callback(PrinterCallback)
        logging.disable_progress_bar()
        logging.set_verbosity_error()  # it would say how it sorts checkpoints
        self.about = about
        self._file = out / "log.jsonl"
        self.saved = saved
        self.stop = threading.Event()
        self.progress = Progress()
        if saved is not None:
            self.progress = saved.progress
            self._load_from_checkpoint(str(saved.folder))
        truncate_log(self._file, self.progress.step, task)
        self._losses = list[float]()

    def _finished(self) -> bool:
        """Whether all steps are done."""
        return bool(self.progress.step >= self.args.max_steps)

    @abc.abstractmethod
    def _batches(self) -> Generator[B]:
        """Yield the batch of each step, from the one that comes next on."""

    @abc.abstractmethod
    def _step(self, batch: B) -> float:
        """Compute the gradients of a batch by `backward`, and return its loss."""

    @abc.abstractmethod
    def _log(self, loss: float) -> None:
        """Write a line of the log.

        Args:
            loss: The mean loss of the steps since the last line.
        """

    def _after_step(self) -> None:
        """Do nothing; called after a step is counted and logged."""

    def _after_save(self) -> None:
        """Do nothing; called after a checkpoint is written."""

    def log_line(self, line: Mapping[str, object]) -> None:
        """Append a line to the log as JSON, and send its numbers to MLflow. Raises OSError."""
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        log_numbers(line)

    def run(self, stop: threading.Event | None = None) -> None:
        """Train until all steps are done or `stop` is set, from the checkpoint where there is one;
        log and save on the way, and save at the end."""
        self.stop = stop or self.stop
        self._step_began = time.perf_counter()
        if self._finished():
            return
        checkpoint = None
        if self.saved is not None:
            checkpoint = str(self.saved.folder)
        self.train(resume_from_checkpoint=checkpoint)

    def backward(self, losses: Iterable[Tensor], rate: float | None = None) -> float:
        """Add the gradients of some losses to the weights' gradients, one after the other, so that
        only one graph is in memory. Also sets the learning rate of the step.

        Args:
            losses: Each is computed when the gradient of the one before is done.
            rate: The learning rate of this step; None for the schedule's.

        Returns:
            The sum of the losses.

        Raises:
            CannotRun: The sum is not finite.
        """
        if rate is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = rate
        total = 0.0
        for loss in losses:
            loss.backward()  # type: ignore[no-untyped-call]
            total += float(loss.detach())
        self.check_finite("loss", total)
        return total

    def check_finite(self, name: str, value: float) -> None:
        """Raise CannotRun where a value is not finite, so that the training stops before the
        weights change.

        Args:
            name: What the value is, for the message: "loss".
            value: The value.
        """
        if not math.isfinite(value):
            raise CannotRun(
                f"the {name}{self.owner} is {value} at step {self.progress.step}; {self.advice}"
            )

    # What transformers calls.

    def get_train_dataloader(self) -> Any:
        """The batches, one for each step; transformers calls this."""
        return DataLoader(_BatchStream(self), batch_size=None, collate_fn=lambda batch: batch)

    def training_step(self, _model: Any, inputs: B, _items: Any = None) -> Tensor:
        """Compute the gradients of a step, and return its loss; transformers calls this. Also keeps
        the loss for the log."""
        self._losses.append(self._step(inputs))
        return torch.tensor(self._losses[-1], device=self.args.device)


class _BatchStream(IterableDataset[Any]):
    """The batches of a Loop as transformers takes them."""

    def __init__(self, loop: Loop[Any]) -> None:
        """Keep the training that makes the batches."""
        self._loop = loop

    def __iter__(self) -> Iterator[Any]:
        """The batches of the training, from the next step on."""
        return self._loop._batches()


class _StepHooks(TrainerCallback):  # type: ignore[misc]
    """What a Loop does between the steps of transformers' Trainer."""

    def __init__(self, loop: Loop[Any]) -> None:
        """Keep the training that is hooked into."""
        self._loop = loop

    def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
        """Raise CannotRun for a gradient that is not finite, before it reaches the weights."""
        gradient_sums = [w.grad.sum() for w in self._loop.model.parameters() if w.grad is not None]
        self._loop.check_finite("gradient", float(torch.stack(gradient_sums).sum()))

    def on_step_end(self, _args: Any, state: Any, control: Any, **_: Any) -> None:
        """Count the step and its time; write the log after the last step, and after every so many,
        with their mean loss; and tell transformers to save and stop at the end or where a stop is
        asked for."""
        loop = self._loop  # the training that these hooks are of
        progress = loop.progress
        now = time.perf_counter()
        progress.step = state.global_step
        progress.seconds += now - loop._step_began
        loop._step_began = now
        is_last = progress.step == loop.args.max_steps
        if is_last or progress.step % loop.args.logging_steps == 0:
            loop._log(sum(loop._losses) / len(loop._losses))
            loop._losses.clear()
        loop._after_step()
        if loop._finished() or loop.stop.is_set():
            control.should_save = True
            control.should_training_stop = True

    def on_save(self, *_: Any, **__: Any) -> None:
        """Add progress.json to the checkpoint that transformers has written, which makes it
        whole."""
        loop = self._loop
        step = loop.progress.step
        values = {**asdict(loop.progress), "about": loop.about}
        write_json(Path(loop.args.output_dir) / f"checkpoint-{step}" / PROGRESS_FILE, values)
        loop._after_save()
