"""`harness export RUN... --to inspect|lm-eval --out DIR`: stored runs in the files of other harnesses."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import choice, output
from harness.errors import UnknownName, UserError, printable

_LOGS = ("inspect", "lm-eval")


def export(
    paths: Annotated[list[str], typer.Argument(metavar="RUN", help="Run folders, or folders that hold runs.")],
    to: Annotated[
        str | None,
        choice("--to NAME", "inspect: logs for `inspect view`; lm-eval: the files of its --log_samples."),
    ] = None,
    out: Annotated[str | None, output("--out DIR", "With --to: folder for the files.")] = None,
) -> int:
    """Write runs as logs of Inspect or as sample files of lm-eval.

    Neither needs to be installed. Questions, right answers and shown texts go along, so runs without them are refused.
    """
    if to is None:
        raise UserError("say in which form: harness export RUN --to inspect --out DIR")
    return _logs(paths, to, out)


def _logs(paths: list[str], to: str, out: str | None) -> int:
    """Write the files of another harness."""
    if to not in _LOGS:
        raise UnknownName("form of export", to, _LOGS)
    if out is None:
        raise UserError(f"name the folder for the files: harness export {paths[0]} --to {to} --out DIR")
    from harness.cli.stored_runs import stored_runs
    from harness.exchange import inspect_logs, lm_eval_samples

    runs, damaged = stored_runs(paths)
    write = (inspect_logs if to == "inspect" else lm_eval_samples).write
    for run in runs:
        print(printable(str(write(run, Path(out)))))
    if to == "inspect":
        sys.stderr.write(f"open them with: inspect view --log-dir {printable(out)}\n")
    return 3 if damaged else 0
