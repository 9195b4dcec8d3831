"""Checks of `harness run` that end a CI job: a score's lower limit, and no drop below an earlier run.

--fail-under flashrag.em=60      the mean of every run of the command is at least 60 points (less --margin)
--fail-below-baseline RUN        no run is shown to score lower than RUN on the questions of RUN;
                                 --max-drop SCORE=X chooses the score and a drop that is tolerated
--allow-left-out                 questions without an answer are left out, instead of counting 0
--junit FILE, --job-summary FILE the checks as JUnit XML; as a Markdown table, added to the file

A check against a baseline follows the 95 % interval of the paired difference: wholly below the
tolerated drop it fails, wholly above it passes, else it is undecided. Where there are too few
documents for an interval, an observed drop above the tolerated one fails, and the check is undecided
otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from harness.cli.output import counted, say
from harness.cli.run_options import CheckOptions
from harness.engine.runs_in_turn import Hook
from harness.errors import UserError
from harness.storage.run_files import read_manifest

if TYPE_CHECKING:
    from xml.etree import ElementTree

    from harness.engine.plan import PlannedRun
    from harness.engine.runner import RunResult
    from harness.storage.summary_file import RunSummary, ScoreMean
    from reports.baseline import BaselineComparison

FAILED_CHECK = 4
JUDGE_PREFIX = "judge."
"""How the names of scores begin that `harness judge` gives, after the run."""
Outcome = Literal["passed", "undecided", "FAILED"]
_MARKDOWN_OF_OUTCOME: dict[Outcome, str] = {
    "passed": "passed",
    "undecided": "undecided",
    "FAILED": "**FAILED**",
}


@dataclass(frozen=True)
class Check:
    """One check of one run.

    Attributes:
        run: The run's name.
        name: What was asked: "flashrag.em at least 60".
        outcome: How it ended.
        figures: The figures behind it, in a sentence.
    """

    run: str
    name: str
    outcome: Outcome
    figures: str


class Gate(Hook):
    """Makes the checks as runs end; a command whose check fails ends with exit code 4.

    Raises:
        UserError: A limit that is no SCORE=X, an option without the check that it belongs to, or no
            such baseline.
    """

    def __init__(self, options: CheckOptions, allow_left_out: bool = False) -> None:
        """Read the limits and drops, score -> points, and begin without any check.

        Args:
            options: The options of checks.
            allow_left_out: Whether questions without an answer are left out, and not scored 0.

        Raises:
            UserError: A limit that is no SCORE=X, an option without the check that it belongs to,
                or no such baseline.
        """
        self._options = options
        self._allow_left_out = allow_left_out
        self._limit_by_score = _points_of_scores("--fail-under", options.fail_under)
        self._tolerated_drop_by_score = _points_of_scores("--max-drop", options.max_drop)
        _check_options(options)
        self._checks: list[Check] = []
        self._runs_not_ended: list[str] = []  # runs that were planned and have not ended

    def ready(self, plan: PlannedRun) -> PlannedRun:
        """Note that this run must end, and return its plan unchanged.

        Raises UserError for a limit on a score that the run does not have.
        """
        for option, scores in (
            ("--fail-under", self._limit_by_score),
            ("--max-drop", self._tolerated_drop_by_score),
        ):
            run_scores = plan.config.dataset.scorers
            missing_scores = [name for name in scores if name not in run_scores]
            unknown_scores = [name for name in missing_scores if not name.startswith(JUDGE_PREFIX)]
            if unknown_scores:
                known = ", ".join(run_scores)
                raise UserError(
                    f"{option}: {plan.run_name} has no score '{min(unknown_scores)}' (it has {known})"
                )
        self._runs_not_ended.append(plan.run_name)
        return plan

    def ended(self, plan: PlannedRun, result: RunResult) -> None:
        """Check a run that ended, and keep the checks for `closed`.

        Its scores are compared with each --fail-under. If a baseline is given, the run is compared
        with it by each score of --max-drop, else by the headline score without a tolerated drop.
        """
        self._runs_not_ended.remove(plan.run_name)
        for score, limit_points in self._limit_by_score.items():
            self._checks.append(
                self._compare_with_limit(plan.run_name, result, score, limit_points)
            )
        if self._options.fail_below_baseline is None:
            return
        if not self._tolerated_drop_by_score:
            check = self._compare_with_baseline(
                plan.run_name, result.folder, score=None, tolerated_drop=0.0
            )
            self._checks.append(check)
        for score, tolerated_drop in self._tolerated_drop_by_score.items():
            check = self._compare_with_baseline(plan.run_name, result.folder, score, tolerated_drop)
            self._checks.append(check)

    def closed(self) -> int:
        """Print all checks and write them to the files that are asked for.

        A run that did not end fails. Returns the exit code: 4 if a check failed, else 0.
        """
        for name in self._runs_not_ended:
            self._checks.append(
                Check(run=name, name="the run ends", outcome="FAILED", figures="it did not end")
            )
        for check in self._checks:
            say(f"check {check.outcome}: {check.run}: {check.name}: {check.figures}")
        if self._options.junit is not None:
            _junit(self._checks).write(self._options.junit, encoding="utf-8", xml_declaration=True)
        if self._options.job_summary is not None:
            _add_markdown(Path(self._options.job_summary), self._checks)
        if any(check.outcome == "FAILED" for check in self._checks):
            return FAILED_CHECK
        return 0

    def _compare_with_limit(
        self, run_name: str, result: RunResult, score: str, limit_points: float
    ) -> Check:
        """Compare a run's mean with a limit of --fail-under.

        Questions that were left out count 0, unless they are allowed.

        Args:
            run_name: The run's name.
            result: The run that ended.
            score: The name of the score.
            limit_points: The limit, in points.
        """
        name = f"{score} at least {limit_points:g}"
        if score.startswith(JUDGE_PREFIX):
            why_not_judged = _why_not_judged(result, score)
            if why_not_judged:
                return Check(run=run_name, name=name, outcome="FAILED", figures=why_not_judged)
        summary = result.summary
        score_mean = summary.scores[score]
        n_left_out = _n_left_out(summary)
        points_of_score_1 = 100.0
        if n_left_out and not self._allow_left_out:
            share_of_asked = score_mean.n / (score_mean.n + n_left_out)
            points_of_score_1 = 100 * share_of_asked
        figures = _mean_figures(score_mean, points_of_score_1, limit_points)
        if score.startswith(JUDGE_PREFIX) and score_mean.n != summary.n_total:
            figures.append(f"over the {score_mean.n} of {summary.n_total} that have a score")
        if n_left_out:
            figures.append(_left_out_words(n_left_out, self._allow_left_out))
        margin = self._options.margin or 0.0
        if margin:
            name += f", less a margin of {margin:g}"
        assert score_mean.mean is not None  # the gate names scores that a question has
        outcome: Outcome = "FAILED"
        if points_of_score_1 * score_mean.mean >= limit_points - margin:
            outcome = "passed"
        return Check(run=run_name, name=name, outcome=outcome, figures="; ".join(figures))

    def _compare_with_baseline(
        self, run_name: str, folder: Path, score: str | None, tolerated_drop: float
    ) -> Check:
        """Compare a run with the baseline, question by question (reports/baseline.py).

        The models may differ too. Other reasons for which `compare` refuses two runs are added to
        the figures.

        Args:
            run_name: The run's name.
            folder: Its run folder.
            score: The name of the score; None: the baseline's headline.
            tolerated_drop: The tolerated drop, in points.
        """
        from harness.storage.run_folder import read_run
        from reports.baseline import compare_with_baseline

        name = "not below the baseline"
        if score is not None:
            name = f"{score} {name}"
        if tolerated_drop:
            name += f" by more than {tolerated_drop:g}"
        assert self._options.fail_below_baseline is not None
        baseline = read_run(Path(self._options.fail_below_baseline))
        try:
            comparison = compare_with_baseline(
                read_run(folder), baseline, score, self._allow_left_out
            )
        except UserError as error:
            return Check(
                run=run_name, name=name, outcome="FAILED", figures=f"not comparable: {error}"
            )
        figures = [_difference_words(comparison)]
        if comparison.left_out:
            figures.append(_left_out_words(comparison.left_out, self._allow_left_out))
        decision = _decide(comparison, tolerated_drop)
        return Check(
            run=run_name,
            name=name,
            outcome=decision.outcome,
            figures="; ".join([*figures, *decision.reasons, *comparison.objections]),
        )


def _why_not_judged(result: RunResult, judge_score: str) -> str:
    """Say why a run's score of a judge cannot be checked; "" where every question is judged."""
    judges = read_manifest(result.folder).judges
    n_asked = result.summary.n_total or 0
    n_judged = 0
    if judge_score in judges:
        n_judged = sum(judges[judge_score].verdicts.values())
    if n_judged < n_asked or judge_score not in result.summary.scores:
        return (
            f"{judge_score} has judged {n_judged} of {n_asked} questions; run harness judge "
            f"{result.folder}, then this command again"
        )
    return ""


