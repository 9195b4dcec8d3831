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
    from pathlib import Path

    from harness.engine.runner import RunResult
    from harness.engine.runs_in_turn import IncompleteRun


def failure_text(result: RunResult, run_label: str, with_traceback: bool) -> str:
    """Write the error line of a run with failed questions.

    It says how many failed, the most frequent reason with one question, and how to ask or score
    them again.

    Args:
        result: The run, with at least one question that failed.
        run_label: Goes in front: the run's name.
        with_traceback: Whether the traceback of that question is added.
    """
    error_by_failed_question = _read_errors(result.folder)
    similar_failures = _largest_group(error_by_failed_question)
    example_question = similar_failures[0]
    error = error_by_failed_question[example_question]
    example_words = "the first,"
    if len(similar_failures) > 1:
        example_words = f"{len(similar_failures)} of them like"
    n_not_scored = sum(map(lacks_only_scores, error_by_failed_question.values()))
    ways_to_repeat = _ways_to_repeat(result, n_not_scored)
    traceback_text = ""
    if "traceback" in error and with_traceback:
        traceback_text = f"{error['traceback'].rstrip()}\n"
    elif "traceback" in error:
        ways_to_repeat.append("--debug prints the traceback")
    count = f"{result.failed} of {result.summary.n_total} questions failed"
    example = f"{example_words} '{example_question}': {error_in_one_line(error)}"
    ways_text = "; ".join(ways_to_repeat)
    return f"{traceback_text}error: {run_label}{count}; {example}  ({ways_text})"


def _read_errors(folder: Path) -> dict[str, Mapping[str, str]]:
    """Question id -> its error, of the questions of a run whose last record is a failure."""
    error_by_question: dict[str, Mapping[str, str] | None] = {}
    for record in read_lines(folder / RECORDS, "question_id"):
        error_by_question[record["question_id"]] = record["error"]
    return {question: error for question, error in error_by_question.items() if error is not None}


def _largest_group(error_by_failed_question: Mapping[str, Mapping[str, str]]) -> list[str]:
    """The questions that failed for the most frequent reason; numbers in a reason do not count.

    Args:
        error_by_failed_question: Question id -> its error in records.jsonl.
    """
    questions_by_reason: dict[str, list[str]] = {}
    for question, error in error_by_failed_question.items():
        reason = re.sub(r"\d+", "", error_in_one_line(error))
        questions_by_reason.setdefault(reason, []).append(question)
    return max(questions_by_reason.values(), key=len)


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
        score_command = f"harness score {shlex.quote(str(result.folder))}"
        ways.append(
            f"{n_not_scored} answered and not scored; once the scorer is fixed: {score_command}"
        )
    return ways


def incomplete_runs_sentence(n_runs: int, incomplete_runs: Sequence[IncompleteRun]) -> str:
    """Say which of `n_runs` runs are incomplete, and why; the last words
    of a command with several runs.
    """
    if not incomplete_runs:
        return f"all {n_runs} runs are complete"
    lines = [f"{len(incomplete_runs)} of {n_runs} runs are incomplete:"]
    lines += [f"  {each.run}: {each.why}" for each in incomplete_runs]
    return "\n".join(lines)
