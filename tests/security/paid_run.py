"""A run to be killed that logs every answer as the method gives it, with a scorer that takes its time.

python -m tests.security.paid_run OUT LOG QUESTIONS PARALLEL SECONDS
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import harness.llm.load
from harness import scorers
from harness.types import Answer
from tests.engine.fakes import FakeModel, World, go, make_plan
from tests.engine.quiet import Quiet


class Paid(Quiet):
    """Answers in a tenth of the time that its scorer takes, and logs the question's id before it returns."""

    def answer(self, question: Any, *others: Any) -> Answer:
        told = super().answer(question, *others)
        os.write(LOG, f"{question.id}\n".encode())
        return told


def main() -> None:
    out, questions, parallel, seconds = Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    harness.llm.load.load_model = FakeModel  # type: ignore[assignment]
    judge = scorers.score_record

    def slow(*given: Any) -> Any:
        time.sleep(seconds / 2)  # a record asks twice: for its zeros and for its scores
        return judge(*given)

    scorers.score_record = slow  # type: ignore[assignment]
    method = Paid(Paid.Config(), pause=lambda: time.sleep(seconds))
    go(
        make_plan(World(questions=questions, documents=3, filler=" more" * 100).dataset(), method),
        out,
        parallel=parallel,
    )


if __name__ == "__main__":
    LOG = os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    main()
