"""What a training will cost: tokens, FLOPs, memory and hours, from a few labelled items and a few measured passes.

forecasts(course, tell)           one TaskForecast for each task; nothing is trained, and no label is kept
table(forecasts)                  rows for printing

Labels: SAMPLE items of each task are labelled by the real teacher. Training: their rows are passed through the real
base forward and backward. Of a task whose labels need another adapter one item is labelled, with the base as it is.
"""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cost.flops import ModelShape
from harness.training.data import scenes_of
from harness.training.labelling import Pace, write_labels
from harness.training.need import Need
from harness.training.token_rows import Row
from harness.training.trainer import steps_of

if TYPE_CHECKING:
    from harness.method import TrainingTask
    from harness.training.base import Base
    from harness.training.course import Course

SAMPLE = 8
"""Items of each task that are labelled, evenly spread."""


@dataclass(frozen=True)
class TaskForecast:
    """Forecast of one task.

    items: questions or documents to label; label_tokens: that teacher and base read and write for them; label_hours;
    rows, tokens: of the training, all epochs, None where the sample gave no row; steps: of the optimizer; flops: see
    training_flops; hours: at the measured speed (tokens a second); memory: at the longest row of the sample.
    """

    task: str
    items: int
    label_tokens: float
    label_hours: float
    rows: float | None = None
    tokens: float | None = None
    steps: int | None = None
    flops: float | None = None
    speed: float | None = None
    hours: float | None = None
    memory: Need | None = None


def training_flops(shape: ModelShape, lengths: Sequence[int], checkpointing: bool) -> float:
    """FLOPs of one pass forward and backward over rows of these lengths, 1 multiply-add = 2 FLOPs.

    The base is frozen, so its matrices cost 2 FLOPs a weight and token forward and as many for the gradient of their
    input, none for that of the weights. Causal attention costs pair x T (T + 1) / 2 forward and twice that backward
    (Dao et al. 2022, appendix B). Recomputed activations add one pass forward. Adapters and logits are left out: 1 to 2
    percent of the whole.
    """
    again = 1 if checkpointing else 0
    linear = 2.0 * shape.linear * sum(lengths) * (2 + again)
    pairs = sum(length * (length + 1) // 2 for length in lengths)
    return linear + shape.pair * pairs * (3.0 + again)


def measured_speed(base: Base, name: str, rank: int, rows: Sequence[Row]) -> float:
    """Tokens a second of passes forward and backward over `rows`, the first of which is also run before, to warm up."""
    base.add(name, rank, rank, 0)
    try:
        began = 0.0
        for number, row in enumerate([rows[0], *rows]):
            if number == 1:
                began = time.perf_counter()
            base.losses([row])[0].backward()  # type: ignore[no-untyped-call]
        return sum(len(row.ids) for row in rows) / (time.perf_counter() - began)
    finally:
        base.drop(name)


def forecasts(course: Course, tell: Callable[[str], None]) -> Iterator[TaskForecast]:
    """Forecast each task. Raises as the training itself."""
    for task in course.tasks:
        with tempfile.TemporaryDirectory() as folder:
            yield _forecast(course, task, Path(folder) / "sample.jsonl", tell)


def _forecast(course: Course, task: TrainingTask, path: Path, tell: Callable[[str], None]) -> TaskForecast:
    every = course.items(task, tell)
    count = 1 if task.after else SAMPLE  # a base without its adapter takes long over a document
    sample = every[:: max(1, len(every) // count)][:count]
    pace = write_labels(path, task, sample, {}, course.labelling(task, ready=False), tell, lambda: course.places(tell))
    course.unload()
    rows = course.rows(task, scenes_of(path, course.scene_task())[0]).rows
    labels = _labels(task.name, len(every), pace)
    if not rows:
        tell(f"{task.name}: the teacher's {len(sample)} replies gave no row, so its training cannot be forecast")
        return labels
    own, base = course.settings.of(task.name), course.base_model()
    speed = measured_speed(base, f"{task.name} forecast", own.rank, rows)
    times = own.epochs * len(every) / len(sample)
    lengths = [len(row.ids) for row in rows]
    tokens, expected = times * sum(lengths), times * len(rows)
    return TaskForecast(
        labels.task,
        labels.items,
        labels.label_tokens,
        labels.label_hours,
        rows=expected,
        tokens=tokens,
        steps=steps_of(math.ceil(expected / own.epochs), own),
        flops=times * training_flops(base.shape(), lengths, course.settings.checkpointing),
        speed=speed,
        hours=tokens / speed / 3600,
        memory=base.memory(task.name, rows),
    )


def _labels(name: str, items: int, pace: Pace) -> TaskForecast:
    each = items / max(1, pace.items)
    return TaskForecast(name, items, each * (pace.read + pace.written), each * pace.seconds / 3600)


def table(found: Sequence[TaskForecast]) -> Iterator[tuple[str, ...]]:
    """The rows of a table, the header first."""
    yield (
        "task",
        "to label",
        "label tokens",
        "label hours",
        "rows",
        "tokens",
        "steps",
        "PFLOPs",
        "memory GB",
        "tokens/s",
        "hours",
    )
    for one in found:
        train = (one.rows, one.tokens, one.steps, one.flops, one.memory, one.speed, one.hours)
        cells = ["-"] * len(train)
        if one.memory is not None and None not in train:
            numbers = (one.rows, one.tokens, one.steps, (one.flops or 0) / 1e15, one.memory.total / 1e9, one.speed)
            cells = [f"{n:,.0f}" if n is not None and n >= 100 else f"{n:.3g}" for n in numbers] + [f"{one.hours:.3g}"]
        yield one.task, f"{one.items:,}", f"{one.label_tokens:,.0f}", f"{one.label_hours:.3g}", *cells