def _check_options(options: CheckOptions) -> None:
    """Raise UserError for an option without the check that it belongs to, for a baseline that is
    not there, and for a margin that is no points.

    At least one option is given; without a check it is then --junit or --job-summary.
    """
    if options.fail_below_baseline is not None and not Path(options.fail_below_baseline).is_dir():
        raise UserError(
            f"--fail-below-baseline: there is no run folder '{options.fail_below_baseline}'"
        )
    if options.max_drop and options.fail_below_baseline is None:
        raise UserError("--max-drop is a drop below a baseline; add --fail-below-baseline RUN")
    if options.margin is not None and not options.fail_under:
        raise UserError("--margin belongs to a limit; add --fail-under SCORE=X")
    if options.margin is not None and not 0 <= options.margin <= 100:
        raise UserError(f"--margin {options.margin:g}: should be points from 0 to 100")
    if not options.fail_under and options.fail_below_baseline is None:
        raise UserError(
            "--junit and --job-summary belong to checks; add --fail-under SCORE=X "
            "or --fail-below-baseline RUN"
        )


def _points_of_scores(option: str, texts: Sequence[str]) -> dict[str, float]:
    """Parse limits of scores, in points.

    ["flashrag.em=60,flashrag.f1=50"] -> {"flashrag.em": 60.0, "flashrag.f1": 50.0}

    Args:
        option: The option's name, for the error.
        texts: What was typed after it, each time.

    Raises:
        UserError: A part that is no SCORE=X with X from 0 to 100.
    """
    points_by_score: dict[str, float] = {}
    if not texts:
        return points_by_score
    for part in ",".join(texts).split(","):
        score, _, value = part.partition("=")
        try:
            points = float(value)
        except ValueError:
            points = -1.0
        if not 0 <= points <= 100:
            raise UserError(
                f"{option} {part}: should be SCORE=X with X from 0 to 100, as in flashrag.em=60"
            )
        points_by_score[score] = points
    return points_by_score


