"""What commands that run methods say of questions that failed and of runs that are incomplete."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.storage.failures import one_line
from harness.storage.json_lines import read_lines
from harness.storage.run_files import RECORDS
from harness.types import lacks_only_scores

if TYPE_CHECKING:
    from harness.engine.runner import RunResult
    from harness.engine.runs_in_turn import Lost


def failure_text(result: RunResult, label: str, debug: bool) -> str:
    """The error line of a run: how many questions failed, the most frequent reason, and how to run
    or score them again.

    label: goes in front; debug: adds the traceback of the first question that failed for this
    reason.
    """
    errors = {
        r["question_id"]: r["error"] for r in read_lines(result.folder / RECORDS, "question_id")
    }
    by_reason: dict[
        str, list[str]
    ] = {}  # questions by reason; numbers, such as sizes of texts, make no other one
    for question, error in errors.items():
        if error is not None:
            by_reason.setdefault(re.sub(r"\d+", "", one_line(error)), []).append(question)
    question, *same_reason = max(by_reason.values(), key=len)
    error, which = (
        errors[question],
        f"{len(same_reason) + 1} of them like" if same_reason else "the first,",
    )
    ways = []
    answered = sum(lacks_only_scores(e) for e in errors.values())
    if answered < result.failed:
        ways.append("the same command with --retry-failed runs them again")
    if answered:
        again = f"harness score {shlex.quote(str(result.folder))}"
        ways.append(f"{answered} answered and not scored; once the scorer is fixed: {again}")
    shown = f"{error['traceback'].rstrip()}\n" if debug and "traceback" in error else ""
    if "traceback" in error and not debug:
        ways.append("--debug prints the traceback")
    count = f"{result.failed} of {result.summary['n_total']} questions failed"
    return f"{shown}error: {label}{count}; {which} '{question}': {one_line(error)}  ({'; '.join(ways)})"


def incomplete_runs_sentence(total: int, lost: Sequence[Lost]) -> str:
    """Which of `total` runs are incomplete, and why: the last words of a command with several
    runs."""
    if not lost:
        return f"all {total} runs are complete"
    lines = [
        f"{len(lost)} of {total} runs are incomplete:",
        *(f"  {loss.run}: {loss.why}" for loss in lost),
    ]
    return "\n".join(lines)
