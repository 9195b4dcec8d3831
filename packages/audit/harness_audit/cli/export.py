"""`harness export`: runs in one file that others can verify, or as logs of Inspect."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import choice, output
from harness.cli.output import say
from harness.errors import UnknownName, UserError, printable
from harness.storage.named_runs import read_runs, run_folders


def export(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... [BUNDLE.zip]", help="Run folders, or folders that hold runs; without --to last, the file."
        ),
    ],
    to: Annotated[str | None, choice("--to NAME", "inspect: logs for `inspect view`, in the folder --out.")] = None,
    out: Annotated[str | None, output("--out DIR", "With --to: folder for the files.")] = None,
    keep_texts: Annotated[
        str, output("--keep-texts yes|no", "Include the data set's texts where the runs hold them; no for hashes.")
    ] = "yes",
) -> int:
    """Write runs into one file that others can verify, or as logs of Inspect.

    A bundle holds records, gold answers, shown texts, configuration, environment, scorer versions and the table's
    numbers; requests to models (--keep-prompts) are left out. With --to, questions, right answers and shown texts go
    along, so runs without them are refused. The same runs give the same bytes.
    """
    if keep_texts not in ("yes", "no"):
        raise UserError(f"--keep-texts {keep_texts}: should be yes or no")
    if to is None:
        if out is not None:
            raise UserError("--out belongs to --to inspect; a bundle is the last argument: bundle.zip")
        return _bundle(paths, keep_texts == "yes")
    if keep_texts == "no":
        raise UserError("--keep-texts no belongs to a bundle; logs of Inspect hold the texts")
    if to != "inspect":
        raise UnknownName("form of export", to, ["inspect"])
    if out is None:
        raise UserError(f"name the folder for the files: harness export {paths[0]} --to inspect --out DIR")
    from harness.cli.stored_runs import stored_runs
    from harness_audit.inspect_logs import write_log

    runs, damaged = stored_runs(paths)
    for run in runs:
        print(printable(str(write_log(run, Path(out)))))
    say(f"open them with: inspect view --log-dir {printable(out)}")
    return 3 if damaged else 0


def _bundle(paths: list[str], keep_texts: bool) -> int:
    """Write the runs `paths[:-1]` into the bundle `paths[-1]`; returns exit code 0. Raises UserError."""
    from harness_audit.bundle import export as write_bundle

    if len(paths) < 2:
        raise UserError("name the runs, and last the file to write: harness export results/musique bundle.zip")
    *runs, bundle = paths
    if not bundle.lower().endswith(".zip"):
        raise UserError(f"the last argument is the file to write and should end in .zip, not '{bundle}'")
    stored = read_runs(run_folders(runs), hold="numbers")
    digest = write_bundle(stored, Path(bundle), keep_texts=keep_texts)
    print(f"{bundle}: {len(stored)} runs, contents sha256 {digest}")
    bare = [run.path.name for run in stored if not run.config["dataset"].get("keep_texts", True)]
    if bare or not keep_texts:
        say("note: texts of the data set are left out; to score answers again, harness verify needs its rows (--data)")
    return 0