class _Decision(NamedTuple):
    """The outcome of a check, and why where the figures alone do not say it: no reason or one."""

    outcome: Outcome
    reasons: list[str]


def _decide(comparison: BaselineComparison, tolerated_drop: float) -> _Decision:
    """Decide a check against a baseline, and say why where the interval alone does not.

    FAILED where the whole interval lies below the tolerated drop, passed where none of it does,
    else undecided. Without an interval an observed drop fails.

    Args:
        comparison: The paired difference, in [-1, 1], with its interval.
        tolerated_drop: The tolerated drop, in points.
    """
    lowest_tolerated_difference = -tolerated_drop / 100
    if comparison.low is None or comparison.high is None:
        if comparison.difference < lowest_tolerated_difference:
            return _Decision("FAILED", ["so the observed drop decides"])
        return _Decision("undecided", ["no drop was observed, and none can be excluded"])
    if comparison.high < lowest_tolerated_difference:
        return _Decision("FAILED", [])
    if comparison.low >= lowest_tolerated_difference:
        return _Decision("passed", [])
    lowest_points = 0.0 - tolerated_drop  # 0.0 - 0.0 is written "0", -0.0 would be "-0"
    why = f"the interval holds {lowest_points:g}: more questions would tell, or a tolerated drop"
    return _Decision("undecided", [f"{why} (--max-drop {comparison.score}=X)"])


