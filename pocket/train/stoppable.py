"""A training that stops between two steps when it is asked to, so that its checkpoint is one of an undisturbed one."""

from __future__ import annotations

import threading
from collections.abc import Callable

from pocket.train.trainer import Settings, Trainer


class Stoppable(Trainer):
    """Set `stop` and `run` ends after the step it is at, saving as it does at its end."""

    def __init__(self, settings: Settings, tell: Callable[[str], None], stop: threading.Event) -> None:
        super().__init__(settings, tell)
        self.stop = stop

    def done(self) -> bool:
        """Whether the training is over, or is to stop; before its first step there is nothing to save."""
        return super().done() or (self.stop.is_set() and self.progress.step > 0)
