"""`harness track RUN...`: log stored runs to MLflow, as often as wanted."""

from pathlib import Path

from harness.cli.options import MlflowUri, Runs, Traces
from harness.cli.output import say
from harness.errors import CannotRun
from harness.storage.named_runs import run_folders
from harness.tracking import MAX_TRACES_PER_RUN
from harness.tracking import track as tracking
from harness.tracking.store import expand_home


def track(runs: Runs, uri: MlflowUri = None, traces: Traces = MAX_TRACES_PER_RUN) -> int:
    """Log stored runs to MLflow; what is already logged is skipped.

    A run that cannot be logged is named and the others go on. After two failures of the MLflow
    server in a row, the others are not tried. The exit code is 3 if any run was not logged.
    """
    folders = run_folders(runs)
    uri = uri and expand_home(uri)
    uris: dict[str, None] = {}  # as an ordered set
    for folder in folders:
        uris[uri or tracking.default_uri(folder.parent.parent)] = None
    for store_uri in uris:
        problems = tracking.uri_problems(store_uri)
        if problems:
            raise CannotRun(". ".join(problems))

    def log_and_print(folder: Path) -> None:
        """Log one run to MLflow and print its folder."""
        tracking.track(folder, uri, traces=traces)
        print(folder, flush=True)

    errors = tracking.log_each(folders, log_and_print)
    for sentence in tracking.error_sentences(errors):
        say(f"error: {sentence}")
    if errors:
        return 3
    return 0
