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
class Counted:
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
    def of(cls, record: StoredRecord) -> Counted:
        """What is counted of the question of a record."""
        return cls(record.question_id, record.error is not None, record.scores, record.usage)


class Progress:
    """Counts records and prints notes; questions that run in parallel report from several
    threads."""

    _live = False  # whether a line of the terminal is rewritten

    def __init__(self, stream: TextIO | None = None) -> None:
        """Begin without any question.

        Args:
            stream: Where notes are printed, None for stderr.
        """
        self._stream = sys.stderr if stream is None else stream
        self._total = self._done = 0
        self._closed = False
        self._lock = threading.RLock()

    def start(self, total: int, headline: str) -> None:
        """Begin a run.

        Args:
            total: How many questions it asks.
            headline: The scorer that the run is known by; shown by subclasses.
        """
        self._total = total

    def more(self, count: int) -> None:
        """Add `count` questions to the total."""
        self._total += count

    def seen(self, question: Counted) -> None:
        """Count a question that an earlier start of the run has recorded."""
        self._done += 1

    @property
    def left(self) -> int:
        """How many questions are not recorded yet."""
        return self._total - self._done

    def done(self, question: Counted) -> None:
        """Count a question that this start has recorded."""
        self.seen(question)

    def part(self, done: int, total: int, what: str) -> None:
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
            if self._closed:
                return
            try:
                if self._live:
                    erase_line(self._stream)
                self._stream.write(printable(text))
                self._stream.flush()
            except (OSError, ValueError):
                self._closed = True  # the terminal was closed: the run continues without output


class Silent(Progress):
    """Counts and shows nothing. Notes are kept in `notes`."""

    def __init__(self) -> None:
        """Begin without notes."""
        super().__init__()
        self.notes: list[str] = []

    def note(self, text: str) -> None:
        """Add the note to `notes`."""
        self.notes.append(text)
