"""Let a teacher label items, many at a time; each becomes a line of a file at once, so that a
killed labelling resumes.

LabelModels(task, load_teacher, load_base, offsets)        the teacher, and the base with the adapters trained before
LabelWriter(path, task, labelling, tell, stop).write(items, about, lambda: 16)

    {"id": "nq/train_0", "n": 0, "read": 212, "written": 9, "scenes": [...]}      n: place in the order of items

Lines are written in the order in which the replies come; data.read_scenes reads them in the order
of `n`, so training does not depend on which reply was faster. Requests to a server are in flight
together, those of a local teacher share forward passes (harness/parallel/scheduler.py).
"""

from __future__ import annotations

import os
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from harness.cost.meter import Meter
from harness.cost.units import duration_text
from harness.cost.usage import sum_phases, usage_of
from harness.errors import CannotRun, QuestionError, RequestFailed
from harness.method import Task
from harness.models import LanguageModel, MeteredModel
from harness.parallel.in_flight import in_flight
from harness.parallel.locks import KeyedLocks
from harness.storage.files import make_folder, write_atomic
from harness.storage.json_lines import append_line, json_line, read_lines
from harness.storage.torn_lines import cut_torn_line
from harness_training.example_files import HEAD, Item, SceneLine, is_made_from
from harness_training.tasks import Labelling, Scene, TrainingTask

T = TypeVar("T")
_MAX_CACHED_RESULTS = 2048  # results of `once`: neighbouring questions share documents
IN_A_ROW = 10
"""Failed requests one after the other that end the labelling."""
_SECONDS_BETWEEN_REPORTS = 10.0  # between two lines of progress


@dataclass(frozen=True)
class LabelledLine(SceneLine):
    """A line that a teacher labelled.

    Args:
        n: The item's place in the order of items.
        read: Tokens that all models read for it.
        written: Tokens that they wrote.
        left_out: Why it has no scene, where the teacher could not be asked.
    """

    n: int
    read: int
    written: int
    left_out: str | None = None

    def as_json(self) -> dict[str, object]:
        """The line as it is written: {"id": ..., "n": ..., "read": ..., "written": ..., "scenes":
        [...]}, with "left_out" where it has no scene."""
        values: dict[str, object] = {"id": self.id, "n": self.n}
        if self.left_out is not None:
            values["left_out"] = self.left_out
        return {**values, "read": self.read, "written": self.written, **super().as_json()}


@dataclass(frozen=True)
class _NumberedItem:
    """An item and its place in the order of items."""

    n: int
    item: Item


