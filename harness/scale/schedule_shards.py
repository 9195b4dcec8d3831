"""Spread rows (runs of one command) over workers: cut each into parts, requeue those of dead workers, merge.

    driver = Driver(pool, out, progress, ...)
    driver.add(plan, chain)          its parts are queued; several rows may be under way
    driver.wait(plan)                RunResult, once all its parts are answered and merged

`pool` are the workers of an engine (harness/scale/ray_engine.py). The driver holds the lock of each row's folder from
`add` to the merge, so that no other process writes the row. What counts is on disk: a driver that starts again merges
the parts that it finds and asks only what has no record.
"""

import itertools
import time
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from harness.config.layers import Choices
from harness.config.schema import canonical
from harness.engine import runner
from harness.engine.plan import Plan
from harness.engine.progress import Progress
from harness.errors import HarnessError, LimitReached, RunLocked
from harness.scale.merge import merge
from harness.scale.shard import partition
from harness.scale.worker import Done, Order, reported_error
from harness.storage.failures import has_answer
from harness.storage.files import check_writable
from harness.storage.json_lines import read_lines
from harness.storage.lock import FolderLock
from harness.storage.run_folder import RECORDS, RUN
from harness.storage.shard_files import TRIES, PartsFollower, part_name

_SLICES = (4, 2, 1, 1)  # eighths of a worker's share: four parts each, the last ones short
_LOCK_WAIT = 60.0  # seconds that a dying worker may still hold the lock of its part
_POLL = 0.5  # seconds between two looks at the records


@dataclass(frozen=True)
class Event:
    """What happened to a worker: it is ready (again), has done its order, or died with it."""

    worker: str
    done: Done | None = None
    died: bool = False


class WorkerPool(Protocol):
    """The workers of an engine, by name. Each has at most one order."""

    count: int

    def submit(self, worker: str, order: Order) -> None:
        """Give a worker that is ready an order."""

    def poll(self, timeout: float) -> list[Event]:
        """What happened since the last call; waits up to `timeout` seconds. Raises UserError if no worker is left."""

    def close(self) -> None:
        """End all workers at once."""


@dataclass
class _Task:
    """A part of a row. ids: its questions; deaths: of workers that had it; times are of time.monotonic."""

    number: int
    ids: tuple[str, ...]
    deaths: int = 0
    not_before: float = 0.0
    locked_since: float | None = None


@dataclass
class _Row:
    """A row. of: number of its parts; running: parts that workers have; deaths: question -> workers that it ended."""

    plan: Plan
    chain: tuple[Choices, ...]
    folder: Path
    of: int = 0
    queue: deque[_Task] = field(default_factory=deque)
    running: int = 0
    deaths: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    error: HarnessError | None = None
    result: runner.RunResult | None = None
    lock: ExitStack = field(default_factory=ExitStack)
    tail: PartsFollower | None = None

    @property
    def model(self) -> str:
        """The models of this row as text: workers that have loaded them are preferred."""
        configs = self.plan.models | self.plan.encoders
        return canonical({role: config.model_dump(mode="json") for role, config in configs.items()})


def _join_slices(slices: Sequence[list[str]], workers: int) -> list[list[str]]:
    """Join equal slices of a row (question ids) to its parts: half of what is left to all workers, then half again.

    Long parts first and short ones last keep all workers busy to the end with few parts ("factoring": S. F. Hummel,
    E. Schonberg and L. E. Flynn, Communications of the ACM 35(8), 1992). Empty slices mean that there are too few
    documents for equal ones: then each is a part.
    """
    if not all(slices):
        return [ids for ids in slices if ids]
    rest = iter(slices)
    return [[i for ids in itertools.islice(rest, size) for i in ids] for size in _SLICES for _ in range(workers)]


