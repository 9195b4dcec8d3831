"""Let a teacher label items, many at a time; each becomes a line of a file at once, so that a
killed labelling resumes.

LabelModels(task, load_teacher, load_base, offsets)        the teacher, and the base with the adapters trained before
LabelWriter(path, task, labelling, tell, stop).write(items, about, lambda: 16)

    {"id": "nq/train_0", "n": 0, "read": 212, "written": 9, "scenes": [...]}      n: place in the order of items

Lines are written in the order in which the replies come; data.read_scenes reads them in the order
of `n`, so training does not depend on which reply was faster. Requests to a server are in flight
together, those of a local teacher share forward passes (harness/parallel/scheduler.py).
"""

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from harness.cost.meter import Meter
from harness.cost.units import duration
from harness.cost.usage import sum_phases, usage_of
from harness.errors import CannotRun, QuestionError, RequestFailed
from harness.method import Task
from harness.models import LanguageModel, MeteredModel
from harness.parallel.in_flight import in_flight
from harness.parallel.locks import KeyedLocks
from harness.storage.files import make_folder, write_atomic
from harness.storage.json_lines import append_line, json_line, read_lines
from harness.storage.torn_lines import cut_torn_line
from harness_training.example_files import HEAD, Item, is_made_from, scene_to_json
from harness_training.tasks import Labelling, TrainingTask

T = TypeVar("T")
_KEPT = 2048  # results of `once`: neighbouring questions share documents
IN_A_ROW = 10
"""Failed requests one after the other that end the labelling."""
_SECONDS = 10.0  # between two lines of progress


@dataclass
class LabelWriter:
    """Asks a teacher for labels (any thread) and appends them to the file `path` (one thread).

    tell: called with each line of progress; stop: ends the labelling when set; items, tokens: what
    was labelled since this process began, and what all models read and wrote for that; failed:
    messages of the failed requests.
    """

    path: Path
    task: TrainingTask
    labelling: Labelling
    tell: Callable[[str], None]
    stop: threading.Event | None = None
    items: int = 0
    tokens: int = 0
    failed: list[str] = field(default_factory=list)
    _in_a_row: int = 0
    _empty: int = 0
    _stopped: bool = False
    _reported: float = 0.0

    def write(
        self, items: Iterable[Item], about: dict[str, Any], places: Callable[[], int] = lambda: 1
    ) -> None:
        """Label the items that the file lacks, places() at a time. about: what the file is made
        from, its first line.

        An item that the teacher cannot label (a document longer than its window) gets a line with
        the reason. One whose request failed gets none, and is asked again by the next call. Raises
        UserError where the file was made from other data, CannotRun for requests that failed,
        SaveError, KeyboardInterrupt after `stop` was set.
        """
        make_folder(self.path.parent)
        if not is_made_from(self.path, about):
            write_atomic(self.path, json_line({"id": HEAD, **about}))
        cut_torn_line(self.path, "id")
        done = {line["id"] for line in read_lines(self.path, "id")}
        every = list(enumerate(items))
        left = [(n, item) for n, item in every if item[0] not in done]
        self._total, self._left, self._began = len(every), len(left), time.perf_counter()
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)
        try:
            if left:
                self.tell(f"{self.task.name}: labelling {len(left):,} items")
            if left and (count := places()) > 1:
                in_flight(left, count, self.ask, self.finish_all)
            else:
                for item in left:
                    self.finish(self.ask(item))
        finally:
            os.close(self._fd)
        if self.failed:
            failed = f"{len(self.failed)} requests about '{self.task.name}' failed; the last: {self.failed[-1]}"
            raise CannotRun(f"{failed}. The same command asks them again")

    def ask(self, numbered: tuple[int, Item]) -> dict[str, Any] | RequestFailed:
        """Let the teacher label (place in the order, item); return the item's line for the file, or
        the failure."""
        n, (key, question, documents) = numbered
        line: dict[str, Any] = {"id": key, "n": n}
        (branch,) = self.labelling.meter.fork(1)
        with branch:
            try:
                scenes: Sequence[Any] = self.task.label(question, documents, self.labelling)
            except RequestFailed as error:
                return error
            except QuestionError as error:
                scenes, line["left_out"] = (), str(error)
        spent = sum_phases([usage_of(branch.events, {})])
        line |= {"read": spent.get("tokens_in", 0), "written": spent.get("tokens_out", 0)}
        return line | {"scenes": [scene_to_json(scene) for scene in scenes]}

    def finish_all(self, lines: Sequence[dict[str, Any] | RequestFailed]) -> None:
        """Finish several lines, all of them before a KeyboardInterrupt: each was paid for."""
        stopped: KeyboardInterrupt | None = None
        for line in lines:
            try:
                self.finish(line)
            except KeyboardInterrupt as error:
                stopped = error
        if stopped is not None:
            raise stopped

    def finish(self, line: dict[str, Any] | RequestFailed) -> None:
        """Write an item's line, or count a failure: CannotRun after IN_A_ROW. Raises
        KeyboardInterrupt after `stop`.

        Speed and time left are reported now and then.
        """
        if isinstance(line, RequestFailed):
            self.failed.append(str(line))
            self._in_a_row += 1
            if self._in_a_row == IN_A_ROW:
                raise CannotRun(f"{IN_A_ROW} requests failed one after the other; the last: {line}")
        else:
            self._in_a_row = 0
            append_line(self._fd, self.path, json_line(line))
            self.items, self.tokens = self.items + 1, self.tokens + line["read"] + line["written"]
            self._empty += not line["scenes"]
            seconds, left = (
                time.perf_counter() - self._began,
                self._left - self.items - len(self.failed),
            )
            if seconds - self._reported > _SECONDS or left == 0:
                self._reported = seconds
                empty = f", {self._empty:,} without a usable reply" if self._empty else ""
                self.tell(
                    f"{self.task.name}: {self._total - left:,} of {self._total:,} labelled{empty}; "
                    f"{self.tokens / seconds:,.0f} tokens/s; left: about "
                    f"{duration(left * seconds / self.items)}"
                )
        if self.stop is not None and self.stop.is_set() and not self._stopped:
            self._stopped = True  # the outcomes that are there already are still written
            raise KeyboardInterrupt


