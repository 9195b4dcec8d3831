"""`harness verify bundle.zip`: check a bundle without a model; the exit code is 4 where something
differs."""

import json as json_
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import setting
from harness.cli.options import Json
from harness.storage.named_runs import read_runs, run_folders

_SHOWN = 20  # differences of one kind that are printed


def verify(
    bundle: Annotated[str, typer.Argument(metavar="BUNDLE.zip", help="What harness export wrote.")],
    data: Annotated[
        str | None, setting("--data PATH", "The data set's rows, to compare gold answers with.")
    ] = None,
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
    from harness_audit.verify import verify as check

    own_runs = read_runs(run_folders([against]), hold="nothing") if against else []
    report = check(Path(bundle), data=data, against=own_runs)
    if json:
        print(json_.dumps(asdict(report)))
        return 4 if report.differences else 0
    print(f"{bundle}: contents sha256 {report.sha256}")
    print(
        f"  {report.runs} runs, {report.answers} answers; computed again: {report.scores} scores "
        "and ",
        end="",
    )
    print(f"{report.numbers} numbers of tables")
    for note in report.notes:
        print(f"  note: {note}")
    for kind in dict.fromkeys(difference.kind for difference in report.differences):
        alike = [difference for difference in report.differences if difference.kind == kind]
        print("\n".join(f"  {difference}" for difference in alike[:_SHOWN]))
        if len(alike) > _SHOWN:
            print(f"  {kind}: {len(alike) - _SHOWN} more (--json lists all)")
    print(report.verdict)
    return 4 if report.differences else 0