class Driver:
    """Schedules the parts of rows over workers; command, retry_failed, parallel: as in runner.run."""

    def __init__(
        self,
        pool: WorkerPool,
        out: Path,
        progress: Progress,
        *,
        command: list[str],
        retry_failed: bool = False,
        parallel: int = 1,
    ) -> None:
        self._pool, self._out, self._progress, self._command = pool, out, progress, command
        self._retry, self._parallel = retry_failed, parallel
        self._rows: dict[str, _Row] = {}
        self._idle: set[str] = set()
        self._busy: dict[str, tuple[_Row, _Task]] = {}
        self._loaded: dict[str, str] = {}  # worker -> model of its last order

    def add(self, plan: Plan, chain: Sequence[Choices]) -> None:
        """Queue a row, unless it is queued already. Raises RunLocked, UserError, SaveError, DataError.

        chain: settings of the rows that this row takes numbers from, then its own.
        """
        if plan.folder in self._rows:
            return
        folder = self._out / plan.folder
        check_writable(folder)
        row = _Row(plan, tuple(chain), folder)
        row.lock.enter_context(FolderLock(folder))
        try:
            self._cut_into_parts(row)
        except BaseException:
            row.lock.close()
            raise
        self._rows[plan.folder] = row

    def _cut_into_parts(self, row: _Row) -> None:
        """Merge what an earlier driver left, and cut what is not recorded into parts."""
        plan, asked = row.plan, row.plan.dataset.examples[: row.plan.config.limit]
        if (row.folder / RUN).exists():
            self._merge_row(row)
        stored = read_lines(row.folder / RECORDS, "question_id")
        recorded = {record["question_id"]: record for record in stored if has_answer(record) or not self._retry}
        left = [example for example in asked if example.question.id not in recorded]
        place = {example.question.id: n for n, example in enumerate(left)}
        parts = _join_slices(partition(left, plan.dataset.documents, sum(_SLICES) * self._pool.count), self._pool.count)
        row.of = len(parts)
        row.queue.extend(_Task(n, tuple(sorted(ids, key=place.__getitem__))) for n, ids in enumerate(parts, 1))
        row.tail = PartsFollower(row.folder, RECORDS)
        if not self._rows:
            self._progress.start(0, plan.config.dataset.scorers[0])
        self._progress.more(len(asked))
        for record in recorded.values():
            self._progress.seen(record)

    def wait(self, plan: Plan) -> runner.RunResult:
        """Work until this row is merged. Raises the error of a worker that ended it, and what a merge raises."""
        row = self._rows[plan.folder]
        while row.result is None:
            if row.running == 0 and (row.error is not None or not row.queue):
                self._finish(row)
                continue
            self._hand_out()
            for event in self._pool.poll(_POLL):
                self._handle_event(event)
            self._show_progress()
        return row.result

    def _finish(self, row: _Row) -> None:
        """Merge a row once all its parts are done, and set its result. Raises the error that ended it."""
        self._show_progress()
        with row.lock:
            if row.of:
                summary = self._merge_row(row)
        if isinstance(row.error, LimitReached):
            asked = summary["n_asked"] - summary.get("n_left_out", 0)
            left = asked - summary["n_total"]
            row.error = LimitReached(f"{row.error}: {left} of {asked} questions are not answered yet")
        if row.error is not None:
            row.error.midway = True
            raise row.error
        if not row.of:  # nothing was left to ask: what an unsharded run does to a finished folder
            row.result = runner.run(row.plan, self._out, command=self._command, progress=self._progress)
            return
        row.result = runner.RunResult(row.folder, summary, summary["n_failed"], row.problems)

    def _merge_row(self, row: _Row) -> dict[str, Any]:
        """Merge a row once no part is locked; returns its summary. Raises RunLocked after _LOCK_WAIT seconds."""
        since = time.monotonic()
        while True:
            try:
                return merge(row.folder, self._progress.note, locked=True)
            except RunLocked:
                if time.monotonic() - since > _LOCK_WAIT:
                    raise
                time.sleep(_POLL)

    def _hand_out(self) -> None:
        """Give every idle worker a part, if possible of a row whose models it has loaded."""
        for worker in sorted(self._idle):
            now = time.monotonic()
            ready = [r for r in self._rows.values() if r.error is None and r.queue and r.queue[0].not_before <= now]
            if not ready:
                return
            row = next((row for row in ready if row.model == self._loaded.get(worker)), ready[0])
            task = row.queue.popleft()
            parallel = 1 if task.deaths else self._parallel  # alone, a question that ends workers is known at once
            given_up = frozenset(question for question, count in row.deaths.items() if count >= TRIES)
            part = (task.number, row.of, task.ids, given_up)
            self._pool.submit(worker, Order(row.chain, row.plan.folder, *part, parallel, tuple(self._rows)))
            row.running += 1
            self._idle.discard(worker)
            self._busy[worker] = (row, task)
            self._loaded[worker] = row.model

    def _handle_event(self, event: Event) -> None:
        """Note that a worker is idle, dead or done; a part that is not done is queued again."""
        if event.died:
            self._idle.discard(event.worker)
            self._loaded.pop(event.worker, None)
        else:
            self._idle.add(event.worker)
        if event.worker not in self._busy or (event.done is None and not event.died):
            return
        row, task = self._busy.pop(event.worker)
        row.running -= 1
        if event.done is None:
            self._requeue(row, task, event.worker)
        elif event.done.kind == "locked":
            task.locked_since = task.locked_since or time.monotonic()
            if time.monotonic() - task.locked_since > _LOCK_WAIT:
                row.error = row.error or reported_error(event.done, f"worker {event.worker}")
            task.not_before = time.monotonic() + 4 * _POLL
            row.queue.append(task)
        elif event.done.kind == "limit":  # the questions that it counts are its own
            row.error = row.error or LimitReached(event.done.error.partition(":")[0])
        elif event.done.error:
            row.error = row.error or reported_error(event.done, f"worker {event.worker}")
        else:
            row.problems += [problem for problem in event.done.problems if problem not in row.problems]

    def _requeue(self, row: _Row, task: _Task, worker: str) -> None:
        """Queue a dead worker's part again; its question is given up after TRIES deaths."""
        path = row.folder / part_name(RECORDS, task.number)
        recorded = {record["question_id"] for record in read_lines(path, "question_id")}
        suspect = next((question for question in task.ids if question not in recorded), None)
        task.deaths += 1
        row.queue.append(task)
        sentence = f"worker {worker} ended; its part {task.number}/{row.of} of {row.plan.row_name} is queued again"
        if suspect is not None:
            row.deaths[suspect] += 1
            if row.deaths[suspect] == TRIES:
                sentence += f"; question '{suspect}' ended {TRIES} workers and is recorded as failed"
        self._progress.note(sentence)

    def _show_progress(self) -> None:
        for row in self._rows.values():
            if row.tail is not None and row.result is None:
                for record in row.tail.new_rows():
                    self._progress.done(record)

    def close(self) -> None:
        """End the workers, and merge what they answered of rows that are not complete."""
        self._pool.close()
        for row in self._rows.values():
            if row.result is None:
                with row.lock:
                    if row.of and (row.folder / RUN).exists():
                        self._merge_row(row)
        self._progress.stop()