@dataclass
class LabelModels:
    """Implements harness.method.Labelling; a model is loaded at its first use. Thread-safe.

    task: the instruction in the scenes; offsets: character range of every token of a text, by the
    base's tokenizer;
    length: most tokens of a reply; asked: a prompt in place of the method's, or "".
    """

    task: Task
    load_teacher: Callable[[], LanguageModel]
    load_base: Callable[[], LanguageModel]
    offsets: Callable[[str], list[tuple[int, int]]]
    length: int = 1_000_000
    asked: str = ""
    meter: Meter = field(default_factory=Meter)
    _results: OrderedDict[str, tuple[Any]] = field(default_factory=OrderedDict)
    _locks: KeyedLocks = field(default_factory=KeyedLocks)

    def teacher(self) -> MeteredModel:
        """The model whose replies are the labels."""
        return MeteredModel(self.once("model teacher", self.load_teacher), self.meter, "teacher")

    def base(self) -> MeteredModel:
        """The model that is trained, with the adapters of the tasks before."""
        return MeteredModel(self.once("model refiner", self.load_base), self.meter, "refiner")

    def once(self, key: str, fn: Callable[[], T]) -> T:
        """Return fn(), cached under `key` for the last _KEPT keys (LRU); calls for one key never
        overlap."""
        with self._locks.hold(key):
            kept = self._results.pop(key, None) or (fn(),)
            self._results[key] = kept  # at the end, as the last one used
            if len(self._results) > _KEPT:
                self._results.popitem(last=False)
        result: T = kept[0]
        return result

    def most(self, tokens: int) -> int:
        """`tokens`, limited by the length of a training row."""
        return max(1, min(tokens, self.length))