@dataclass
class LabelWriter:
    """Asks a teacher for labels (any thread) and appends them to a file (one thread).

    Args:
        path: The file.
        task: The task whose labels they are.
        labelling: The models.
        tell: Called with each line of progress.
        stop: Ends the labelling when set.
        items: How many were labelled since this process began.
        tokens: What all models read and wrote for them.
        failed: Messages of the failed requests.
    """

    path: Path
    task: TrainingTask
    labelling: Labelling
    tell: Callable[[str], None]
    stop: threading.Event | None = None
    items: int = 0
    tokens: int = 0
    failed: list[str] = field(default_factory=list)
    _failures_in_a_row: int = 0
    _n_without_scene: int = 0
    _stopped: bool = False
    _last_report_seconds: float = 0.0

    def write(
        self,
        items: Iterable[Item],
        made_from: Mapping[str, object],
        max_at_a_time: Callable[[], int] = lambda: 1,
    ) -> None:
        """Label the items that the file lacks, and append a line for each.

        An item that the teacher cannot label (a document longer than its window) gets a line with
        the reason. One whose request failed gets none, and is asked again by the next call.

        Args:
            items: All items, in their order.
            made_from: What the file is made from, which is its first line.
            max_at_a_time: Gives the number of items to label at a time; called only where one is to
                be labelled.

        Raises:
            UserError: The file was made from other data.
            CannotRun: Requests failed.
            SaveError: A line cannot be written.
            KeyboardInterrupt: `stop` was set.
        """
        make_folder(self.path.parent)
        if not is_made_from(self.path, made_from):  # there is no file yet
            write_atomic(self.path, json_line({"id": HEAD, **made_from}))
        cut_torn_line(self.path, "id")  # which a kill left
        labelled_ids = {line["id"] for line in read_lines(self.path, "id")}
        numbered_items = [_NumberedItem(n, item) for n, item in enumerate(items)]
        unlabelled_items = [
            numbered for numbered in numbered_items if numbered.item.id not in labelled_ids
        ]
        self._n_items = len(numbered_items)
        self._n_to_label = len(unlabelled_items)
        self._start_seconds = time.perf_counter()
        self._fd = os.open(self.path, os.O_WRONLY | os.O_APPEND)  # what lines are appended to
        try:
            if unlabelled_items:
                self.tell(f"{self.task.name}: labelling {len(unlabelled_items):,} items")
                self._label(unlabelled_items, max_at_a_time())
        finally:
            os.close(self._fd)
        if self.failed:
            raise CannotRun(
                f"{len(self.failed)} requests about '{self.task.name}' failed; the last: "
                f"{self.failed[-1]}. The same command asks them again"
            )

    def _label(self, unlabelled_items: Sequence[_NumberedItem], max_at_a_time: int) -> None:
        """Label the items that are left, `max_at_a_time` of them at a time, and append their lines
        to the file."""
        if max_at_a_time > 1:
            in_flight(unlabelled_items, max_at_a_time, self.ask, self.finish_all)
            return
        for numbered in unlabelled_items:
            self.finish(self.ask(numbered))

    def ask(self, numbered: _NumberedItem) -> LabelledLine | RequestFailed:
        """Let the teacher label an item; return its line for the file with the tokens that this
        read and wrote, or the failed request.

        An item that the teacher cannot label gives a line without a scene, with the reason.
        """
        item = numbered.item
        scenes: Sequence[Scene] = ()
        left_out: str | None = None
        # What this thread's requests cost is recorded in the branch.
        (branch,) = self.labelling.meter.fork(1)
        with branch:
            try:
                scenes = self.task.label(item.question, item.documents, self.labelling)
            except RequestFailed as error:
                return error
            except QuestionError as error:
                left_out = str(error)
        usage = sum_phases([usage_of(branch.events, {})])
        return LabelledLine(
            id=item.id,
            scenes=scenes,
            n=numbered.n,
            read=int(usage.get("tokens_in", 0)),
            written=int(usage.get("tokens_out", 0)),
            left_out=left_out,
        )

    def finish_all(self, lines: Sequence[LabelledLine | RequestFailed]) -> None:
        """Finish several lines. Where `stop` is set, all of them are written before
        KeyboardInterrupt is raised, as each was paid for."""
        stopped: KeyboardInterrupt | None = None
        for line in lines:
            try:
                self.finish(line)
            except KeyboardInterrupt as error:
                stopped = error
        if stopped is not None:
            raise stopped

    def finish(self, line: LabelledLine | RequestFailed) -> None:
        """Append an item's line to the file, or note a failed request; also report the progress now
        and then.

        Raises:
            CannotRun: A number of requests failed one after the other.
            KeyboardInterrupt: `stop` was set; raised once, so that outcomes that are there already
                are still written.
        """
        if isinstance(line, RequestFailed):
            self._note_failure(line)
        else:
            self._append(line)
        if self.stop is not None and self.stop.is_set() and not self._stopped:
            self._stopped = True
            raise KeyboardInterrupt

    def _note_failure(self, failure: RequestFailed) -> None:
        """Add a failed request to `failed`. Raises CannotRun where it is the IN_A_ROW-th in a
        row."""
        self.failed.append(str(failure))
        self._failures_in_a_row += 1
        if self._failures_in_a_row == IN_A_ROW:
            raise CannotRun(f"{IN_A_ROW} requests failed one after the other; the last: {failure}")

    def _append(self, line: LabelledLine) -> None:
        """Append a line to the file and count it; report the progress at most once in a number of
        seconds, and after the last item."""
        self._failures_in_a_row = 0
        append_line(self._fd, self.path, json_line(line.as_json()))
        self.items += 1
        self.tokens += line.read + line.written
        if not line.scenes:
            self._n_without_scene += 1
        seconds = time.perf_counter() - self._start_seconds
        n_left = self._n_to_label - self.items - len(self.failed)
        if seconds - self._last_report_seconds > _SECONDS_BETWEEN_REPORTS or n_left == 0:
            self._last_report_seconds = seconds
            self._report(seconds, n_left)

    def _report(self, seconds: float, n_left: int) -> None:
        """Tell how many items are labelled, the speed, and how long those that are left take.

        Args:
            seconds: Seconds since this process began to label.
            n_left: How many items have no label.
        """
        without_reply = ""
        if self._n_without_scene:
            without_reply = f", {self._n_without_scene:,} without a usable reply"
        self.tell(
            f"{self.task.name}: {self._n_items - n_left:,} of {self._n_items:,} labelled"
            f"{without_reply}; {self.tokens / seconds:,.0f} tokens/s; left: about "
            f"{duration_text(n_left * seconds / self.items)}"
        )


@dataclass
class LabelModels:
    """Implements harness_training.tasks.Labelling; a model is loaded at its first use. Thread-safe.

    Args:
        task: The instruction in the scenes.
        load_teacher: Loads the model that labels.
        load_base: Loads the model that is trained, with the adapters of earlier tasks.
        offsets: Character range of every token of a text, by the base's tokenizer.
        length: Most tokens of a reply.
        asked: A prompt in place of the method's, or "".
        meter: Counts what the models read and write.
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

    def once(self, key: str, compute: Callable[[], T]) -> T:
        """The result of `compute`, computed at the first call with this key and kept for the last
        _MAX_CACHED_RESULTS keys; calls for one key never overlap."""
        with self._locks.hold(key):
            cached = self._results.pop(key, None)  # (result,), as a result may be None
            if cached is None:
                cached = (compute(),)
            self._results[key] = cached  # at the end, as the last one used
            if len(self._results) > _MAX_CACHED_RESULTS:
                self._results.popitem(last=False)
        result: T = cached[0]
        return result

    def at_most_a_row(self, tokens: int) -> int:
        """A number of tokens for a reply, limited to the length of a training row; at least 1."""
        return max(1, min(tokens, self.length))
