"""Where the time of a command goes: seconds of its phases, which `harness run --debug` prints.

    with phase("models"):          loading a model
        with phase("imports"):     inside it; these seconds are not counted as "models" too
            import torch

Seconds of threads are added up, so that those of questions in flight are more than passed.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass
class Phase:
    """What a phase of a command took so far.

    Attributes:
        seconds: Seconds inside it, without those of phases inside it.
        times: How often it was entered.
    """

    seconds: float = 0.0
    times: int = 0


class _Phases:
    """The phases of this process's command. Each thread keeps, as `_local.seconds_of_inner_phases`,
    the seconds of the phases inside the one that it is in."""

    def __init__(self) -> None:
        """Begin without a phase; the time of the command counts from now."""
        self._lock = threading.Lock()
        self._local = threading.local()
        self._phases: dict[str, Phase] = {}
        self._start_time = time.perf_counter()

    def forget(self) -> None:
        """Begin anew, as another command begins."""
        with self._lock:
            self._phases = {}
            self._start_time = time.perf_counter()

    @contextlib.contextmanager
    def measured(self, name: str) -> Iterator[None]:
        """Context manager that counts the seconds of its block as those of the phase `name`,
        without the seconds of phases inside it.

        `self._local` has for each thread the seconds of the phases that ended inside the innermost
        open one.
        """
        seconds_of_phases_before = getattr(self._local, "seconds_of_inner_phases", 0.0)
        self._local.seconds_of_inner_phases = 0.0
        start_time = time.perf_counter()
        try:
            yield
        finally:
            passed = time.perf_counter() - start_time
            with self._lock:
                phase = self._phases.setdefault(name, Phase())
                phase.seconds += passed - self._local.seconds_of_inner_phases
                phase.times += 1
            # To the phase around, all of this one is inner.
            self._local.seconds_of_inner_phases = seconds_of_phases_before + passed

    def table(self) -> str:
        """The phases as text: a line for each, in the order in which they were left, and one for
        all the time."""
        lines = ["phase            seconds  times"]
        with self._lock:
            for name, phase in self._phases.items():
                lines.append(f"{name:<15} {phase.seconds:8.2f} {phase.times:6}")
        lines.append(f"{'passed':<15} {time.perf_counter() - self._start_time:8.2f}")
        return "\n".join(lines)


_PHASES = _Phases()
phase = _PHASES.measured
forget_phases = _PHASES.forget
phase_table = _PHASES.table
