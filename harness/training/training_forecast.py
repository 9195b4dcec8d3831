"""What a training will cost at most: tokens, FLOPs, memory and hours. Nothing is labelled or trained.

forecasts(course, tell)           one TaskForecast for each task
table(forecasts)                  rows for printing

The tokens of SAMPLE items are counted, and what the method says that their labels read and write at most. The teacher's
speed is that of two short requests, the base's that of a row of SHORT tokens passed forward and backward.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.cost.flops import ModelShape, shape_of
from harness.cost.units import duration
from harness.method.hooks import LabelCost
from harness.training.labelling import SHORT
from harness.training.memory_estimate import Need
from harness.training.token_rows import Row
from harness.training.trainer import steps_of

if TYPE_CHECKING:
    from harness.method.hooks import TrainingTask
    from harness.training.base import Base
    from harness.training.course import Course

SAMPLE = 32
"""Items of each task whose tokens are counted, evenly spread."""


@dataclass(frozen=True)
class TaskForecast:
    """Forecast of one task.

    items: questions or documents to label; label_tokens: that teacher and base read and write for them; label_hours:
    one request at a time; rows, tokens: of the training, all epochs; steps: of the optimizer; flops: see
    training_flops; hours: at the measured speed (tokens a second); memory: at the longest row of the sample.
    """

    task: str
    items: int
    label_tokens: int
    label_hours: float
    rows: int
    tokens: int
    steps: int
    flops: float
    speed: float
    hours: float
    memory: Need


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


def _measured_speed(base: Base, rank: int) -> float:
    """Tokens a second of a pass forward and backward over a row, which is also run before, to warm up."""
    base.add("forecast", rank, rank, 0)
    try:
        for _ in range(2):
            began = time.perf_counter()
            base.loss([_row(SHORT)])[0].backward()
        return SHORT / (time.perf_counter() - began)
    finally:
        base.drop("forecast")


def _row(length: int) -> Row:
    return Row((0,) * length, tuple(range(1, length)))


def forecasts(course: Course, tell: Callable[[str], None]) -> Iterator[TaskForecast]:
    """Forecast each task. Raises as the training itself."""
    tell("plan: reading the training questions")
    counted = [_counted(course, task, tell) for task in course.tasks]
    models = course.labelling(course.tasks[0], ready=False)
    tell("plan: measuring the speed of the teacher")
    read, write = models.speed()
    course.unload()
    tell("plan: measuring the speed of the model that is trained")
    base = course.base_model()
    speed = _measured_speed(base, max(course.settings.tasks[task.name].rank for task in course.tasks))
    for task, items, total, tokens, longest in counted:
        own = course.settings.tasks[task.name]
        rows = own.epochs * total.rows
        yield TaskForecast(
            task.name,
            items,
            total.read + total.written,
            (total.read / read + total.written / write) / 3600,
            rows,
            tokens,
            steps_of(total.rows, own),
            rows * training_flops(shape_of(base.net.config), [tokens // max(rows, 1)], course.settings.checkpointing),
            speed,
            tokens / speed / 3600,
            base.memory(task.name, [_row(longest)]),
        )


def _counted(
    course: Course, task: TrainingTask, tell: Callable[[str], None]
) -> tuple[TrainingTask, int, LabelCost, int, int]:
    """(task, items, what all of them cost at most, tokens of the training, tokens of the longest row)."""
    items, own = course.items(task, tell), course.settings.tasks[task.name]
    offsets = course.labelling(task, ready=False).offsets
    sample = items[:: max(1, len(items) // SAMPLE)][:SAMPLE]
    costs = [task.most(question, documents, lambda text: len(offsets(text))) for _, question, documents in sample]
    scale = len(items) / max(1, len(sample))
    total = LabelCost(*(math.ceil(scale * sum(column)) for column in zip(*costs, strict=True)))
    tokens = own.epochs * min(total.read + total.written, total.rows * own.length)
    tell(
        f"{task.name}: {len(items):,} to label; at most {total.read:,} tokens read and {total.written:,} written, "
        f"{own.epochs * total.rows:,} rows of {tokens:,} tokens"
    )
    return task, len(items), total, tokens, min(own.length, max(cost.read + cost.written for cost in costs))


def table(found: Sequence[TaskForecast]) -> Iterator[tuple[str, ...]]:
    """The rows of a table, the header first."""
    yield (
        "task", "to label", "label tokens", "label time", "rows", "tokens", "steps", "PFLOPs", "memory GB", "tokens/s",
        "time",
    )  # fmt: skip
    for one in found:
        numbers = (one.rows, one.tokens, one.steps, one.flops / 1e15, one.memory.total / 1e9, one.speed)
        cells = [f"{n:,.0f}" if n >= 100 else f"{n:.3g}" for n in numbers] + [duration(3600 * one.hours)]
        yield one.task, f"{one.items:,}", f"{one.label_tokens:,.0f}", duration(3600 * one.label_hours), *cells
