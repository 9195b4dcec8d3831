"""What commands that run methods print: warnings, the result of each run, and which runs are
incomplete."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING


def mean_text(score: ScoreMean) -> str:
    """Write a mean with its interval in percent points; "-" without a mean.

    ScoreMean(mean=0.41, low=0.36, high=0.46) -> "41.0 [36.0, 46.0]"
    """
    from harness.stats.bootstrap import with_interval

    if score.mean is None:
        return "-"
    return with_interval(lambda value: f"{100 * value:.1f}", score.mean, score.low, score.high)


def mean_texts(summary: RunSummary) -> dict[str, str]:
    """Write each score's mean: {"qa-f1": "41.0 [36.0, 46.0]"}.

    Where the mean is not over all questions, " over 18 of 20 questions" follows.
    """
    n_counted = summary.n_total
    if summary.failed_count_as == "skip":
        n_counted = summary.n_scored
    texts: dict[str, str] = {}
    for name, score in summary.scores.items():
        texts[name] = mean_text(score)
        if score.n != n_counted:
            texts[name] += f" over {score.n} of {n_counted} questions"
    return texts


def counted(count: int, noun: str) -> str:
    """Write a number with its noun: (1, "run") -> "1 run", (2, "run") -> "2 runs"."""
    if count == 1:
        return f"1 {noun}"
    return f"{count} {noun}s"


def say(line: str) -> None:
    """Print a line on stderr, where everything but results goes, at once."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if TYPE_CHECKING:
    from harness.cost.usage import PhaseUsage
    from harness.engine.plan import PlannedRun
    from harness.engine.runner import RunResult
    from harness.storage.summary_file import RunSummary, ScoreMean


def print_warnings(plans: Sequence[PlannedRun], unlogged: Sequence[str] = ()) -> None:
    """Print the warnings of planned runs, before the first one begins, each sentence once.

    Args:
        plans: The runs.
        unlogged: Sentences on why runs are not logged to the tracker.
    """
    from harness.engine import model_warnings

    models = {plan.config.model.name: plan.config.model for plan in plans}
    for model in models.values():
        if model.embedded:
            say(model_warnings.embedded_notice(model))
        if model.small:
            say(model_warnings.small_model_note(model.name, before_run=True))
    warnings = dict.fromkeys(unlogged)
    for plan in plans:
        warnings |= dict.fromkeys(plan.warnings)
    for warning in warnings:
        say(f"warning: {warning}")


def _counts_text(summary: RunSummary) -> str:
    """Write what became of the questions: "20 questions, 1 failed (1 Timeout), 3 not asked yet"."""
    text = f"{counted(summary.n_total or 0, 'question')}, {summary.n_failed or 0} failed"
    if summary.errors:
        kinds = [f"{number} {kind}" for kind, number in summary.errors.items()]
        text += f" ({', '.join(kinds)})"
    for number, meaning in _counts_with_words(summary):
        if number:
            text += f", {number} {meaning}"
    return text


def _counts_with_words(summary: RunSummary) -> list[tuple[int | None, str]]:
    """The counts of a summary that are printed where they are not 0, each with its words."""
    return [
        (summary.n_without_prefix, "replies without the answer prefix, scored whole"),
        (summary.n_not_parsed, "not as the answer schema says, scored 0"),
        (summary.n_truncated, "answered from a truncated context"),
        (summary.n_left_out, "left out by the loader"),
        (summary.n_not_asked, "not asked yet"),
    ]


def _recalled_text(summary: RunSummary) -> str:
    """Write how many requests the cache of replies answered, to follow the counts; "" for none.

    Requests of answered questions and of indexes count, but not those to encoders.
    """
    n_answered = summary.n_scored or 0
    n_recalled = 0.0
    n_requests = 0.0
    for phase in summary.usage.values():  # means of an answered question
        n_recalled += n_answered * _n_recalled_requests(phase)
        n_requests += n_answered * _n_model_requests(phase)
    for phase in summary.index.usage.values():  # sums over all indexes
        n_recalled += _n_recalled_requests(phase)
        n_requests += _n_model_requests(phase)
    if not n_recalled:
        return ""
    return f", {n_recalled:.0f} of {n_requests:.0f} requests answered by the cache of replies"


def _n_recalled_requests(phase: PhaseUsage) -> float:
    """How many requests of a phase the cache of replies answered; a phase without any has no such
    number."""
    return float(phase.get("recalled", 0))


def _n_model_requests(phase: PhaseUsage) -> float:
    """How many requests of a phase were for language models."""
    return float(phase["requests"] - phase.get("encoder_requests", 0))


def print_result(result: RunResult, plan: PlannedRun, json: bool) -> None:
    """Print the scores and counts of a run on stdout.

    Args:
        result: The run that ended.
        plan: Its plan.
        json: Print one JSON object in place of lines.
    """
    from harness.datasets.base import left_out_notes
    from harness.storage.run_summary import reply_sentences

    if json:
        print(
            json_.dumps({"run": str(result.folder), "summary": result.summary.to_json()}),
            flush=True,
        )
        return
    summary = result.summary
    lines = [str(result.folder)]
    lines += [f"  {name:<28} {text}" for name, text in mean_texts(summary).items()]
    lines.append(f"  {_counts_text(summary)}{_recalled_text(summary)}")
    replies = reply_sentences(summary.replies, plan.config.stored())
    lines += [f"  {sentence}" for sentence in [*left_out_notes(plan.dataset.skipped), *replies]]
    print("\n".join(lines), flush=True)
