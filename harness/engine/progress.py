"""What a run reports while it works: questions, steps inside one, notes; progress_line.py draws
them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TextIO

from harness.cost.usage import Usage
from harness.errors import erase_line, printable
from harness.storage.records import StoredRecord


@dataclass(frozen=True, slots=True)
class CountedQuestion:
    """What is counted of a question that is done.

    Attributes:
        question_id: The question.
        failed: Whether it has no answer, or none that could be scored.
        scores: By scorer.
        usage: What it cost.
    """

    question_id: str
    failed: bool
    scores: Mapping[str, float]
    usage: Usage

    @classmethod
    def from_record(cls, record: StoredRecord) -> CountedQuestion:
        """What is counted of the question of a record."""
        return cls(record.question_id, record.error is not None, record.scores, record.usage)


class Progress:
    """Counts records and prints notes; questions that run in parallel report from several
    threads."""

    _rewrites_a_line = False  # of the terminal

    def __init__(self, stream: TextIO | None = None) -> None:
        """Begin without any question.

        Args:
            stream: Where notes are printed, None for stderr.
        """
        self._stream = sys.stderr if stream is None else stream
        self._n_total = 0  # questions
        self._n_done = 0  # questions that are recorded
        self._is_closed = False  # whether the terminal is
        self._lock = threading.RLock()

    def start(self, total: int, headline: str) -> None:
        """Begin a run.

        Args:
            total: How many questions it asks.
            headline: The scorer that the run is known by; shown by subclasses.
        """
        self._n_total = total

    def add_to_total(self, count: int) -> None:
        """Add `count` questions to the total."""
        self._n_total += count

    def count_stored(self, question: CountedQuestion) -> None:
        """Count a question that an earlier start of the run has recorded."""
        self._n_done += 1

    @property
    def n_unrecorded(self) -> int:
        """How many questions are not recorded yet."""
        return self._n_total - self._n_done

    def count_recorded(self, question: CountedQuestion) -> None:
        """Count a question that this start has recorded."""
        self.count_stored(question)

    def show_step(self, done: int, total: int, what: str) -> None:
        """Called at a step inside a question that takes long; shown by subclasses.

        Args:
            done: Units of the step that are done.
            total: All of its units.
            what: The step in words: "indexing chunks".
        """

    def note(self, text: str) -> None:
        """Print a line."""
        self._write(text + "\n")

    def stop(self) -> None:
        """Called when the run ends; subclasses end their display."""

    def _write(self, text: str) -> None:
        """Write `text`, on a terminal in place of the live line. Once the terminal is closed
        nothing is written any more, and the run goes on."""
        with self._lock:
            if self._is_closed:
                return
            try:
                if self._rewrites_a_line:
                    erase_line(self._stream)
                self._stream.write(printable(text))
                self._stream.flush()
            except (OSError, ValueError):
                self._is_closed = True  # the terminal was closed: the run continues without output


class Silent(Progress):
    """Counts and shows nothing. Notes are kept in `notes`."""

    def __init__(self) -> None:
        """Begin without notes."""
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Add the note to `notes`."""
        self.notes.append(text)
