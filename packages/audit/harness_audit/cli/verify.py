"""`harness verify bundle.zip`: check a bundle without a model; the exit code is 4 where something
differs."""

from __future__ import annotations

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harness.cli.command import setting
from harness.cli.options import Json, RowsToCompare
from harness.storage.named_runs import read_runs, run_folders
from harness_audit.verify import verify as check

if TYPE_CHECKING:
    from harness_audit.verify import Difference, Report

_SHOWN = 20  # differences of one kind that are printed


def verify(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE.zip", help="What harness export wrote.")],
    data: RowsToCompare = None,
    against: Annotated[
        str | None,
        setting(
            "--against RUNS", "Also compare with runs of your own: other answers, or other scoring?"
        ),
    ] = None,
    json: Json = False,
) -> int:
    """Check a bundle without a model.

    Scores the answers again, computes every number of the table again, and compares records,
    settings and hashes with each other. Nothing in the bundle is executed. The last line says what
    was computed again and what was not checked. The exit code is 4 if something differs.
    """
    own_runs = []
    if against:
        own_runs = list(read_runs(run_folders([against]), hold="nothing"))
    report = check(Path(bundle), data=data, against=own_runs)
    if json:
        print(json_.dumps(asdict(report)))
    else:
        _print_report(bundle, report)
    if report.differences:
        return 4
    return 0


def _print_report(bundle: str, report: Report) -> None:
    """Print what was checked and computed again, then notes, differences by kind, and the verdict.

    Args:
        bundle: What the command calls the bundle.
        report: The result of the check.
    """
    print(f"{bundle}: contents sha256 {report.sha256}")
    print(
        f"  {report.runs} runs, {report.answers} answers; computed again: {report.scores} scores "
        f"and {report.numbers} numbers of tables"
    )
    for note in report.notes:
        print(f"  note: {note}")
    by_kind: dict[str, list[Difference]] = {}
    for difference in report.differences:
        by_kind.setdefault(difference.kind, []).append(difference)
    for kind, differences in by_kind.items():
        for difference in differences[:_SHOWN]:
            print(f"  {difference}")
        if len(differences) > _SHOWN:
            print(f"  {kind}: {len(differences) - _SHOWN} more (--json lists all)")
    print(report.verdict)
