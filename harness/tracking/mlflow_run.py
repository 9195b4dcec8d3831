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
    params,
    run_state,
    run_status,
    run_tags,
    running_points,
    set_by_user,
    without_folders,
)
from harness.tracking.mlflow_dataset import mlflow_dataset
from harness.tracking.mlflow_traces import MlflowTraces
from harness.tracking.mlflow_view import VIEW_TAG, experiment_guide, saved_view, with_settings
from harness.tracking.sqlite_store import open_store, sqlite_lock
from harness.tracking.store import artifacts_uri, log_files
from harness.tracking.tracing_time import TracingTime
from reports import columns as views
from reports import main_table
from reports import page as page_of_runs
from reports.facts import suite_name as suite_of
from reports.table_formats import render

_RUN = "harness.run"
_STARTED = "harness.started"
_SUITE = "harness.suite"
_PARENT = "mlflow.parentRunId"
_ID = "harness.id"  # runs of earlier versions have none
_NUMBERS = "harness.numbers"  # a tag: which final metrics are there
_NOTE = "mlflow.note.content"
_MOST_METRICS = 1000  # of one log_batch call, and 100 params or tags: MLflow's limits
_MOST_PARAMS = 100
_LONGEST_NOTE = 5000
_MOST_CHILDREN = 1000
# run.yaml has another name there, so that no folder of artifacts is taken for a run folder.
_FILES = {
    "run.yaml": "config.yaml",
    "manifest.json": "manifest.json",
    "records.jsonl": "records.jsonl",
    "texts.jsonl": "texts.jsonl",
    "documents.jsonl": "documents.jsonl",
    "summary.json": "summary.json",
}
# What the experiment is for where an MLflow asks it; newer ones ask the browser (GenAI or Model
# training).
_KIND = {"mlflow.experimentKind": "custom_model_development"}


