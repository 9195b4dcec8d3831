"""The runs of one command, run in turn: one that fails never loses the others.

Everything else a command does is a Hook. For each run: `ready` of every hook, `started` of every
hook, the run, `ended` of every hook; after all runs `closed`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.engine.plan import PlannedRun
    from harness.engine.runner import RunResult


class Hook:
    """Base of what a command does around its runs; a subclass overrides the calls that it needs."""

    def ready(self, plan: PlannedRun) -> PlannedRun:
        """Called before a run: returns its plan, or a changed one that is run in its place. Raises
        UserError where it must not run."""
        return plan

    def started(self, plan: PlannedRun) -> None:
        """Called when the run is about to write its run folder."""

    def ended(self, plan: PlannedRun, result: RunResult) -> None:
        """Called when the run ran to its end; some questions may have failed."""

    def closed(self) -> int:
        """Called when all runs have had their turn; returns the exit code that this hook asks for,
        0 for none."""
        return 0


@dataclass(frozen=True)
class Outcome:
    """A run that had its turn.

    Attributes:
        plan: The run.
        result: Its result; None where it did not end well.
        error: The exception that ended it, else None.
    """

    plan: PlannedRun
    result: RunResult | None = None
    error: Exception | None = None


@dataclass(frozen=True)
class IncompleteRun:
    """An incomplete run: not started, stopped midway, with failed questions or not saved.

    Attributes:
        run: Its name in messages: "bm25 k=3 on musique".
        why: The reason in a sentence.
    """

    run: str
    why: str


@dataclass
class Planned:
    """The runs of a command after planning.

    Attributes:
        plans: The plans of the runs that can be run.
        incomplete: The other runs, with why.
        exit_code: Of the command, so far.
    """

    plans: list[PlannedRun] = field(default_factory=list)
    incomplete: list[IncompleteRun] = field(default_factory=list)
    exit_code: int = 0


def in_turn(
    plans: Sequence[PlannedRun],
    execute: Callable[[PlannedRun], RunResult],
    hooks: Sequence[Hook] = (),
) -> Iterator[Outcome]:
    """Run each plan, and yield its Outcome: the result, or the error that it ended with, which does
    not keep the next from being run.

    Args:
        plans: In the order of the command.
        execute: Runs one.
        hooks: Called before each run, when they may replace its plan or refuse it, and after it.
    """
    for plan in plans:
        try:
            ready_plan = plan
            for hook in hooks:
                ready_plan = hook.ready(ready_plan)
            for hook in hooks:
                hook.started(ready_plan)
            result = execute(ready_plan)
            for hook in hooks:
                hook.ended(ready_plan, result)
        except Exception as error:  # noqa: BLE001 - a bug in one run must not lose the others
            yield Outcome(plan, error=error)
        else:
            yield Outcome(plan, result)


def bug_sentence(error: Exception) -> str:
    """The sentence for a run that a bug ended; the caller has printed the traceback."""
    return f"a bug, see the traceback above ({type(error).__name__})"
