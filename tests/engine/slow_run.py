"""A program to be killed: a slow run of made-up questions.  python -m tests.engine.slow_run OUT QUESTIONS SECONDS"""

from __future__ import annotations

import sys
import time
from pathlib import Path

import harness.llm.load
from harness.errors import HarnessError
from harness.method import Index, Tools
from harness.types import Document
from tests.engine.fakes import FakeModel, Words, World, go, make_plan


class Slow(Words):
    """Words that takes its time, in two durable parts an index."""

    def index(self, document: Document, tools: Tools) -> Index:
        for part in "ab":
            tools.keep(part, lambda: time.sleep(float(sys.argv[3])))
        return super().index(document, tools)


def main() -> int:
    harness.llm.load.load_model = FakeModel  # type: ignore[assignment]
    method = Slow(Slow.Config(), pause=lambda: time.sleep(float(sys.argv[3])))
    words = tuple("bug" if n % 7 == 3 else f"question {n}" for n in range(int(sys.argv[2])))
    data = World(questions=len(words), documents=5, words=words).dataset()
    try:
        go(make_plan(data, method), Path(sys.argv[1]))
    except HarnessError as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main())
