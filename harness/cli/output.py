"""What commands that run methods print: warnings, the result of each run, and which runs are
incomplete."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any


def mean_text(score: dict[str, Any]) -> str:
    """{"mean": 0.41, "low": 0.36, "high": 0.46} -> "41.0 [36.0, 46.0]"; "-" without a mean."""
    from harness.stats.bootstrap import with_interval

    if score["mean"] is None:
        return "-"
    return with_interval(
        lambda value: f"{100 * value:.1f}", score["mean"], score["low"], score["high"]
    )


def mean_texts(summary: dict[str, Any]) -> dict[str, str]:
    """Score name -> its mean as text, by a run's summary.json, and over how many questions where
    not over all."""
    counted = summary.get("n_total")
    if summary.get("failed_count_as") == "skip":
        counted = summary.get("n_scored")
    texts: dict[str, str] = {}
    for name, score in summary.get("scores", {}).items():
        texts[name] = mean_text(score)
        if score["n"] != counted:
            texts[name] += f" over {score['n']} of {counted} questions"
    return texts


def counted(n: int, noun: str) -> str:
    """A number with its noun: "1 run", "2 runs"."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun}s"


def say(line: str) -> None:
    """Print a line on stderr, where everything but results goes."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


if TYPE_CHECKING:
    from harness.engine.plan import PlannedRun
    from harness.engine.runner import RunResult


def print_warnings(plans: Sequence[PlannedRun], unlogged: Sequence[str] = ()) -> None:
    """Print warnings before the first run, each sentence once; unlogged: sentences about the
    tracker."""
    from harness.engine import model_warnings

    models = {plan.config.model.name: plan.config.model for plan in plans}
    for model in models.values():
        if model.embedded:
            say(model_warnings.embedded_notice(model))
        if model.small:
            say(model_warnings.small_model_note(model.model_dump(), before_run=True))
    warnings = dict.fromkeys(unlogged)
    for plan in plans:
        warnings |= dict.fromkeys(plan.warnings)
    for warning in warnings:
        say(f"warning: {warning}")


_COUNTED = {
    "n_without_prefix": "replies without the answer prefix, scored whole",
    "n_not_parsed": "not as the answer schema says, scored 0",
    "n_truncated": "answered from a truncated context",
    "n_left_out": "left out by the loader",
    "n_not_asked": "not asked yet",
}
"""Numbers of a summary that are said where they are not 0."""


def _counts_text(summary: Mapping[str, Any]) -> str:
    """How many questions there were and what became of them: "20 questions, 1 failed (Timeout)"."""
    total = summary.get("n_total", 0)
    text = f"{total} question{'s' * (total != 1)}, {summary.get('n_failed', 0)} failed"
    errors = summary.get("errors", {})
    if errors:
        kinds = [f"{number} {kind}" for kind, number in errors.items()]
        text += f" ({', '.join(kinds)})"
    for name, meaning in _COUNTED.items():
        if summary.get(name):
            text += f", {summary[name]} {meaning}"
    return text


def _recalled_text(summary: Mapping[str, Any]) -> str:
    """How many requests the cache of replies answered; "" where it answered none."""
    answered = summary.get("n_total", 0) - summary.get("n_failed", 0)
    phases = [(phase, answered) for phase in summary.get("usage", {}).values()]
    phases += [(phase, 1) for phase in summary.get("index", {}).get("usage", {}).values()]
    recalled = 0.0
    sent = 0.0
    for phase, times in phases:
        recalled += times * phase.get("recalled", 0)
        sent += times * (phase["requests"] - phase.get("encoder_requests", 0))
    if not recalled:
        return ""
    return f", {recalled:.0f} of {sent:.0f} requests answered by the cache of replies"


def print_result(result: RunResult, plan: PlannedRun, json: bool) -> None:
    """Print the scores and counts of a run on stdout, as lines or as one object of JSON."""
    from harness.datasets.base import left_out_note
    from harness.storage.run_summary import reply_sentences

    if json:
        print(json_.dumps({"run": str(result.folder), "summary": result.summary}), flush=True)
        return
    summary = result.summary
    lines = [str(result.folder)]
    lines += [f"  {name:<28} {text}" for name, text in mean_texts(summary).items()]
    lines.append(f"  {_counts_text(summary)}{_recalled_text(summary)}")
    replies = reply_sentences(summary.get("replies", {}), plan.config.model_dump(mode="json"))
    lines += [f"  {sentence}" for sentence in [*left_out_note(plan.dataset.skipped), *replies]]
    print("\n".join(lines), flush=True)
