"""Checks of `harness run` that end a CI job: a score's lower limit, and no real drop below an
earlier run.

--fail-under flashrag.em=60            the mean of every run of the command is at least 60 points
--fail-below-baseline RUN              no run's headline score is really lower than that of RUN, on the same questions
--junit FILE, --job-summary FILE       the checks as JUnit XML; as a Markdown table, added to the file
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.cli.output import say
from harness.engine.runs_in_turn import Hook
from harness.errors import UserError

if TYPE_CHECKING:
    from xml.etree import ElementTree

    from harness.engine.plan import Plan
    from harness.engine.runner import RunResult

FAILED_CHECK = 4


@dataclass(frozen=True)
class Check:
    """One check of one run: what was asked, whether it holds, and the figures behind it in a
    sentence."""

    run: str
    name: str
    passed: bool
    figures: str


class Gate(Hook):
    """Makes the checks as runs end; a command whose check fails ends with exit code 4.

    Args:
        limits: ("SCORE=X", ...) of --fail-under, X in points (0 to 100).
        baseline: Run folder of --fail-below-baseline, or None.
        junit: File for the checks as JUnit XML, or None.
        job_summary: File to which the checks are added as a Markdown table, or None.

    Raises:
        UserError: A limit that is no SCORE=X, an option without the check that it belongs to, or no
            such baseline.
    """

    def __init__(
        self,
        limits: Sequence[str],
        baseline: str | None,
        junit: str | None,
        job_summary: str | None,
    ) -> None:
        self._limits = dict(_parse_limit(text) for text in limits)
        if not limits and baseline is None and (junit or job_summary):
            raise UserError(
                "--junit and --job-summary write checks; add --fail-under SCORE=X or "
                "--fail-below-baseline RUN"
            )
        if baseline is not None and not Path(baseline).is_dir():
            raise UserError(f"--fail-below-baseline: there is no run folder '{baseline}'")
        self._baseline, self._junit, self._summary = baseline, junit, job_summary
        self._checks: list[Check] = []
        self._waiting: list[str] = []  # runs that were planned and have not ended

    def ready(self, plan: Plan) -> Plan:
        """Expect the run. Raises UserError for a limit on a score that it does not have."""
        if unknown := self._limits.keys() - set(plan.config.dataset.scorers):
            known = ", ".join(plan.config.dataset.scorers)
            raise UserError(
                f"--fail-under: {plan.run_name} has no score '{min(unknown)}' (it has {known})"
            )
        self._waiting.append(plan.run_name)
        return plan

    def ended(self, plan: Plan, result: RunResult) -> None:
        """Make the checks of a run that ended."""
        self._waiting.remove(plan.run_name)
        for score, least in self._limits.items():
            mean = 100 * result.summary["scores"][score]["mean"]
            self._checks.append(
                Check(
                    plan.run_name,
                    f"{score} at least {least:g}",
                    mean >= least,
                    f"{mean:.1f} points",
                )
            )
        if self._baseline is not None:
            self._checks.append(_beside_baseline(plan.run_name, result.folder, self._baseline))

    def closed(self) -> int:
        """Print and write the checks; returns 4 if one failed. A run that did not end fails its
        checks."""
        self._checks += [
            Check(name, "the run ends", False, "it did not end") for name in self._waiting
        ]
        for check in self._checks:
            say(
                f"check {'passed' if check.passed else 'FAILED'}: {check.run}: {check.name}: "
                f"{check.figures}"
            )
        if self._junit is not None:
            _junit(self._checks).write(self._junit, encoding="utf-8", xml_declaration=True)
        if self._summary is not None:
            with Path(self._summary).open("a", encoding="utf-8") as file:
                rows = [
                    (c.run, c.name, "passed" if c.passed else "**FAILED**", c.figures)
                    for c in self._checks
                ]
                for line in [("run", "check", "result", "figures"), ("---",) * 4, *rows]:
                    cells = (cell.replace("|", "\\|").replace("\n", " ") for cell in line)
                    file.write(f"| {' | '.join(cells)} |\n")
                file.write("\n")
        return 0 if all(check.passed for check in self._checks) else FAILED_CHECK


def _parse_limit(text: str) -> tuple[str, float]:
    """("flashrag.em", 60.0) of "flashrag.em=60", as typed after --fail-under. Raises UserError."""
    score, equals, value = text.partition("=")
    try:
        least = float(value)
    except ValueError:
        least = -1.0
    if not equals or not 0 <= least <= 100:
        raise UserError(
            f"--fail-under {text}: should be SCORE=X with X from 0 to 100, as in flashrag.em=60"
        )
    return score, least


def _beside_baseline(name: str, folder: Path, baseline: str) -> Check:
    """Compare a run's headline score with the baseline's, question by question
    (reports/compare.py).

    The models may differ too. Other reasons for which `compare` refuses two runs are added to the
    figures.
    """
    from harness.storage.run_folder import read_run
    from reports.compare import compare_with_baseline

    check_name = "not below the baseline"
    try:
        comparison = compare_with_baseline(read_run(folder), read_run(Path(baseline)))
    except UserError as error:
        return Check(name, check_name, False, f"not comparable: {error}")
    difference, low, high = (
        comparison[key] for key in ("difference", "difference.low", "difference.high")
    )
    interval = (
        f" [{100 * low:+.1f}, {100 * high:+.1f}]"
        if high is not None
        else ", no interval: too few documents"
    )
    figures = f"{100 * difference:+.1f}{interval} points on {comparison['n']} common questions"
    figures = "; ".join(
        [
            figures,
            *(note for note in comparison["notes"] if note.startswith("compared all the same")),
        ]
    )
    return Check(name, check_name, high is None or high >= 0, figures)


def _junit(checks: Sequence[Check]) -> ElementTree.ElementTree[ElementTree.Element]:
    from xml.etree import ElementTree

    failures = sum(not check.passed for check in checks)
    suite = ElementTree.Element(
        "testsuite", name="harness", tests=str(len(checks)), failures=str(failures)
    )
    for check in checks:
        case = ElementTree.SubElement(suite, "testcase", classname=check.run, name=check.name)
        if check.passed:
            ElementTree.SubElement(case, "system-out").text = check.figures
        else:
            ElementTree.SubElement(case, "failure", message=check.figures)
    return ElementTree.ElementTree(suite)
