"""What commands that run methods say of questions that failed and of runs that are incomplete."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.storage.failures import error_in_one_line
from harness.storage.json_lines import read_lines
from harness.storage.run_files import RECORDS
from harness.types import lacks_only_scores

if TYPE_CHECKING:
    from harness.engine.runner import RunResult
    from harness.engine.runs_in_turn import IncompleteRun


def failure_text(result: RunResult, label: str, debug: bool) -> str:
    """Write the error line of a run with failed questions.

    It says how many failed, the most frequent reason with one question, and how to ask or score
    them again.

    Args:
        result: The run, with at least one question that failed.
        label: Goes in front: the run's name.
        debug: Whether the traceback of that question is added.
    """
    errors: dict[str, Mapping[str, str] | None] = {}
    for record in read_lines(result.folder / RECORDS, "question_id"):
        errors[record["question_id"]] = record["error"]
    failed = {question: error for question, error in errors.items() if error is not None}
    most_frequent = _largest_group(failed)
    first = most_frequent[0]
    error = failed[first]
    which = "the first,"
    if len(most_frequent) > 1:
        which = f"{len(most_frequent)} of them like"
    shown = ""
    ways = _ways_to_repeat(result, sum(map(lacks_only_scores, errors.values())))
    if "traceback" in error and debug:
        shown = f"{error['traceback'].rstrip()}\n"
    elif "traceback" in error:
        ways.append("--debug prints the traceback")
    count = f"{result.failed} of {result.summary.n_total} questions failed"
    return f"{shown}error: {label}{count}; {which} '{first}': {error_in_one_line(error)}  ({'; '.join(ways)})"


def _largest_group(failed: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The questions that failed for the most frequent reason; numbers in a reason do not count.

    Args:
        failed: Question id -> its error in records.jsonl.
    """
    by_reason: dict[str, list[str]] = {}
    for question, error in failed.items():
        reason = re.sub(r"\d+", "", error_in_one_line(error))
        by_reason.setdefault(reason, []).append(question)
    return max(by_reason.values(), key=len)


def _ways_to_repeat(result: RunResult, n_not_scored: int) -> list[str]:
    """Say how to ask failed questions again, and how to score those that only lack scores.

    Args:
        result: The run.
        n_not_scored: How many failed questions were answered and only lack scores.
    """
    ways = []
    if n_not_scored < result.failed:
        ways.append("the same command with --retry-failed runs them again")
    if n_not_scored:
        again = f"harness score {shlex.quote(str(result.folder))}"
        ways.append(f"{n_not_scored} answered and not scored; once the scorer is fixed: {again}")
    return ways


def incomplete_runs_sentence(total: int, incomplete: Sequence[IncompleteRun]) -> str:
    """Say which of `total` runs are incomplete, and why; the last words
    of a command with several runs.
    """
    if not incomplete:
        return f"all {total} runs are complete"
    lines = [f"{len(incomplete)} of {total} runs are incomplete:"]
    lines += [f"  {each.run}: {each.why}" for each in incomplete]
    return "\n".join(lines)
