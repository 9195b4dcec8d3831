"""One run's place in MLflow: what is there already is looked up first, so that logging twice
changes nothing.

    MlflowRun(run, uri, suite)    finds or makes experiment, run and the suite's parent; writes tags and params
    .bring_up_to_date(...)        all of the following that is not there yet
    .log_running()                the means over the first questions
    .resume()                     shows the run as running
    .log_results()                final metrics, artifacts, table, page
    .traces.log(run, most, tracing) a trace for each question (mlflow_traces.py)
    .end()                        closes the run, and gives the suite's parent the worst status of its runs

An experiment's page first shows its saved view "Comparison" and its guide (mlflow_view.py).
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from mlflow import MlflowClient
from mlflow.entities import DatasetInput, InputTag, Metric, Param, Run, RunTag
from mlflow.exceptions import MlflowException

from harness.errors import SaveError
from harness.storage.run_folder import StoredRun
from harness.tracking.metrics import (
    final_metrics,
    first_columns,
    last_path_part,
    run_params,
    run_state,
    run_status,
    run_tags,
    running_points,
    settings_of_user,
)
from harness.tracking.mlflow_dataset import mlflow_dataset
from harness.tracking.mlflow_traces import MlflowTraces
from harness.tracking.mlflow_view import VIEW_TAG, experiment_guide, saved_view, with_settings
from harness.tracking.sqlite_store import open_store, sqlite_lock
from harness.tracking.store import artifacts_uri, write_artifacts
from harness.tracking.tracing_time import TracingTime
from reports import columns as views
from reports import main_table
from reports import page as page_of_runs
from reports.facts import suite_name as suite_of
from reports.table_formats import render

_RUN_TAG = "harness.run"
_STARTED_TAG = "harness.started"
_SUITE_TAG = "harness.suite"
_PARENT_TAG = "mlflow.parentRunId"
_ID_TAG = "harness.id"  # runs of earlier versions have none
_METRICS_HASH_TAG = "harness.numbers"  # a tag: which final metrics are there
_NOTE_TAG = "mlflow.note.content"
_MAX_METRICS_PER_CALL = 1000  # of one log_batch call, and 100 params or tags: MLflow's limits
_MAX_PARAMS_PER_CALL = 100
_MAX_NOTE_CHARACTERS = 5000
_MAX_CHILD_RUNS = 1000
# run.yaml has another name there, so that no folder of artifacts is taken for a run folder.
_ARTIFACT_OF_FILE = {
    "run.yaml": "config.yaml",
    "manifest.json": "manifest.json",
    "records.jsonl": "records.jsonl",
    "texts.jsonl": "texts.jsonl",
    "documents.jsonl": "documents.jsonl",
    "summary.json": "summary.json",
}
# What the experiment is for where an MLflow asks it; newer ones ask the browser (GenAI or Model
# training).
_EXPERIMENT_TAGS = {"mlflow.experimentKind": "custom_model_development"}


class MlflowRun:
    """The MLflow run of one run folder. Methods raise MLflow's errors (mlflow_errors).

    Attributes:
        id: MLflow's id of the run.
        experiment_id: That of the data set's experiment.
        suite_run_id: That of the suite's run; None without a suite.
        is_new: Whether the run was made now, so that nothing of it is there yet.
        traces: The traces of its questions.
    """

    def __init__(self, run: StoredRun, uri: str, suite: str | None = None) -> None:
        """Find the run in the store, or make it, and write its tags and params.

        Args:
            run: The run folder.
            uri: The store.
            suite: The name of the run above it; by default the suite that the run's own command
                named.
        """
        self.run = run
        self.uri = uri
        self.suite = suite or suite_of(run)
        with sqlite_lock(uri):
            self.client: MlflowClient = open_store(uri)
            self.experiment_id = self._find_or_make_experiment()
        self.suite_run_id: str | None = None
        if self.suite:
            self.suite_run_id = self._find_or_make_suite_run(self.suite)
        found = self._find_run()
        self.is_new = found is None
        self.id = found or self._make_run(self._identity_tags(), self._unused_run_name())
        self._log_tags_and_params()
        self.traces = MlflowTraces(uri, self.experiment_id, self.id)

    def bring_up_to_date(
        self, *, run_goes_on: bool, max_traces: int, tracing_time: TracingTime | None
    ) -> int:
        """Log all that is not there yet.

        Args:
            run_goes_on: The run goes on, so log its running means and traces only.
            max_traces: Log the first so many questions as traces.
            tracing_time: The time that traces may take; None for as much as they need.

        Returns:
            How many traces are still missing.
        """
        self.log_running()
        if run_goes_on:
            self.resume()
            return self.traces.log(self.run, max_traces, tracing_time)
        self.log_results()
        n_missing_traces = self.traces.log(self.run, max_traces, tracing_time)
        self.end()  # last: what is finished has all of its numbers
        return n_missing_traces

    def log_running(self) -> None:
        """Log the means over the first 1, 2, ... questions, as far as they are not there or differ.

        They differ where a run was scored again. Those over all questions are left out: at that
        step stand the final metrics, which are those of the tables.
        """
        n_questions = len(self.run.records)
        points = [point for point in running_points(self.run) if point.step < n_questions]
        now = _now_in_milliseconds()
        # (step, metric) -> value
        logged_values: dict[tuple[int, str], float] = {}
        if not self.is_new:
            logged_values = self._last_logged_values({point.name for point in points})
        changed_points = [
            point for point in points if logged_values.get((point.step, point.name)) != point.value
        ]
        self._log_in_batches(
            [
                Metric(key=point.name, value=point.value, timestamp=now, step=point.step)
                for point in changed_points
            ]
        )

    def _last_logged_values(self, names: Iterable[str]) -> dict[tuple[int, str], float]:
        """Look up the value that was logged last for each step of these metrics, by (step,
        name).
        """
        values: dict[tuple[int, str], float] = {}
        for name in names:
            history = self.client.get_metric_history(self.id, name)
            for metric in sorted(history, key=lambda m: int(m.timestamp)):
                values[metric.step, name] = metric.value
        return values

    def log_results(self) -> None:
        """Log the run folder's files, the final metrics, the table (the run's
        description too) and the HTML report.
        """
        with tempfile.TemporaryDirectory() as temporary_folder:
            folder = Path(temporary_folder)
            for file_name, artifact_name in _ARTIFACT_OF_FILE.items():
                if (self.run.path / file_name).exists():
                    (folder / artifact_name).symlink_to((self.run.path / file_name).resolve())
            if self.run.records:
                self._log_metrics_and_write_pages(folder)
            write_artifacts(self.client, self.uri, self.id, folder)

    def _log_metrics_and_write_pages(self, folder: Path) -> None:
        """Log the final metrics, and write the table and the report into `folder`.

        The table also becomes the run's description, unless it is too long.
        """
        table = main_table.frame([self.run])
        self._log_final_metrics(final_metrics(self.run, table))
        text = render(views.with_legend(table), "markdown")
        if len(text) <= _MAX_NOTE_CHARACTERS:
            self.client.set_tag(self.id, _NOTE_TAG, text)
        (folder / "table.md").write_text(text, encoding="utf-8")
        title = self.run.config.dataset.name
        html = page_of_runs.page([self.run], page_of_runs.PageOptions(title=title))
        (folder / "report.html").write_text(html, encoding="utf-8")

    def _log_final_metrics(self, metrics: Mapping[str, float]) -> None:
        """Log metrics of the whole run at the step of its last question,
        unless the same ones are there.
        """
        step = len(self.run.records)
        metrics_json = json.dumps([step, metrics], sort_keys=True)
        metrics_hash = hashlib.sha256(metrics_json.encode()).hexdigest()[:16]
        if not self.is_new:
            logged_tags = self.client.get_run(self.id).data.tags
            if logged_tags.get(_METRICS_HASH_TAG) == metrics_hash:
                return
        rows = mlflow_dataset(self.run)
        dataset_of_metric: dict[str, str] = {}
        if rows is not None:
            dataset_of_metric = {"dataset_name": rows.name, "dataset_digest": rows.digest}
        now = _now_in_milliseconds()
        self._log_in_batches(
            [
                Metric(key=name, value=value, timestamp=now, step=step, **dataset_of_metric)
                for name, value in metrics.items()
            ]
        )
        self.client.set_tag(self.id, _METRICS_HASH_TAG, metrics_hash)

    def end(self) -> None:
        """Close the run as FINISHED, FAILED or KILLED, at the time the manifest
        gives, and tag it with its state.

        The suite's run also gets the worst status of its child runs.
        """
        status = run_status(self.run)
        finished = self.run.manifest.last_start.finished
        self.client.set_terminated(self.id, status, _as_milliseconds(finished))
        self.client.set_tag(self.id, "state", run_state(self.run))
        if self.suite_run_id is None:
            return
        children = self._search_runs({_PARENT_TAG: self.suite_run_id}, _MAX_CHILD_RUNS)
        child_statuses = {child.info.status for child in children}
        worst_status = _worst_status(child_statuses)
        if worst_status == "RUNNING":
            self.client.update_run(self.suite_run_id, status=worst_status)
        else:
            last_end_ms = max(child.info.end_time or 0 for child in children)
            self.client.set_terminated(self.suite_run_id, worst_status, last_end_ms or None)

    def resume(self) -> None:
        """Show the run and its suite's run as running."""
        for run_id in (self.id, self.suite_run_id):
            if run_id is not None:
                self.client.update_run(run_id, status="RUNNING")

    def _find_or_make_experiment(self) -> str:
        """Find the experiment of the run's data set, or make it; returns its id.

        Also adds the settings that the user gave to the columns of its saved view. Raises SaveError
        for an experiment that was deleted.
        """
        name = self.run.config.dataset.name
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            try:
                return self._make_experiment(name)
            except MlflowException:
                # Another run made it in the meantime, or it truly cannot be made.
                experiment = self.client.get_experiment_by_name(name)
                if experiment is None:
                    raise
        if experiment.lifecycle_stage != "active":
            raise SaveError(
                f"the MLflow experiment '{name}' was deleted; restore it there, or use another "
                "--uri."
            )
        view = experiment.tags.get(VIEW_TAG)
        if view:
            view_with_settings = with_settings(view, settings_of_user(self.run))
            if view_with_settings != view:
                self.client.set_experiment_tag(
                    experiment.experiment_id, VIEW_TAG, view_with_settings
                )
        return str(experiment.experiment_id)

    def _make_experiment(self, name: str) -> str:
        """Make an experiment with its saved view and guide; returns its id."""
        view = saved_view(
            first_columns(self.run), settings_of_user(self.run), _now_in_milliseconds()
        )
        tags = _EXPERIMENT_TAGS | {VIEW_TAG: view}
        made = str(self.client.create_experiment(name, artifacts_uri(self.uri, name), tags))
        self.client.set_experiment_tag(made, _NOTE_TAG, experiment_guide(name, made))
        return made

    def _find_or_make_suite_run(self, suite: str) -> str:
        """Find the run of the suite in the experiment, or make it; returns its id."""
        runs = self._search_runs({_SUITE_TAG: suite})
        if runs:
            return str(runs[0].info.run_id)
        return self._make_run({_SUITE_TAG: suite}, suite)

    def _search_runs(self, tags: Mapping[str, str], max_runs: int = 1) -> list[Run]:
        """Search the experiment for runs with these tags, oldest first, at most `max_runs`."""
        query = " and ".join(
            f"tags.`{key}` = '{_without_quotes(value)}'" for key, value in tags.items()
        )
        oldest_first = ["attributes.start_time ASC"]
        return list(
            self.client.search_runs(
                [self.experiment_id], query, max_results=max_runs, order_by=oldest_first
            )
        )

    def _identity_tags(self) -> dict[str, str]:
        """The tags by which the run is found again: folder, start and id.

        A folder that was deleted and made anew is another run.
        """
        tags = {_RUN_TAG: self.run.path.name, _STARTED_TAG: str(self.run.manifest.started)}
        if self.run.manifest.id is not None:
            tags[_ID_TAG] = self.run.manifest.id
        return tags

    def _find_run(self) -> str | None:
        """Find the run that was logged earlier; its id, or None."""
        runs = self._search_runs(self._identity_tags())
        if not runs:
            return None
        return str(runs[0].info.run_id)

    def _unused_run_name(self) -> str:
        """Make a name for the run: "pecan k=3 · llama".

        Method, settings that the user gave, and model; where the experiment has a run of that name,
        also its hash, its start or its id, as far as needed.
        """
        settings_text = ""
        for key, value in settings_of_user(self.run).items():
            settings_text += f" {key.removeprefix('method.')}={last_path_part(value)}"
        config = self.run.config
        name = f"{config.method.name}{settings_text} · {config.model.name}"
        _folder_name, *started_and_id = self._identity_tags().values()
        hash8 = self.run.path.name.rpartition("--")[2]
        for suffix in (hash8, *started_and_id):
            if self._search_runs({"mlflow.runName": name}):
                name += f" · {suffix}"
        return name

    def _make_run(self, identity_tags: Mapping[str, str], name: str) -> str:
        """Make an MLflow run with these tags and the name of who logs; returns its id."""
        start = _as_milliseconds(self.run.manifest.started)
        try:
            user_name = getpass.getuser()  # as MLflow's own clients name who logs
        except (KeyError, OSError):  # a container without a name for its user
            user_name = str(os.getuid())
        tags = {key: _without_quotes(value) for key, value in identity_tags.items()}
        tags["mlflow.user"] = user_name
        made = self.client.create_run(self.experiment_id, start, tags=tags, run_name=name)
        return str(made.info.run_id)

    def _log_tags_and_params(self) -> None:
        """Write the tags and params of the run, and the rows that are its input.

        MLflow keeps the first value of a param for good: of a run that goes on, changed values
        stand in the tag harness.changed_params.
        """
        text_by_name, names_of_long_values = run_params(self.run.config, self.run.manifest.models)
        logged_params: dict[str, str] = {}
        has_dataset = False
        if not self.is_new:
            logged_run = self.client.get_run(self.id)
            logged_params = logged_run.data.params
            has_dataset = bool(logged_run.inputs and logged_run.inputs.dataset_inputs)
        new_params: list[Param] = []
        changed_settings: list[str] = []
        for name, value in text_by_name.items():
            if name not in logged_params:
                new_params.append(Param(name, value))
            elif logged_params[name] != value:
                changed_settings.append(f"{name}: {value}")
        tags = self._description_tags(names_of_long_values, changed_settings)
        self.client.log_batch(self.id, tags=tags, params=new_params[:_MAX_PARAMS_PER_CALL])
        for start in range(_MAX_PARAMS_PER_CALL, len(new_params), _MAX_PARAMS_PER_CALL):
            self.client.log_batch(self.id, params=new_params[start : start + _MAX_PARAMS_PER_CALL])
        if not has_dataset:
            self._log_dataset()

    def _description_tags(
        self, names_of_long_values: Sequence[str], changed_settings: Sequence[str]
    ) -> list[RunTag]:
        """Make the tags that describe the run while it is running.

        Args:
            names_of_long_values: Names of settings whose values are longer than MLflow takes.
            changed_settings: "name: value" of settings that an earlier start logged otherwise.
        """
        tags = run_tags(self.run, self.suite)
        tags["state"] = "running"  # `end` writes the state, after all numbers
        if names_of_long_values:
            names = ", ".join(names_of_long_values)
            tags["harness.long_params"] = f"see config.yaml: {names}"[:_MAX_NOTE_CHARACTERS]
        if self.suite_run_id is not None:
            tags[_PARENT_TAG] = self.suite_run_id
        if changed_settings:
            tags["harness.changed_params"] = "; ".join(changed_settings)[:_MAX_NOTE_CHARACTERS]
        return [RunTag(key, value) for key, value in tags.items()]

    def _log_dataset(self) -> None:
        """Log the data set as the run's input, which the column Dataset of MLflow's list shows."""
        data = mlflow_dataset(self.run)
        if data is not None:
            tags = [InputTag("mlflow.data.context", "evaluation")]
            self.client.log_inputs(self.id, [DatasetInput(data, tags)])

    def _log_in_batches(self, metrics: Sequence[Metric]) -> None:
        """Log metrics in batches of the size that MLflow takes."""
        for start in range(0, len(metrics), _MAX_METRICS_PER_CALL):
            self.client.log_batch(self.id, metrics=metrics[start : start + _MAX_METRICS_PER_CALL])


def _worst_status(statuses: Container[str]) -> str:
    """The status of a suite's run, from those of its child runs."""
    for status in ("RUNNING", "FAILED", "KILLED"):
        if status in statuses:
            return status
    return "FINISHED"


def _without_quotes(value: str) -> str:
    """Replace quotation marks, for which MLflow's filters have no escape, by "_"."""
    return value.replace("'", "_")


def _now_in_milliseconds() -> int:
    """Milliseconds since 1970, now."""
    return int(time.time() * 1000)


def _as_milliseconds(moment: str | None) -> int | None:
    """A moment in ISO form as milliseconds since 1970; None for None."""
    if moment is None:
        return None
    return int(datetime.fromisoformat(moment).timestamp() * 1000)