def _difference_words(comparison: BaselineComparison) -> str:
    """Write a difference: "+3.1 [-1.0, +7.2] points on 80 questions about 10 documents".

    A run that asks the whole folder is "about the folder".
    """
    interval = _NO_INTERVAL
    if comparison.low is not None and comparison.high is not None:
        interval = f" [{100 * comparison.low:+.1f}, {100 * comparison.high:+.1f}]"
    documents = f"{comparison.documents} documents"
    if comparison.asks_whole_folder:
        documents = "the folder"
    points = f"{100 * comparison.difference:+.1f}{interval} points"
    return f"{points} on {comparison.questions} questions about {documents}"


def _mean_figures(score: ScoreMean, points_of_score_1: float, limit_points: float) -> list[str]:
    """Write a mean with its interval, and whether the interval holds the limit.

    ["64.0 [58.1, 69.9] points", "the interval holds 60: ..."]; the second only where it does.

    Args:
        score: The mean of the score.
        points_of_score_1: How many points a score of 1 is: 100, or less where questions that were
            left out count 0.
        limit_points: The limit, in points.
    """
    mean_points = points_of_score_1 * (score.mean or 0.0)
    if score.low is None or score.high is None:
        return [f"{mean_points:.1f}{_NO_INTERVAL} points"]
    low_points = points_of_score_1 * score.low
    high_points = points_of_score_1 * score.high
    figures = [f"{mean_points:.1f} [{low_points:.1f}, {high_points:.1f}] points"]
    if low_points < limit_points <= high_points:
        figures.append(
            f"the interval holds {limit_points:g}: other questions of this kind may lie on its other side"
        )
    return figures


_NO_INTERVAL = ", no interval with so few documents,"


def _n_left_out(summary: RunSummary) -> int:
    """How many questions a run's means are not over: those that the loader left out, and failed
    ones where the run skips them.
    """
    n_left_out = summary.n_left_out or 0
    if summary.failed_count_as == "skip":
        n_left_out += summary.n_failed or 0
    return n_left_out


def _left_out_words(count: int, allowed: bool) -> str:
    """Write how many questions were left out, and that they count 0 unless `allowed`."""
    questions = f"{counted(count, 'question')} left out"
    if allowed:
        return f"{questions}, as allowed"
    return f"{questions} count 0 (--allow-left-out: not at all)"


def _add_markdown(file: Path, checks: Sequence[Check]) -> None:
    """Append a table of the checks to a Markdown file."""
    rows = [("run", "check", "result", "figures"), ("---",) * 4]
    rows += [
        (each.run, each.name, _MARKDOWN_OF_OUTCOME[each.outcome], each.figures) for each in checks
    ]
    with file.open("a", encoding="utf-8") as opened:
        for row in rows:
            cells = [cell.replace("|", "\\|").replace("\n", " ") for cell in row]
            opened.write(f"| {' | '.join(cells)} |\n")
        opened.write("\n")


def _junit(checks: Sequence[Check]) -> ElementTree.ElementTree[ElementTree.Element]:
    """The checks as JUnit XML, a test case each; an undecided one is "skipped", with its
    figures.
    """
    from xml.etree import ElementTree

    failures = sum(check.outcome == "FAILED" for check in checks)
    undecided = sum(check.outcome == "undecided" for check in checks)
    suite = ElementTree.Element(
        "testsuite",
        name="harness",
        tests=str(len(checks)),
        failures=str(failures),
        skipped=str(undecided),
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=check.run, name=check.name)
        if check.outcome == "passed":
            ElementTree.SubElement(case, "system-out").text = check.figures
        elif check.outcome == "undecided":
            ElementTree.SubElement(case, "skipped", message=check.figures)
        else:
            ElementTree.SubElement(case, "failure", message=check.figures)
    return ElementTree.ElementTree(suite)
