"""MLflow, filled from run folders: a dead server cannot stop a run.

Weights & Biases (wandb_run.py) is filled by the same functions, where the address is wandb:PROJECT.

uri_problems(uri)          what stands in the way, before anything runs (cheap, imports no MLflow)
track(folder, uri)     fill, refill or bring up to date one run, as often as wanted
background.BackgroundTracking   a thread that repeats `track` over the runs of a command while they go on

experiment  the data set, with a saved view "Comparison" and a guide as its description
parent      the suite: its runs hang below it
run         the run folder, found again by its tags harness.run, harness.started and harness.id; params are the
            short values of its configuration under their names for --set, of the parts that it used
data        the rows as the run's input
traces      one a question (question_spans.py), with its scores as assessments and its gold answers as expectations
metrics     the scorers' own names, in percent; TFLOPs; uncertainty/ usage/ (metrics.py)
tags        method, model, dataset, hash8, suite, profile, git_commit, git_dirty, embedded, state
artifacts   config.yaml (run.yaml under another name, so that no folder of artifacts is taken for a run),
            manifest.json, records.jsonl, texts.jsonl, documents.jsonl, summary.json, table.md,
            report.html
"""

import contextlib
import importlib.util
import logging
import os
import re
import shlex
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from harness.errors import CannotRun, HarnessError, SaveError
from harness.storage.paths import with_address_secrets_masked
from harness.storage.run_folder import StoredRun, read_run
from harness.tracking import MAX_TRACES_PER_RUN, wandb_address
from harness.tracking.store import connection_problem, sqlite_path, sqlite_uri
from harness.tracking.tracing_time import TracingTime

_INSTALL = "MLflow is not installed; install it with: pip install 'longdoc-harness[mlflow]', or use --mlflow off"
MAX_STORE_FAILURES_IN_A_ROW = (
    2  # a store that let so many runs down one after the other is not asked for the others
)
# What sqlite says of a file that no further try can fill.
_DAMAGE_MESSAGE = re.compile(
    "already exists|duplicate column|no such (table|column)|malformed|not a database"
)
_MAX_REASON_CHARACTERS = 200
_SERVERS = ("http", "https", "databricks")
_DATABASES = ("sqlite", "postgresql", "mysql", "mssql")
# MLflow's own defaults (7 retries of 120 s) would hold the end of a run for a quarter of an hour.
MLFLOW_LIMITS = {
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "2",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT": "true",
}


class StoreError(SaveError):
    """A store failed, so that runs are not logged; the sentence names the command that logs them
    later.

    Attributes:
        uri: The address of the store.
        reason: Why it failed, short and without secrets.
    """

    def __init__(self, folders: Sequence[Path], uri: str, reason: str) -> None:
        """Make the sentence, with the command that logs the runs later.

        Args:
            folders: The run folders that are not logged.
            uri: The address of the store.
            reason: Why it failed.
        """
        self.uri = uri
        self.reason = _short_reason(reason, uri)
        common_folder = os.path.commonpath([str(folder) for folder in folders])
        runs = f"The {len(folders)} runs themselves are"
        if len(folders) == 1:
            runs = "The run itself is"
        store_name = "MLflow"
        if uri.startswith(wandb_address.SCHEME):
            store_name = "W&B"
        move_advice = ""
        path = sqlite_path(uri)
        if path is not None and _DAMAGE_MESSAGE.search(reason):
            move_advice = f"move the damaged {path} away, then "
        command = (
            f"harness track {shlex.quote(common_folder)} --uri {with_address_secrets_masked(uri)}"
        )
        advice = f"{runs} on disk; {move_advice}fill {store_name} from there with: {command}"
        super().__init__(
            f"tracking failed at {with_address_secrets_masked(uri)} ({self.reason}). {advice}"
        )


def _short_reason(reason: str, uri: str) -> str:
    """Write a reason on one line of at most 200 characters, without
    the secrets of the address `uri`.
    """
    without_secrets = with_address_secrets_masked(
        reason.replace(uri, with_address_secrets_masked(uri))
    )
    line = " ".join(without_secrets.split())
    if len(line) <= _MAX_REASON_CHARACTERS:
        return line
    return f"{line[:_MAX_REASON_CHARACTERS]} ..."


def log_each(folders: Iterable[Path], log: Callable[[Path], None]) -> dict[Path, HarnessError]:
    """Call log(folder) for every folder, also after one failed.

    After MAX_STORE_FAILURES_IN_A_ROW the others are not tried, and have the store's last error.

    Returns:
        Folder -> error, of those that failed.
    """
    errors: dict[Path, HarnessError] = {}
    store_failures: list[StoreError] = []
    for folder in folders:
        try:
            if len(store_failures) >= MAX_STORE_FAILURES_IN_A_ROW:
                raise store_failures[-1]
            log(folder)
            store_failures.clear()
        except HarnessError as error:
            errors[folder] = error
            if isinstance(error, StoreError):
                store_failures.append(error)
    return errors


def error_sentences(errors: Mapping[Path, HarnessError]) -> list[str]:
    """Write sentences on what could not be logged.

    Folders that a store failed for the same reason share one sentence.

    Args:
        errors: Folder -> why it is not logged.
    """
    folders_by_failure: dict[tuple[str, str], list[Path]] = {}
    sentences: list[str] = []
    for folder, error in errors.items():
        if isinstance(error, StoreError):
            folders_by_failure.setdefault((error.uri, error.reason), []).append(folder)
        else:
            sentences.append(str(error))
    for (uri, reason), folders in folders_by_failure.items():
        sentences.append(str(StoreError(folders, uri, reason)))
    return list(dict.fromkeys(sentences))