class MlflowRun:
    """The MLflow run of one run folder. Methods raise MLflow's errors (mlflow_errors).

    Attributes:
        id: MLflow's id of the run.
        experiment: That of the data set's experiment.
        parent: That of the suite's run; None without a suite.
        fresh: Whether the run was made now, so that nothing of it is there yet.
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
            self.experiment = self._find_experiment()
        self.parent: str | None = None
        if self.suite:
            self.parent = self._find_parent(self.suite)
        found = self._find_run()
        self.fresh = found is None
        self.id = found or self._make_run(self._identity(), self._new_name())
        self._log_description()
        self.traces = MlflowTraces(uri, self.experiment, self.id)

    def bring_up_to_date(self, running: bool, traces: int, tracing: TracingTime | None) -> int:
        """Log all that is not there yet.

        Args:
            running: The run goes on, so log its running means and traces only.
            traces: Log the first so many questions as traces.
            tracing: The time that traces may take; None for as much as they need.

        Returns:
            How many traces are still missing.
        """
        self.log_running()
        if running:
            self.resume()
            return self.traces.log(self.run, traces, tracing)
        self.log_results()
        missing = self.traces.log(self.run, traces, tracing)
        self.end()  # last: what is finished has all of its numbers
        return missing

    def log_running(self) -> None:
        """Log the means over the first 1, 2, ... questions, as far as they are not there or differ.

        They differ where a run was scored again. Those over all questions are left out: at that
        step stand the final metrics, which are those of the tables.
        """
        n_questions = len(self.run.records)
        points = [point for point in running_points(self.run) if point.step < n_questions]
        now = _now()
        stored: dict[tuple[int, str], float] = {}
        if not self.fresh:
            stored = self._stored_points({point.name for point in points})
        new = [point for point in points if stored.get((point.step, point.name)) != point.value]
        self._log([Metric(point.name, point.value, now, point.step) for point in new])

    def _stored_points(self, names: Iterable[str]) -> dict[tuple[int, str], float]:
        """Look up the value that was logged last for each step of these metrics, by (step,
        name).
        """
        stored: dict[tuple[int, str], float] = {}
        for name in names:
            history = self.client.get_metric_history(self.id, name)
            for metric in sorted(history, key=lambda m: int(m.timestamp)):
                stored[metric.step, name] = metric.value
        return stored

    def log_results(self) -> None:
        """Log the run folder's files, the final metrics, the table (the run's
        description too) and the HTML report.
        """
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for source, target in _FILES.items():
                if (self.run.path / source).exists():
                    (folder / target).symlink_to((self.run.path / source).resolve())
            if self.run.records:
                self._log_summary(folder)
            log_files(self.client, self.uri, self.id, folder)

    def _log_summary(self, folder: Path) -> None:
        """Log the final metrics, and write the table and the report into `folder`.

        The table also becomes the run's description, unless it is too long.
        """
        table = main_table.frame([self.run])
        self._log_final_metrics(final_metrics(self.run, table))
        text = render(views.with_legend(table), "markdown")
        if len(text) <= _LONGEST_NOTE:
            self.client.set_tag(self.id, _NOTE, text)
        (folder / "table.md").write_text(text, encoding="utf-8")
        title = self.run.config.dataset.name
        html = page_of_runs.page([self.run], page_of_runs.PageOptions(title=title))
        (folder / "report.html").write_text(html, encoding="utf-8")

    def _log_final_metrics(self, metrics: Mapping[str, float]) -> None:
        """Log metrics of the whole run at the step of its last question,
        unless the same ones are there.
        """
        step = len(self.run.records)
        text = json.dumps([step, metrics], sort_keys=True)
        content = hashlib.sha256(text.encode()).hexdigest()[:16]
        if not self.fresh and self.client.get_run(self.id).data.tags.get(_NUMBERS) == content:
            return
        data = mlflow_dataset(self.run)
        source: dict[str, str] = {}
        if data is not None:
            source = {"dataset_name": data.name, "dataset_digest": data.digest}
        now = _now()
        self._log([Metric(name, value, now, step, **source) for name, value in metrics.items()])
        self.client.set_tag(self.id, _NUMBERS, content)

    def end(self) -> None:
        """Close the run as FINISHED, FAILED or KILLED, at the time the manifest
        gives, and tag it with its state.

        The suite's run also gets the worst status of its child runs.
        """
        status = run_status(self.run)
        finished = self.run.manifest.last_start.finished
        self.client.set_terminated(self.id, status, _milliseconds(finished))
        self.client.set_tag(self.id, "state", run_state(self.run))
        if self.parent is None:
            return
        children = self._search_runs({_PARENT: self.parent}, _MOST_CHILDREN)
        ends = {child.info.status for child in children}
        worst = _worst_status(ends)
        if worst == "RUNNING":
            self.client.update_run(self.parent, status=worst)
        else:
            last = max(child.info.end_time or 0 for child in children)
            self.client.set_terminated(self.parent, worst, last or None)

    def resume(self) -> None:
        """Show the run and its suite's run as running."""
        for run_id in (self.id, self.parent):
            if run_id is not None:
                self.client.update_run(run_id, status="RUNNING")

    def _find_experiment(self) -> str:
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
            wider = with_settings(view, set_by_user(self.run))
            if wider != view:
                self.client.set_experiment_tag(experiment.experiment_id, VIEW_TAG, wider)
        return str(experiment.experiment_id)

    def _make_experiment(self, name: str) -> str:
        """Make an experiment with its saved view and guide; returns its id."""
        view = saved_view(first_columns(self.run), set_by_user(self.run), _now())
        tags = _KIND | {VIEW_TAG: view}
        made = str(self.client.create_experiment(name, artifacts_uri(self.uri, name), tags))
        self.client.set_experiment_tag(made, _NOTE, experiment_guide(name, made))
        return made

    def _find_parent(self, suite: str) -> str:
        """Find the run of the suite in the experiment, or make it; returns its id."""
        runs = self._search_runs({_SUITE: suite})
        if runs:
            return str(runs[0].info.run_id)
        return self._make_run({_SUITE: suite}, suite)

    def _search_runs(self, tags_: Mapping[str, str], most: int = 1) -> list[Run]:
        """Search the experiment for runs with these tags, oldest first, at most `most`."""
        query = " and ".join(
            f"tags.`{key}` = '{_without_quotes(value)}'" for key, value in tags_.items()
        )
        order = ["attributes.start_time ASC"]
        return list(
            self.client.search_runs([self.experiment], query, max_results=most, order_by=order)
        )

    def _identity(self) -> dict[str, str]:
        """The tags by which the run is found again: folder, start and id.

        A folder that was deleted and made anew is another run.
        """
        tags = {_RUN: self.run.path.name, _STARTED: str(self.run.manifest.started)}
        if self.run.manifest.id is not None:
            tags[_ID] = self.run.manifest.id
        return tags

    def _find_run(self) -> str | None:
        """Find the run that was logged earlier; its id, or None."""
        runs = self._search_runs(self._identity())
        if not runs:
            return None
        return str(runs[0].info.run_id)

    def _new_name(self) -> str:
        """Make a name for the run: "pecan k=3 · llama".

        Method, settings that the user gave, and model; where the experiment has a run of that name,
        also its hash, its start or its id, as far as needed.
        """
        values = ""
        for key, value in set_by_user(self.run).items():
            values += f" {key.removeprefix('method.')}={without_folders(value)}"
        config = self.run.config
        name = f"{config.method.name}{values} · {config.model.name}"
        _, *started_and_id = self._identity().values()
        for more in (self.run.path.name.rpartition("--")[2], *started_and_id):
            if self._search_runs({"mlflow.runName": name}):
                name += f" · {more}"
        return name

    def _make_run(self, tags_: Mapping[str, str], name: str) -> str:
        """Make an MLflow run with these tags and the name of who logs; returns its id."""
        start = _milliseconds(self.run.manifest.started)
        try:
            user = getpass.getuser()  # as MLflow's own clients name who logs
        except (KeyError, OSError):  # a container without a name for its user
            user = str(os.getuid())
        tags = {key: _without_quotes(value) for key, value in tags_.items()}
        tags["mlflow.user"] = user
        made = self.client.create_run(self.experiment, start, tags=tags, run_name=name)
        return str(made.info.run_id)

    def _log_description(self) -> None:
        """Write the tags and params of the run, and the rows that are its input.

        MLflow keeps the first value of a param for good: of a run that goes on, changed values
        stand in the tag harness.changed_params.
        """
        values, too_long = params(self.run.config, self.run.manifest.models)
        logged: dict[str, str] = {}
        has_dataset = False
        if not self.fresh:
            before = self.client.get_run(self.id)
            logged = before.data.params
            has_dataset = bool(before.inputs and before.inputs.dataset_inputs)
        new: list[Param] = []
        changed: list[str] = []
        for name, value in values.items():
            if name not in logged:
                new.append(Param(name, value))
            elif logged[name] != value:
                changed.append(f"{name}: {value}")
        tags = self._description_tags(too_long, changed)
        self.client.log_batch(self.id, tags=tags, params=new[:_MOST_PARAMS])
        for start in range(_MOST_PARAMS, len(new), _MOST_PARAMS):
            self.client.log_batch(self.id, params=new[start : start + _MOST_PARAMS])
        if not has_dataset:
            self._log_dataset()

    def _description_tags(self, too_long: Sequence[str], changed: Sequence[str]) -> list[RunTag]:
        """Make the tags that describe the run while it is running.

        Args:
            too_long: Names of settings whose values are longer than MLflow takes.
            changed: "name: value" of settings that an earlier start logged otherwise.
        """
        tags = run_tags(self.run, self.suite)
        tags["state"] = "running"  # `end` writes the state, after all numbers
        if too_long:
            names = ", ".join(too_long)
            tags["harness.long_params"] = f"see config.yaml: {names}"[:_LONGEST_NOTE]
        if self.parent is not None:
            tags[_PARENT] = self.parent
        if changed:
            tags["harness.changed_params"] = "; ".join(changed)[:_LONGEST_NOTE]
        return [RunTag(key, value) for key, value in tags.items()]

    def _log_dataset(self) -> None:
        """Log the data set as the run's input, which the column Dataset of MLflow's list shows."""
        data = mlflow_dataset(self.run)
        if data is not None:
            tags = [InputTag("mlflow.data.context", "evaluation")]
            self.client.log_inputs(self.id, [DatasetInput(data, tags)])

    def _log(self, metrics: Sequence[Metric]) -> None:
        """Log metrics in batches of the size that MLflow takes."""
        for start in range(0, len(metrics), _MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[start : start + _MOST_METRICS])


def _worst_status(statuses: Container[str]) -> str:
    """The status of a suite's run, from those of its child runs."""
    for status in ("RUNNING", "FAILED", "KILLED"):
        if status in statuses:
            return status
    return "FINISHED"


def _without_quotes(value: str) -> str:
    """Replace quotation marks, for which MLflow's filters have no escape, by "_"."""
    return value.replace("'", "_")


def _now() -> int:
    """Milliseconds since 1970, now."""
    return int(time.time() * 1000)


def _milliseconds(moment: str | None) -> int | None:
    """A moment in ISO form as milliseconds since 1970; None for None."""
    if moment is None:
        return None
    return int(datetime.fromisoformat(moment).timestamp() * 1000)
