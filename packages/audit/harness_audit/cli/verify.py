"""`harness verify bundle.zip`: check a bundle without a model; the exit code is 4 where something differs."""

from __future__ import annotations

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import setting
from harness.cli.options import Json
from harness.storage.named_runs import read_runs, run_folders

if TYPE_CHECKING:
    from harness_audit.verify import Report

_SHOWN = 20  # differences of one kind that are printed


def verify(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE.zip", help="What harness export wrote.")],
    data: Annotated[str | None, setting("--data PATH", "The data set's rows, to compare gold answers with.")] = None,
    against: Annotated[
        str | None, setting("--against RUNS", "Also compare with runs of your own: other answers, or other scoring?")
    ] = None,
    json: Json = False,
) -> int:
    """Check a bundle without a model.

    Scores the answers again and computes every number of the table again. Nothing in the bundle is executed. The exit
    code is 4 if something differs.
    """
    from harness_audit.verify import verify as check

    own = read_runs(run_folders([against]), hold="nothing") if against else []
    report = check(Path(bundle), data=data, against=own)
    print(json_.dumps(asdict(report)) if json else "\n".join(_report_lines(bundle, report)))
    return 4 if report.differences else 0


def _report_lines(bundle: str, report: Report) -> list[str]:
    """Lines of text: what was checked, at most _SHOWN differences of each kind, and the verdict last."""
    lines = [f"{bundle}: contents sha256 {report.sha256}"]
    lines.append(
        f"  {report.runs} runs, {report.answers} answers; computed again: {report.scores} scores and {report.numbers} "
        "numbers of tables"
    )
    lines += [f"  note: {note}" for note in report.notes]
    for kind in dict.fromkeys(one.kind for one in report.differences):
        own = [one for one in report.differences if one.kind == kind]
        lines += [f"  {one}" for one in own[:_SHOWN]]
        lines += [f"  {kind}: {len(own) - _SHOWN} more (--json lists all)"] if len(own) > _SHOWN else []
    count = len(report.differences)
    verdict = f"partly verified: not checked: {', '.join(report.unchecked)}" if report.unchecked else "verified"
    lines.append("  no bundle can prove its costs, settings, warnings or environment, or that no question was left out")
    lines.append(f"NOT verified: {count} difference{'s' if count > 1 else ''}" if count else verdict)
    return lines
