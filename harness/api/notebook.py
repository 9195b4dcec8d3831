"""Progress of a run that was started in a notebook."""

import sys
import time

from harness.engine.progress_line import REDRAW_SECONDS, ProgressLine
from harness.errors import printable


class Notebook(ProgressLine):
    """A widget below the cell, or a bar of text if ipywidgets is not installed."""

    _scores_are_printed_after = False

    def start(self, total: int, headline: str) -> None:
        """Begin a run over `total` questions and show the bar."""
        from tqdm.auto import tqdm

        super().start(total, headline)
        self._widget = tqdm(total=total, bar_format="{n_fmt}/{total_fmt} {bar} {desc}")

    def stop(self) -> None:
        """End the run; the bar stays as it is."""
        self._write_log_line()  # draws the bar a last time
        self._widget.close()

    def _draw_if_due(self) -> None:
        """Draw the bar again, unless that was done a moment ago."""
        if time.monotonic() - self._drawn_at >= REDRAW_SECONDS or self._n_done == self._n_total:
            self._write_log_line()

    def _write_log_line(self) -> None:
        """Draw the bar as it is now, in place of a line in a log."""
        self._drawn_at = time.monotonic()
        self._widget.n = self._n_done
        self._widget.set_description_str(printable(self.line()))


def default_progress() -> ProgressLine:
    """What shows the progress of a run: the widget in a notebook, else a line on stderr."""
    return Notebook() if "ipykernel" in sys.modules else ProgressLine()
