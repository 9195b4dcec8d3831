"""`harness duel METHOD METHOD...`: run methods in step, and stop when the comparison is settled.

Exit codes: 0 also where nothing was settled; 3 if questions failed. The statistics: sequential.py.
"""

from __future__ import annotations

import json as json_
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Annotated

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
from harness.cli.table_output import aligned_columns
from harness.cost.units import duration_text
from harness.engine.expand_command import command_runs
from harness.engine.plan import PlannedRun, plan_choices
from harness.engine.progress import Progress
from harness.engine.progress_line import ProgressLine
from harness.engine.runner import Interrupted
from harness.errors import HarnessError, UserError, call_noting_problem, raise_all
from harness.storage.files import check_home
from harness.storage.paths import local_folder
from harness_audit.duel import Asking, DuelResult, Entrant
from harness_audit.duel import duel as run_duel
from harness_audit.pair_races import Rules


@dataclass(frozen=True)
class Stop:
    """When a comparison is settled, and what it is about."""

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


@dataclass(frozen=True)
class Execution:
    """How the questions are asked."""

    parallel: Annotated[
        int,
        execution(
            "--parallel N",
            "Questions of a method to run at a time; looks come after as many.",
            min=1,
        ),
    ] = 1
    retry_failed: RetryFailed = False
    quiet: Quiet = False


def duel(
    selection: Selection,
    stop: Stop,
    how: Execution,
    methods: Annotated[
        list[str] | None,
        typer.Argument(metavar="METHOD", help="Two methods or more.", show_default=False),
    ] = None,
    out: Out = RESULTS,
    json: Json = False,
) -> int:
    """Run methods in step and stop when the comparison is settled.

    Documents come in random order (--seed). After each, an anytime-valid test looks at the paired
    differences; what was not asked is saved. The same command resumes, and harness run completes a
    run that was stopped.
    """
    width = None
    if stop.width is not None:
        width = stop.width / 100  # points of the score as a score in [0, 1]
    # Rules checks the name of the target.
    rules = Rules(
        alpha=stop.alpha,
        width=width,
        target=stop.target,  # type: ignore[arg-type]
        score=stop.score,
    )
    folder = local_folder(out)
    plans = _plans(selection, methods or [])
    print_warnings(plans)
    asking = Asking(
        command=["harness", *sys.argv[1:]],
        parallel=how.parallel,
        retry_failed=how.retry_failed,
    )
    progress: Progress = ProgressLine()
    if how.quiet:
        progress = Progress()
    try:
        outcome = run_duel(plans, rules, folder, asking=asking, progress=progress)
    except Interrupted:
        print_resume_command("interrupted; what was answered is saved")
        return 130
    if json:
        print(_as_json(outcome), flush=True)
    else:
        print(_as_text(outcome), flush=True)
    return _print_problems(outcome)


def _print_problems(outcome: DuelResult) -> int:
    """Print what could not be saved, and which methods have failed questions; returns the exit
    code, 3 if there is any of this, else 0."""
    failed: list[str] = []
    code = 0
    for entrant in outcome.entrants:
        for problem in entrant.result.save_problems:
            say(f"error: {problem}")
            code = 3
        if entrant.result.failed:
            failed.append(f"{entrant.name} {entrant.result.failed}")
            code = 3
    if failed:
        say(
            f"error: questions failed and count 0: {', '.join(failed)}; --retry-failed runs them "
            "again"
        )
    return code


def _plans(selection: Selection, methods: Sequence[str]) -> list[PlannedRun]:
    """A plan for each method of a duel.

    Args:
        selection: The options of the command that choose method, data set and model.
        methods: Names of methods, maybe several in one text divided by commas.

    Raises:
        UserError: There are fewer than two methods, plans with mistakes (all of them are named), or
            the folder that HARNESS_HOME names cannot be used.
    """
    method_names = list(dict.fromkeys([*split_names(methods), *selection.method]))
    choices_of_runs = command_runs(
        RunRequest.from_groups(selection).choices(),
        methods=method_names,
        datasets=selection.dataset,
        swept={},
        note=say,
    )
    if len(choices_of_runs) < 2:
        raise UserError(
            "a duel needs two methods or more: harness duel pecan bm25 --dataset musique"
        )
    problems: list[HarnessError] = []
    plans: list[PlannedRun] = []
    for choices in choices_of_runs:
        # plan_choices(choices), or None where that raises: its error is then added to `problems`
        plan = call_noting_problem(problems, plan_choices, choices)
        if plan is not None:
            plans.append(plan)
    raise_all(problems)
    check_home()  # that the folder HARNESS_HOME can be used
    return plans


