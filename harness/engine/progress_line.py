"""Progress of a run, on one line of stderr.

    42/200 · 1 failed · 312k tokens · 4.1 TFLOPs · longbench-f1 41.2 · 3 min left · indexing 12/40
    chunks 200/200 · 1 failed · 1.5M tokens · 19.6 TFLOPs · 14 min
    the result follows

No TFLOPs where the sizes of a model are not known, for instance behind a server: a partial sum
would mislead. Tokens are "–" where an application does not say them. A terminal rewrites the line
in place after a bar (a notebook has a widget: harness/api/notebook.py); a log file gets a line
about every 10 %, and every minute of a long index.
"""

import shutil
import sys
import time
from typing import TextIO

from harness.cost.flops import DEFAULT_CONVENTION
from harness.cost.units import duration_text, short_count
from harness.cost.usage import sum_phases, tokens_of
from harness.engine.progress import CountedQuestion, Progress
from harness.errors import printable

REDRAW_SECONDS = 0.1  # between two drawings of the live line
_SECONDS_BETWEEN_LOG_LINES = 60.0  # while one question takes long
_BAR_CHARACTERS = 20


class ProgressLine(Progress):
    """Draws the line, on a terminal in place."""

    _scores_are_printed_after = True
    """Whether the scores are printed after the last line, which then leaves them out."""

    def __init__(self, stream: TextIO | None = None, name: str = "") -> None:
        """Begin without any question. The attributes are the sums that `line` shows; `_n_done_now`
        counts the questions of this start alone, `_last_logged_tenth` is the tenth of the questions
        that a log said last.

        Args:
            stream: Where the line is written; None for stderr.
            name: The run's name, which stands before the live line; a log has it in a line of its
                own.
        """
        super().__init__(sys.stderr if stream is None else stream)
        self._run_name = name
        self._rewrites_a_line = self._stream.isatty()
        self._n_failed = self._n_done_now = self._n_scored = 0
        self._tokens_sum = 0
        self._flops_sum = self._score_sum = 0.0
        self._has_uncounted_flops = self._has_unknown_tokens = False
        self._shown_scorer = ""
        self._step_text = ""
        self._started_at = self._drawn_at = time.monotonic()
        self._last_logged_tenth = -1

    def start(self, total: int, headline: str) -> None:
        """Begin a run over `total` questions; headline: the scorer whose running mean is shown."""
        super().start(total, headline)
        self._shown_scorer = headline
        self._started_at = self._drawn_at = time.monotonic()

    def count_stored(self, question: CountedQuestion) -> None:
        """Add a question to the counts, sums and the mean score that `line` shows."""
        super().count_stored(question)
        self._n_failed += question.failed
        if self._shown_scorer in question.scores:  # a question without a gold answer has no score
            self._n_scored += 1
            self._score_sum += question.scores[self._shown_scorer]
        spent = sum_phases([question.usage])
        self._tokens_sum += tokens_of(spent)
        self._has_unknown_tokens |= bool(spent.get("tokens_unknown"))
        self._flops_sum += spent.get("flops", {DEFAULT_CONVENTION: 0.0})[DEFAULT_CONVENTION]
        self._has_uncounted_flops |= bool(spent.get("uncounted"))

    def count_recorded(self, question: CountedQuestion) -> None:
        """Count a question of this start and redraw the line."""
        with self._lock:
            super().count_recorded(question)
            self._n_done_now += 1
            self._step_text = ""
            self._draw_if_due()

    def show_step(self, done: int, total: int, what: str) -> None:
        """Show a long step inside a question. On a terminal at once; a log gets a line a minute.

        Args:
            done: Units of the step that are done.
            total: All of its units.
            what: The step in words: "indexing chunks".
        """
        with self._lock:
            self._step_text = f"{what} {done}/{total}"
            if self._rewrites_a_line:
                self._draw_if_due()
            elif time.monotonic() - self._drawn_at >= _SECONDS_BETWEEN_LOG_LINES:
                self._write_log_line()

    def note(self, text: str) -> None:
        """Print a line that stays on the screen; on a terminal, where runs have no heading, with
        the run's name. The live line, which it replaces, is due to be drawn again."""
        with self._lock:
            if self._rewrites_a_line and self._run_name:
                text = f"{self._run_name}: {text}"
            super().note(text)
            self._drawn_at = 0.0

    def stop(self) -> None:
        """End the run: on a terminal the live line is erased or, where a question was asked, stays
        with its last state. In a log nothing is written."""
        if not self._rewrites_a_line:
            return
        text = ""  # erases the live line
        if self._n_done_now:
            text = self._named_line() + "\n"
        self._write(text)

    def line(self) -> str:
        """What is done and spent so far: "42/200 · 1 failed · 312k tokens · 4.1 TFLOPs ·
        longbench-f1 41.2 · 3 min left". Parts that are not known are left out, tokens become "–".
        Once all are done, the score is left out where scores are printed below, and the time where
        they are not."""
        parts = [f"{self._n_done}/{self._n_total}"]
        if self._n_failed:
            parts.append(f"{self._n_failed} failed")
        tokens = short_count(self._tokens_sum)
        if self._has_unknown_tokens:
            tokens = "–"
        parts.append(f"{tokens} tokens")
        if not self._has_uncounted_flops:
            parts.append(f"{self._flops_sum / 1e12:.3g} TFLOPs")
        is_complete = self._n_done >= self._n_total
        scores_follow = is_complete and self._scores_are_printed_after
        if self._n_scored and not scores_follow:
            parts.append(f"{self._shown_scorer} {100 * self._score_sum / self._n_scored:.1f}")
        if self._n_done_now and (scores_follow or not is_complete):
            parts.append(self._time_left_or_taken())
        if self._step_text:
            parts.append(self._step_text)
        return " · ".join(parts)

    def _named_line(self) -> str:
        """The line with the run's name before it."""
        return f"{self._run_name} {self.line()}".lstrip()

    def _time_left_or_taken(self) -> str:
        """The time left, "3 min left", by the mean of this start's questions; once all are done,
        the time that they took, "14 min"."""
        seconds_passed = time.monotonic() - self._started_at
        n_left = self._n_total - self._n_done
        if n_left <= 0:
            return duration_text(seconds_passed)
        seconds_per_question = seconds_passed / self._n_done_now
        return f"{duration_text(round(seconds_per_question * n_left))} left"

    def _draw_if_due(self) -> None:
        """On a terminal: redraw the bar and the line, but not more often than every REDRAW_SECONDS,
        the last question apart. In a log: write a line when another tenth of the questions is
        done."""
        if not self._rewrites_a_line:
            tenth = 10 * self._n_done // max(self._n_total, 1)
            if tenth != self._last_logged_tenth:
                self._last_logged_tenth = tenth
                self._write_log_line()
            return
        now = time.monotonic()
        if now - self._drawn_at >= REDRAW_SECONDS or self._n_done == self._n_total:
            from tqdm import tqdm

            self._drawn_at = now
            bar = tqdm.format_meter(
                n=self._n_done,
                total=max(self._n_total, 1),
                elapsed=0,
                ncols=_BAR_CHARACTERS,
                bar_format="{bar}",
            )
            width = shutil.get_terminal_size().columns - 1
            self._write(f"{bar} {printable(self._named_line())}"[:width])

    def _write_log_line(self) -> None:
        """Write the line to a log, as a line of its own."""
        self._drawn_at = time.monotonic()
        self._write(self.line() + "\n")
