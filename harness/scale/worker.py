"""What a worker process does: it plans a row, keeps its models loaded, and answers parts of the row's questions.

It knows nothing of Ray: a driver calls `hello` once and `run` for each part (harness/scale/ray_engine.py). Settings,
question ids and paths come in, counts and sentences go out; questions, documents and records stay in files.
"""

import os
import platform
import socket
import sys
import traceback
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.config.layers import Choices
from harness.engine.parameters_from_rows import RowKey, row_key, with_numbers
from harness.engine.plan import Plan, plan_choices
from harness.engine.progress import Progress
from harness.engine.spending_limits import Budget
from harness.errors import FirstFailure, HarnessError, LimitReached, RunLocked, SaveError, UserError
from harness.scale.shard import part_of
from harness.storage.own_code_hash import installed
from harness.storage.shard_files import Part
from harness.types import VERSION

_KEPT = 4  # plans, with the rows of their data sets
_KINDS: dict[str, type[HarnessError]] = {
    "locked": RunLocked,
    "user": UserError,
    "save": SaveError,
    "limit": LimitReached,
}
_PACKAGES = ("numpy", "torch", "transformers", "tokenizers", "ray")


def versions() -> dict[str, str]:
    """Versions that have to be equal in all processes of a run."""
    return {"Python": platform.python_version(), "harness": VERSION, **installed(_PACKAGES)}


class Log(Progress):
    """A line on stderr for each question, so that the log of a dead worker says how far it came. folder: of its run."""

    def __init__(self, folder: str) -> None:
        super().__init__(sys.stderr)
        self._folder = folder

    def done(self, row: dict[str, Any]) -> None:
        """A question has just been recorded."""
        super().done(row)
        self.note(f"{self._folder} {row['question_id']} {'answered' if row['error'] is None else 'failed'}")

    def _log(self) -> None:
        """Print no sums: they are the driver's."""


@dataclass(frozen=True)
class Order:
    """One part of a row (a run) to answer: the questions `ids`, part `number` of `of`; given_up: as in `Part`.

    chain: settings of the rows that it takes numbers from, then its own; folder: of the row, below the results; rows:
    those of all rows that share the limits of the command.
    """

    chain: tuple[Choices, ...]
    folder: str
    number: int
    of: int
    ids: tuple[str, ...]
    given_up: frozenset[str] = frozenset()
    parallel: int = 1
    rows: tuple[str, ...] = ()


@dataclass(frozen=True)
class Done:
    """What became of an order. recorded: questions with a record; problems: sentences on what could not be saved.

    error: a sentence, "" if it was carried out; kind: of its exception: user, save, locked, limit, failed or bug.
    """

    recorded: int = 0
    problems: tuple[str, ...] = ()
    error: str = ""
    kind: str = ""


class Worker:
    """One worker process, which works in `cwd` and logs to out/workers/NAME.log.

    options: for runner.run, and "limits", those of the command.
    """

    def __init__(self, name: str, out: str, cwd: str, options: dict[str, Any]) -> None:
        self.name, self.out, self._options = name, Path(out), {**options}
        self._limits = self._options.pop("limits", {})
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._problem = ""
        try:
            os.chdir(cwd)
            log = self.out / "workers"
            log.mkdir(parents=True, exist_ok=True)
            fd = os.open(log / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            for stream in (1, 2):
                os.dup2(fd, stream)
            os.close(fd)
        except OSError as error:
            self._problem = f"the folder {error.filename or cwd} cannot be used there ({error.strerror})"

    def hello(self) -> dict[str, Any]:
        """{"host", "pid", "versions", "problem": why the worker cannot work, "" where it can}."""
        return {"host": socket.gethostname(), "pid": os.getpid(), "versions": versions(), "problem": self._problem}

    def run(self, order: Order) -> Done:
        """Answer the questions of an order into the files of its part. Raises nothing that a run can raise."""
        try:
            return self._run_order(order)
        except Exception as error:  # noqa: BLE001 - one row's bug is no reason to end a worker of the others
            return failed_result(error)

    def _run_order(self, order: Order) -> Done:
        """Answer the questions of an order. Raises UserError where its row has another folder here."""
        from harness.engine import runner

        known = repr(order.chain)
        if known not in self._plans:
            if len(self._plans) >= _KEPT:
                self._plans.popitem(last=False)
            self._plans[known] = plan_chain(order.chain, self.out)
        self._plans.move_to_end(known)
        plan = self._plans[known]
        if plan.folder != order.folder:
            raise UserError(
                f"this worker would write {plan.folder}, the driver {order.folder}: data set, weights or code differ "
                "between the machines; make them equal"
            )
        part = Part(order.number, order.of, frozenset(order.ids), driven=True, given_up=order.given_up)
        progress = Log(plan.folder)
        progress.budget = shared_budget(self._limits, self.out, order.rows)
        progress.note(f"{plan.folder}: part {part.number}/{part.of}, {len(part.ids)} questions")
        options = {**self._options, "parallel": order.parallel, "place": part_of(plan, part)}
        result = runner.run(plan, self.out, progress=progress, **options)
        return Done(result.summary.get("n_total", 0), tuple(result.save_problems))


def shared_budget(limits: dict[str, float], out: Path, rows: Sequence[str]) -> Budget:
    """A budget of these limits, which counts what all workers write into the folders `rows` below `out`."""
    budget = Budget(limits, shared=True)
    for folder in rows if limits else ():
        budget.open_row(out / folder, {})
    return budget


def failed_result(error: Exception) -> Done:
    """Convert an error to a Done, which any process can read; a bug's traceback goes to the log."""
    for name, kind in _KINDS.items():
        if isinstance(error, kind):
            return Done(error=str(error), kind=name)
    if isinstance(error, HarnessError):
        return Done(error=str(error), kind="failed")
    traceback.print_exception(error)
    return Done(error=f"a bug, see its log ({type(error).__name__}: {error})", kind="bug")


def reported_error(done: Done, worker: str) -> HarnessError:
    """The error that a worker (its name) reported, to be raised here."""
    kind = FirstFailure if done.kind == "failed" else _KINDS.get(done.kind, HarnessError)
    return kind(f"{worker}: {done.error}")


def plan_chain(chain: Sequence[Choices], out: Path) -> Plan:
    """The plan of the last row of `chain` (Order.chain), with the numbers that it takes from the runs before it."""
    before: dict[RowKey, Plan] = {}
    plan: Plan | None = None
    for choices in chain:
        plan = with_numbers(plan_choices(choices), before, out)
        before[row_key(choices)] = plan
    assert plan is not None  # a chain has the row itself
    return plan