def _as_json(outcome: DuelResult) -> str:
    """The verdicts of all pairs, when a pair is settled, and the run of each method, as JSON text:

    {"pairs": [VERDICT], the fields of Rules, "score": "flashrag.f1",
     "runs": [{"method": "bm25", "run": FOLDER, "rank": [1, 2], "questions": 40, "of": 100,
               "saved": {"questions": 60, "tokens": 9000.0, "seconds": 12.0}}]}
    """
    runs = []
    for entrant in outcome.entrants:
        run = {
            "method": entrant.name,
            "run": str(entrant.result.folder),
            "rank": outcome.ranks(entrant.name),
            "questions": entrant.questions,
            "of": entrant.n_questions_of_duel,
            "saved": asdict(entrant.saved),
        }
        runs.append(run)
    pairs = [asdict(pair.verdict()) for pair in outcome.pairs]
    return json_.dumps(
        {"pairs": pairs, **asdict(outcome.rules), "score": outcome.score, "runs": runs}
    )


def _as_text(outcome: DuelResult) -> str:
    """The result of a duel for people: a line for each verdict, what they are about, how many
    answers were saved, and a table of the methods, best first."""
    lines = [pair.sentence for pair in outcome.pairs]
    lines.append(_about(outcome))
    if outcome.left_out:
        lines.append(
            f"  {outcome.left_out} questions are left out, which {outcome.score} does not judge"
        )
    rows: list[tuple[str, ...]] = [_HEADS]
    n_answers_without_stops = 0
    n_answers_saved = 0
    # Ranks are (best, worst), as the verdicts leave them possible: (1, 2) before (1, 3).
    for entrant in sorted(outcome.entrants, key=lambda entrant: outcome.ranks(entrant.name)):
        best_rank, worst_rank = outcome.ranks(entrant.name)
        rows.append(_row(entrant, best_rank, worst_rank))
        n_answers_without_stops += entrant.n_questions_of_duel
        n_answers_saved += entrant.saved.questions
    share = f"{100 * n_answers_saved / n_answers_without_stops:.0f} %"
    lines.append(
        f"  {n_answers_saved} of {n_answers_without_stops} answers saved against running all "
        f"({share})"
    )
    return "\n".join([*lines, "", aligned_columns(rows)])


def _about(outcome: DuelResult) -> str:
    """The line on what the verdicts are about, and how sure they are: "  f1, about documents like
    these; alpha 5 %, valid at every look"."""
    subject = "exactly these questions"
    if outcome.rules.target == "population":
        subject = "documents like these"
    correction = ""
    n_pairs = len(outcome.pairs)
    if n_pairs > 1:
        correction = f" over the whole ranking of {n_pairs} pairs (intervals: Bonferroni)"
    alpha = f"alpha {100 * outcome.rules.alpha:g} %{correction}"
    return f"  {outcome.score}, about {subject}; {alpha}, valid at every look"


_HEADS = ("method", "rank", "questions", "saved", "tokens saved", "time saved", "run")


def _row(entrant: Entrant, best_rank: int, worst_rank: int) -> tuple[str, ...]:
    """The row of a method in the table: name, rank, questions that it was asked, and what stopping
    early saved (questions, tokens, time), its folder.

        ("bm25", "1 to 2", "40 of 100", "60 (60 %)", "about 9,000", "about 12 s", "results/...")

    Args:
        entrant: The method.
        best_rank: Its best possible rank.
        worst_rank: Its worst possible rank.
    """
    rank = str(best_rank)
    if best_rank != worst_rank:
        rank = f"{best_rank} to {worst_rank}"
    saved = entrant.saved
    saved_tokens = "0"
    saved_time = "0 s"
    if saved.questions:
        saved_tokens = f"about {saved.tokens:,.0f}"
        saved_time = f"about {duration_text(saved.seconds)}"
    asked = f"{entrant.questions} of {entrant.n_questions_of_duel}"
    saved_share = f"{saved.questions} ({100 * saved.questions / entrant.n_questions_of_duel:.0f} %)"
    folder = str(entrant.result.folder)
    return (entrant.name, rank, asked, saved_share, saved_tokens, saved_time, folder)