def default_uri(out: Path) -> str:
    """The address of the store that is used by default: MLFLOW_TRACKING_URI where it is set, else
    mlflow.db in the results folder `out`.
    """
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    if uri:
        return uri
    return sqlite_uri(Path(os.path.realpath(out)) / "mlflow.db")


def uri_problems(uri: str) -> list[str]:
    """Say why a store's address cannot be used, without a connection; []
    where nothing speaks against it.
    """
    if uri.startswith(wandb_address.SCHEME):
        return wandb_address.install_problem()
    sentences = []
    if importlib.util.find_spec("mlflow") is None:
        sentences.append(_INSTALL)
    kind = _kind_of_store(uri)
    if kind in ("", "file"):
        sentences.append(
            f"MLflow no longer writes to a folder ('{with_address_secrets_masked(uri)}'); "
            "give it a database: --mlflow sqlite:///results/mlflow.db"
        )
    elif kind not in _SERVERS + _DATABASES:
        sentences.append(
            f"MLflow does not know '{kind}://'; use one of {', '.join(_SERVERS + _DATABASES)}"
        )
    elif any("\ud800" <= sign <= "\udfff" for sign in uri):
        # How Python shows a byte that is no text.
        sentences.append(
            "MLflow cannot open a folder whose name is not UTF-8; rename it, or use --mlflow off"
        )
    elif kind == "sqlite" and sqlite_path(uri) is None:
        sentences.append(
            f"'{with_address_secrets_masked(uri)}' is lost when the process ends; name a file: "
            "sqlite:///results/mlflow.db"
        )
    return sentences


def _kind_of_store(uri: str) -> str:
    """The kind of store that an address names: "sqlite", "http", ...; "" for a mere path.

    "postgresql+psycopg2://host/db" -> "postgresql"
    """
    if uri == "databricks":
        return uri
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return ""
    return scheme.split("+")[0]


def track(
    folder: Path,
    uri: str | None = None,
    *,
    suite: str | None = None,
    running: bool = False,
    traces: int = MAX_TRACES_PER_RUN,
    tracing: TracingTime | None = None,
) -> int:
    """Bring the MLflow run of a run folder up to date; made if there is none.

    Args:
        folder: The run folder.
        uri: The store; default_uri of the results folder by default.
        suite: Name of the parent run that holds the runs of one suite; by default the one that the
            run's own command named.
        running: The run goes on, so log its running means and traces only.
        traces: Log the first so many questions as traces.
        tracing: The time that traces may take; by default as much as they need.

    Returns:
        How many traces are still missing.

    Raises:
        CannotRun: MLflow is not there, or cannot use the URI.
        UserError: There is no run folder.
        SaveError: It could not log.
    """
    folder = Path(folder)
    uri = uri or default_uri(folder.parent.parent)
    problems = uri_problems(uri)
    if problems:
        raise CannotRun(". ".join(problems))
    run = read_run(folder)
    if uri.startswith(wandb_address.SCHEME):
        if not running:
            _log_to_wandb(run, uri, suite)
        return 0
    with mlflow_errors([folder], uri):
        # Late, as it loads MLflow.
        from harness.tracking.mlflow_run import MlflowRun

        logged = MlflowRun(run, uri, suite)
        return logged.bring_up_to_date(run_goes_on=running, max_traces=traces, tracing_time=tracing)


def _log_to_wandb(run: StoredRun, uri: str, suite: str | None) -> None:
    """Log a run that has ended to W&B.

    Args:
        run: The run.
        uri: "wandb:PROJECT".
        suite: The name of its group there; None for the suite of the run's own command.

    Raises:
        StoreError: W&B refuses it.
    """
    # Late, as they load W&B, and pandas for the table.
    from wandb.errors import Error

    from harness.tracking import wandb_run

    try:
        wandb_run.log_run(run, uri, suite)
    except (Error, OSError) as error:
        raise StoreError([run.path], uri, f"{type(error).__name__}: {error}") from error


@contextlib.contextmanager
def mlflow_errors(folders: Sequence[Path], uri: str) -> Iterator[None]:
    """Turn what MLflow raises in the block into a StoreError, with
    bounded retries and quiet loggers.

    Raises it at once for a server where nobody answers: MLflow takes seconds to import and asks it
    three times.

    Args:
        folders: The runs that are logged in the block, for the sentence.
        uri: The address of the store.

    Raises:
        StoreError: The store failed.
        CannotRun: MLflow, or the driver of the database, is not installed.
    """
    if uri.startswith("http"):
        reason = connection_problem(uri)
        if reason:
            raise StoreError(folders, uri, reason)
    for variable, value in MLFLOW_LIMITS.items():
        os.environ.setdefault(variable, value)
    store_errors: tuple[type[Exception], ...] = (OSError,)
    try:
        from mlflow.exceptions import MlflowException  # which configures MLflow's loggers
        from sqlalchemy.exc import SQLAlchemyError

        store_errors = (MlflowException, SQLAlchemyError, sqlite3.Error, OSError)
        logging.getLogger("mlflow").setLevel(logging.ERROR)  # no messages about creating tables
        # What it logs, with a long traceback, is raised as well.
        logging.getLogger("mlflow.store.db.utils").setLevel(logging.CRITICAL)
        yield
    except ModuleNotFoundError as error:  # MLflow itself, or the driver of a database
        name = error.name or "mlflow"
        if name == "mlflow":
            raise CannotRun(_INSTALL) from error
        raise CannotRun(f"MLflow needs the package '{name}': pip install {name}") from error
    except store_errors as error:
        raise StoreError(folders, uri, f"{type(error).__name__}: {error}") from error
