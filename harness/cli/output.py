"""What commands that run methods print: warnings, the result of each run, and which runs are
incomplete."""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Sequence
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
    counted = summary.get("n_scored" if summary.get("failed_count_as") == "skip" else "n_total")
    texts = {}
    for name, score in summary.get("scores", {}).items():
        few = "" if score["n"] == counted else f" over {score['n']} of {counted} questions"
        texts[name] = mean_text(score) + few
    return texts


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
    models = {
        p.config.model.name: p.config.model
        for p in plans
        if p.config.model.embedded or p.config.model.small
    }
    if models:
        from harness.engine import model_warnings

        for model in models.values():
            if model.embedded:
                say(model_warnings.embedded_notice(model))
            if model.small:
                say(model_warnings.small_model_note(model.model_dump(), before_run=True))
    for warning in dict.fromkeys([*unlogged, *(w for plan in plans for w in plan.warnings)]):
        say(f"warning: {warning}")


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
    total, failed = summary.get("n_total", 0), summary.get("n_failed", 0)
    kinds = ", ".join(f"{n} {kind}" for kind, n in summary.get("errors", {}).items())
    no_prefix = summary.get("n_without_prefix")
    note = f", {no_prefix} replies without the answer prefix, scored whole" if no_prefix else ""
    note += (
        f", {summary['n_truncated']} answered from a truncated context"
        if summary.get("n_truncated")
        else ""
    )
    note += f", {summary['n_left_out']} left out by the loader" if summary.get("n_left_out") else ""
    note += f", {summary['n_not_asked']} not asked yet" if summary.get("n_not_asked") else ""
    phases = [(phase, total - failed) for phase in summary.get("usage", {}).values()]
    phases += [(phase, 1) for phase in summary.get("index", {}).get("usage", {}).values()]
    if recalled := sum(times * phase.get("recalled", 0) for phase, times in phases):
        sent = sum(
            times * (phase["requests"] - phase.get("encoder_requests", 0))
            for phase, times in phases
        )
        note += f", {recalled:.0f} of {sent:.0f} requests answered by the cache of replies"
    lines.append(
        f"  {total} question{'s' * (total != 1)}, {failed} failed"
        + (f" ({kinds})" if failed else "")
        + note
    )
    replies = reply_sentences(summary.get("replies", {}), plan.config.model_dump(mode="json"))
    lines += [f"  {sentence}" for sentence in [*left_out_note(plan.dataset.skipped), *replies]]
    print("\n".join(lines), flush=True)
