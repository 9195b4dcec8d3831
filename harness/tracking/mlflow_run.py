"""One run's place in MLflow: what is there already is looked up first, so that logging twice
changes nothing.

    MlflowRun(run, uri, suite)    finds or makes experiment, run and the suite's parent; writes tags and params
    .log_running(points)          (step, name, value) of metrics.running_points
    .resume()                     shows the run as running
    .log_results()                final metrics, artifacts, table, page
    .traces.log(run, most, until)  a trace for each question (mlflow_traces.py)
    .end(status)                  closes the run, and gives the suite's parent the worst status of its runs

An experiment's page first shows its saved view "Comparison" and its guide. MLflow is imported
inside functions only.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import SaveError
from harness.storage.run_folder import StoredRun
from harness.tracking.metrics import (
    Point,
    final_metrics,
    first_columns,
    params,
    run_state,
    run_tags,
    set_by_user,
    without_folders,
)
from harness.tracking.mlflow_dataset import mlflow_dataset
from harness.tracking.mlflow_traces import MlflowTraces
from harness.tracking.sqlite_store import open_store, sqlite_lock
from harness.tracking.store import artifacts_uri, log_files

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Run


VIEW = "harness"  # the name of the saved view in its address
_SECTION = "harness-comparison"
_MADE_WITH = "tags.`made_with`"


def view_url(experiment: str) -> str:
    """The address, behind the server's, of the page that compares an experiment's runs; experiment:
    its id."""
    return f"#/experiments/{experiment}/runs?viewStateShareKey={VIEW}&workflowType=machine_learning"


def saved_view(columns: Sequence[str], settings: Iterable[str], created: int) -> str:
    """A view (JSON) for the menu Views of an experiment's page, in the form of MLflow 3's own "Save
    as new view".

    columns: the metrics of the list, the first one decides its order; settings: params beside them;
    created: milliseconds. The runs stand in a list without parents; the charts begin with the first
    column against TFLOPs and a bar chart for each score and cost.
    """
    shown = [
        *(f"metrics.`{column}`" for column in columns),
        *(f"params.`{key}`" for key in settings),
    ]
    shown += ["tags.`model`", "tags.`hash8`", _MADE_WITH, "tags.`suite`"]
    axes = {
        axis: {"key": key, "type": "METRIC"}
        for axis, key in (("xaxis", "TFLOPs"), ("yaxis", columns[0]))
    }
    charts: list[dict[str, Any]] = [{"type": "SCATTER", **axes}]
    charts += [
        {"type": "BAR", "metricKey": column} for column in columns if column not in ("n", "failed")
    ]
    state = {
        "selectedColumns": shown,
        "columnOrder": shown,
        "orderByKey": f"metrics.`{columns[0]}`",
        "orderByAsc": False,
        "searchFilter": "tags.method != ''",
        "compareRunSections": [
            {"uuid": _SECTION, "name": "Comparison", "display": True, "isReordered": False}
        ],
        "compareRunCharts": [
            {
                "uuid": f"{_SECTION}-{n}",
                "metricSectionId": _SECTION,
                "deleted": False,
                "isGenerated": False,
                **chart,
            }
            for n, chart in enumerate(charts)
        ],
    }
    return json.dumps(
        {
            "name": "Comparison",
            "createdAt": created,
            "updatedAt": created,
            "state": json.dumps(state),
        }
    )


def experiment_guide(name: str, experiment: str) -> str:
    """The description of an experiment, in markdown; experiment: its id."""
    return (
        f"Methods on **{name}**: **[open the comparison]({view_url(experiment)})**, or choose "
        "Comparison in the menu "
        "Views. All runs are then in one list, best score first; otherwise the runs of a suite "
        "hang below its parent "
        "run.\n\n"
        "Scores have the scorers' names and are percent. TFLOPs: a question with its share of the "
        "index. A step is a "
        "number of questions: lines show the mean so far. uncertainty/: 95 % intervals. usage/: "
        "tokens, TFLOPs, "
        "seconds.\n\n"
        "Traces: a question each, its scores as assessments, its gold answers as expectations; "
        "filter them by run. "
        "Times within a trace are estimates: the phases' own seconds, shared among the steps by "
        "FLOPs.\n\n"
        "Filters: `tags.method = 'pecan'`, `tags.model`, `tags.suite`, `tags.profile`, "
        "`tags.hash8`, "
        "`tags.git_commit`, `tags.git_dirty = 'false'`, `tags.embedded = 'false'`, `tags.state = "
        "'finished'`.\n"
    )


_RUN, _STARTED, _SUITE, _PARENT = (
    "harness.run",
    "harness.started",
    "harness.suite",
    "mlflow.parentRunId",
)
_ID = "harness.id"  # runs of earlier versions have none
_NUMBERS = "harness.numbers"  # a tag: which final metrics are there
_NOTE = "mlflow.note.content"
_MOST_METRICS = 1000  # of one log_batch call, and 100 params or tags: MLflow's limits
_MOST_PARAMS = 100
_LONGEST_NOTE = 5000
_MOST_CHILDREN = 1000
# run.yaml has another name there, so that no folder of artifacts is taken for a run folder.
_FILES = {"run.yaml": "config.yaml"} | {
    name: name
    for name in ("manifest.json", "records.jsonl", "texts.jsonl", "documents.jsonl", "summary.json")
}
# What the experiment is for where an MLflow asks it; newer ones ask the browser (GenAI or Model
# training).
_KIND = {"mlflow.experimentKind": "custom_model_development"}


class MlflowRun:
    """The MLflow run of one run folder; suite: its parent's name. Methods raise MLflow's errors
    (mlflow_errors)."""

    def __init__(self, run: StoredRun, uri: str, suite: str | None = None) -> None:
        from reports.facts import suite as suite_of

        self.run, self.uri, self.suite = run, uri, suite or suite_of(run)
        with sqlite_lock(uri):
            self.client: MlflowClient = open_store(uri)
            self.experiment = self._find_experiment()
        self.parent: str | None = None
        if self.suite:
            runs = self._search_runs({_SUITE: self.suite})
            self.parent = (
                str(runs[0].info.run_id)
                if runs
                else self._make_run({_SUITE: self.suite}, self.suite)
            )
        self.fresh, self.id = self._find_run()
        self._log_description()
        self.traces = MlflowTraces(uri, self.experiment, self.id)

    def log_running(self, points: Sequence[Point]) -> None:
        """Log the points that are not there yet, or differ (a run that was scored again); one
        log_batch a thousand."""
        from mlflow.entities import Metric

        now = _now()
        stored: dict[tuple[int, str], float] = {}
        for name in set() if self.fresh else {point[1] for point in points}:
            history = sorted(
                self.client.get_metric_history(self.id, name), key=lambda m: int(m.timestamp)
            )
            stored |= {(m.step, name): m.value for m in history}
        self._log(
            [
                Metric(name, value, now, step)
                for step, name, value in points
                if stored.get((step, name)) != value
            ]
        )

    def log_results(self) -> None:
        """Log the run folder's files, final metrics, the table as the run's description, and the
        HTML report."""
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for source, target in _FILES.items():
                if (self.run.path / source).exists():
                    (folder / target).symlink_to((self.run.path / source).resolve())
            if self.run.records:
                self._log_summary(folder)
            log_files(self.client, self.uri, self.id, folder)

    def _log_summary(self, folder: Path) -> None:
        """Log the final metrics at the step of the last question, unless the same ones are there.

        Write the table, which is the run's description too, and the report into `folder`.
        """
        from mlflow.entities import Metric

        from reports import columns as views
        from reports import main_table
        from reports.page import page
        from reports.table_formats import render

        table = main_table.frame([self.run])
        metrics, step, data = (
            final_metrics(self.run, table),
            len(self.run.records),
            mlflow_dataset(self.run),
        )
        content = hashlib.sha256(json.dumps([step, metrics], sort_keys=True).encode()).hexdigest()[
            :16
        ]
        if self.fresh or self.client.get_run(self.id).data.tags.get(_NUMBERS) != content:
            of = {} if data is None else {"dataset_name": data.name, "dataset_digest": data.digest}
            now = _now()
            self._log([Metric(name, value, now, step, **of) for name, value in metrics.items()])
            self.client.set_tag(self.id, _NUMBERS, content)
        text = render(views.legended(table), "markdown")
        if len(text) <= _LONGEST_NOTE:
            self.client.set_tag(self.id, _NOTE, text)
        (folder / "table.md").write_text(text, encoding="utf-8")
        title = str(self.run.config["dataset"]["name"])
        (folder / "report.html").write_text(page([self.run], title=title), encoding="utf-8")

    def end(self, status: str) -> None:
        """Close the run as FINISHED, FAILED or KILLED, at the time the manifest gives, and tag it
        with its state.

        The suite's run gets the worst status of its child runs.
        """
        starts: list[dict[str, Any]] = self.run.manifest.get("starts") or [{}]
        self.client.set_terminated(self.id, status, _milliseconds(starts[-1].get("finished")))
        self.client.set_tag(self.id, "state", run_state(self.run))
        if self.parent is None:
            return
        children = self._search_runs({_PARENT: self.parent}, _MOST_CHILDREN)
        ends = {child.info.status for child in children}
        worst = next((s for s in ("RUNNING", "FAILED", "KILLED") if s in ends), "FINISHED")
        if worst == "RUNNING":
            self.client.update_run(self.parent, status=worst)
        else:
            self.client.set_terminated(
                self.parent, worst, max(child.info.end_time or 0 for child in children) or None
            )

    def resume(self) -> None:
        """Show the run as running, and its suite with it."""
        for run_id in (self.id, self.parent):
            if run_id is not None:
                self.client.update_run(run_id, status="RUNNING")

    def _find_experiment(self) -> str:
        """The id of the data set's experiment, made if there is none; its view gets the settings
        that the user gave.

        Raises SaveError for a deleted one.
        """
        from mlflow.exceptions import MlflowException

        name, tag = str(self.run.config["dataset"]["name"]), f"mlflow.sharedViewState.{VIEW}"
        experiment = self.client.get_experiment_by_name(name)
        if experiment is None:
            tags = _KIND | {tag: saved_view(first_columns(self.run), set_by_user(self.run), _now())}
            try:
                made = str(self.client.create_experiment(name, artifacts_uri(self.uri, name), tags))
            except (
                MlflowException
            ):  # another run made it in the meantime, or it truly cannot be made
                experiment = self.client.get_experiment_by_name(name)
                if experiment is None:
                    raise
            else:
                self.client.set_experiment_tag(made, _NOTE, experiment_guide(name, made))
                return made
        if experiment.lifecycle_stage != "active":
            raise SaveError(
                f"the MLflow experiment '{name}' was deleted; restore it there, or use another "
                "--uri."
            )
        view = experiment.tags.get(tag)
        if view:
            whole = json.loads(view)
            state = json.loads(whole["state"])
            added = [*(f"params.`{key}`" for key in set_by_user(self.run)), _MADE_WITH]
            state |= {
                key: [*dict.fromkeys([*state[key], *added])]
                for key in ("selectedColumns", "columnOrder")
            }
            if (wider := json.dumps({**whole, "state": json.dumps(state)})) != view:
                self.client.set_experiment_tag(experiment.experiment_id, tag, wider)
        return str(experiment.experiment_id)

    def _search_runs(self, tags_: Mapping[str, str], most: int = 1) -> list[Run]:
        query = " and ".join(
            f"tags.`{key}` = '{_without_quotes(value)}'" for key, value in tags_.items()
        )
        order = ["attributes.start_time ASC"]
        return list(
            self.client.search_runs([self.experiment], query, max_results=most, order_by=order)
        )

    def _find_run(self) -> tuple[bool, str]:
        """(whether the run was made now, its id). A folder that was deleted and begun anew is
        another run."""
        tags = {_RUN: self.run.path.name, _STARTED: str(self.run.manifest.get("started"))}
        tags |= {_ID: self.run.manifest["id"]} if "id" in self.run.manifest else {}
        if runs := self._search_runs(tags):
            return False, str(runs[0].info.run_id)
        method, model = (str(self.run.config[kind]["name"]) for kind in ("method", "model"))
        values = "".join(
            f" {key.removeprefix('method.')}={without_folders(value)}"
            for key, value in set_by_user(self.run).items()
        )
        name = f"{method}{values} · {model}"
        for more in (self.run.path.name.rpartition("--")[2], *list(tags.values())[1:]):
            if self._search_runs({"mlflow.runName": name}):
                name += f" · {more}"
        return True, self._make_run(tags, name)

    def _make_run(self, tags_: Mapping[str, str], name: str) -> str:
        """Make an MLflow run with these tags and the user's name; returns its id."""
        start = _milliseconds(self.run.manifest.get("started"))
        try:
            user = getpass.getuser()  # as MLflow's own clients name who logs
        except (KeyError, OSError):  # a container without a name for its user
            user = str(os.getuid())
        tags_ = {key: _without_quotes(value) for key, value in tags_.items()} | {
            "mlflow.user": user
        }
        return str(
            self.client.create_run(self.experiment, start, tags=tags_, run_name=name).info.run_id
        )

    def _log_description(self) -> None:
        """Write tags, params and the rows that are the run's input."""
        from mlflow.entities import DatasetInput, InputTag, Param, RunTag

        tags = run_tags(self.run, self.suite) | {
            "state": "running"
        }  # `end` writes the state, behind all numbers
        values, long = params(self.run.config, self.run.manifest.get("models") or {})
        if long:
            tags["harness.long_params"] = f"see config.yaml: {', '.join(long)}"[:_LONGEST_NOTE]
        if self.parent is not None:
            tags[_PARENT] = self.parent
        before = None if self.fresh else self.client.get_run(self.id)
        stored = {} if before is None else before.data.params
        if changed := [f"{k}: {v}" for k, v in values.items() if k in stored and stored[k] != v]:
            tags["harness.changed_params"] = "; ".join(changed)[:_LONGEST_NOTE]
        new = [Param(k, v) for k, v in values.items() if k not in stored]
        self.client.log_batch(
            self.id, tags=[RunTag(k, v) for k, v in tags.items()], params=new[:_MOST_PARAMS]
        )
        for start in range(_MOST_PARAMS, len(new), _MOST_PARAMS):
            self.client.log_batch(self.id, params=new[start : start + _MOST_PARAMS])
        known = before is not None and before.inputs is not None and before.inputs.dataset_inputs
        if (
            not known and (data := mlflow_dataset(self.run)) is not None
        ):  # the column Dataset of MLflow's list of runs
            self.client.log_inputs(
                self.id, [DatasetInput(data, [InputTag("mlflow.data.context", "evaluation")])]
            )

    def _log(self, metrics: Sequence[Any]) -> None:
        for start in range(0, len(metrics), _MOST_METRICS):
            self.client.log_batch(self.id, metrics=metrics[start : start + _MOST_METRICS])


def _without_quotes(value: str) -> str:
    """Replace quotation marks, for which MLflow's filters have no escape, by "_"."""
    return value.replace("'", "_")


def _now() -> int:
    return int(time.time() * 1000)


def _milliseconds(moment: str | None) -> int | None:
    return None if moment is None else int(datetime.fromisoformat(moment).timestamp() * 1000)
