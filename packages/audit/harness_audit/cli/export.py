"""`harness export`: runs in one file that others can verify."""

from pathlib import Path
from typing import Annotated

import typer

from harness.cli.command import output
from harness.cli.output import say
from harness.errors import UserError
from harness.storage.named_runs import read_runs, run_folders
from harness_audit.bundle import export as write_bundle


def export(
    paths: Annotated[
        list[str],
        typer.Argument(
            metavar="RUN... BUNDLE.zip",
            help="Run folders, or folders that hold runs; last, the file.",
        ),
    ],
    keep_texts: Annotated[
        str,
        output(
            "--keep-texts yes|no",
            "Include the data set's texts where the runs hold them; no for hashes.",
        ),
    ] = "yes",
) -> int:
    """Write runs into one file that others can verify.

    It holds records, gold answers, shown texts, configuration, environment, scorer versions and the
    table's numbers; requests to models (--keep-prompts) are left out. The same runs give the same
    bytes.
    """
    if keep_texts not in ("yes", "no"):
        raise UserError(f"--keep-texts {keep_texts}: should be yes or no")
    if len(paths) < 2:
        raise UserError(
            "name the runs, and last the file to write: harness export results/musique bundle.zip"
        )
    *run_paths, bundle = paths
    if not bundle.lower().endswith(".zip"):
        raise UserError(
            f"the last argument is the file to write and should end in .zip, not '{bundle}'"
        )
    runs = read_runs(run_folders(run_paths), hold="numbers")
    digest = write_bundle(runs, Path(bundle), keep_texts=keep_texts == "yes")
    print(f"{bundle}: {len(runs)} runs, contents sha256 {digest}")
    some_run_lacks_texts = any(not run.config.dataset.keep_texts for run in runs)
    if some_run_lacks_texts or keep_texts == "no":
        say(
            "note: texts of the data set are left out; to score answers again, harness verify "
            "needs its rows (--data)"
        )
    return 0
