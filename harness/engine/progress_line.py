"""Progress of a run, on one line of stderr.

    42/200 · 1 failed · 312k tokens · 4.1 TFLOPs · longbench-f1 41.2 · 3 min left · indexing 12/40 chunks
    200/200 · 1 failed · 1.5M tokens · 19.6 TFLOPs · 14 min                                  the result follows

No TFLOPs where the sizes of a model are not known, for instance behind a server: a partial sum
would mislead. Tokens are "–" where an application does not say them. A terminal rewrites the line in
place after a bar (a notebook has a widget: harness/api/notebook.py); a log file gets a line about
every 10 %, and every minute of a long index.
"""

import shutil
import sys
import time
from typing import TextIO

from harness.cost.flops import DEFAULT_CONVENTION
from harness.cost.units import duration_text, short_count
from harness.cost.usage import sum_phases, tokens_of
from harness.engine.progress import Counted, Progress
from harness.errors import printable

REDRAW = 0.1  # seconds between two drawings of the live line
_MINUTE = 60.0  # seconds between two lines of a log while one question takes long
_BAR = 20  # characters


class ProgressLine(Progress):
    """Draws the line, on a terminal in place."""

    _result_follows = True
    """Whether the scores are printed after the last line, which then leaves them out."""

    def __init__(self, stream: TextIO | None = None, name: str = "") -> None:
        """Begin without any question. The attributes are the sums that `line` shows; `_done_now`
        counts the questions of this start alone, `_tenth` is the tenth of the questions that a log
        said last.

        Args:
            stream: Where the line is written; None for stderr.
            name: The run's name, which stands before the live line; a log has it in a line of its
                own.
        """
        super().__init__(sys.stderr if stream is None else stream)
        self._name, self._live = name, self._stream.isatty()
        self._failed = self._done_now = self._tokens = self._scored = 0
        self._flops = self._score = 0.0
        self._uncounted = self._tokens_unknown = False
        self._headline = self._part = ""
        self._begun = self._drawn = time.monotonic()
        self._tenth = -1

    def start(self, total: int, headline: str) -> None:
        """Begin a run over `total` questions; headline: the scorer whose running mean is shown."""
        super().start(total, headline)
        self._headline = headline
        self._begun = self._drawn = time.monotonic()

    def seen(self, question: Counted) -> None:
        """Add a question to the counts, sums and the mean score that `line` shows."""
        super().seen(question)
        self._failed += question.failed
        if self._headline in question.scores:  # a question without a gold answer has no score
            self._scored += 1
            self._score += question.scores[self._headline]
        spent = sum_phases([question.usage])
        self._tokens += tokens_of(spent)
        self._tokens_unknown |= bool(spent.get("tokens_unknown"))
        self._flops += spent.get("flops", {DEFAULT_CONVENTION: 0.0})[DEFAULT_CONVENTION]
        self._uncounted |= bool(spent.get("uncounted"))

    def done(self, question: Counted) -> None:
        """Count a question of this start and redraw the line."""
        with self._lock:
            super().done(question)
            self._done_now += 1
            self._part = ""
            self._draw()

    def part(self, done: int, total: int, what: str) -> None:
        """Show a long step inside a question. On a terminal at once; a log gets a line a minute.

        Args:
            done: Units of the step that are done.
            total: All of its units.
            what: The step in words: "indexing chunks".
        """
        with self._lock:
            self._part = f"{what} {done}/{total}"
            if self._live:
                self._draw()
            elif time.monotonic() - self._drawn >= _MINUTE:
                self._log()

    def note(self, text: str) -> None:
        """Print a line that stays on the screen; on a terminal, where runs have no heading, with
        the run's name."""
        with self._lock:
            if self._live and self._name:
                text = f"{self._name}: {text}"
            super().note(text)
            self._drawn = 0.0

    def stop(self) -> None:
        """End the run: the last state stays on the terminal as a line, where a question was
        asked."""
        if not self._live:
            return
        text = ""  # erases the live line
        if self._done_now:
            text = self._named_line() + "\n"
        self._write(text)

    def line(self) -> str:
        """What is done and spent so far: "42/200 · 1 failed · 312k tokens · 4.1 TFLOPs ·
        longbench-f1 41.2 · 3 min left"."""
        parts = [f"{self._done}/{self._total}"]
        if self._failed:
            parts.append(f"{self._failed} failed")
        tokens = short_count(self._tokens)
        if self._tokens_unknown:
            tokens = "–"
        parts.append(f"{tokens} tokens")
        if not self._uncounted:
            parts.append(f"{self._flops / 1e12:.3g} TFLOPs")
        result = self._result_follows and self._done >= self._total
        if self._scored and not result:
            parts.append(f"{self._headline} {100 * self._score / self._scored:.1f}")
        if self._done_now and (result or self._done < self._total):
            parts.append(self._time())
        if self._part:
            parts.append(self._part)
        return " · ".join(parts)

    def _named_line(self) -> str:
        """The line with the run's name before it."""
        return f"{self._name} {self.line()}".lstrip()

    def _time(self) -> str:
        """The time left, "3 min left", by the mean of this start's questions; once all are done,
        the time that they took, "14 min"."""
        passed = time.monotonic() - self._begun
        left = self._total - self._done
        if left <= 0:
            return duration_text(passed)
        return f"{duration_text(round(passed / self._done_now * left))} left"

    def _draw(self) -> None:
        """On a terminal: redraw the bar and the line, but not more often than every REDRAW seconds.
        In a log: write a line when another tenth of the questions is done."""
        if not self._live:
            tenth = 10 * self._done // max(self._total, 1)
            if tenth != self._tenth:
                self._tenth = tenth
                self._log()
            return
        now = time.monotonic()
        if now - self._drawn >= REDRAW or self._done == self._total:
            from tqdm import tqdm

            self._drawn = now
            bar = tqdm.format_meter(
                self._done, max(self._total, 1), 0, ncols=_BAR, bar_format="{bar}"
            )
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{bar} {printable(self._named_line())}"[:width])

    def _log(self) -> None:
        """Write the line to a log, as a line of its own."""
        self._drawn = time.monotonic()
        self._write(self.line() + "\n")
