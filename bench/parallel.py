"""Questions in flight, and a level's batches together, against one at a time: pocket-llama on made-up questions.

Every number is one run; documents differ in length, so a question a second means little, the ratios mean more.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path

IN_FLIGHT = (1, 4, 16)
METHODS = ("closed-book", "bm25", "pecan")
QUESTIONS = 16
LONG = 5000  # tokens of the document whose index is timed: three levels of it have more batches than one


@dataclass
class Bench:
    """Runs into folders of their own under `folder`, with caches beside them."""

    folder: Path
    runs: int = 0

    def seconds(self, method: str, parallel: int, limit: int, cache: str, tokens: int | None = None) -> float:
        """Seconds of one run. The model's loading is not in it: it stays loaded from the warm-up on.

        tokens: of each document, default the data set's own.
        """
        from harness.config.layers import Choices
        from harness.engine.plan import plan_choices
        from harness.engine.progress import Silent
        from harness.engine.runner import run

        self.runs += 1
        sets = {} if tokens is None else {"dataset.tokens": tokens}
        plan = plan_choices(Choices(method=method, dataset="pocket/musique", limit=limit, profile="pocket", sets=sets))
        before = os.environ.get("HARNESS_CACHE")
        os.environ["HARNESS_CACHE"] = str(self.folder / cache)
        began = time.perf_counter()
        try:
            out = self.folder / f"run-{self.runs}"
            result = run(plan, out, command=["bench"], progress=Silent(), parallel=parallel)
        finally:
            os.environ.pop("HARNESS_CACHE")
            if before is not None:
                os.environ["HARNESS_CACHE"] = before
        if result.failed:
            raise RuntimeError(f"{result.failed} questions of {method} failed; their time means nothing")
        return time.perf_counter() - began

    def index_seconds(self, parallel: int) -> float:
        """Seconds that the first document's index takes: a run that builds it, less one that finds it built."""
        cold = self.seconds("pecan", parallel, 1, f"cold-{parallel}", LONG)
        return cold - self.seconds("pecan", parallel, 1, f"cold-{parallel}", LONG)


def table(folder: Path) -> None:
    """Print questions a second, and how much faster an index is built with its batches together."""
    bench = Bench(folder / "parallel")
    print("\nquestions a second with pocket-llama, indexes built before (times as fast as one at a time):")
    print(f"{'in flight':<16}" + "".join(f"{n:>16}" for n in IN_FLIGHT))
    for method in METHODS:
        bench.seconds(method, max(IN_FLIGHT), QUESTIONS, "warm")
        rates = [QUESTIONS / bench.seconds(method, n, QUESTIONS, "warm") for n in IN_FLIGHT]
        shown = (f"{rate:.2f} ({rate / rates[0]:.2f}x)" for rate in rates)
        print(f"{method:<16}" + "".join(f"{text:>16}" for text in shown), flush=True)
    alone, together = bench.index_seconds(1), bench.index_seconds(16)
    print(f"index of {LONG} tokens, pecan: {alone:.1f} s batch by batch, {together:.1f} s a level at once")
    print(f"({alone / together:.2f}x)", flush=True)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as name:
        os.environ["HARNESS_HOME"] = str(Path(name) / "home")
        table(Path(name))
