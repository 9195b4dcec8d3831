"""`harness duel METHOD METHOD...`: run methods in step, and stop when the comparison is settled.

Exit codes: 0 also where nothing was settled; 3 if questions failed. The statistics: sequential.py.
"""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from harness.api.run_request import RunRequest, Selection
from harness.cli.command import execution, setting
from harness.cli.options import (
    RESULTS,
    Json,
    Out,
    Quiet,
    RetryFailed,
    Score,
    split_names,
)
from harness.cli.output import print_warnings, say
from harness.cli.stopping import print_resume_command
from harness.cli.table_output import columns
from harness.cost.units import duration
from harness.errors import HarnessError, UserError, attempt, raise_all
from harness.storage.files import check_home
from harness.storage.paths import local_folder

if TYPE_CHECKING:
    from harness.engine.plan import PlannedRun
    from harness_audit.duel import DuelResult


@dataclass(frozen=True)
class Stop:
    """When a comparison is settled, and about what."""

    alpha: Annotated[
        float,
        setting(
            "--alpha X", "Largest probability of any wrong verdict, over all pairs and all looks."
        ),
    ] = 0.05
    width: Annotated[
        float | None,
        setting(
            "--width POINTS",
            "Also stop a pair whose interval is at most this wide, in points of the score.",
        ),
    ] = None
    target: Annotated[
        str,
        setting(
            "--target NAME",
            "What the verdict is about: population (documents like these) or table (exactly these "
            "questions).",
        ),
    ] = "population"
    score: Score = None


def duel(
    selection: Selection,
    stop: Stop,
    methods: Annotated[
        list[str] | None,
        typer.Argument(metavar="METHOD", help="Two methods or more.", show_default=False),
    ] = None,
    parallel: Annotated[
        int,
        execution(
            "--parallel N",
            "Questions of a method to run at a time; looks come after as many.",
            min=1,
        ),
    ] = 1,
    retry_failed: RetryFailed = False,
    quiet: Quiet = False,
    out: Out = RESULTS,
    json: Json = False,
) -> int:
    """Run methods in step and stop when the comparison is settled.

    Documents come in random order (--seed). After each, an anytime-valid test looks at the paired
    differences; what was not asked is saved. The same command resumes, and harness run completes a
    run that was stopped.
    """
    from harness.engine.progress import Progress
    from harness.engine.progress_line import ProgressLine
    from harness.engine.runner import Interrupted
    from harness_audit.duel import duel as run_duel
    from harness_audit.pair_races import Rules

    target, width = stop.target, None if stop.width is None else stop.width / 100
    rules = Rules(stop.alpha, width, target, stop.score)  # type: ignore[arg-type]  # Rules checks the name
    folder, command = local_folder(out), ["harness", *sys.argv[1:]]
    plans = _plans(selection, methods or [])
    print_warnings(plans)
    try:
        asking: dict[str, Any] = {
            "command": command,
            "retry_failed": retry_failed,
            "parallel": parallel,
        }
        outcome = run_duel(
            plans, rules, folder, progress=Progress() if quiet else ProgressLine(), **asking
        )
    except Interrupted:
        print_resume_command("interrupted; what was answered is saved")
        return 130
    print(_as_json(outcome) if json else _as_text(outcome), flush=True)
    for problem in (p for entrant in outcome.entrants for p in entrant.result.save_problems):
        say(f"error: {problem}")
    failed = [f"{e.name} {e.result.failed}" for e in outcome.entrants if e.result.failed]
    if failed:
        say(
            f"error: questions failed and count 0: {', '.join(failed)}; --retry-failed runs them "
            "again"
        )
    return 3 if failed or any(entrant.result.save_problems for entrant in outcome.entrants) else 0


def _plans(selection: Selection, methods: Sequence[str]) -> list[PlannedRun]:
    """A plan for each method. Raises UserError with every mistake."""
    from harness.engine.expand_command import command_runs
    from harness.engine.plan import plan_choices

    names = list(dict.fromkeys([*split_names(methods), *selection.method]))
    chosen = command_runs(RunRequest.of(selection).choices(), names, selection.dataset, {}, say)
    if len(chosen) < 2:
        raise UserError(
            "a duel needs two methods or more: harness duel pecan bm25 --dataset musique"
        )
    problems: list[HarnessError] = []
    plans = [plan for row in chosen if (plan := attempt(problems, plan_choices, row)) is not None]
    raise_all(problems)
    check_home()
    return plans


def _as_json(outcome: DuelResult) -> str:
    """The verdicts of all pairs, and the run of each method, as one JSON object."""
    runs = []
    for e in outcome.entrants:
        run = {"method": e.name, "run": str(e.result.folder), "rank": outcome.ranks(e.name)}
        saved = dict(zip(("questions", "tokens", "seconds"), e.saved, strict=True))
        runs.append({**run, "questions": e.questions, "of": e.of, "saved": saved})
    pairs = [pair.values() for pair in outcome.pairs]
    return json_.dumps(
        {"pairs": pairs, **asdict(outcome.rules), "score": outcome.score, "runs": runs}
    )


def _as_text(outcome: DuelResult) -> str:
    """Lines and a table: the verdicts, what they are about, and how many answers were saved."""
    rules, pairs = outcome.rules, len(outcome.pairs)
    about = "documents like these" if rules.target == "population" else "exactly these questions"
    over = f" over the whole ranking of {pairs} pairs (intervals: Bonferroni)" if pairs > 1 else ""
    lines = [pair.sentence for pair in outcome.pairs]
    lines.append(
        f"  {outcome.score}, about {about}; alpha {100 * rules.alpha:g} %{over}, valid at every "
        "look"
    )
    if outcome.left_out:
        lines.append(
            f"  {outcome.left_out} questions are left out, which {outcome.score} does not judge"
        )
    rows = [("method", "rank", "questions", "saved", "tokens saved", "time saved", "run")]
    for e in sorted(outcome.entrants, key=lambda e: outcome.ranks(e.name)):
        left, tokens, seconds = e.saved
        share = f"{left} ({100 * left / e.of:.0f} %)"
        spared = (f"about {tokens:,.0f}", f"about {duration(seconds)}") if left else ("0", "0 s")
        low, high = outcome.ranks(e.name)
        rank = str(low) if low == high else f"{low} to {high}"
        rows.append(
            (e.name, rank, f"{e.questions} of {e.of}", share, *spared, str(e.result.folder))
        )
    of, saved = (
        sum(numbers)
        for numbers in zip(*((e.of, e.saved[0]) for e in outcome.entrants), strict=True)
    )
    lines.append(f"  {saved} of {of} answers saved against running all ({100 * saved / of:.0f} %)")
    return "\n".join([*lines, "", columns(rows)])
