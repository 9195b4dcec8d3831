"""The questions of a run whose requests go in batches: asked until their requests are known, again
with the replies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness.cost.meter import Meter
from harness.cost.usage import add_usage, sent
from harness.engine.progress import Progress
from harness.engine.spending_limits import Budget
from harness.engine.tools import Models
from harness.models import WaitsForBatch
from harness.storage.run_files import BATCHES
from harness.types import Example

Ask = Callable[[Sequence[Example]], None]


class BatchRounds:
    """What a job knows of batches. paid: ids of questions whose requests a batch has answered,
    whatever the limits."""

    def __init__(self, progress: Progress, budget: Budget) -> None:
        self.paid: set[str] = set()
        self._progress, self._budget = progress, budget
        self._waiting: list[
            tuple[Example, dict[str, Any]]
        ] = []  # with the most that its request costs

    def wait(
        self,
        example: Example,
        request: WaitsForBatch,
        meter: Meter,
        tried: dict[str, dict[str, Any]],
    ) -> None:
        """Note a question whose request waits, and add to `tried` what it sent besides, as to an
        encoder."""
        self._waiting.append((example, self._budget.spend(request.expected)))
        if (before := sent(self._budget.spend(meter.usage())))["tokens"]:
            add_usage(tried.setdefault(example.question.id, {}), before)

    def ask(self, models: Models, folder: Path, examples: Sequence[Example], ask: Ask) -> None:
        """Call `ask` with the examples, send what waits, and call it again with those that waited.

        models, folder: of the run. Raises what Batches raise.
        """
        model: Any = models.model("reader")
        batches = model.in_batches(folder / BATCHES, self._progress)
        while examples:
            ask(examples)
            batches.send()
            examples = [example for example, _ in self._waiting]
            for _, expected in self._waiting:
                self._budget.spend(expected, -1)
            self.paid.update(example.question.id for example in examples)
            self._waiting.clear()
        if not self._budget.hit:  # else replies may be left for a higher limit
            batches.forget()
