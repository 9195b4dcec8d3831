"""`harness score RUN...`: judge stored predictions again. No model is loaded; the data set is, for its gold answers."""

from __future__ import annotations

import json as json_
import sys
from pathlib import Path

from harness.cli.common import mean_texts, split
from harness.config import registry
from harness.engine.rescore import rescore
from harness.errors import UserError, printable
from harness.storage.named_runs import run_folders


def main(runs: list[str], *, scorers: str | None, data: str | None, json: bool, trust: bool = False) -> int:
    """Score each run again and print its new means. Raises UserError, DataError, RunLocked or SaveError.

    trust: list the code that the run folders name and ask whether to import it.
    """
    folders = run_folders(runs)
    registry.trust(*(split([scorers]) if scorers else ()))
    if trust:
        _ask(folders)
    for folder in folders:
        summary = rescore(folder, scorers=split([scorers]) if scorers else None, data=data)
        if json:
            print(json_.dumps({"run": str(folder), "summary": summary}))
        else:
            means = ", ".join(f"{name} {text}" for name, text in mean_texts(summary).items())
            print(f"{folder}: {means or 'no questions yet'}")
    return 0


def _ask(folders: list[Path]) -> None:
    """Trust the code that the run folders name once the user has agreed to it. Raises UserError for a no."""
    import typer

    from harness.storage.run_folder import read_run

    for folder in folders:
        for target, key in registry.code_named(read_run(folder).config.get("dataset")).items():
            if registry.trusted(target):
                continue
            sys.stderr.write(f"{printable(str(folder))}: dataset.{key} is the function {printable(target)}\n")
            try:
                agreed = typer.confirm("Import its module, which executes it?", default=False, err=True)
            except typer.Abort:
                agreed = False
            if not agreed:
                raise UserError(f"{printable(target)} was not imported, so nothing was scored")
            registry.trust(target)
